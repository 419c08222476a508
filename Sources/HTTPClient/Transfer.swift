internal import EventLoop
internal import HTTPTypes

/// One request on its way, and who waits for the outcome.
///
/// A kept connection may die under a request without a byte of an answer. The request may go out on another one as long as nothing of
/// its body had left; after that, the host may have acted on it. So it keeps count of what has left.
final class Transfer: @unchecked Sendable {
    // Owned by the loop of its client: made anywhere, touched only there.

    enum State {
        /// Not handed to the client yet. Can transition to waiting, running and finished.
        case new
        /// In the lane of its origin, for want of a connection. Can transition to running and finished.
        case waiting
        /// It has a connection, or one is being made for it. Can transition to running on another one, and to finished.
        case running(Connection)
        /// Its caller has the outcome. Final.
        case finished
    }

    let request: HTTPClientRequest
    var state = State.new
    var origin: Origin?
    var timer: TimerID?
    var continuation: CheckedContinuation<Result<HTTPClientResponse, HTTPClientError>, Never>?
    /// The length of the request without its body.
    var headBytes = 0
    /// See ``HTTPClientError/bodyBytesLeft``.
    private(set) var mayHaveLeft = false

    init(_ request: HTTPClientRequest) {
        self.request = request
    }

    /// So many bytes of it have left, or may have.
    func recordSent(_ count: Int) {
        if count > (request.body.isEmpty ? 0 : headBytes) { mayHaveLeft = true }
    }

    /// Whether it may go out again. Reading twice is harmless, whatever had left.
    var mayBeSentAgain: Bool {
        !mayHaveLeft || request.isIdempotent
            || (request.body.isEmpty && (request.method == .get || request.method == .head))
    }

    /// An error of this transfer, as far as it has come.
    func failure(_ code: HTTPClientError.Code, _ message: String) -> HTTPClientError {
        HTTPClientError(
            code: code,
            bodyBytesLeft: mayHaveLeft,
            message: origin.map { "\($0.text): \(message)" } ?? message
        )
    }
}
