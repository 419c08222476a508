internal import HTTPServer
internal import HTTPTypes

/// The callers that a route admits. A route declares its access, and the server checks it on the request's head, before
/// it reads any of the body.
enum Access: Sendable {
    /// Any caller, without a credential.
    case anyone
    /// Operators whose key has all of these scopes.
    case `operator`([Scope])
    /// Operators whose key has the scope `devices`, for any user; and users' apps, for their own user.
    /// ``Request/deviceCaller()`` returns the caller.
    case deviceCaller
    /// Kakao, authenticated by the Admin key.
    case kakao
    /// Kakao, authenticated by the secret in the route's path: the parameter `{secret}`.
    case kakaoAddress(Secret)

    /// Operators whose key has this scope.
    static func `operator`(_ scope: Scope) -> Access { .operator([scope]) }
}

/// The service's routes. Adding a route requires its ``Access``, so that none is left unprotected by mistake.
struct ServiceRouter {
    /// The body limit for requests of phones and Kakao, in bytes: far more than they send.
    static let smallBody = 64 * 1024
    /// The body limit for requests without a credential, in bytes. Bodies of up to this size do not count towards the
    /// server's memory limit for bodies.
    static let anonymousBody = 4096

    private(set) var router = Router()
    let authenticator: Authenticator

    init(_ authenticator: Authenticator) {
        self.authenticator = authenticator
    }

    /// Adds a route with an asynchronous handler.
    ///
    /// - Parameters:
    ///   - check: A check that replaces ``Authenticator/check(_:)``.
    ///   - bodyLimit: The body limit in bytes, if it is lower than `http.max_body_bytes`.
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

    /// Adds a route with a synchronous handler.
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

    /// Adds a route whose handler reads a body of any length as it arrives.
    mutating func on(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        _ access: Access,
        streaming handler: @escaping @Sendable (Request, RequestBody) async throws -> Response
    ) {
        router.on(method, pattern, check: authenticator.check(access), streaming: handler)
    }
}
