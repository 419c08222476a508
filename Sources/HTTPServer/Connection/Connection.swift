internal import CLinux
internal import EventLoop
internal import Glibc
internal import HTTPTypes

/// One connection: moves bytes between its socket and its ``ConnectionState``, and requests between that and their handlers.
///
/// What is decided is decided by the state; here is only what has to touch the socket, the loop or a task.
final class Connection: @unchecked Sendable {
    // Confined to `server.loop`: every entry is an event, a timer or a hook of that loop, or a task that prefers it, and checks so.

    /// Bytes that wait unread while a handler has the connection; beyond it the socket is not read until the handler is done.
    private static let inputLimit = 64 * 1024
    /// Time for the peer to take the last answer and close, once our side is shut.
    private static let lingerTime: UInt64 = 2000

    private let server: LoopServer
    private let descriptor: FileDescriptor
    private let remoteAddress: SocketAddress
    private let tls: TLSEngine?
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
    private var isLingering = false
    private var isOpen = true

    private var timer: TimerID?
    /// When the timer is set to fire, in the loop's milliseconds.
    private var timerDeadline = UInt64.max
    /// When what the connection waits for must have come. Moved on often, the timer seldom.
    private var deadline = UInt64.max
    private var deadlineWait: ConnectionState.Wait?

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
        setDeadline(server.settings.headerTimeout, for: .nextRequest)
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
        guard tls.isEstablished || bytes.first == 0x16 || bytes.first != nil && !isPlainHTTP(bytes) else {
            refusePlainHTTP()
            return
        }
        tls.receive(bytes)
        // The ciphertext is inside the engine now, so that the scratch can take the plaintext.
        let scratch = server.loop.scratch
        while isOpen {
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
                // The alert that says why is in the engine: it gets one chance to leave.
                drainTLS()
                flush()
                close()
                return
            }
        }
    }

    private func isPlainHTTP(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.first.map { $0 >= 0x41 && $0 <= 0x5A } ?? false
    }

    /// Somebody speaks plain HTTP to the TLS port: told so in plain HTTP, as nothing else would reach them.
    private func refusePlainHTTP() {
        let text = "This port speaks HTTPS: use https:// instead of http://.\n"
        var response = Response.text(text, status: .badRequest)
        response.headerFields[.connection] = nil
        let ending = ResponseEncoder.Ending(omitsBody: false, closes: true, saysKeepAlive: false)
        server.encoder.encode(response, ending: ending, unixSeconds: server.unixSeconds, into: &output)
        flush()
        linger()
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

    /// Reads requests until the bytes are used up or a handler has the connection.
    ///
    /// - Returns: The bytes that were taken.
    private func process(_ bytes: UnsafeRawBufferPointer) -> Int {
        var taken = 0
        while isOpen {
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
        case .linger: linger()
        // What has been answered is written first, if the peer still takes it.
        case .close: if hasOutput { linger() } else { close() }
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
            Task(executorPreference: server.loop) {
                let response: Response?
                do {
                    response = try await answer(request)
                } catch is ConnectionAbort {
                    response = nil
                } catch {
                    response = application.response(to: error, of: request)
                }
                self.resume(with: response)
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
        respond(Problem(error).response)
    }

    private func respond(_ response: Response) {
        guard isOpen else { return }
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
                setDeadline(server.settings.bodyTimeout, for: .peerClose)
                settle()
                return
            }
            outputStart += count
        }
        output.removeAll(keepingCapacity: output.capacity <= 16 * 1024 && !input.isEmpty)
        outputStart = 0
        if isLingering { shutdownWrite() }
        settle()
    }

    private var hasOutput: Bool { outputStart < output.count }

    // MARK: Time

    /// Brings what the loop waits for, and for how long, in line with the state.
    private func settle() {
        // Every request that came before the peer shut its side has been answered.
        if peerHasClosed, state.readsInput, !isLingering { perform(state.peerClosed()) }
        guard isOpen, let registration else { return }
        var interest: Interest = []
        if !peerHasClosed && (state.readsInput && !hasOutput || input.count < Self.inputLimit) {
            interest.insert(.read)
        }
        if hasOutput { interest.insert(.write) }
        server.loop.setInterest(interest, of: registration)
        guard !hasOutput else { return }
        let settings = server.settings
        switch state.wait {
        case .nextRequest: if deadlineWait != .nextRequest { setDeadline(settings.idleTimeout, for: .nextRequest) }
        case .head: if deadlineWait != .head { setDeadline(settings.headerTimeout, for: .head) }
        case .body: if deadlineWait != .body { setDeadline(settings.bodyTimeout, for: .body) }
        case .handler:
            deadlineWait = .handler
            deadline = .max
        case .peerClose: break
        }
    }

    private func setDeadline(_ delay: Duration, for wait: ConnectionState.Wait) {
        setDeadline(milliseconds: delay.wholeMilliseconds, for: wait)
    }

    private func setDeadline(milliseconds: UInt64, for wait: ConnectionState.Wait) {
        deadlineWait = wait
        deadline = server.loop.now + milliseconds
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
        // A peer that does not take what is written to it has had its time as well.
        guard !hasOutput, !isLingering else {
            close()
            return
        }
        deadlineWait = nil
        perform(state.timedOut())
        settle()
    }

    // MARK: End

    /// The server shuts down: the request in hand is the last.
    func shutDown() {
        perform(state.shutDown())
        settle()
    }

    /// Shuts our side once everything is written, and gives the peer a moment to read it: closing at once with bytes unread would
    /// have the kernel reset the connection and the answer lost (RFC 9112 §9.6).
    private func linger() {
        guard isOpen, !isLingering else { return }
        isLingering = true
        input.removeAll()
        tls?.close()
        drainTLS()
        if !hasOutput { shutdownWrite() }
    }

    private func shutdownWrite() {
        guard !peerHasClosed else {
            close()
            return
        }
        _ = shutdown(descriptor.rawValue, Int32(SHUT_WR))
        setDeadline(milliseconds: Self.lingerTime, for: .peerClose)
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
        // The descriptor itself is closed with the last reference: deregistered first, closed last.
        server.closed(self)
    }
}
