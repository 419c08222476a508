import EventLoop
import HTTPTypes
import Net

/// A connection to one origin. It carries at most one request at a time.
final class Connection {
    /// The outcome of a request.
    enum End {
        /// - keepsAlive: Whether another request may follow.
        case response(ResponseParser.Head, body: [UInt8], keepsAlive: Bool)
        /// - receivedNothing: Whether no byte of a response was received.
        case failure(HTTPClientError.Code, String, receivedNothing: Bool)
    }

    let destination: Destination
    /// Called on the loop when the request has ended, with or without a response.
    var onEnd: (Connection, Transfer, End) -> Void = { _, _, _ in }
    /// Called on the loop when the head of a response that is streamed, or more of its body, has arrived.
    var onPart: (Transfer, ResponseParser.Head?, [UInt8]) -> Void = { _, _, _ in }
    /// Called on the loop when the connection ends while no request is in flight.
    var onIdleEnd: (Connection) -> Void = { _ in }
    /// Whether the connection has carried a response. If so, the host may close it at any time.
    private(set) var wasUsed = false
    /// The time from which on an idle connection is not used again, in the loop's milliseconds.
    var idleUntil: UInt64 = 0

    private let channel: Channel
    private let loop: EventLoop
    private var registration: Registration?
    /// The events that the loop waits for.
    private var interest = Interest.read
    private var transfer: Transfer?
    private var parser: ResponseParser?
    private var hasPassedSession = false
    /// Whether the head of the response that is streamed was passed on.
    private var hasPassedHead = false

    init(_ channel: Channel, destination: Destination, loop: EventLoop) {
        self.channel = channel
        self.destination = destination
        self.loop = loop
    }

    /// Starts to wait for the socket. Returns whether that succeeded.
    func start() -> Bool {
        registration = try? loop.register(channel.socket, interest: .read) { [self] in ready($0) }
        return registration != nil
    }

    /// Ends the connection in any state. The request in flight gets no outcome.
    func close() {
        loop.deregister(registration.take())
        transfer = nil
        (onEnd, onPart, onIdleEnd) = ({ _, _, _ in }, { _, _, _ in }, { _ in })
        channel.close()
    }

    /// The TLS session, for further connections to the host, the first time that it is asked for.
    var newSession: TLSSession? {
        guard !hasPassedSession else { return nil }
        hasPassedSession = true
        return channel.tls?.session
    }

    /// Returns whether nothing has arrived since the last response: neither the end of the connection nor unsolicited bytes.
    func checkIsFresh() -> Bool {
        var isQuiet = true
        let result = channel.read(into: loop.scratch) { _ in
            isQuiet = false
            return false
        }
        guard case .again = result, isQuiet else { return false }
        // TLS exchanges messages of its own.
        return send()
    }

    // MARK: Requests

    /// Sends a request. It may have ended when this returns.
    func send(_ transfer: Transfer, _ encoder: inout RequestEncoder, _ settings: HTTPClientSettings) {
        self.transfer = transfer
        parser = ResponseParser(
            endsAfterHead: transfer.request.method == .head,
            maximumBodyBytes: transfer.stream == nil ? settings.maximumResponseBytes : .max,
            truncatesBody: settings.truncatesResponses
        )
        hasPassedHead = false
        transfer.beginSending()
        write { transfer.headBytes = encoder.encode(transfer.request, to: destination.origin, into: &$0) }
    }

    /// Sends a piece of the request's upload. The request may have ended when this returns.
    func send(upload piece: [UInt8]) {
        guard let transfer else { return }
        guard transfer.countUpload(piece) else {
            return fail(.uploadFailed, "the upload could not be read, or has another length than declared")
        }
        write { $0 += piece }
    }

    private func write(_ body: (inout [UInt8]) -> Void) {
        guard channel.write(body) else { return fail(.connectionLost, "the connection was lost") }
        sendRequest()
    }

    private func ready(_ readiness: Readiness) {
        guard transfer != nil else {
            if !checkIsFresh() { onIdleEnd(self) }
            return
        }
        // A response may arrive before the whole request is sent.
        if readiness.concernsInput { read() }
        if transfer != nil, readiness.contains(.write) { sendRequest() }
    }

    /// Sends as much of the request as the socket accepts. The request may have ended when this returns.
    private func sendRequest() {
        guard send() else {
            // A response that is already here may say why the host stopped reading.
            read()
            return fail(.connectionLost, "the connection was lost")
        }
    }

    /// Sends as much as the socket accepts, and asks for more of an upload once all has left. Returns whether the
    /// connection is alive.
    private func send() -> Bool {
        let (taken, result) = channel.flush()
        if taken > 0, let transfer { transfer.recordSent(channel.tls == nil ? taken : nil) }
        watch(writing: !channel.isFlushed)
        if case .failed = result { return false }
        if taken > 0, channel.isFlushed, let transfer, transfer.remainingUploadBytes > 0 { transfer.requestUpload() }
        return true
    }

    private func watch(reading: Bool? = nil, writing: Bool? = nil) {
        let wanted = Interest(
            reading: reading ?? interest.contains(.read),
            writing: writing ?? interest.contains(.write)
        )
        guard wanted != interest, let registration else { return }
        interest = wanted
        loop.setInterest(wanted, of: registration)
    }

    private func read() {
        let result = channel.read(into: loop.scratch) { bytes in
            let taken = parser?.receive(bytes) ?? 0
            if transfer?.stream != nil { passOn() }
            endRequestIfComplete(hasMore: taken < bytes.count)
            return transfer?.stream?.isFull == false || transfer != nil && transfer?.stream == nil
        }
        guard transfer != nil else { return }
        switch result {
        case .again:
            // TLS exchanges messages of its own.
            if channel.tls != nil, !send() { fail(.connectionLost, "the connection was lost") }
        case .closed:
            _ = parser?.receiveEnd()
            endRequestIfComplete(hasMore: false)
            fail(.connectionLost, "the connection was lost")
        case .lost:
            fail(.connectionLost, "the connection was lost")
        }
    }

    /// Passes on what has arrived of a streamed response.
    private func passOn() {
        guard let transfer, let stream = transfer.stream, let head = parser?.head else { return }
        onPart(transfer, hasPassedHead ? nil : head, parser?.drainBody() ?? [])
        hasPassedHead = true
        watch(reading: !stream.isFull)
    }

    /// Receives more of a streamed response, which has been read.
    func resumeReading() {
        guard !interest.contains(.read) else { return }
        watch(reading: true)
        // TLS may hold bytes of which the socket knows nothing.
        if channel.hasUnread { read() }
    }

    /// Ends the request if its response is complete or has failed.
    private func endRequestIfComplete(hasMore: Bool) {
        guard let parser else { return }
        switch parser.state {
        case .complete:
            guard let head = parser.head else { return }
            wasUsed = true
            // A host that responds before it has the whole request will not read the rest. Extra bytes belong to no
            // request.
            let isClean =
                channel.isFlushed && transfer?.remainingUploadBytes == 0 && !hasMore && channel.isQuiet(loop.scratch)
            endRequest(.response(head, body: parser.body, keepsAlive: parser.keepsConnection && isClean))
        case .failed(.tooLarge): fail(.responseTooLarge, "the response exceeds the size limit")
        case .failed(.malformed(let what)): fail(.badResponse, what)
        case .head, .body, .bodyUntilEnd: break
        }
    }

    private func fail(_ code: HTTPClientError.Code, _ message: String) {
        endRequest(.failure(code, message, receivedNothing: parser?.hasBegun == false))
    }

    private func endRequest(_ end: End) {
        guard let transfer else { return }
        (self.transfer, parser) = (nil, nil)
        watch(reading: true)
        onEnd(self, transfer, end)
    }
}
