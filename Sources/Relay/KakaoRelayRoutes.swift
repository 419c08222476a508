internal import FoundationEssentials
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI
internal import Schemas
internal import ServiceKit
internal import Templates

/// Kakao's calls on behalf of users, with Kakao's paths, parameters and responses, so that clients written for Kakao's
/// API work after a change of their host. The server adds the credential, which no client has to keep.
///
/// The operations follow from the declarations in ``KakaoCalls``. Calls of the Push API, and calls that this relay cannot
/// carry out (``KakaoOperation/isRelayed``), need endpoints of their own.
struct KakaoRelayRoutes: RouteCollection {
    static let title = "Calls on behalf of users, as in Kakao's API"
    static let operations: [Operation<KakaoRelayRoutes>] = KakaoCalls.all.filter { $0.isRelayed }.flatMap {
        operations(of: $0)
    }

    let kakao: KakaoClient
    let images: ImageSettings
    /// The limit of concurrent uploads, whose files are in memory.
    let uploads: UploadLimit

    // MARK: Declarations

    private static func operations<Call: KakaoCall>(of _: Call.Type) -> [Operation<KakaoRelayRoutes>] {
        let operation = Call.operation
        return operation.methods.map { method in
            let parameters: [any FieldDeclaration] = operation.parameters.members + operation.targetFields
            let hasQuery = method == .get || method == .delete
            let body: OperationDeclaration.Body =
                if let files = operation.files(parameters) {
                    .files(files)
                } else {
                    hasQuery ? .none : .fields(parameters)
                }
            let declaration = OperationDeclaration(
                operation.id + (method == operation.methods[0] ? "" : "By\(method.rawValue.capitalized)"),
                method,
                operation.path,
                operation.access,
                operation.summary,
                query: (hasQuery ? parameters : []) + operation.lintFields,
                body: body,
                unknownFields: .ignored,
                maximumBodyBytes: RequestSize.small,
                answers: [operation.answer.declaration],
                problems: operation.problems
            )
            let isOffered = { @Sendable (routes: KakaoRelayRoutes) in
                !operation.needsAppKey || routes.kakao.settings.app != nil
            }
            guard operation.uploadPart != nil else {
                return Operation(declaration, isOffered: isOffered) { routes in
                    { try await routes.relay($0, operation) }
                }
            }
            return Operation(
                declaration,
                isOffered: isOffered,
                streaming: { routes in
                    { try await routes.relay($0, $1, operation) }
                }
            )
        }
    }

    // MARK: Relaying

    private func relay<KakaoCall>(
        _ call: Call,
        _ operation: KakaoOperation<KakaoCall>,
        uploads: [KakaoUpload] = []
    ) async throws -> Response {
        let request: KakaoCall
        do throws(Record<KakaoCall>.InvalidMember) {
            request = try operation.parameters.read(call.fields)
        } catch {
            throw Problem.field(error.name, error.allowed)
        }
        if operation.hasTemplate, try call[Self.lint] == nil, let template = call.fields[Self.template] {
            try Problem.requireAccepted(TemplateLinter().findings(in: Array(template.anyText.utf8)))
        }
        let credential = try Self.credential(of: call, operation)
        do throws(KakaoError) {
            return Response(relaying: try await kakao.relay(request, as: credential, uploads: uploads))
        } catch {
            throw Problem(relaying: error, isIdempotent: operation.isIdempotent)
        }
    }

    /// Relays a call with images. They are collected first, because Kakao needs their lengths, and a file that Kakao
    /// would not accept is rejected here.
    private func relay<KakaoCall>(
        _ call: Call,
        _ body: RequestBody,
        _ operation: KakaoOperation<KakaoCall>
    ) async throws -> Response {
        try await uploads.run(on: call.request.loop) {
            var call = call
            let files = try await call.files(in: body, images.fileLimits)
            let complete = call
            return try await complete.namingIgnoredFields {
                try await relay(complete, operation, uploads: files.map { try KakaoUpload($0) })
            }
        }
    }

    /// Returns the credential towards Kakao: a user's own token; for an operator the Admin key.
    private static func credential<KakaoCall>(
        of call: Call,
        _ operation: KakaoOperation<KakaoCall>
    ) throws -> KakaoCredential {
        if operation.needsAppKey { return .appKey }
        guard operation.isOfUser else { return .adminKey }
        let target = try call[targetID]
        _ = try call[targetIDType]
        if call.caller.user != nil, let credential = Credential(call.request) {
            if let target { try call.caller.require([target], targetID.name) }
            return .userToken(credential.text)
        }
        guard let target else {
            throw Problem.field(targetID.name, "the id of the user, with target_id_type=user_id")
        }
        guard operation.credentials.contains(.adminKeyForUser) else {
            throw Problem(
                of: .accountLoginRequired,
                "Kakao accepts this call only with the user's access token, and none is stored here."
            )
        }
        return .adminKeyForUser(target)
    }

    /// The parameter of Kakao's calls that is a template.
    fileprivate static let template = "template_object"
    fileprivate static let lint = Field.optional(
        "lint",
        Kind<String>.text(oneOf: ["off"]),
        "`off` sends a template even if the linter expects Kakao to reject it."
    )
    fileprivate static let targetID = Field.optional("target_id", .userID, "The user, if an operator calls.")
    fileprivate static let targetIDType = Field.optional(
        "target_id_type",
        Kind<String>.text(oneOf: ["user_id"]),
        "The kind of `target_id`."
    )
}

extension KakaoCall {
    fileprivate static var isRelayed: Bool { operation.isRelayed }
}

extension KakaoOperation {
    /// The name in generated clients: `talkProfile` for `talk_profile`.
    fileprivate var id: String {
        let words = name.split(separator: "_")
        return words.dropFirst().reduce(String(words.first ?? "")) { $0 + $1.capitalized }
    }

    /// Whether the relay can carry out the call: one of `kapi.kakao.com` for a user or for the app, whose parameters are
    /// in the query or the form.
    fileprivate var isRelayed: Bool {
        let supported: Set<KakaoCredential.Kind> = [.adminKey, .adminKeyForUser, .userToken, .appKey]
        return family != .push && host == .api && supported.isSuperset(of: credentials) && !path.contains("{")
    }

    /// Whether Kakao accepts the call only with the app key that its SDKs have.
    fileprivate var needsAppKey: Bool { credentials == [.appKey] }

    /// Whether the call concerns one user, rather than the app.
    fileprivate var isOfUser: Bool { credentials.contains(.userToken) || credentials.contains(.adminKeyForUser) }

    fileprivate var access: Access {
        let scope: Scope =
            switch family {
            case .push: .send
            case .user: .accounts
            case .talk, .story: .talk
            case .sharing: .sharing
            }
        return credentials.contains(.userToken) ? .kakaoUser(scope) : .operator(scope)
    }

    fileprivate var targetFields: [any FieldDeclaration] {
        isOfUser ? [KakaoRelayRoutes.targetIDType, KakaoRelayRoutes.targetID] : []
    }

    /// The body of a call that uploads images; `nil` for other calls.
    fileprivate func files(_ fields: [any FieldDeclaration]) -> FileBody? {
        uploadPart.map { FileBody(fields: fields, part: $0, "A form as Kakao's SDKs send it. \(ImageHeader.allowed)") }
    }

    /// Whether the call sends a template, which passes the linter first.
    fileprivate var hasTemplate: Bool { parameters.members.contains { $0.name == KakaoRelayRoutes.template } }

    fileprivate var lintFields: [any FieldDeclaration] { hasTemplate ? [KakaoRelayRoutes.lint] : [] }

    fileprivate var problems: [ProblemKind] {
        var problems: [ProblemKind] = [.refusedByKakao, .kakaoUnavailable, .badGateway]
        if uploadPart != nil { problems.append(.invalidImage) }
        if credentials.contains(.userToken) { problems += [.loginRequired, .accountLoginRequired, .consentRequired] }
        if !isIdempotent { problems.append(.outcomeUnknown) }
        if hasTemplate { problems.append(.invalidTemplate) }
        return problems
    }
}

extension KakaoAnswer {
    fileprivate var declaration: Answer {
        guard let schema else { return .empty(.ok, "Kakao has accepted the call.") }
        let json = try? JSONValue(parsing: encode(example))
        return .json(.ok, json.map { schema.withExample($0) } ?? schema, "Kakao's response.")
    }
}

extension Record.Member: FieldDeclaration {}

// MARK: Responses

extension Response {
    /// Creates a response with the status, the media type and the body of Kakao's.
    fileprivate init(relaying response: HTTPClientResponse) {
        let headerFields = response.headerFields
        self.init(
            HTTPResponse.Status(integerLiteral: response.status),
            contentType: headerFields[.contentType] ?? "application/json;charset=UTF-8",
            body: response.body
        )
        self.headerFields[.retryAfter] = headerFields[.retryAfter]
    }
}

extension ProblemKind {
    fileprivate static let loginRequired = ProblemKind(
        .unauthorized,
        "login-required",
        "Kakao rejected the access token: the user must log in again."
    )
    fileprivate static let accountLoginRequired = ProblemKind(
        .conflict,
        "login-required",
        "The call needs an access token of the user, and none is stored here."
    )
    fileprivate static let consentRequired = ProblemKind(
        .forbidden,
        "consent-required",
        "The user must consent to the scopes in `required_scopes`."
    )
    fileprivate static let outcomeUnknown = ProblemKind(
        .gatewayTimeout,
        "outcome-unknown",
        "Kakao did not respond in time, and may or may not have carried out the call."
    )
}

extension Problem {
    /// The delay before a repetition if Kakao names none, in seconds.
    private static let retrySeconds: Int64 = 5

    /// Returns the problem of a call that did not succeed, with Kakao's status and code where they concern the caller.
    ///
    /// - Parameter isIdempotent: Whether the caller may repeat the call without knowing its outcome.
    fileprivate init(relaying error: KakaoError, isIdempotent: Bool) {
        switch error.kind {
        case .unreachable(let cause) where cause.code == .responseTooLarge || cause.code == .badResponse:
            self.init(of: .badGateway, "Kakao's response is too large, or is not HTTP.")
        case .unreachable:
            guard isIdempotent || !error.bodyBytesLeft else {
                self = .outcomeUnknown
                return
            }
            self = .kakaoUnavailable(error)
        case .badAnswer:
            self.init(of: .badGateway, "Kakao's response does not match its documentation.")
        case .refused(let status, let code, let message):
            let words = message.isEmpty ? "" : ": \(message)"
            switch (error.disposition, status) {
            case (.logIn, _):
                self.init(
                    of: .loginRequired,
                    "Kakao rejected the access token\(words). The user must log in again.",
                    headerFields: [.wwwAuthenticate: "Bearer error=invalid_token"]
                )
            case (.consent, _):
                self.init(
                    .forbidden,
                    code: code?.rawValue,
                    kind: ProblemKind.consentRequired.name,
                    "The user has not consented to what this call needs\(words)",
                    members: ["required_scopes": .array(error.requiredScopes.map { .string($0) })]
                )
            // The key is this server's, so the caller cannot do anything about it.
            case (.halt, 401): self.init(of: .badGateway, "Kakao rejected this server's key. An operator must act.")
            case (_, 400..<500):
                self = .refusedByKakao("the call", status: status, code, message)
                if let retryAfter = error.retryAfter {
                    headerFields[.retryAfter] = String(retryAfter.components.seconds)
                }
            case (_, 300..<400):
                self.init(
                    of: .badGateway,
                    "Kakao responded with status \(status), which its documentation does not describe."
                )
            // A gateway does not say whether Kakao has the request.
            case _ where code == nil && !isIdempotent: self = .outcomeUnknown
            default: self = .kakaoUnavailable(error)
            }
        }
    }

    private static var outcomeUnknown: Problem {
        Problem(
            of: .outcomeUnknown,
            "Kakao did not respond, and may or may not have carried out the call. Find out before you repeat it."
        )
    }

    private static func kakaoUnavailable(_ error: KakaoError) -> Problem {
        Problem(
            of: .kakaoUnavailable,
            "Kakao is unavailable. Try again.",
            headerFields: [.retryAfter: String(error.retryAfter?.components.seconds ?? retrySeconds)]
        )
    }
}
