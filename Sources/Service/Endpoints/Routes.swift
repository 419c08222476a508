package import HTTPServer
import HTTPTypes

/// The routes of one event loop, made of declared operations.
package struct Routes {
    /// The body limit for requests without a credential, in bytes. Bodies of up to this size do not count towards the
    /// server's memory limit for bodies.
    private static let anonymousBody = 4096

    /// All operations.
    package private(set) var router = Router()
    /// The operations of the public port beside a port for operators: those with a public access. Empty without such a
    /// port.
    package private(set) var publicRouter = Router()
    private let authorizer: any Authorizer
    private let publicAuthorizer: (any Authorizer)?
    private let audit: AuditLog

    /// - Parameters:
    ///   - publicAuthorizer: The authorizer of the public port, which admits no operators; `nil` if there is only one port.
    ///   - audit: The audit log of the same event loop.
    package init(
        _ authorizer: any Authorizer,
        public publicAuthorizer: (any Authorizer)? = nil,
        recordingIn audit: AuditLog
    ) {
        self.authorizer = authorizer
        self.publicAuthorizer = publicAuthorizer
        self.audit = audit
    }

    /// Returns the check of an operation's requests, given that of its access.
    package typealias Guarding = (_ operation: OperationDeclaration, _ check: HeadCheck?) -> HeadCheck?

    /// Adds the operations of `collection`.
    ///
    /// - Parameter guarding: Adds to the check of each operation; by default nothing.
    package mutating func add<Collection: RouteCollection>(
        _ collection: Collection,
        guarding: Guarding = { $1 }
    ) {
        for operation in Collection.operations {
            add(handler(of: operation, collection), of: operation.declaration, guarding)
        }
    }

    /// Adds the operations of a collection that this server cannot make without the settings that they need. All of them are
    /// switched off.
    package mutating func addSwitchedOff<Collection: RouteCollection>(_: Collection.Type) {
        for operation in Collection.operations {
            guard let needs = operation.needs else {
                preconditionFailure("\(operation.declaration.id) needs no setting")
            }
            add(Self.refusing(needs.problem, operation), of: operation.declaration) { $1 }
        }
    }

    private mutating func add(_ handler: Handler, of declaration: OperationDeclaration, _ guarding: Guarding) {
        var limit = declaration.maximumBodyBytes
        if declaration.access.openLimit != nil { limit = limit ?? Self.anonymousBody }
        // The body of a GET is not used.
        if declaration.method == .get { limit = limit ?? RequestSize.small }
        Self.add(handler, of: declaration, upTo: limit, authorizer, guarding, to: &router)
        if let publicAuthorizer, declaration.access.isPublic {
            Self.add(handler, of: declaration, upTo: limit, publicAuthorizer, guarding, to: &publicRouter)
        }
    }

    /// Returns the handler of an operation that is switched off. It responds before it reads a body that may be large.
    private static func refusing<Collection>(_ problem: Problem, _ operation: Operation<Collection>) -> Handler {
        if case .streaming = operation.handler { return .streaming(maximumBodyBytes: .max) { _, _ in throw problem } }
        return .immediate { _ in throw problem }
    }

    /// Returns the handler of the requests to an operation.
    private func handler<Collection>(of operation: Operation<Collection>, _ collection: Collection) -> Handler {
        let declaration = operation.declaration
        if let problem = operation.needs?.problem(of: collection) { return Self.refusing(problem, operation) }
        switch operation.handler {
        case .immediate(let handle):
            let handle = handle(collection)
            return .immediate { try handle(Call($0, declaration)) }
        case .task(let handle):
            let handle = recorded(declaration, handle(collection))
            return .task { request in
                let call = try Call(request, declaration)
                guard !call.ignoredNames.isEmpty else { return try await handle(call) }
                return try await call.namingIgnoredFields { try await handle(call) }
            }
        case .streaming(let handle):
            let (handle, audit) = (handle(collection), audit)
            return .streaming(maximumBodyBytes: .max) { request, body in
                let call = try Call(request, declaration)
                return try await audit.recording(call) { try await handle(call, body) }
            }
        }
    }

    /// Returns a function that checks again whether a request is admitted, for a response that outlasts the first check: a key may
    /// have been revoked since.
    ///
    /// - Throws: As the check does, the function throws a ``Problem`` for a request that is no longer admitted.
    package func recheck(_ access: Access) -> @Sendable (Request) async throws -> Void {
        let check = authorizer.check(access, inKakaoFormat: false)
        return { request in try await check?(request)?() }
    }

    /// Returns a handler that records its calls in the audit log, if the operation declares that.
    private func recorded(
        _ declaration: OperationDeclaration,
        _ handle: @escaping @Sendable (Call) async throws -> Response
    ) -> @Sendable (Call) async throws -> Response {
        switch declaration.auditing {
        case .none, .handler: handle
        case .ahead, .kept, .download, .lookup:
            { [audit] call in try await audit.recording(call) { try await handle(call) } }
        }
    }

    private static func add(
        _ handler: Handler,
        of declaration: OperationDeclaration,
        upTo bodyLimit: Int?,
        _ authorizer: any Authorizer,
        _ guarding: Guarding,
        to router: inout Router
    ) {
        let check = authorizer.check(declaration.access, inKakaoFormat: declaration.isInKakaoFormat)
        router.add(
            declaration.method,
            declaration.path,
            name: declaration.id,
            check: guarding(declaration, check),
            bodyLimit: bodyLimit,
            handler
        )
    }
}

extension HTTPField.Name {
    fileprivate static let ignoredParameters = unvalidated("X-Ignored-Parameters")
}

extension Call {
    /// Runs a handler, and names the ignored fields in its response, if there are any.
    package func namingIgnoredFields(_ handle: () async throws -> Response) async throws -> Response {
        guard !ignoredNames.isEmpty else { return try await handle() }
        do {
            var response = try await handle()
            response.headerFields[.ignoredParameters] = ignoredParameters
            return response
        } catch var problem as Problem {
            // The field that is missing may be the one that was misspelt.
            problem.headerFields[.ignoredParameters] = ignoredParameters
            throw problem
        }
    }

    /// The names of the ignored fields, so that a misspelt one can be found.
    fileprivate var ignoredParameters: String {
        ignoredNames.map { name in
            // A header field allows neither controls nor, by custom, other than ASCII; a comma separates names.
            let characters = name.unicodeScalars.prefix(64).map {
                (0x21...0x7E).contains($0.value) && $0 != "," ? $0 : "?"
            }
            return String(String.UnicodeScalarView(characters))
        }
        .joined(separator: ", ")
    }
}
