package import HTTPServer
package import HTTPTypes
import JSON
package import Schemas

/// A set of operations that belong together, with what their handlers need.
///
/// The type lists its operations without an instance, so that the OpenAPI document needs no settings.
package protocol RouteCollection: Sendable {
    /// The subject of the operations: their heading in the OpenAPI document.
    static var title: String { get }
    static var operations: [Operation<Self>] { get }
}

/// An endpoint: its declaration and its handler.
package struct Operation<Collection: Sendable>: Sendable {
    enum Handler: Sendable {
        /// Responds at once on the loop, without a task.
        case immediate(@Sendable (Collection) -> @Sendable (Call) throws -> Response)
        /// Responds in a task on the request's loop, which is cancelled if the client goes away.
        case task(@Sendable (Collection) -> @Sendable (Call) async throws -> Response)
        /// Responds in a task that reads the body while it arrives.
        case streaming(@Sendable (Collection) -> @Sendable (Call, RequestBody) async throws -> Response)

        /// Returns whether an operation with this handler may declare a limit.
        func canHave(_ limit: OpenLimit?) -> Bool {
            switch (self, limit) {
            case (.immediate, _), (_, .limited), (_, nil): true
            case (.task, .constantCost), (.streaming, .constantCost): false
            }
        }
    }

    package let declaration: OperationDeclaration
    let handler: Handler
    let needs: NeededSetting<Collection>?

    /// - Parameters:
    ///   - needs: The setting without which the operation is switched off.
    package init(
        _ declaration: OperationDeclaration,
        needs: NeededSetting<Collection>? = nil,
        handler: @escaping @Sendable (Collection) -> @Sendable (Call) async throws -> Response
    ) {
        self.init(declaration, needs, .task(handler))
    }

    private init(_ declaration: OperationDeclaration, _ needs: NeededSetting<Collection>?, _ handler: Handler) {
        precondition(
            handler.canHave(declaration.access.openLimit),
            "\(declaration.id): only a handler that responds at once has a constant cost"
        )
        precondition(
            needs.map { declaration.problems.contains($0.kind) } ?? true,
            "\(declaration.id) does not declare the problem of a setting that is not set"
        )
        self.declaration = declaration
        self.needs = needs
        self.handler = handler
    }

    /// Declares an operation whose handler responds in a task. The other parameters are those of
    /// ``OperationDeclaration/init(_:_:_:_:_:path:query:headers:body:unknownFields:maximumBodyBytes:answers:problems:auditing:)``.
    package init(
        _ id: String,
        _ method: HTTPRequest.Method,
        _ path: String,
        _ access: Access,
        _ summary: String,
        path pathFields: [any FieldDeclaration] = [],
        query: [any FieldDeclaration] = [],
        headers: [any FieldDeclaration] = [],
        body: OperationDeclaration.Body = .none,
        unknownFields: OperationDeclaration.UnknownFields = .rejected,
        maximumBodyBytes: Int? = nil,
        answers: [Answer],
        problems: [ProblemKind] = [],
        auditing: Auditing = .none,
        asksForKey: Bool = false,
        needs: NeededSetting<Collection>? = nil,
        handler: @escaping @Sendable (Collection) -> @Sendable (Call) async throws -> Response
    ) {
        let declaration = OperationDeclaration(
            id,
            method,
            path,
            access,
            summary,
            path: pathFields,
            query: query,
            headers: headers,
            body: body,
            unknownFields: unknownFields,
            maximumBodyBytes: maximumBodyBytes,
            answers: answers,
            problems: problems,
            auditing: auditing,
            asksForKey: asksForKey
        )
        self.init(declaration, needs: needs, handler: handler)
    }

    /// - Parameters:
    ///   - needs: The setting without which the operation is switched off.
    package init(
        _ declaration: OperationDeclaration,
        needs: NeededSetting<Collection>? = nil,
        immediate handler: @escaping @Sendable (Collection) -> @Sendable (Call) throws -> Response
    ) {
        self.init(declaration, needs, .immediate(handler))
    }

    /// - Parameters:
    ///   - needs: The setting without which the operation is switched off.
    package init(
        _ declaration: OperationDeclaration,
        needs: NeededSetting<Collection>? = nil,
        streaming handler: @escaping @Sendable (Collection) -> @Sendable (Call, RequestBody) async throws -> Response
    ) {
        self.init(declaration, needs, .streaming(handler))
    }
}

/// A setting without which an operation is switched off: it answers each request that its access admits with a problem.
package struct NeededSetting<Collection: Sendable>: Sendable {
    private let name: String
    /// The kind of ``problem``.
    fileprivate let kind: ProblemKind
    private let isSet: @Sendable (Collection) -> Bool

    /// - Parameters:
    ///   - name: The name of the setting: `kakao.app_id`.
    ///   - kind: The kind of problem of a request without it, which the operation declares.
    ///   - isSet: Whether a server has the setting.
    package init(
        _ name: String,
        _ kind: ProblemKind = .notConfigured,
        isSet: @escaping @Sendable (Collection) -> Bool
    ) {
        self.name = name
        self.kind = kind
        self.isSet = isSet
    }

    /// The problem of all requests to a server without the setting.
    var problem: Problem { Problem(of: kind, "The operation is switched off. Set `\(name)`.") }

    /// Returns the problem of all requests to a server; `nil` if it has the setting.
    func problem(of collection: Collection) -> Problem? {
        isSet(collection) ? nil : problem
    }
}

/// The declaration of an endpoint, from which its route, its authorization, the check of its fields and its description
/// in the OpenAPI document follow.
///
/// A class, so that a request that refers to it costs one reference count and not one per property.
package final class OperationDeclaration: Sendable {
    /// The body of a request.
    package enum Body: Sendable {
        case none
        /// Fields, as JSON or as a form.
        case fields([any FieldDeclaration])
        /// A body of one of these media types, which the handler reads itself, and its description. If `isChecked` is
        /// false, the handler checks the type.
        case media([String], String, schema: Schema = .text(), isChecked: Bool = true)
        /// Files, which the handler collects with ``Call/files(in:_:)``.
        case files(FileBody)
    }

    /// The treatment of fields that the operation does not declare.
    package enum UnknownFields: Sendable {
        /// A misspelt `dry_run` would send a push.
        case rejected
        /// As in Kakao's API: dropped, and named in `X-Ignored-Parameters`, as are all fields in the body of a GET. Fields of the
        /// body of another request may be in the query.
        case ignored
        /// For calls from Kakao: custom arguments. Kakao does not repeat a call, so none is rejected: what cannot be read is
        /// left out, and makes the call ``Call/isMalformed``. Without fields in the body, those in the query are read.
        case kept
    }

    /// The name of the operation in generated clients, such as `createPush`.
    package let id: String
    package let method: HTTPRequest.Method
    /// The path with its parameters: `/v1/pushes/{id}`.
    package let path: String
    package let access: Access
    /// A sentence for a list of all operations.
    package let summary: String
    /// The parameters in the path.
    package let pathFields: [any FieldDeclaration]
    /// The parameters in the query.
    package let query: [any FieldDeclaration]
    /// The header fields that the handler reads, other than those of HTTP and of authentication.
    package let headers: [any FieldDeclaration]
    /// The body of a request.
    package let body: Body
    package let unknownFields: UnknownFields
    /// The limit of a body in bytes, if it is lower than `http.max_body_bytes`.
    package let maximumBodyBytes: Int?
    /// The responses to requests that succeed.
    package let answers: [Answer]
    /// The problems that do not follow from the access and the fields.
    package let problems: [ProblemKind]
    /// How the audit log records calls of operators.
    package let auditing: Auditing
    /// Whether an operator who has signed in to the page must have entered the key in the last five minutes: an unlocked computer is not
    /// enough for what cannot be undone, and for downloads.
    package let asksForKey: Bool

    /// The fields that a query may have, and a body.
    let allowedInQuery: AllowedFields
    let allowedInBody: AllowedFields
    /// The names of the fields in the query and in the body.
    let contentNames: Set<String>
    /// The names of all fields.
    let fieldNames: Set<String>

    /// Declares an operation. `id` is its name in generated clients, `summary` a sentence for a list of all operations.
    /// The other parameters are the properties of the same names.
    package init(
        _ id: String,
        _ method: HTTPRequest.Method,
        _ path: String,
        _ access: Access,
        _ summary: String,
        path pathFields: [any FieldDeclaration] = [],
        query: [any FieldDeclaration] = [],
        headers: [any FieldDeclaration] = [],
        body: Body = .none,
        unknownFields: UnknownFields = .rejected,
        maximumBodyBytes: Int? = nil,
        answers: [Answer],
        problems: [ProblemKind] = [],
        auditing: Auditing = .none,
        asksForKey: Bool = false
    ) {
        var (query, asksForKey) = (query, asksForKey)
        if case .download = auditing {
            query.append(AuditLog.reason)
            asksForKey = true
        }
        self.id = id
        self.method = method
        self.path = path
        self.access = access
        self.summary = summary
        self.pathFields = pathFields
        self.query = query
        self.headers = headers
        self.body = body
        self.unknownFields = unknownFields
        self.maximumBodyBytes = maximumBodyBytes
        self.answers = answers
        self.problems = problems
        self.auditing = auditing
        self.asksForKey = asksForKey
        var bodyFields: [any FieldDeclaration] = []
        switch body {
        case .fields(let fields): bodyFields = fields
        case .files(let files): bodyFields = files.fields
        case .none, .media: break
        }
        allowedInQuery = AllowedFields(
            unknownFields == .rejected ? query : query + bodyFields,
            place: "the query",
            others: unknownFields
        )
        allowedInBody = AllowedFields(bodyFields, place: "the body", others: unknownFields)
        contentNames = Set((query + bodyFields).map(\.name))
        fieldNames = Set((pathFields + query + headers + bodyFields).map(\.name))
    }

    /// Whether the operation has the format of Kakao's API.
    var isInKakaoFormat: Bool { unknownFields == .ignored }

    /// The problems that the operation may respond with, in the order of their statuses.
    package var allProblems: [ProblemKind] {
        var problems: Set<ProblemKind> = [.badRequest, .internalError]
        problems.formUnion(self.problems)
        if unknownFields != .kept { problems.formUnion([.invalidField]) }
        switch access {
        case .anyone, .operatorPort: break
        case .operator, .operatorWithAny, .monitoring:
            problems.formUnion([.unauthorized, .missingScope, .tooManyBadKeys, .insecurePage, .foreignOrigin])
            if asksForKey { problems.formUnion([.keyRequired]) }
        case .device, .user, .kakaoUser:
            problems.formUnion([
                .unauthorized, .invalidOperatorKey, .missingScope, .tooManyBadKeys, .tooManyRequests,
                .identityUnavailable, .insecurePage, .foreignOrigin,
                isInKakaoFormat ? .callNotConfigured : .notConfigured,
            ])
            if access != .user { problems.formUnion([.anotherUser]) }
            if access.refusesUnlinked { problems.formUnion([.userNotLinked]) }
        case .appKey:
            problems.formUnion([
                .unauthorized, .missingScope, .tooManyBadKeys, .tooManyRequests, .insecurePage, .foreignOrigin,
            ])
        case .kakao: problems.formUnion([.unauthorized, .foreignAddress])
        case .kakaoAddress: problems.formUnion([.notFound, .foreignAddress])
        }
        if access.openLimit == nil { problems.formUnion([.databaseUnavailable, .overloaded]) }
        switch body {
        // A body that is streamed has no limit.
        case .media(_, _, _, isChecked: true): problems.formUnion([.unsupportedMediaType])
        case .media: problems.formUnion([.contentTooLarge])
        case .files: problems.formUnion([.contentTooLarge, .unsupportedMediaType, .tooManyUploads])
        case .none, .fields:
            if method != .get { problems.formUnion([.contentTooLarge]) }
            if method != .get, unknownFields != .kept { problems.formUnion([.invalidJSON, .unsupportedMediaType]) }
        }
        return problems.sorted { ($0.status.code, $0.name) < ($1.status.code, $1.name) }
    }
}

/// The fields that the query or the body of a request may have.
///
/// A class for the reason that ``OperationDeclaration`` is one.
final class AllowedFields: Sendable {
    /// The length to which an unknown name is shown, in characters.
    private static let maximumShown = 64

    /// The names that Kakao's API and this server's own have for the same: the id of a user, and ids of users.
    private static let synonyms = [("uuid", "user_id"), ("uuids", "user_ids")]

    private let names: Set<String>
    /// The names that are accepted for those of other fields: `user_id` for `uuid`.
    private let aliases: [String: String]
    private let prefixes: [String]
    private let repeatable: Set<String>
    private let place: String
    /// The treatment of other fields.
    let others: OperationDeclaration.UnknownFields

    /// - Parameter place: The part of the request, for error messages: "the query".
    init(_ fields: [any FieldDeclaration], place: String, others: OperationDeclaration.UnknownFields) {
        prefixes = fields.compactMap { ($0 as? FieldGroup)?.prefix }
        let names = Set(fields.filter { !($0 is FieldGroup) }.map(\.name))
        self.names = names
        // Kakao names its parameters itself.
        let synonyms = others == .kept ? [] : Self.synonyms.flatMap { [$0, ($0.1, $0.0)] }
        aliases = synonyms.reduce(into: [:]) { aliases, pair in
            if names.contains(pair.0), !names.contains(pair.1) { aliases[pair.1] = pair.0 }
        }
        repeatable = Set(fields.filter(\.isRepeatable).map(\.name))
        self.place = place
        self.others = others
    }

    func contains(_ name: String) -> Bool {
        names.contains(name) || prefixes.contains { name.hasPrefix($0) }
    }

    /// Returns the name by which the operation declares a field that a request gives.
    func declaredName(_ name: String) -> String { aliases.isEmpty ? name : aliases[name] ?? name }

    /// Returns the name of an allowed field as the operation declares it: `arg.*` for a field of a group.
    func declaration(of name: String) -> String? {
        names.contains(name) ? name : prefixes.first { name.hasPrefix($0) }.map { "\($0)*" }
    }

    /// Returns whether a field may be given several times.
    func isRepeatable(_ name: String) -> Bool { repeatable.contains(name) }

    /// Returns the problem of a field that is not one of these.
    func problem(of name: String) -> Problem {
        let known = names.sorted() + prefixes.map { "\($0)NAME" }
        let shown = String(String.UnicodeScalarView(name.unicodeScalars.prefix(Self.maximumShown)))
        let list = known.joined(separator: ", ")
        var detail = "Unknown field `\(shown)`. "
        detail += known.isEmpty ? "No field is allowed in \(place)." : "Allowed: \(list)."
        if let suggestion = Suggestion.closest(to: name, among: known) { detail += " Did you mean `\(suggestion)`?" }
        let allowed: JSONValue = .string(known.isEmpty ? "none" : "one of \(list)")
        return Problem(of: .invalidField, detail, members: ["field": .string(shown), "allowed": allowed])
    }
}
