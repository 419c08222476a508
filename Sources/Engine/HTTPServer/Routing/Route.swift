/// A check of a request's head, made before any of its body is read.
///
/// Called on the request's loop.
///
/// - Returns: `nil` if the request is accepted, otherwise the asynchronous part of the check. While that runs, the
///   connection is not read and the body timeout does not run.
/// - Throws: ``Problem`` to reject the request without reading its body.
package typealias HeadCheck = @Sendable (_ request: Request) throws -> PendingCheck?

/// The asynchronous part of a ``HeadCheck``. Throws to reject the request.
package typealias PendingCheck = @Sendable () async throws -> Void

/// A handler with its check and body limit.
///
/// A class, so that passing it on costs one reference count and not one per property.
final class Route: Sendable {
    /// The place of the route's name in ``Router/routeNames``.
    let number: Int
    let handler: Handler
    /// `nil` for a public route.
    let check: HeadCheck?
    /// The maximum number of bytes of a body that is read before the handler is called; `nil` for the server's limit.
    let bodyLimit: Int?

    init(number: Int, handler: Handler, check: HeadCheck?, bodyLimit: Int?) {
        self.number = number
        self.handler = handler
        self.check = check
        self.bodyLimit = bodyLimit
    }
}
