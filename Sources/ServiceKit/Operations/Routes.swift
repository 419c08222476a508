package import HTTPServer
internal import HTTPTypes

/// The routes of one event loop, made of declared operations.
package struct Routes {
    /// The body limit for requests without a credential, in bytes. Bodies of up to this size do not count towards the
    /// server's memory limit for bodies.
    private static let anonymousBody = 4096

    package private(set) var router = Router()
    private let authorizer: any Authorizer

    package init(_ authorizer: any Authorizer) {
        self.authorizer = authorizer
    }

    /// Adds the operations that `collection` offers.
    package mutating func add<Collection: RouteCollection>(_ collection: Collection) {
        for operation in Collection.operations where operation.isOffered(collection) {
            let declaration = operation.declaration
            let check = authorizer.check(declaration.access)
            var limit = declaration.maximumBodyBytes
            if declaration.access == .anyone { limit = limit ?? Self.anonymousBody }
            // The body of a GET is not used.
            if declaration.method == .get { limit = limit ?? RequestSize.small }
            let handler: Handler
            switch operation.handler {
            case .immediate(let handle):
                let handle = handle(collection)
                handler = .immediate { try handle(Call($0, declaration)) }
            case .task(let handle):
                let handle = handle(collection)
                handler = .task { request in
                    let call = try Call(request, declaration)
                    guard !call.ignoredNames.isEmpty else { return try await handle(call) }
                    return try await call.namingIgnoredFields { try await handle(call) }
                }
            case .streaming(let handle):
                let handle = handle(collection)
                handler = .streaming(maximumBodyBytes: .max) { try await handle(Call($0, declaration), $1) }
            }
            router.add(
                declaration.method,
                declaration.path,
                name: declaration.id,
                check: check,
                bodyLimit: limit,
                handler
            )
        }
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
