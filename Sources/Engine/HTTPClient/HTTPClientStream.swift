import EventLoop
package import HTTPTypes

/// A response whose body is read while it arrives: ``HTTPClient/stream(_:_:)``.
///
/// A host that sends faster than the body is read is slowed down.
package struct HTTPClientStream: Sendable {
    /// The status code, 200 to 999.
    package let status: Int
    /// The header fields. Trailer fields are not included.
    package let headerFields: HTTPFields
    private let transfer: Transfer
    private let transfers: TransferQueue
    private let loop: EventLoop

    init(_ head: HTTPClientResponse, _ transfer: Transfer, _ transfers: TransferQueue, _ loop: EventLoop) {
        status = head.status
        headerFields = head.headerFields
        self.transfer = transfer
        self.transfers = transfers
        self.loop = loop
    }

    /// Waits for the next part of the body, and returns it, or `nil` at the end of the body. Only one task may wait.
    ///
    /// - Throws: ``HTTPClientError`` if the response is cut off, if nothing arrives within the request's time limit, or if
    ///   the task is cancelled.
    package func next() async throws(HTTPClientError) -> [UInt8]? {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { reader in
                loop.execute { [transfers, transfer] in transfers.read(transfer, reader) }
            }
        } onCancel: {
            loop.execute { [transfers, transfer] in transfers.cancel(transfer) }
        }
        return try result.get()
    }
}

/// The part of a streamed body that was received and not read yet.
///
/// Confined to the client's loop.
final class StreamBuffer {
    typealias Reader = CheckedContinuation<Result<[UInt8]?, HTTPClientError>, Never>

    /// The number of bytes at which no more is received.
    private static let maximumBufferedBytes = 64 * 1024

    private var bytes: [UInt8] = []
    private var reader: Reader?
    private var end: Result<Void, HTTPClientError>?

    /// Whether nothing more should be received for now.
    var isFull: Bool { bytes.count >= Self.maximumBufferedBytes }

    func append(_ piece: [UInt8]) {
        guard !piece.isEmpty else { return }
        if let reader {
            self.reader = nil
            reader.resume(returning: .success(piece))
        } else if bytes.isEmpty {
            bytes = piece
        } else {
            bytes += piece
        }
    }

    /// Ends the body, after what was received of it.
    func finish(_ result: Result<Void, HTTPClientError>) {
        guard end == nil else { return }
        end = result
        if let reader {
            self.reader = nil
            read(reader)
        }
    }

    func read(_ reader: Reader) {
        if !bytes.isEmpty {
            let piece = bytes
            bytes = []
            reader.resume(returning: .success(piece))
        } else if let end {
            reader.resume(returning: end.map { nil })
        } else {
            self.reader = reader
        }
    }
}
