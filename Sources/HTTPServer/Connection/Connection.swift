internal import CLinux
internal import EventLoop
internal import Glibc

/// One connection: moves bytes between its socket and its ``ConnectionState``, and requests between that and their handlers.
///
/// What is decided is decided by the state; here is only what has to touch the socket, the loop or a task. This file has the bytes,
/// the time and the end; `Connection+Requests.swift` has the requests.
final class Connection: @unchecked Sendable {
    // Confined to `server.loop`: every entry is an event, a timer or a hook of that loop, or a task that prefers it, and checks so.

    /// How a connection ends once everything is written.
    enum Farewell {
        /// At once.
        case close
        /// When the peer closes too, or its time for that is over: closing with bytes unread would have the kernel reset the
        /// connection, and the answer lost (RFC 9112 §9.6).
        case linger
    }

    /// What the deadline is for.
    private enum Waiting: Equatable {
        case state(ConnectionState.Wait)
        /// The peer is to take what is written to it.
        case room
    }

    /// Bytes that wait unread while a handler has the connection; beyond it the socket is not read until the handler is done.
    private static let inputLimit = 64 * 1024
    /// Answers that wait to be written; beyond it no request is taken up, so that a peer that asks and does not read costs no
    /// more memory than this and one answer.
    private static let outputLimit = 64 * 1024

    let server: LoopServer
    let remoteAddress: SocketAddress
    /// Who is trusted to say where requests come from, if that is who is at the other end.
    let proxies: TrustedProxies?
    /// Closed as soon as the connection ends, however long its handler still holds on to this object.
    private var descriptor: FileDescriptor?
    private let socket: Int32
    private(set) var tls: TLSEngine?
    private var registration: Registration?
    /// What the loop waits for.
    private var interest = Interest.read
    private var deadline: Deadline?
    let state: ConnectionState

    /// What has come and is not taken yet: mostly nothing, as whole requests are read from the loop's scratch.
    private var input: [UInt8] = []
    /// Ciphertext, when there is TLS.
    private(set) var output = OutputBuffer()
    private var peerHasClosed = false
    /// The socket has not taken everything: the rest is written when there is room.
    private var isBlocked = false
    /// What is written meanwhile leaves when the bytes in hand have been read, not at the end of the tick.
    private var isReading = false
    private(set) var farewell: Farewell?
    private(set) var isOpen = true

    private var waiting: Waiting?
    /// When the deadline was last set, in the loop's milliseconds: of an idle connection since when it is.
    private(set) var waitingSince: UInt64 = 0
    /// Bytes that the peer has sent or taken since the deadline was set.
    private var progress = 0

    // The request in hand, for `Connection+Requests.swift`.
    var request: Request?
    var handler: Handler?
    /// Bytes of the request's body, if that is read before its handler is called, until the answer.
    var bodyBytes = 0
    /// Bytes that are taken from the server's budget, for ``bodyBytes`` and ``input``.
    private var reserved = 0
    /// What of a body lies ready for the handler that reads it as it comes.
    var bodyBuffer: RequestBodyBuffer?
    /// The handler, or what writes its answer in pieces, while it is at work.
    var task: Task<Void, Never>?
    /// How many answers were begun.
    var answers = 0
    /// Writers of pieces that wait until the peer has taken more.
    var waitingWriters: [Promise<Void>] = []

    var loop: EventLoop { server.loop }

    init(server: LoopServer, descriptor: consuming FileDescriptor, remoteAddress: SocketAddress) throws {
        self.server = server
        self.remoteAddress = remoteAddress
        let trusted = server.settings.trustedProxies
        proxies = trusted.contains(remoteAddress) ? trusted : nil
        socket = descriptor.rawValue
        self.descriptor = consume descriptor
        tls = try server.tls.map { try TLSEngine($0) }
        state = ConnectionState(limits: server.settings.headLimits)
    }

    /// Begins to wait for the first request. From here on the loop holds the connection, until ``close()``.
    ///
    /// - Throws: ``SystemError`` when the loop cannot take the socket.
    func start() throws {
        registration = try loop.register(socket, interest: interest) { readiness in self.ready(readiness) }
        deadline = Deadline(loop: loop) { self.deadlinePassed() }
        // A client that has just connected owes us a request: it gets the time for a head, not the time between two requests.
        setDeadline(server.timeouts.header, for: .state(.nextRequest))
    }

    // MARK: Input

    private func ready(_ readiness: Readiness) {
        if readiness.contains(.write) { flush() }
        guard isOpen, readiness.concernsInput else { return }
        isReading = true
        readSocket()
        isReading = false
        // What was answered leaves now, while the loop goes on to the next connection, and not when it has seen to all of them.
        if isBlocked || output.isEmpty { settle() } else { flush() }
    }

    private func readSocket() {
        let scratch = loop.scratch
        let count = recv(socket, scratch.baseAddress, scratch.count, 0)
        if count > 0 {
            // After the farewell whatever comes is read only to be rid of it.
            guard farewell == nil else { return }
            let bytes = UnsafeRawBufferPointer(rebasing: scratch[..<count])
            if let tls {
                receiveCiphertext(bytes, tls)
            } else {
                receive(bytes)
            }
        } else if count == 0 {
            receiveEnd()
        } else if errno != EAGAIN && errno != EINTR {
            close()
        }
    }

    private func receiveCiphertext(_ bytes: UnsafeRawBufferPointer, _ tls: TLSEngine) {
        guard tls.hasBegun || !startsPlainHTTP(bytes) else {
            // Told so in plain HTTP, as nothing else would reach whoever speaks it here.
            self.tls = nil
            refuse(.badRequest("This port speaks HTTPS: use https:// instead of http://."))
            return
        }
        tls.receive(bytes)
        // The ciphertext is inside the engine now, so that the scratch can take the plaintext.
        let scratch = loop.scratch
        while isOpen, farewell == nil {
            switch tls.read(into: scratch) {
            case .bytes(let count):
                receive(UnsafeRawBufferPointer(rebasing: scratch[..<count]))
            case .needsInput:
                drainTLS()
                return
            case .closed:
                receiveEnd()
                return
            case .failed:
                // The alert that says why is in the engine: it is still sent.
                end(.close)
                return
            }
        }
    }

    /// Whether the first bytes of a connection are those of a method and not of a TLS handshake.
    private func startsPlainHTTP(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.first.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) } ?? false
    }

    /// Plain bytes have come. They are read where they lie; only what cannot be taken yet is copied.
    private func receive(_ bytes: UnsafeRawBufferPointer) {
        if input.isEmpty {
            let taken = process(bytes)
            // Nearly always everything is taken, and there is nothing to be counted.
            guard taken < bytes.count || bodyBytes > BodyBudget.uncounted || reserved > 0 else { return }
            if taken < bytes.count, isOpen, farewell == nil { input.append(contentsOf: bytes[taken...]) }
        } else {
            input.append(contentsOf: bytes)
            processInput()
        }
        guard !reserve() else { return }
        // The input is dropped, so that nothing can be read behind it.
        input = []
        if state.isDeciding {
            task?.cancel()
            task = nil
        }
        perform(state.droppedInput())
    }

    /// Takes from the server's budget what this connection holds by now, or gives back what it no longer holds.
    ///
    /// - Returns: Whether there was room. If not, the connection has to drop what it holds.
    private func reserve() -> Bool {
        let bytes = isOpen ? max(0, input.count + bodyBytes - BodyBudget.uncounted) : 0
        guard bytes <= reserved || server.budget.take(bytes - reserved) else { return false }
        if bytes < reserved { server.budget.release(reserved - bytes) }
        reserved = bytes
        return true
    }

    private func receiveEnd() {
        peerHasClosed = true
        if farewell != nil, output.isEmpty { close() }
        // A client that ends its side while its request is in hand has gone away, as far as anyone can tell: what it asked for is
        // given up. What its handler answers all the same is sent, and so is what it had asked for besides.
        task?.cancel()
    }

    /// Reads what had to wait.
    func processInput() {
        guard !input.isEmpty || state.isWhole else { return }
        // Moved out while it is read, so that nothing below can change it under the reader.
        var pending: [UInt8] = []
        swap(&pending, &input)
        let taken = pending.withUnsafeBytes { process($0) }
        if taken < pending.count, isOpen, farewell == nil {
            pending.removeFirst(taken)
            swap(&pending, &input)
        }
    }

    /// Reads requests until the bytes are used up, a handler has the connection, or too many answers wait to be written.
    ///
    /// - Returns: The bytes that were taken.
    private func process(_ bytes: UnsafeRawBufferPointer) -> Int {
        var taken = 0
        while isOpen, !isHeldBack {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[taken...])
            let (count, action) = state.read(rest) { run in receiveBody(run) }
            taken += count
            if bodyBytes > BodyBudget.uncounted, !reserve() {
                perform(state.hasNoRoom())
                break
            }
            if case .needsInput = action {
                // An answer given without suspending leaves more to read; a handler under way does not.
                guard count > 0, state.readsInput, taken < bytes.count else { break }
            }
            perform(action)
        }
        bodyBuffer?.deliver()
        if state.wait == .body { note(progress: taken) }
        return taken
    }

    /// Does what the state has decided.
    func perform(_ action: ConnectionState.Action) {
        switch action {
        case .needsInput: break
        case .decide(let head): decide(head)
        case .handle: handle()
        case .endBody: endBody()
        case .failBody(let error): bodyBuffer?.fail(error)
        case .refuse(let error): refuse(error)
        case .linger: end(.linger)
        case .close: end(.close)
        }
    }

    /// The peer, or the handler, takes too slowly what it is given: nothing more is read for it.
    private var isHeldBack: Bool {
        isBlocked || output.count > Self.outputLimit || bodyBuffer?.isFull == true
    }

    // MARK: Output

    /// Appends what `body` writes to what the peer is to be sent, through TLS if that is spoken.
    func write(_ body: (inout [UInt8]) -> Void) {
        if let tls {
            var bytes: [UInt8] = []
            body(&bytes)
            guard bytes.withUnsafeBytes({ tls.write($0) }) else {
                close()
                return
            }
            drainTLS()
        } else {
            body(&output.bytes)
            flushLater()
        }
    }

    private func drainTLS() {
        guard let tls else { return }
        tls.drain(into: &output.bytes)
        if !output.isEmpty { flushLater() }
    }

    private func flushLater() {
        if !isReading { server.needsFlush(self) }
    }

    /// Writes what is to be written, as far as the socket takes it: when what came has been read, at the end of a tick in which a
    /// handler answered, and when there is room again.
    func flush() {
        guard isOpen else { return }
        let (taken, result) = output.send(to: socket)
        if waiting == .room { note(progress: taken) }
        switch result {
        case .failed:
            close()
            return
        case .blocked:
            isBlocked = true
        case .empty where farewell != nil:
            isBlocked = false
            finish()
        case .empty:
            isBlocked = false
            answerWriters(.success(()))
            processInput()
            // What that has answered leaves in the next tick, so that one connection does not keep the loop to itself.
            isBlocked = !output.isEmpty
        }
        settle()
    }

    /// Whether a writer of pieces may go on.
    var hasRoom: Bool { !isBlocked && output.count < Self.outputLimit }

    // MARK: Time

    /// Whether nothing of a next request has come, and nothing of the last answer is left.
    var isIdle: Bool { state.isIdle && input.isEmpty && output.isEmpty && farewell == nil }

    /// Brings what the loop waits for, and for how long, in line with the state.
    func settle() {
        // Every request that came before the peer shut its side has been answered.
        if peerHasClosed, state.readsInput, !isHeldBack { perform(state.peerClosed()) }
        guard isOpen else { return }
        if reserved > 0 { _ = reserve() }
        // TLS answers what it reads: a peer that requests key updates and takes none of the answers would make the output grow.
        let mayReadAhead = !state.isDeciding && !(isBlocked && tls != nil)
        let wantsInput =
            farewell != nil || state.readsInput && !isHeldBack || input.count < Self.inputLimit && mayReadAhead
        watch(Interest(reading: wantsInput && !peerHasClosed, writing: isBlocked))
        guard !isBlocked else {
            wait(for: .room, server.timeouts.body)
            return
        }
        switch state.wait {
        case .nextRequest: wait(for: .state(.nextRequest), server.timeouts.idle)
        case .head: wait(for: .state(.head), server.timeouts.header)
        case .body where !isHeldBack: wait(for: .state(.body), server.timeouts.body)
        case .handler, .body:
            waiting = .state(.handler)
            deadline?.clear()
        case .peerClose: break
        }
    }

    private func watch(_ interest: Interest) {
        guard interest != self.interest, let registration else { return }
        self.interest = interest
        loop.setInterest(interest, of: registration)
    }

    /// The next wait begins with the answer that is being written, be it for the same as the last one.
    func restartWait() {
        if !isBlocked { waiting = nil }
    }

    /// Sets the deadline, unless it is set for this already.
    private func wait(for next: Waiting, _ milliseconds: UInt64) {
        if waiting != next { setDeadline(milliseconds, for: next) }
    }

    private func setDeadline(_ milliseconds: UInt64, for next: Waiting) {
        waiting = next
        waitingSince = loop.now
        progress = 0
        deadline?.set(milliseconds: milliseconds)
    }

    /// The peer has sent or taken some of what it is waited for. Once that is what it owes for the time of a body, it gets as much
    /// time again: so a body may be of any length, but not of any slowness.
    private func note(progress count: Int) {
        progress += count
        if progress >= server.bytesForBodyTime { waiting = nil }
    }

    private func deadlinePassed() {
        guard isOpen else { return }
        guard !isBlocked, farewell == nil else {
            // Otherwise the kernel would go on offering the rest to a peer that does not take it.
            if isBlocked { descriptor?.resetOnClose() }
            close()
            return
        }
        waiting = nil
        perform(state.timedOut())
        settle()
    }

    // MARK: End

    /// The server shuts down: the request in hand is the last.
    func shutDown() {
        perform(state.shutDown())
        settle()
    }

    /// Writes what is still to be written, then closes as `farewell` says. No request is taken up any more.
    private func end(_ farewell: Farewell) {
        guard isOpen, self.farewell == nil else { return }
        self.farewell = farewell
        input = []
        tls?.close()
        drainTLS()
        if output.isEmpty { finish() }
    }

    /// Everything is written.
    private func finish() {
        guard farewell == .linger, !peerHasClosed else {
            close()
            return
        }
        _ = shutdown(socket, Int32(SHUT_WR))
        setDeadline(server.timeouts.linger, for: .state(.peerClose))
    }

    /// Ends the connection now, and with it the work on its request.
    func close() {
        guard isOpen else { return }
        isOpen = false
        _ = reserve()
        if let registration { loop.deregister(registration) }
        registration = nil
        deadline?.cancel()
        deadline = nil
        // Deregistered first, closed last: the kernel forgets a closed descriptor silently, and gives its number to another.
        descriptor = nil
        abandonRequest()
        server.closed(self)
    }
}
