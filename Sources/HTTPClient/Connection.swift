internal import EventLoop
internal import HTTPTypes

/// A connection to one origin. It carries at most one request at a time.
final class Connection {
    /// The outcome of a request.
    enum End {
        /// - keepsAlive: Whether another request may follow.
        case response(ResponseParser, keepsAlive: Bool)
        /// - isUnheard: Whether no byte of a response was received.
        case failure(HTTPClientError.Code, String, isUnheard: Bool)
    }

    /// The maximum number of bytes read at a time.
    private static let readBytes = 16 * 1024
    /// The largest output buffer that is kept for the next request.
    private static let keptOutputBytes = 64 * 1024

    let handle: EasyHandle
    let destination: Destination
    /// Called on the loop when the request has ended, with or without a response.
    var onEnd: (Connection, End) -> Void = { _, _ in }
    /// Called on the loop when the connection ends while no request is in flight.
    var onIdleEnd: (Connection) -> Void = { _ in }
    /// Whether the connection has carried a response. If so, the host may close it at any time.
    private(set) var wasUsed = false
    /// The time at which the connection became idle, in the loop's milliseconds.
    var idleSince: UInt64 = 0

    private let loop: EventLoop
    private var registration: Registration?
    private var output: [UInt8] = []
    private var sent = 0
    private var waitsToSend = false
    private var transfer: Transfer?
    private var parser: ResponseParser?

    init(_ handle: EasyHandle, destination: Destination, loop: EventLoop) {
        self.handle = handle
        self.destination = destination
        self.loop = loop
    }

    /// Starts to watch the socket of an established connection. Returns whether that succeeded.
    func start() -> Bool {
        let socket = handle.socket
        guard socket >= 0 else { return false }
        registration = try? loop.register(socket, interest: .read) { [unowned self] in ready($0) }
        return registration != nil
    }

    /// Stops watching the socket. Called just before the connection is closed.
    func stop() {
        if let registration { loop.deregister(registration) }
        registration = nil
        transfer = nil
    }

    /// Whether nothing has arrived since the last response: neither the end of the connection nor unsolicited bytes.
    var isFresh: Bool {
        withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { buffer in
            guard case .again = handle.receive(into: buffer) else { return false }
            return true
        }
    }

    // MARK: Requests

    /// Encodes a request. ``send()`` then sends it.
    func prepare(_ transfer: Transfer, _ encoder: inout RequestEncoder, _ settings: HTTPClientSettings) {
        self.transfer = transfer
        if output.capacity > Self.keptOutputBytes { output = [] } else { output.removeAll(keepingCapacity: true) }
        sent = 0
        transfer.headBytes = encoder.encode(transfer.request, to: destination.origin, into: &output)
        parser = ResponseParser(
            isHead: transfer.request.method == .head,
            maximumBodyBytes: settings.maximumResponseBytes,
            truncatesBody: settings.truncatesResponses
        )
    }

    /// Sends a piece of the request's upload. The request may have ended when this returns.
    func send(upload piece: [UInt8]) {
        guard let transfer else { return }
        guard transfer.takeUpload(piece) else {
            return fail(.uploadFailed, "the upload could not be read, or has another length than declared")
        }
        output = piece
        sent = 0
        send()
    }

    private func ready(_ readiness: Readiness) {
        guard transfer != nil else {
            // TLS exchanges messages of its own, which are not unsolicited data.
            if !isFresh { onIdleEnd(self) }
            return
        }
        // A response may arrive before the whole request is sent.
        if readiness != .write { read() }
        if waitsToSend, readiness.contains(.write) { send() }
    }

    /// Sends as much of the remaining request as the socket accepts. The request may have ended when this returns.
    func send() {
        while sent < output.count {
            let result = output.withUnsafeBytes { handle.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
            switch result {
            case .count(let count):
                sent += count
                transfer?.recordSent(sent)
            case .again:
                // A part of it may have left already, inside a TLS record.
                if destination.origin.isSecure { transfer?.recordSent(output.count) }
                return waitToSend(true)
            case .end, .failure:
                if destination.origin.isSecure { transfer?.recordSent(output.count) }
                // A response that is already here may say why the host stopped reading.
                waitToSend(false)
                read()
                return fail(.connectionLost, "the connection was lost")
            }
        }
        waitToSend(false)
        if let transfer, transfer.uploadBytesLeft > 0 { transfer.requestUpload() }
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
                    return fail(.connectionLost, "the connection was lost")
                case .failure:
                    return fail(.connectionLost, "the connection was lost")
                }
            }
        }
    }

    /// Ends the request if its response is complete or has failed.
    private func look(hasMore: Bool) {
        guard let parser else { return }
        switch parser.state {
        case .complete:
            wasUsed = true
            // A host that responds before it has the whole request will not read the rest. Extra bytes belong to no
            // request.
            let isClean = sent == output.count && transfer?.uploadBytesLeft == 0 && !hasMore
            end(.response(parser, keepsAlive: parser.keepsConnection && isClean))
        case .failed(.tooLarge): fail(.responseTooLarge, "the response exceeds the size limit")
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
