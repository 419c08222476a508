import CLinux
import EventLoop
import Glibc
import Net

/// One connection. It moves bytes between its socket and its ``ConnectionState``, and requests between the state and
/// their handlers.
///
/// All protocol decisions are made by the state; this class only touches the socket, the loop and tasks. This file
/// handles bytes, timeouts and closing; `Connection+Requests.swift` handles requests.
final class Connection: @unchecked Sendable {
    // Confined to `server.loop`. Every entry is an event, timer or hook of that loop, or a task that prefers it and
    // checks so.

    /// The way a connection ends once everything is written.
    enum Farewell {
        /// Close at once.
        case close
        /// Close when the peer closes too, or after a timeout. If bytes are unread at closing, the kernel resets the
        /// connection and the response is lost (RFC 9112 §9.6).
        case linger
    }

    /// The reason for the current deadline.
    private enum Waiting: Equatable {
        case state(ConnectionState.Wait)
        /// The peer must take the bytes that are written to it.
        case room
    }

    /// The maximum number of unread bytes held while a handler is running. Beyond it the socket is not read until the
    /// handler is done.
    private static let inputLimit = 64 * 1024
    /// The limit of response bytes waiting to be written. Beyond it no request is started, so a peer that sends
    /// requests but does not read costs no more memory than this and one response.
    private static let outputLimit = 64 * 1024

    let server: LoopServer
    let remoteAddress: SocketAddress
    /// The trusted proxies, if the peer is one of them. Their ``ForwardedField`` is believed.
    let proxies: TrustedProxies?
    /// Closed as soon as the connection ends, even if a handler still holds this object.
    private var descriptor: FileDescriptor?
    private let socket: Int32
    private(set) var tls: TLSEngine?
    private var registration: Registration?
    /// The events that the loop waits for.
    private var interest = Interest.read
    private var deadline: Deadline?
    let state: ConnectionState

    /// Received bytes that are not parsed yet. Mostly empty, because whole requests are parsed in the loop's scratch
    /// buffer.
    private var input: [UInt8] = []
    /// The bytes to send; ciphertext if the connection uses TLS.
    private(set) var output = OutputBuffer()
    private var peerHasClosed = false
    /// Whether the connection waits for its turn: ``LoopServer/letWait(_:of:)``. It reads nothing meanwhile.
    private(set) var isWaitingForTurn = false
    /// Whether the next request may begin without looking at the time.
    private var hasTurn = false
    /// Whether the client had already closed its side when the connection's turn came. It has most likely gone away.
    private(set) var clientHasLeft = false
    /// Whether the socket has no room. The rest is written when it has.
    private var isBlocked = false
    /// Whether input is being processed. Output written meanwhile is sent right after it, not at the end of the tick.
    private var isReading = false
    private(set) var farewell: Farewell?
    private(set) var isOpen = true
    /// Whether a request's check has exempted the connection from the limits.
    var isExempt = false

    private var waiting: Waiting?
    /// The time at which the deadline was last set, in the loop's milliseconds. For an idle connection, the time since
    /// which it is idle.
    private(set) var waitingSince: UInt64 = 0
    /// The number of bytes that the peer has sent or taken since the deadline was set.
    private var progress = 0

    // The current request, used by `Connection+Requests.swift`.
    var request: Request?
    var handler: Handler?
    /// The number of body bytes buffered for a non-streaming handler. Reset when the response begins.
    var bodyBytes = 0
    /// The number of bytes reserved from the server's budget for ``bodyBytes`` and ``input``.
    private var reserved = 0
    /// The buffer of a streamed body.
    var bodyBuffer: RequestBodyBuffer?
    /// The running task: a check, a handler, or the writer of a streamed response.
    var task: Task<Void, Never>?
    /// The number of responses started.
    var answers = 0
    /// Suspended writers that wait until the peer has taken more bytes.
    var waitingWriters: [Promise<Void>] = []

    var loop: EventLoop { server.loop }

    init(server: LoopServer, descriptor: consuming FileDescriptor, remoteAddress: SocketAddress) throws {
        self.server = server
        self.remoteAddress = remoteAddress
        let trusted = server.settings.trustedProxies
        proxies = trusted.contains(remoteAddress) ? trusted : nil
        socket = descriptor.rawValue
        self.descriptor = consume descriptor
        tls = try server.settings.tls.map { try TLSEngine($0) }
        state = ConnectionState(limits: server.settings.headLimits)
    }

    /// Starts to wait for the first request. From here on the loop retains the connection, until ``close()``.
    ///
    /// - Throws: ``SystemError`` if the loop cannot register the socket.
    func start() throws {
        registration = try loop.register(socket, interest: interest) { readiness in self.ready(readiness) }
        deadline = Deadline(loop: loop) { self.deadlinePassed() }
        // A new connection must send its first head within the header timeout, not within the longer idle timeout.
        setDeadline(server.timeouts.header, for: .state(.nextRequest))
    }

    // MARK: Input

    private func ready(_ readiness: Readiness) {
        if readiness.contains(.write) { flush() }
        guard isOpen, readiness.concernsInput else { return }
        guard !isWaitingForTurn else {
            // Reset by the peer, who gets no response.
            if readiness.contains(.error) || readiness.contains(.hangUp) { close() }
            return
        }
        // Kakao's connections do not wait, and a proxy's carry the requests of many clients.
        if loop.hasTime || isExempt || proxies != nil || farewell != nil {
            read { readSocket() }
        } else {
            waitForTurn(of: remoteAddress.network)
            settle()
        }
    }

    /// Reads or parses input by calling `body`, then sends the responses: now, not after the loop has handled all other ready
    /// connections.
    private func read(_ body: () -> Void) {
        isReading = true
        hasTurn = true
        body()
        hasTurn = false
        isReading = false
        if isBlocked || output.isEmpty { settle() } else { flush() }
    }

    /// Waits until it is the turn of a network that this connection's next work is for.
    func waitForTurn(of network: SocketAddress.Network) {
        isWaitingForTurn = true
        server.letWait(self, of: network)
    }

    /// Goes on with what had to wait: a complete request, unless it was refused meanwhile, or unread input.
    func takeTurn() {
        isWaitingForTurn = false
        // The value of `POLLRDHUP`, which <poll.h> declares under _GNU_SOURCE only.
        var socket = pollfd(fd: socket, events: Int16(EPOLLRDHUP.rawValue), revents: 0)
        clientHasLeft = !isExempt && poll(&socket, 1, 0) == 1
        read {
            if handler != nil, state.isHandling {
                callHandler()
                processInput()
            } else if input.isEmpty {
                readSocket()
            } else {
                processInput()
            }
        }
        clientHasLeft = false
    }

    private func readSocket() {
        let scratch = loop.scratch
        let count = recv(socket, scratch.baseAddress, scratch.count, 0)
        if count > 0 {
            // After the farewell, received bytes are discarded.
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
            // The error is sent in plain HTTP, because a client that speaks plain HTTP cannot read anything else.
            self.tls = nil
            refuse(.badRequest("This port speaks HTTPS: use https:// instead of http://."))
            return
        }
        tls.receive(bytes)
        // The engine holds the ciphertext now, so the scratch buffer can receive the plaintext.
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
                // The engine holds the TLS alert that gives the reason. It is still sent.
                closeWhenSent(.close)
                return
            }
        }
    }

    /// Whether the first bytes of a connection begin an HTTP method and not a TLS handshake.
    private func startsPlainHTTP(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.first.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) } ?? false
    }

    /// Handles received plaintext. It is parsed in place; only bytes that cannot be consumed yet are copied.
    private func receive(_ bytes: UnsafeRawBufferPointer) {
        if input.isEmpty {
            let taken = process(bytes)
            // Nearly always everything is consumed and there is nothing to count.
            guard taken < bytes.count || bodyBytes > BodyBudget.uncountedBytes || reserved > 0 else { return }
            if taken < bytes.count, isOpen, farewell == nil { input.append(contentsOf: bytes[taken...]) }
        } else {
            input.append(contentsOf: bytes)
            processInput()
        }
        guard !reserve() else { return }
        // The input is dropped, so nothing can be parsed after the gap.
        input = []
        if state.isDeciding {
            task?.cancel()
            task = nil
        }
        perform(state.droppedInput())
    }

    /// Adjusts the reservation in the server's budget to the bytes that this connection holds.
    ///
    /// - Returns: Whether the budget allowed it. If not, the connection must drop the bytes.
    private func reserve() -> Bool {
        let bytes = isOpen ? max(0, input.count + bodyBytes - BodyBudget.uncountedBytes) : 0
        guard bytes <= reserved || server.budget.reserve(bytes - reserved) else { return false }
        if bytes < reserved { server.budget.release(reserved - bytes) }
        reserved = bytes
        return true
    }

    private func receiveEnd() {
        peerHasClosed = true
        if farewell != nil, output.isEmpty { close() }
        // A client that closes its side while its request is being handled has most likely gone away, so the handler's
        // task is cancelled. A response that the handler still returns is sent, as are the responses to pipelined
        // requests.
        task?.cancel()
    }

    /// Parses the input that had to wait.
    func processInput() {
        guard !input.isEmpty || state.isWhole else { return }
        // Moved out while it is parsed, so that no callee can change it meanwhile.
        var pending: [UInt8] = []
        swap(&pending, &input)
        let taken = pending.withUnsafeBytes { process($0) }
        if taken < pending.count, isOpen, farewell == nil {
            pending.removeFirst(taken)
            swap(&pending, &input)
        }
    }

    /// Parses requests until the bytes are used up, a handler is running, or back pressure applies.
    ///
    /// - Returns: The number of bytes consumed.
    private func process(_ bytes: UnsafeRawBufferPointer) -> Int {
        var taken = 0
        while isOpen, !isHeldBack {
            if state.isIdle, taken < bytes.count, !mayBeginRequest() { break }
            let rest = UnsafeRawBufferPointer(rebasing: bytes[taken...])
            let (count, action) = state.read(rest) { run in receiveBody(run) }
            taken += count
            if bodyBytes > BodyBudget.uncountedBytes, !reserve() {
                perform(state.hasNoRoom())
                break
            }
            if case .needsInput = action {
                // A handler that responded without suspending leaves more to parse; a running handler does not.
                guard count > 0, state.readsInput, taken < bytes.count else { break }
            }
            perform(action)
        }
        bodyBuffer?.deliver()
        if state.wait == .body { recordProgress(taken) }
        return taken
    }

    /// Returns whether another request may begin: the first one of a turn, any while the loop has time, and any of Kakao's. Other
    /// requests wait for their turn.
    private func mayBeginRequest() -> Bool {
        guard !hasTurn else {
            hasTurn = false
            return true
        }
        guard !isExempt, !loop.hasTime else { return true }
        waitForTurn(of: remoteAddress.network)
        return false
    }

    /// Performs an action that the state has decided on.
    func perform(_ action: ConnectionState.Action) {
        switch action {
        case .needsInput: break
        case .decide(let head): decide(head)
        case .handle: handle()
        case .endBody: endBody()
        case .failBody(let error): bodyBuffer?.finish(.failure(error))
        case .refuse(let error): refuse(error)
        case .linger: closeWhenSent(.linger)
        case .close: closeWhenSent(.close)
        }
    }

    /// Whether back pressure applies: the peer or the handler consumes too slowly, or other connections come first, so
    /// nothing more is read.
    private var isHeldBack: Bool {
        isBlocked || isWaitingForTurn || output.count > Self.outputLimit || bodyBuffer?.isFull == true
    }

    // MARK: Output

    /// Appends the bytes that `body` writes to the output, through TLS if the connection uses it.
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

    /// Sends as much output as the socket accepts. Called after input was processed, at the end of a tick in which a
    /// handler responded, and when the socket has room again.
    func flush() {
        guard isOpen else { return }
        let (taken, result) = output.send(to: socket)
        if waiting == .room { recordProgress(taken) }
        switch result {
        case .failed:
            close()
            return
        case .blocked:
            isBlocked = true
        case .empty where farewell != nil:
            isBlocked = false
            closeOrLinger()
        case .empty:
            isBlocked = false
            answerWriters(.success(()))
            processInput()
            // Responses created by this are sent in the next tick, so that one connection does not monopolize the loop.
            isBlocked = !output.isEmpty
        }
        settle()
    }

    /// Whether a writer of a streamed response may continue.
    var hasRoom: Bool { !isBlocked && output.count < Self.outputLimit }

    // MARK: Time

    /// Whether the last response is fully sent and no byte of the next request has been received.
    var isIdle: Bool {
        state.isIdle && input.isEmpty && output.isEmpty && farewell == nil && !isWaitingForTurn
    }

    /// Whether the connection may be closed to make room for another.
    var isEvictable: Bool { isIdle && !isExempt && proxies == nil }

    /// Whether the kernel holds bytes of a next request, which the loop has not come to read.
    var hasUnreadInput: Bool {
        var byte: UInt8 = 0
        return recv(socket, &byte, 1, Int32(MSG_PEEK)) > 0
    }

    /// Updates the events that the loop waits for, and the deadline, to match the state.
    func settle() {
        // Every request that arrived before the peer closed its side has been answered.
        if peerHasClosed, state.readsInput, !isHeldBack { perform(state.peerClosed()) }
        guard isOpen else { return }
        if reserved > 0 { _ = reserve() }
        // TLS responds to input by itself. A peer that requests key updates without reading the responses would make
        // the output grow.
        let mayReadAhead = !state.isDeciding && !isWaitingForTurn && !(isBlocked && tls != nil)
        let wantsInput =
            farewell != nil || state.readsInput && !isHeldBack || input.count < Self.inputLimit && mayReadAhead
        watch(Interest(reading: wantsInput && !peerHasClosed, writing: isBlocked))
        guard !isBlocked else {
            wait(for: .room, server.timeouts.body)
            return
        }
        switch state.wait {
        // The next request has arrived.
        case .nextRequest where isWaitingForTurn: wait(for: .state(.head), server.timeouts.header)
        case .nextRequest: wait(for: .state(.nextRequest), server.idleTimeout)
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

    /// Restarts the wait after a response was written, even if the next wait is of the same kind.
    func restartWait() {
        if !isBlocked { waiting = nil }
    }

    /// Sets the deadline, unless it is already set for this wait.
    private func wait(for next: Waiting, _ milliseconds: UInt64) {
        if waiting != next { setDeadline(milliseconds, for: next) }
    }

    private func setDeadline(_ milliseconds: UInt64, for next: Waiting) {
        waiting = next
        waitingSince = loop.now
        progress = 0
        deadline?.set(milliseconds: milliseconds)
    }

    /// Records bytes that the peer has sent or taken. Each time they reach the minimum for one body timeout, the
    /// timeout restarts. A body may therefore have any length, but not be arbitrarily slow.
    private func recordProgress(_ count: Int) {
        progress += count
        if progress >= server.bytesForBodyTime { waiting = nil }
    }

    private func deadlinePassed() {
        guard isOpen else { return }
        guard !isBlocked, farewell == nil else {
            // Otherwise the kernel would keep offering the rest to a peer that does not take it.
            if isBlocked { reset() } else { close() }
            return
        }
        waiting = nil
        perform(state.timedOut())
        settle()
    }

    // MARK: End

    /// Makes the next response the last.
    func drain() {
        state.drain()
    }

    /// Begins a graceful shutdown, after ``drain()``: the current request is the last, or else one that has arrived and is not read yet. A
    /// client that has just connected gets ``HTTPServerSettings/shortestIdleTime`` for its first request, which is on its way.
    func shutDown() {
        let time = server.timeouts.shortestIdle
        if answers == 0, state.isIdle, loop.now < waitingSince + time {
            setDeadline(time, for: .state(.nextRequest))
            return
        }
        perform(state.shutDown(hasArrived: !input.isEmpty || isWaitingForTurn || hasUnreadInput))
        settle()
    }

    /// Sends the remaining output, then closes as `farewell` says. No further request is accepted.
    private func closeWhenSent(_ farewell: Farewell) {
        guard isOpen, self.farewell == nil else { return }
        self.farewell = farewell
        input = []
        tls?.close()
        drainTLS()
        if output.isEmpty { closeOrLinger() }
    }

    /// Closes the connection, or its sending side, after all output is sent.
    private func closeOrLinger() {
        guard farewell == .linger, !peerHasClosed else {
            close()
            return
        }
        _ = shutdown(socket, Int32(SHUT_WR))
        setDeadline(server.timeouts.linger, for: .state(.peerClose))
    }

    /// Closes the connection now, so that the kernel discards what the peer has not taken, and the peer sees that it was cut off.
    func reset() {
        descriptor?.resetOnClose()
        close()
    }

    /// Closes the connection now and cancels the work on its request.
    func close() {
        guard isOpen else { return }
        isOpen = false
        _ = reserve()
        loop.deregister(registration.take())
        deadline?.cancel()
        deadline = nil
        // Deregister before closing: the kernel silently drops a closed descriptor from epoll and may reuse its number.
        descriptor = nil
        // The queue of those that wait may hold this object for longer.
        input = []
        tls = nil
        abandonRequest()
        server.closed(self)
    }
}
