internal import EventLoop

/// A request's body while it comes: pieces of it in order, each as large as what had arrived.
///
/// What the handler does not take holds the client back: beyond a fixed amount the connection is not read. The iteration throws
/// ``ProtocolError`` when the body cannot be read on (malformed, too large, too slow), and `CancellationError` when the client has
/// gone away. To be iterated once.
package struct RequestBody: AsyncSequence, Sendable {
    package struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let buffer: RequestBodyBuffer

        package mutating func next() async throws -> [UInt8]? {
            try await Promise.value(on: buffer.loop) { [buffer] promise in buffer.take(promise) }
        }
    }

    let buffer: RequestBodyBuffer

    package func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(buffer: buffer)
    }
}

/// What of a body lies between its connection and its handler.
final class RequestBodyBuffer: @unchecked Sendable {
    // Touched on its loop only, which every method checks.

    private enum End {
        case complete
        case failed(any Error)
    }

    /// Bytes beyond which the connection is not read: one read of the socket.
    private static let limit = 64 * 1024

    let loop: EventLoop
    private var bytes: [UInt8] = []
    private var end: End?
    private var reader: Promise<[UInt8]?>?
    /// Tells the connection that the handler asks for more; `nil` once the body has ended.
    private var onTake: (() -> Void)?

    init(loop: EventLoop, onTake: @escaping () -> Void) {
        self.loop = loop
        self.onTake = onTake
    }

    var isFull: Bool { bytes.count >= Self.limit }

    // MARK: The connection's side

    func append(_ run: UnsafeRawBufferPointer) {
        loop.preconditionOnLoop()
        bytes.append(contentsOf: run)
    }

    /// Hands what has come to the handler, if it waits. Called after each read.
    func deliver() {
        loop.preconditionOnLoop()
        guard let reader, !bytes.isEmpty else { return }
        self.reader = nil
        reader.complete(.success(takeBytes()))
    }

    /// The whole body has been handed over.
    func finish() {
        end(.complete)
    }

    /// No more of the body will come. Does nothing to a body that has ended.
    func fail(_ error: any Error) {
        end(.failed(error))
    }

    private func end(_ end: End) {
        loop.preconditionOnLoop()
        guard self.end == nil else { return }
        self.end = end
        onTake = nil
        deliver()
        guard let reader else { return }
        self.reader = nil
        answer(reader, end)
    }

    // MARK: The handler's side

    func take(_ promise: Promise<[UInt8]?>) {
        loop.preconditionOnLoop()
        if !bytes.isEmpty {
            promise.complete(.success(takeBytes()))
        } else if let end {
            answer(promise, end)
        } else {
            precondition(reader == nil || reader?.isAbandoned == true, "a body is read by one task at a time")
            reader = promise
        }
        // Last, since it may bring the next piece at once.
        onTake?()
    }

    private func takeBytes() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &bytes)
        return taken
    }

    private func answer(_ promise: Promise<[UInt8]?>, _ end: End) {
        switch end {
        case .complete: promise.complete(.success(nil))
        case .failed(let error): promise.complete(.failure(error))
        }
    }
}
