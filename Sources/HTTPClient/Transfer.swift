internal import EventLoop
internal import HTTPTypes

/// A request in flight and the continuation of its caller.
///
/// A kept-alive connection may be lost before any byte of the response. The request may be sent again on another
/// connection unless some of its body has left; after that, the host may have acted on it. A transfer therefore tracks
/// what has been sent.
final class Transfer: @unchecked Sendable {
    // Owned by the client's loop: created on any thread, used only on the loop.

    enum State {
        /// Not passed to the client yet. Can transition to waiting, running and finished.
        case new
        /// In the queue of its origin, until a connection is available. Can transition to running and finished.
        case waiting
        /// A connection carries it or is being established for it. Can transition to running on another connection, and
        /// to finished.
        case running(Connection)
        /// The caller has the outcome. Final.
        case finished
    }

    let request: HTTPClientRequest
    var state = State.new
    var origin: Origin?
    var timer: TimerID?
    var continuation: CheckedContinuation<Result<HTTPClientResponse, HTTPClientError>, Never>?
    /// The length of the encoded request without its body.
    var headBytes = 0
    /// The value of ``HTTPClientError/bodyBytesLeft``.
    private(set) var mayHaveLeft = false

    init(_ request: HTTPClientRequest) {
        self.request = request
    }

    /// Records that the first `count` bytes of the request have left or may have left.
    func recordSent(_ count: Int) {
        if count > (request.body.isEmpty ? 0 : headBytes) { mayHaveLeft = true }
    }

    /// Whether the request may be sent again. GET and HEAD without a body are harmless to repeat.
    var mayBeSentAgain: Bool {
        !mayHaveLeft || request.isIdempotent
            || (request.body.isEmpty && (request.method == .get || request.method == .head))
    }

    /// Returns an error for this transfer that reports whether bytes may have left.
    func failure(_ code: HTTPClientError.Code, _ message: String) -> HTTPClientError {
        HTTPClientError(
            code: code,
            bodyBytesLeft: mayHaveLeft,
            message: origin.map { "\($0.text): \(message)" } ?? message
        )
    }
}
