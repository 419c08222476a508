internal import EventLoop
internal import HTTPTypes

/// One request on its way: what libcurl's callbacks read from and write to, and who waits for the outcome.
///
/// libcurl sends a request again by itself when a connection that was used before dies without a byte of an answer
/// (`Curl_retry_request`). That is right as long as nothing of the request had left; after that, the host may have
/// acted on it. So the body is handed over by a callback that keeps count, and every further attempt is refused once
/// the count is not zero: when a socket is asked for, when the body is to be rewound, and before the head is written.
final class Transfer: @unchecked Sendable {
    // Owned by the loop of its client: made anywhere, touched only there.

    enum State {
        /// Not handed to the client yet. Can transition to waiting, running and finished.
        case new
        /// In the lane of its origin, for want of a connection. Can transition to running and finished.
        case waiting
        /// In libcurl's hands. Can transition to finished.
        case running(EasyHandle)
        /// Its caller has the outcome. Final.
        case finished
    }

    let request: HTTPClientRequest
    var state = State.new
    var origin: Origin?
    var timer: TimerID?
    /// Where sockets come from, while libcurl has it in hand.
    var sockets: CurlSockets?
    var continuation: CheckedContinuation<Result<HTTPClientResponse, HTTPClientError>, Never>?

    private var response: ResponseCollector
    private var bodyPosition = 0
    private var hasHandedOverBody = false
    /// A connection stood, and the request's head was about to be written.
    private(set) var hasBegunHead = false

    init(_ request: HTTPClientRequest, maximumResponseBytes: Int) {
        self.request = request
        response = ResponseCollector(maximumBodyBytes: maximumResponseBytes)
    }

    // MARK: Outcome

    /// See ``HTTPClientError/bodyBytesLeft``.
    var mayHaveLeft: Bool {
        request.body.isEmpty || request.isIdempotent ? hasBegunHead : hasHandedOverBody
    }

    /// A response's bound was crossed, which libcurl reports as a failed write.
    var isResponseTooLarge: Bool { response.isTooLarge }

    func makeResponse(status: Int) -> HTTPClientResponse {
        HTTPClientResponse(status: status, head: response.head, body: response.body)
    }

    // MARK: What libcurl asks

    /// Whether the request may go out, for the first time or again. Reading twice is harmless, whatever had left.
    var mayBeAttempted: Bool {
        !mayHaveLeft || request.isIdempotent
            || (request.body.isEmpty && (request.method == .get || request.method == .head))
    }

    /// A connection stands; the head is about to be written. Returns whether it may.
    func beginHead() -> Bool {
        guard mayBeAttempted else { return false }
        hasBegunHead = true
        return true
    }

    /// Fills `buffer` with what is next of the body, and returns how much that is.
    func readBody(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = min(buffer.count, request.body.count - bodyPosition)
        guard count > 0 else { return 0 }
        request.body.withUnsafeBytes {
            buffer.copyMemory(from: .init(rebasing: $0[bodyPosition..<bodyPosition + count]))
        }
        bodyPosition += count
        hasHandedOverBody = true
        return count
    }

    /// Goes back to the start of the body. Returns whether that is allowed.
    func rewindBody() -> Bool {
        guard !hasHandedOverBody else { return false }
        bodyPosition = 0
        return true
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        response.receiveHeaderLine(line)
    }

    func receiveBody(_ part: UnsafeRawBufferPointer) -> Bool {
        response.receiveBody(part)
    }
}
