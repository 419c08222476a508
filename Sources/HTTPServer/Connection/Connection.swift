internal import CLinux
internal import EventLoop
internal import Glibc
internal import HTTPTypes

/// One connection: moves bytes between its socket and its ``ConnectionState``, and requests between that and their handlers.
///
/// What is decided is decided by the state; here is only what has to touch the socket, the loop or a task.
final class Connection: @unchecked Sendable {
    // Confined to `server.loop`: every entry is an event, a timer or a hook of that loop, or a task that prefers it, and checks so.

    /// How a connection ends once everything is written.
    private enum Farewell {
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
    private static let outputLimit = 256 * 1024

    private let server: LoopServer
    private let descriptor: FileDescriptor
    private let remoteAddress: SocketAddress
    private var tls: TLSEngine?
    private var registration: Registration?
    private var state: ConnectionState

    /// What has come and is not taken yet: mostly nothing, as whole requests are read from the loop's scratch.
    private var input: [UInt8] = []
    /// What is to be written, from `outputStart`. Ciphertext, when there is TLS.
    private var output: [UInt8] = []
    private var outputStart = 0
    private var request: Request?
    private var handler: Handler?
    private var peerHasClosed = false
    /// The socket has not taken everything: the rest is written when there is room.
    private var isBlocked = false
    private var farewell: Farewell?
    private var isOpen = true

    private var timer: TimerID?
    /// When the timer is set to fire, in the loop's milliseconds.
    private var timerDeadline = UInt64.max
    /// When what the connection waits for must have come. Moved on often, the timer seldom.
    private var deadline = UInt64.max
    private var waiting: Waiting?

    init(server: LoopServer, descriptor: consuming FileDescriptor, remoteAddress: SocketAddress) throws {
        self.server = server
        self.descriptor = descriptor
        self.remoteAddress = remoteAddress
        tls = try server.settings.tls.map { try TLSEngine($0) }
        state = ConnectionState(
            limits: server.settings.headLimits,
            maximumBodyBytes: server.settings.maximumBodyBytes
        )
    }

    /// Begins to wait for the first request.
    ///
    /// - Throws: ``SystemError`` when the loop cannot take the socket.
    func start() throws {
        registration = try server.loop.register(descriptor.rawValue, interest: .read) { [weak self] readiness in
            self?.ready(readiness)
        }
        // A client that has just connected owes us a request: it gets the time for a head, not the time between two requests.
        setDeadline(server.settings.headerTimeout, for: .state(.nextRequest))
    }

    // MARK: Events

    private func ready(_ readiness: Readiness) {
        if readiness.contains(.write) { flush() }
        guard isOpen, !readiness.isDisjoint(with: [.read, .error, .hangUp]) else { return }
        readSocket()
    }

    private func readSocket() {
        let scratch = server.loop.scratch
        let count = recv(descriptor.rawValue, scratch.baseAddress, scratch.count, 0)
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
            settle()
            return
        }
        tls.receive(bytes)
        // The ciphertext is inside the engine now, so that the scratch can take the plaintext.
        let scratch = server.loop.scratch
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
                settle()
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
            if taken < bytes.count, isOpen { input.append(contentsOf: bytes[taken...]) }
        } else {
            input.append(contentsOf: bytes)
            processInput()
        }
        settle()
    }

    private func receiveEnd() {
        peerHasClosed = true
        if farewell != nil, !hasOutput { close() }
        settle()
    }

    private func processInput() {
        guard !input.isEmpty else { return }
        // Moved out while it is read, so that nothing below can change it under the reader.
        var pending: [UInt8] = []
        swap(&pending, &input)
        let taken = pending.withUnsafeBytes { process($0) }
        if taken < pending.count {
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
            let (count, action) = state.read(rest) { run in request?.body.append(contentsOf: run) }
            taken += count
            if case .needsInput = action {
                // An answer given without suspending leaves more to read; a handler under way does not.
                guard count > 0, state.readsInput, taken < bytes.count else { break }
            }
            perform(action)
        }
        return taken
    }

    private func perform(_ action: ConnectionState.Action) {
        switch action {
        case .needsInput: break
        case .decide(let head): decide(head)
        case .handle: handle()
        case .refuse(let error): refuse(error)
        case .linger: end(.linger)
        case .close: end(.close)
        }
    }

    // MARK: Requests

    private func decide(_ head: RequestHead) {
        var request = Request(
            loop: server.loop,
            head: head,
            remoteAddress: remoteAddress,
            isSecure: tls != nil,
            startedAt: server.loop.now
        )
        let decision = server.application.decide(&request)
        self.request = request
        switch decision {
        case .respond(let response):
            respond(response)
        case .abort:
            close()
        case .handle(let handler):
            self.handler = handler
            do {
                if try state.readBody() { write(ResponseEncoder.continueResponse) }
            } catch {
                refuse(error)
            }
        }
    }

    private func handle() {
        guard let request, let handler else { return }
        self.handler = nil
        switch handler {
        case .immediate(let answer):
            do {
                respond(try answer(request))
            } catch is ConnectionAbort {
                close()
            } catch {
                respond(server.application.response(to: error, of: request))
            }
        case .task(let answer):
            let application = server.application
            // Weakly: when the peer goes, its descriptor goes, however long the handler still takes.
            Task(executorPreference: server.loop) { [weak self] in
                let response: Response?
                do {
                    response = try await answer(request)
                } catch is ConnectionAbort {
                    response = nil
                } catch {
                    response = application.response(to: error, of: request)
                }
                self?.resume(with: response)
            }
        }
    }

    /// A handler's task has an answer.
    private func resume(with response: Response?) {
        server.loop.preconditionOnLoop()
        guard isOpen else { return }
        guard let response else {
            close()
            return
        }
        respond(response)
        processInput()
        settle()
    }

    private func refuse(_ error: ProtocolError) {
        var refusal = Refusal(error: error, remoteAddress: remoteAddress, response: Problem(error).response)
        if request == nil { server.application.finish(&refusal) }
        respond(refusal.response)
    }

    private func respond(_ response: Response) {
        guard isOpen, farewell == nil else { return }
        var response = response
        var omitsBody = false
        var isHTTP10 = false
        if let request {
            server.application.finish(&response, to: request)
            omitsBody = request.method == .head
            isHTTP10 = request.head.isHTTP10
        }
        let closes = state.closesAfterAnswer
        let ending = ResponseEncoder.Ending(omitsBody: omitsBody, closes: closes, saysKeepAlive: isHTTP10 && !closes)
        request = nil
        // The next wait begins with this answer, be it for the same as the last one.
        if !isBlocked { waiting = nil }
        if tls == nil {
            server.encoder.encode(response, ending: ending, unixSeconds: server.unixSeconds, into: &output)
            server.needsFlush(self)
        } else {
            var bytes: [UInt8] = []
            server.encoder.encode(response, ending: ending, unixSeconds: server.unixSeconds, into: &bytes)
            write(bytes)
        }
        perform(state.answered())
    }

    // MARK: Output

    private func write(_ bytes: [UInt8]) {
        if let tls {
            guard bytes.withUnsafeBytes({ tls.write($0) }) else {
                close()
                return
            }
            drainTLS()
        } else {
            output.append(contentsOf: bytes)
            server.needsFlush(self)
        }
    }

    private func drainTLS() {
        guard let tls else { return }
        tls.drain(into: &output)
        if outputStart < output.count { server.needsFlush(self) }
    }

    /// Writes what is to be written, as far as the socket takes it. Called once at the end of a tick, and when there is room again.
    func flush() {
        guard isOpen else { return }
        while outputStart < output.count {
            let count = output.withUnsafeBytes {
                send(
                    descriptor.rawValue,
                    $0.baseAddress?.advanced(by: outputStart),
                    $0.count - outputStart,
                    Int32(MSG_NOSIGNAL)
                )
            }
            if count < 0 {
                guard errno != EINTR else { continue }
                guard errno == EAGAIN else {
                    close()
                    return
                }
                isBlocked = true
                settle()
                return
            }
            outputStart += count
            // A peer that takes some of it gets time for the rest.
            if waiting == .room { waiting = nil }
        }
        output.removeAll(keepingCapacity: output.capacity <= 16 * 1024 && !input.isEmpty)
        outputStart = 0
        isBlocked = false
        if farewell == nil {
            processInput()
            // What that has answered leaves in the next tick, so that one connection does not keep the loop to itself.
            isBlocked = hasOutput
        } else {
            finish()
        }
        settle()
    }

    private var hasOutput: Bool { outputStart < output.count }

    /// The peer takes its answers too slowly to be asked what else it wants.
    private var isHeldBack: Bool { isBlocked || output.count - outputStart > Self.outputLimit }

    // MARK: Time

    /// Brings what the loop waits for, and for how long, in line with the state.
    private func settle() {
        // Every request that came before the peer shut its side has been answered.
        if peerHasClosed, state.readsInput, !isHeldBack { perform(state.peerClosed()) }
        guard isOpen, let registration else { return }
        var interest: Interest = []
        let wantsInput = farewell != nil || state.readsInput && !isHeldBack || input.count < Self.inputLimit
        if wantsInput && !peerHasClosed { interest.insert(.read) }
        if isBlocked { interest.insert(.write) }
        server.loop.setInterest(interest, of: registration)
        let settings = server.settings
        guard !isBlocked else {
            wait(for: .room, settings.bodyTimeout)
            return
        }
        switch state.wait {
        case .nextRequest: wait(for: .state(.nextRequest), settings.idleTimeout)
        case .head: wait(for: .state(.head), settings.headerTimeout)
        case .body: wait(for: .state(.body), settings.bodyTimeout)
        case .handler:
            waiting = .state(.handler)
            deadline = .max
        case .peerClose: break
        }
    }

    /// Sets the deadline, unless it is set for this already.
    private func wait(for next: Waiting, _ delay: Duration) {
        if waiting != next { setDeadline(delay, for: next) }
    }

    private func setDeadline(_ delay: Duration, for next: Waiting) {
        waiting = next
        deadline = server.loop.now + delay.wholeMilliseconds
        // A timer that fires too early finds out and is set again: cheaper than moving it with every request.
        guard timerDeadline > deadline else { return }
        if let timer { server.loop.cancel(timer) }
        arm()
    }

    private func arm() {
        timerDeadline = deadline
        let delay = Duration.milliseconds(deadline - min(deadline, server.loop.now))
        timer = server.loop.schedule(after: delay) { [weak self] in self?.timerFired() }
    }

    private func timerFired() {
        timer = nil
        timerDeadline = .max
        guard isOpen, deadline != .max else { return }
        guard server.loop.now >= deadline else {
            arm()
            return
        }
        guard !isBlocked, farewell == nil else {
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
        input.removeAll()
        tls?.close()
        drainTLS()
        if !hasOutput { finish() }
    }

    /// Everything is written.
    private func finish() {
        guard farewell == .linger, !peerHasClosed else {
            close()
            return
        }
        _ = shutdown(descriptor.rawValue, Int32(SHUT_WR))
        setDeadline(server.settings.lingerTimeout, for: .state(.peerClose))
    }

    /// Ends the connection now.
    func close() {
        guard isOpen else { return }
        isOpen = false
        if let registration { server.loop.deregister(registration) }
        registration = nil
        if let timer { server.loop.cancel(timer) }
        timer = nil
        request = nil
        handler = nil
        // The descriptor itself is closed with the last reference: deregistered first, closed last.
        server.closed(self)
    }
}
