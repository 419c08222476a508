/// The check of a request's head, made before any of its body is read.
///
/// Called on the request's loop.
///
/// - Returns: `nil` when the request may pass; else the asynchronous rest of the check. While it runs, the connection is
///   not read and no time-out of the body runs.
/// - Throws: ``Problem`` to reject the request, which leaves its body unread.
package typealias HeadCheck = @Sendable (_ request: Request) throws -> PendingCheck?

/// The part of a ``HeadCheck`` that has to wait. Throws to reject the request.
package typealias PendingCheck = @Sendable () async throws -> Void

/// A handler and what is declared of it.
///
/// A class, so that handing it on costs one reference count and not one for each of its parts.
final class Route: Sendable {
    let handler: Handler
    /// `nil` for a public route.
    let check: HeadCheck?
    /// The most bytes that a body may have which is read before the handler is called; `nil` for the server's limit.
    let bodyLimit: Int?

    init(handler: Handler, check: HeadCheck?, bodyLimit: Int?) {
        self.handler = handler
        self.check = check
        self.bodyLimit = bodyLimit
    }
}
