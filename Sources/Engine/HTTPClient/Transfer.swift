import EventLoop
import HTTPTypes

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
        /// In the queue of its origin, until a connection is available. Can transition to connecting, running and finished.
        case waiting
        /// A connection is being established for it. Can transition to running and finished.
        case connecting(Connector)
        /// A connection carries it. Can transition to connecting, running on another connection, and finished.
        case running(Connection)
        /// The caller has the outcome. Final.
        case finished
    }

    let request: HTTPClientRequest
    var state = State.new
    var destination: Destination?
    var timer: TimerID?
    var continuation: CheckedContinuation<Result<HTTPClientResponse, HTTPClientError>, Never>?
    /// The length of the encoded request without its body.
    var headBytes = 0
    /// The number of bytes of the encoded request that have left the connection that carries it.
    private var sentBytes = 0
    /// The value of ``HTTPClientError/mayHaveBeenSent``.
    private(set) var mayHaveBeenSent = false
    /// The number of bytes of the upload that are still to be read.
    private(set) var remainingUploadBytes: Int
    /// Whether everything that was read of the request has left, so that more of the upload may be read.
    private var wantsUpload = false
    /// Whether the upload was read, or is being read.
    private var hasBegunUpload = false
    /// The body of the response, if it is streamed.
    let stream: StreamBuffer?
    /// The task that reads the upload, while it waits for ``wantsUpload``.
    private var uploadReader: CheckedContinuation<Bool, Never>?

    init(_ request: HTTPClientRequest, isStreamed: Bool = false) {
        self.request = request
        stream = isStreamed ? StreamBuffer() : nil
        remainingUploadBytes = request.upload?.length ?? 0
    }

    /// Records that the request begins to be sent.
    func beginSending() {
        sentBytes = 0
    }

    /// Records that the next `count` bytes of the request have left. `nil` stands for an unknown part of them, since they
    /// are encrypted.
    func recordSent(_ count: Int?) {
        guard let count else {
            mayHaveBeenSent = true
            return
        }
        sentBytes += count
        let hasBody = !request.body.isEmpty || request.upload?.length ?? 0 > 0
        if sentBytes > (hasBody ? headBytes : 0) { mayHaveBeenSent = true }
    }

    /// Whether the request may be sent again. GET and HEAD without a body are harmless to repeat. An upload can be read
    /// only once.
    var mayBeSentAgain: Bool {
        guard !hasBegunUpload else { return false }
        return !mayHaveBeenSent || request.isIdempotent
            || (request.body.isEmpty && (request.method == .get || request.method == .head))
    }

    // MARK: Uploading

    /// Resumes the continuation when more of the upload can be sent, with `false` if the transfer has ended or nothing is
    /// left.
    func awaitUpload(_ reader: CheckedContinuation<Bool, Never>) {
        if case .finished = state { return reader.resume(returning: false) }
        guard remainingUploadBytes > 0 else { return reader.resume(returning: false) }
        uploadReader = reader
        wakeUploadReader()
    }

    /// Lets the next piece of the upload be read.
    func requestUpload() {
        (wantsUpload, hasBegunUpload) = (true, true)
        wakeUploadReader()
    }

    private func wakeUploadReader() {
        guard wantsUpload, let reader = uploadReader else { return }
        (wantsUpload, uploadReader) = (false, nil)
        reader.resume(returning: true)
    }

    /// Counts a piece of the upload. Returns `false` if it is empty or too long.
    func countUpload(_ piece: [UInt8]) -> Bool {
        guard !piece.isEmpty, piece.count <= remainingUploadBytes else { return false }
        remainingUploadBytes -= piece.count
        return true
    }

    /// Ends the task that reads the upload. Called when the transfer has ended.
    func endUpload() {
        uploadReader?.resume(returning: false)
        uploadReader = nil
    }

    /// Returns an error for this transfer that reports whether bytes may have left.
    func failure(_ code: HTTPClientError.Code, _ message: String) -> HTTPClientError {
        HTTPClientError(
            code: code,
            mayHaveBeenSent: mayHaveBeenSent,
            message: destination.map { "\($0.origin.text): \(message)" } ?? message
        )
    }
}
