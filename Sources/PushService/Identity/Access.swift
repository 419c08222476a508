internal import HTTPServer
internal import HTTPTypes

/// The callers that a route admits: declared with it, and checked on a request's head before any of its body is read.
enum Access: Sendable {
    /// Everybody, without a credential.
    case anyone
    /// Operators whose key has all of these scopes.
    case `operator`([Scope])
    /// Operators whose key has the scope `devices`, for any user; and users' apps, for their own user. Found out by ``Request/deviceCaller()``.
    case deviceCaller
    /// Kakao, which sends the Admin key.
    case kakao
    /// Kakao, which knows the route's address: the secret in its path, under `{secret}`.
    case kakaoAddress(Secret)

    /// Operators whose key has this scope.
    static func `operator`(_ scope: Scope) -> Access { .operator([scope]) }
}

/// Collects the service's routes, each with who may call it: without that a route cannot be added.
struct ServiceRouter {
    /// The most bytes of a body that phones and Kakao send: far more than they do.
    static let smallBody = 64 * 1024
    /// The most bytes of a body that anyone may send without a credential: so many do not count towards the memory for bodies.
    static let anonymousBody = 4096

    private(set) var router = Router()
    let authenticator: Authenticator

    init(_ authenticator: Authenticator) {
        self.authenticator = authenticator
    }

    /// Adds a route whose handler awaits.
    ///
    /// - Parameters:
    ///   - check: How access is found out in place of ``Authenticator/check(_:)``.
    ///   - bodyLimit: The most bytes of a body, if that is less than `http.max_body_bytes`.
    mutating func on(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        _ access: Access,
        checkedBy check: HeadCheck? = nil,
        bodyLimit: Int? = nil,
        _ handler: @escaping @Sendable (Request) async throws -> Response
    ) {
        var limit = bodyLimit
        if case .anyone = access { limit = bodyLimit ?? Self.anonymousBody }
        router.on(method, pattern, check: check ?? authenticator.check(access), bodyLimit: limit, handler)
    }

    /// Adds a route whose handler answers at once.
    mutating func on(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        _ access: Access,
        immediate handler: @escaping @Sendable (Request) throws -> Response
    ) {
        router.add(
            method,
            pattern,
            check: authenticator.check(access),
            bodyLimit: Self.anonymousBody,
            .immediate(handler)
        )
    }

    /// Adds a route whose handler reads a body of any length as it comes.
    mutating func on(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        _ access: Access,
        streaming handler: @escaping @Sendable (Request, RequestBody) async throws -> Response
    ) {
        router.on(method, pattern, check: authenticator.check(access), streaming: handler)
    }
}
