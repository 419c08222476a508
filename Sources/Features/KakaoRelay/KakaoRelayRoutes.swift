import Accounts
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import Messages
import Runtime
import Schemas
import Sharing
import Templates

/// Kakao's calls on behalf of users, with Kakao's paths, parameters and responses, so that clients written for Kakao's
/// API work after a change of their host and key. The server adds the credential, which no client has to keep.
///
/// The operations follow from the declarations in ``KakaoCalls``. Calls of the Push API, and calls that this relay cannot
/// carry out (``KakaoOperation/isOffered``), need endpoints of their own.
struct KakaoRelayRoutes: RouteCollection {
    static let title = "Calls on behalf of users, as in Kakao's API"
    static let operations: [Operation<KakaoRelayRoutes>] = KakaoCalls.all.filter { $0.isOffered }.flatMap {
        operations(of: $0)
    }

    let settings: RelaySettings
    let kakao: KakaoClient
    /// The client for callers with one of the app's own keys.
    let kakaoForApps: KakaoClient
    let audit: AuditLog
    let images: ImageSettings
    /// The limit of concurrent uploads, whose files are in memory.
    let uploads: ConcurrencyLimit
    /// That of callers with one of the app's own keys.
    let appUploads: ConcurrencyLimit
    /// The access tokens of users, for calls of operators that Kakao accepts only with the user's token.
    let tokens: any UserTokenSource
    /// The quotas of KakaoTalk messages.
    let reservations: QuotaReservations
    /// The page where a user logs in and agrees to scopes: ``AccountFeature/consentURL(userID:scopes:)``.
    let consentURL: @Sendable (_ userID: Int64, _ scopes: [String]) -> String?
    /// The URL at which callers reach the server; `nil` if none is set.
    let publicURL: @Sendable () -> String?

    // MARK: Declarations

    private static func operations<Call: KakaoCall>(of _: Call.Type) -> [Operation<KakaoRelayRoutes>] {
        let operation = Call.operation
        let paths = [operation.path] + operation.aliases
        return operation.methods.flatMap { method in paths.map { Self.operation(operation, method, $0) } }
    }

    private static func operation<Call>(
        _ operation: KakaoOperation<Call>,
        _ method: HTTPRequest.Method,
        _ path: String
    ) -> Operation<KakaoRelayRoutes> {
        let parameters: [any FieldDeclaration] = operation.parameters.members + operation.targetFields
        let hasQuery = method == .get || method == .delete
        let body: OperationDeclaration.Body =
            if let files = operation.files(parameters) {
                .files(files)
            } else {
                hasQuery ? .none : .fields(parameters)
            }
        let declaration = OperationDeclaration(
            operation.id(method, path),
            method,
            path,
            operation.access,
            path == operation.path ? operation.summary : "\(operation.summary) Older clients use this path.",
            query: (hasQuery ? parameters : []) + operation.lintFields,
            body: body,
            // Kakao ignores misspelt members of JSON, stores nothing, and reports success.
            unknownFields: operation.sendsJSON ? .rejected : .ignored,
            maximumBodyBytes: operation.sendsJSON ? jsonBytes : RequestSize.small,
            answers: [operation.answer.declaration],
            problems: operation.problems,
            auditing: operation.auditing
        )
        let needs = operation.needsAppKey ? appKeyCalls : nil
        guard operation.uploadPart != nil else {
            return Operation(declaration, needs: needs) { routes in
                { try await routes.relay($0, operation) }
            }
        }
        return Operation(
            declaration,
            needs: needs,
            streaming: { routes in
                { try await routes.relay($0, $1, operation) }
            }
        )
    }

    /// The limit of a body of JSON, in bytes: that of 2,000 users of a customer file.
    private static let jsonBytes = 1 << 20

    private static let appKeyCalls = NeededSetting<KakaoRelayRoutes>("sharing.app_key_calls", .callNotConfigured) {
        $0.kakao.settings.app != nil
    }

    // MARK: Relaying

    private func relay<KakaoCall>(
        _ call: Call,
        _ operation: KakaoOperation<KakaoCall>,
        uploads: [KakaoUpload] = []
    ) async throws -> Response {
        try requireEnabled(operation.family)
        let request: KakaoCall
        do throws(Record<KakaoCall>.InvalidMember) {
            request = try operation.parameters.read(call.fields)
        } catch {
            if error.name == Self.template { try Self.lintText(of: call) }
            throw error.problem
        }
        if operation.hasTemplate, try call[Self.lint] == nil, let template = call.fields[Self.template] {
            try Problem.requireAccepted(TemplateLinter().findings(in: Array(template.anyText.utf8)))
        }
        let target = try Self.target(of: call, operation, appCredential: kakao.settings.appCredential)
        guard operation.isChange else { return try await relay(call, operation, request, to: target, uploads) }
        let subject: AuditSubject = target.userID.map { .user($0) } ?? .server
        return try await audit.recording(call, of: subject) {
            try await relay(call, operation, request, to: target, uploads)
        }
    }

    /// Throws the linter's findings about a template that cannot be read: the place of a syntax error, above all.
    private static func lintText(of call: Call) throws {
        guard try call[lint] == nil, let text = call.fields[template]?.string,
            text.utf8.count <= TemplateSize.maximumBytes
        else { return }
        try Problem.requireAccepted(TemplateLinter().findings(in: text))
    }

    private func relay<KakaoCall>(
        _ call: Call,
        _ operation: KakaoOperation<KakaoCall>,
        _ request: KakaoCall,
        to target: Target,
        _ uploads: [KakaoUpload]
    ) async throws -> Response {
        do {
            var response = try await send(request, of: target, uploads, on: call)
            if operation.isPaged {
                response.body = PageAddresses.replacing(in: response.body, publicURL(), of: target.accountUserID)
            }
            return Response(relaying: response)
        } catch let error as KakaoError {
            throw problem(error, of: target, isIdempotent: operation.isIdempotent)
        } catch var problem as Problem where problem.kind == ProblemKind.accountLoginRequired.name {
            problem.setConsentURL(target.userID.flatMap { consentURL($0, []) })
            throw problem
        }
    }

    /// Makes a call; a message within the quotas of the day.
    ///
    /// - Throws: ``KakaoError``, ``Problem``
    private func send<Request: KakaoCall>(
        _ request: Request,
        of target: Target,
        _ uploads: [KakaoUpload],
        on call: Call
    ) async throws -> HTTPClientResponse {
        guard let message = request as? any MessageCall, let sender = target.userID else {
            return try await send(request, of: target, uploads)
        }
        // The caller may disconnect after the message was sent.
        return try await call.request.uninterrupted { try await send(message, from: sender, of: target) }
    }

    private func send(
        _ message: some MessageCall,
        from sender: Int64,
        of target: Target
    ) async throws -> HTTPClientResponse {
        try await MessageRelay(reservations: reservations).send(message, from: sender) { message in
            try await send(message, of: target, [])
        } problem: { error in
            problem(error, of: target, isIdempotent: false)
        }
    }

    private func problem(_ error: KakaoError, of target: Target, isIdempotent: Bool) -> Problem {
        Problem(error, about: "the call", isIdempotent: isIdempotent, keepsStatus: true) { scopes in
            target.userID.flatMap { consentURL($0, scopes) }
        }
    }

    /// Makes a call with the credential of its target. A stored token that Kakao rejects is replaced once.
    ///
    /// - Throws: ``KakaoError``, ``Problem``
    private func send<Request: KakaoCall>(
        _ request: Request,
        of target: Target,
        _ uploads: [KakaoUpload]
    ) async throws -> HTTPClientResponse {
        switch target {
        case .known(let credential, _):
            return try await kakao.relay(request, as: credential, uploads: uploads)
        case .app(let key):
            return try await kakaoForApps.relay(request, as: .appKeyOfCaller(key), uploads: uploads)
        case .account(let userID):
            let token = try await tokens.accessToken(of: userID, replacing: nil)
            do throws(KakaoError) {
                return try await kakao.relay(request, as: .userToken(token), uploads: uploads)
            } catch {
                guard error.disposition == .logIn else { throw error }
                let replacement = try await tokens.accessToken(of: userID, replacing: token)
                return try await kakao.relay(request, as: .userToken(replacement), uploads: uploads)
            }
        }
    }

    /// Throws ``Problem`` 410 for a family of calls that Kakao has ended, unless the settings enable it.
    private func requireEnabled(_ family: KakaoFamily) throws {
        guard family == .story, !settings.relaysStory else { return }
        throw Problem(
            of: .storyEnded,
            "Kakao has ended the API of KakaoStory. An operator can enable these calls with `story.enabled`, for the sandbox."
        )
    }

    /// Relays a call with images. They are collected first, because Kakao needs their lengths, and a file that Kakao
    /// would not accept is rejected here.
    private func relay<KakaoCall>(
        _ call: Call,
        _ body: RequestBody,
        _ operation: KakaoOperation<KakaoCall>
    ) async throws -> Response {
        try requireEnabled(operation.family)
        let limits = operation.family == .story ? settings.storyFileLimits : images.fileLimits
        let uploads = call.caller.app == nil ? uploads : appUploads
        return try await uploads.run(on: call.request.loop) {
            var call = call
            let files = try await call.files(in: body, limits)
            let complete = call
            return try await complete.namingIgnoredFields {
                try await relay(complete, operation, uploads: files.map { try KakaoUpload($0) })
            }
        }
    }

    /// The user or app that a call concerns, with the credential towards Kakao.
    private enum Target {
        /// The app, or one of its users, with this credential.
        case known(KakaoCredential, userID: Int64?)
        /// A user, with the access token of the user's account.
        case account(Int64)
        /// The app, with the key and the header field `KA` of a phone or a page.
        case app(KakaoAppKey)

        var userID: Int64? {
            switch self {
            case .known(_, let userID): userID
            case .account(let userID): userID
            case .app: nil
            }
        }

        /// The user of ``account(_:)``.
        var accountUserID: Int64? {
            switch self {
            case .account(let userID): userID
            case .known, .app: nil
            }
        }
    }

    private static func target<KakaoCall>(
        of call: Call,
        _ operation: KakaoOperation<KakaoCall>,
        appCredential: KakaoCredential
    ) throws -> Target {
        if let app = call.caller.app { return .app(KakaoAppKey(key: KakaoKey(app.key), ka: app.agent)) }
        if operation.needsAppKey { return .known(.appKey, userID: nil) }
        guard operation.isOfUser else {
            return .known(operation.credentials.contains(.restAPIKey) ? appCredential : .adminKey, userID: nil)
        }
        let target = try call.kakaoTarget()
        if case .named(let userID) = target, !operation.credentials.contains(.adminKeyForUser) {
            return .account(userID)
        }
        return .known(target.credential, userID: target.userID)
    }

    /// The parameter of Kakao's calls that is a template.
    fileprivate static let template = "template_object"
    fileprivate static let lint = Field.optional(
        "lint",
        Kind<String>.text(oneOf: ["off"]),
        "`off` sends a template even if the linter expects Kakao to reject it."
    )
}

extension Caller {
    /// The phone or page that calls with one of the app's own keys; `nil` for other callers.
    fileprivate var app: AppCaller? {
        if case .app(let app) = self { app } else { nil }
    }
}

extension KakaoCall {
    fileprivate static var isOffered: Bool { operation.isOffered }
}

extension KakaoOperation {
    /// Returns the name in generated clients: `talkProfile` for `talk_profile`, with what distinguishes another method or path.
    fileprivate func id(_ method: HTTPRequest.Method, _ path: String) -> String {
        let words = name.split(separator: "_")
        let id = words.dropFirst().reduce(String(words.first ?? "")) { $0 + $1.capitalized }
        let alias = aliases.firstIndex(of: path).map { "Alias\($0 == 0 ? "" : String($0 + 1))" } ?? ""
        return id + (method == methods[0] ? "" : "By\(method.rawValue.capitalized)") + alias
    }

    /// Whether the relay offers the call. It offers neither the Push API, nor calls of the authorization server, nor calls
    /// with parameters in the path, nor those that have an endpoint of their own (`isRelayed`).
    fileprivate var isOffered: Bool {
        let supported: Set<KakaoCredential.Kind> = [.adminKey, .adminKeyForUser, .userToken, .restAPIKey, .appKey]
        return isRelayed && family != .push && host == .api && supported.isSuperset(of: credentials)
            && !path.contains("{")
    }

    /// Whether Kakao accepts the call only with the app key that its SDKs have.
    fileprivate var needsAppKey: Bool { credentials == [.appKey] }

    /// Whether phones and pages may make the call with one of the app's own keys. Since these are public, nothing is deleted with
    /// them.
    fileprivate var admitsAppKeys: Bool { needsAppKey && !methods.contains(.delete) }

    /// Whether the call concerns one user, rather than the app.
    fileprivate var isOfUser: Bool { credentials.contains(.userToken) || credentials.contains(.adminKeyForUser) }

    fileprivate var access: Access {
        let scope: Scope =
            switch family {
            case .push: .send
            case .user: .accounts
            case .talk, .story, .calendar: .talk
            case .sharing: .sharing
            case .system: .read
            }
        if admitsAppKeys { return .appKey(scope) }
        return credentials.contains(.userToken)
            ? .kakaoUser(scope, admitsUnlinked: admitsUnlinked) : .operator(scope)
    }

    fileprivate var targetFields: [any FieldDeclaration] {
        isOfUser ? KakaoTarget.fields : []
    }

    /// Whether the call changes something at Kakao. Calls that only read can be made with GET.
    fileprivate var isChange: Bool { !methods.contains(.get) }

    /// A change is recorded by its handler, since the user may be named in a form with files.
    fileprivate var auditing: Auditing {
        if isChange { return .handler }
        if isOfUser { return .lookup { try $0.kakaoTarget().auditSubject } }
        switch Call.self {
        case is RetrieveAppUsers.Type: return Self.lookup(RetrieveAppUsers.self) { $0.targetIDs }
        case is RetrieveChannelsOfUsers.Type: return Self.lookup(RetrieveChannelsOfUsers.self) { $0.targetIDs }
        default: return .none
        }
    }

    private static func lookup<Lookup: KakaoCall>(
        _: Lookup.Type,
        _ users: @escaping @Sendable (Lookup) -> [Int64]
    ) -> Auditing {
        .lookup { .users((try? Lookup.operation.parameters.read($0.fields)).map(users) ?? []) }
    }

    /// The body of a call that uploads images; `nil` for other calls.
    fileprivate func files(_ fields: [any FieldDeclaration]) -> FileBody? {
        uploadPart.map { part in
            FileBody(
                fields: fields,
                part: part,
                maximumFiles: maximumUploads,
                "A form as Kakao's SDKs send it. \(family == .story ? RelaySettings.storyImages : ImageHeader.allowed)"
            )
        }
    }

    /// Whether the call sends a template, which passes the linter first.
    fileprivate var hasTemplate: Bool { parameters.members.contains { $0.name == KakaoRelayRoutes.template } }

    fileprivate var lintFields: [any FieldDeclaration] { hasTemplate ? [KakaoRelayRoutes.lint] : [] }

    fileprivate var problems: [ProblemKind] {
        var problems: [ProblemKind] = [.refusedByKakao, .kakaoUnavailable, .badGateway, .serverRefused]
        if uploadPart != nil { problems.append(.invalidImage) }
        if credentials.contains(.userToken) { problems += [.loginRequired, .consentRequired] }
        if isOfUser, !credentials.contains(.adminKeyForUser) { problems.append(.accountLoginRequired) }
        if !isIdempotent { problems.append(.outcomeUnknown) }
        if hasTemplate { problems.append(.invalidTemplate) }
        if Call.self is any MessageCall.Type { problems.append(.messageQuotaUsedUp) }
        if needsAppKey { problems.append(.callNotConfigured) }
        if family == .story { problems.append(.storyEnded) }
        return problems
    }
}

extension ProblemKind {
    fileprivate static let storyEnded = ProblemKind(
        .gone,
        code: KakaoErrorCode.apiTerminated.rawValue,
        "story-ended",
        "Kakao has ended the API of KakaoStory, and `story.enabled` is not set."
    )
}

extension KakaoAnswer {
    fileprivate var declaration: Answer {
        guard let schema else { return .empty(.ok, "Kakao has accepted the call.", headers: [.answeredBy]) }
        let json = try? JSONValue(parsing: encode(example))
        let description = admitsEmpty ? "Kakao's response. The body may be empty." : "Kakao's response."
        return .json(.ok, json.map { schema.withExample($0) } ?? schema, description, headers: [.answeredBy])
    }
}

// MARK: Responses

extension Response {
    /// Creates a response with the status, the media type and the body of Kakao's. An empty body has no media type.
    fileprivate init(relaying response: HTTPClientResponse) {
        self.init(
            HTTPResponse.Status(integerLiteral: response.status),
            contentType: response.body.isEmpty
                ? nil : response.headerFields[.contentType] ?? "application/json;charset=UTF-8",
            headerFields: .answeredByKakao,
            body: response.body
        )
        if let retryAfter = response.headerFields[.retryAfter] { headerFields[.retryAfter] = retryAfter }
    }
}
