internal import EventLoop
internal import HTTPTypes

/// A connection, and the one request that is under way on it.
final class Connection {
    /// What a request has come to.
    enum End {
        /// - keepsAlive: Whether another request may follow.
        case response(ResponseParser, keepsAlive: Bool)
        /// - isUnheard: Nothing of an answer had come.
        case failure(HTTPClientError.Code, String, isUnheard: Bool)
    }

    /// Bytes read at a time.
    private static let readBytes = 16 * 1024
    /// An output that was larger is not kept.
    private static let keptOutputBytes = 64 * 1024

    let handle: EasyHandle
    let origin: Origin
    /// Called on the loop when a request has been answered, or will not be.
    var onEnd: (Connection, End) -> Void = { _, _ in }
    /// Called on the loop when it has ended while no request was under way.
    var onIdleEnd: (Connection) -> Void = { _ in }
    /// A request has been answered on it: the host may close it at any time.
    private(set) var wasUsed = false
    /// When it had nothing more to do, in the loop's milliseconds.
    var idleSince: UInt64 = 0

    private let loop: EventLoop
    private var registration: Registration?
    private var output: [UInt8] = []
    private var sent = 0
    private var waitsToSend = false
    private var transfer: Transfer?
    private var parser: ResponseParser?

    init(_ handle: EasyHandle, origin: Origin, loop: EventLoop) {
        self.handle = handle
        self.origin = origin
        self.loop = loop
    }

    /// The connection stands: from now on its socket is watched. Returns whether that is possible.
    func start() -> Bool {
        let socket = handle.socket
        guard socket >= 0 else { return false }
        registration = try? loop.register(socket, interest: .read) { [unowned self] in ready($0) }
        return registration != nil
    }

    /// The connection is about to be closed.
    func stop() {
        if let registration { loop.deregister(registration) }
        registration = nil
        transfer = nil
    }

    /// Whether nothing has come since the last response: neither an end nor anything that nobody asked for.
    var isFresh: Bool {
        withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { buffer in
            guard case .again = handle.receive(into: buffer) else { return false }
            return true
        }
    }

    // MARK: Requests

    /// Gets a request ready, for ``send()``.
    func prepare(_ transfer: Transfer, _ encoder: inout RequestEncoder, maximumResponseBytes: Int) {
        self.transfer = transfer
        if output.capacity > Self.keptOutputBytes { output = [] } else { output.removeAll(keepingCapacity: true) }
        sent = 0
        transfer.headBytes = encoder.encode(transfer.request, to: origin, into: &output)
        parser = ResponseParser(isHead: transfer.request.method == .head, maximumBodyBytes: maximumResponseBytes)
    }

    private func ready(_ readiness: Readiness) {
        guard transfer != nil else {
            // TLS has things to say of its own.
            if !isFresh { onIdleEnd(self) }
            return
        }
        // An answer may come before the request has left.
        if readiness != .write { read() }
        if waitsToSend, readiness.contains(.write) { send() }
    }

    /// Sends what is left of the request, as far as that goes. The request may be over when this returns.
    func send() {
        while sent < output.count {
            let result = output.withUnsafeBytes { handle.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
            switch result {
            case .count(let count):
                sent += count
                transfer?.recordSent(sent)
            case .again:
                // A part of it may have left, as a part of a record.
                if origin.isSecure { transfer?.recordSent(output.count) }
                return waitToSend(true)
            case .end, .failure:
                if origin.isSecure { transfer?.recordSent(output.count) }
                // The answer may say why it was not read.
                waitToSend(false)
                read()
                return fail(.connectionLost, "the connection broke")
            }
        }
        waitToSend(false)
    }

    private func waitToSend(_ isWaiting: Bool) {
        guard waitsToSend != isWaiting, let registration else { return }
        waitsToSend = isWaiting
        loop.setInterest(isWaiting ? [.read, .write] : .read, of: registration)
    }

    private func read() {
        withUnsafeTemporaryAllocation(byteCount: Self.readBytes, alignment: 1) { buffer in
            while transfer != nil {
                switch handle.receive(into: buffer) {
                case .count(let count):
                    let taken = parser?.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count])) ?? 0
                    look(hasMore: taken < count)
                case .again:
                    return
                case .end:
                    _ = parser?.receiveEnd()
                    look(hasMore: false)
                    return fail(.connectionLost, "the connection broke")
                case .failure:
                    return fail(.connectionLost, "the connection broke")
                }
            }
        }
    }

    /// Looks at what has come of the response.
    private func look(hasMore: Bool) {
        guard let parser else { return }
        switch parser.state {
        case .complete:
            wasUsed = true
            // Who answers before the request is there will not read the rest of it; and more than was asked for belongs to nobody.
            let isClean = sent == output.count && !hasMore
            end(.response(parser, keepsAlive: parser.keepsConnection && isClean))
        case .failed(.tooLarge): fail(.responseTooLarge, "the response is longer than is allowed")
        case .failed(.malformed(let what)): fail(.badResponse, what)
        default: break
        }
    }

    private func fail(_ code: HTTPClientError.Code, _ message: String) {
        end(.failure(code, message, isUnheard: parser?.hasBegun == false))
    }

    private func end(_ end: End) {
        guard transfer != nil else { return }
        (transfer, parser) = (nil, nil)
        waitToSend(false)
        onEnd(self, end)
    }
}
