import EventLoop

/// A request's body as a stream: its bytes in order, in pieces as they arrive.
///
/// Back pressure applies: the connection is not read while more than a fixed amount is waiting for the handler. The
/// iteration throws ``ProtocolError`` if the rest of the body cannot be read (malformed, too large, too slow), and
/// `CancellationError` if the client has gone away. The sequence can be iterated once.
package struct RequestBody: AsyncSequence, Sendable {
    package struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let buffer: RequestBodyBuffer

        package mutating func next() async throws -> [UInt8]? {
            try await Promise.value(on: buffer.loop) { [buffer] promise in buffer.read(promise) }
        }
    }

    let buffer: RequestBodyBuffer

    package func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(buffer: buffer)
    }
}

/// The buffer for a streamed body between its connection and its handler.
final class RequestBodyBuffer: @unchecked Sendable {
    // Used only on its loop, which every method checks.

    /// The number of bytes beyond which the connection is not read: one read of the socket.
    private static let maximumBufferedBytes = 64 * 1024

    let loop: EventLoop
    private var bytes: [UInt8] = []
    private var end: Result<Void, any Error>?
    private var reader: Promise<[UInt8]?>?
    /// Notifies the connection that the handler wants more bytes. `nil` once the body has ended.
    private var onRead: (() -> Void)?

    init(loop: EventLoop, onRead: @escaping () -> Void) {
        self.loop = loop
        self.onRead = onRead
    }

    var isFull: Bool { bytes.count >= Self.maximumBufferedBytes }

    // MARK: Calls by the connection

    func append(_ run: UnsafeRawBufferPointer) {
        loop.preconditionOnLoop()
        bytes.append(contentsOf: run)
    }

    /// Passes the buffered bytes to the handler if it waits for them. Called after each read.
    func deliver() {
        loop.preconditionOnLoop()
        guard let reader, !bytes.isEmpty else { return }
        self.reader = nil
        reader.complete(.success(drainBytes()))
    }

    /// Ends the body: complete, or with an error. Has no effect if the body has already ended.
    func finish(_ result: Result<Void, any Error>) {
        loop.preconditionOnLoop()
        guard end == nil else { return }
        end = result
        onRead = nil
        deliver()
        reader?.complete(result.map { nil })
        reader = nil
    }

    // MARK: Calls by the handler

    func read(_ promise: Promise<[UInt8]?>) {
        loop.preconditionOnLoop()
        if !bytes.isEmpty {
            promise.complete(.success(drainBytes()))
        } else if let end {
            promise.complete(end.map { nil })
        } else {
            precondition(reader == nil || reader?.isAbandoned == true, "a body must be read by one task at a time")
            reader = promise
        }
        // Called last, because it may deliver the next piece at once.
        onRead?()
    }

    private func drainBytes() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &bytes)
        return taken
    }
}
