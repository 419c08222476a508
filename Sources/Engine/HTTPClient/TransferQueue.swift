import EventLoop
import Net

/// The requests of a client: those in flight, those that wait for a connection, and their timeouts.
final class TransferQueue: @unchecked Sendable {
    // Owned by its loop: created on any thread, used only on the loop. Every method called from outside checks that.

    typealias Outcome = Result<HTTPClientResponse, HTTPClientError>

    /// A connection that is idle for longer is closed. Common servers have longer idle timeouts (60 s, 75 s), so they
    /// seldom close the connection first.
    private static let maximumIdleMilliseconds: UInt64 = 30_000

    private let settings: HTTPClientSettings
    private let loop: EventLoop
    private let sessions: TLSSessions
    private var encoder: RequestEncoder
    /// Requests in flight, or whose connection is being established.
    private var running: [ObjectIdentifier: Transfer] = [:]
    private var hosts: [Destination: HostQueue] = [:]
    private var isShutDown = false
    /// Closes idle connections, the first of them at `idleTime`.
    private var idleTimer: TimerID?
    private var idleTime = UInt64.max

    init(settings: HTTPClientSettings, loop: EventLoop) {
        self.settings = settings
        self.loop = loop
        encoder = RequestEncoder(userAgent: settings.userAgent)
        sessions = TLSSessions(trusting: settings.trust)
    }

    // MARK: Calls from outside

    /// Starts a request. The continuation is resumed exactly once, with the response or an error.
    func submit(_ transfer: Transfer, _ continuation: CheckedContinuation<Outcome, Never>) {
        loop.preconditionOnLoop()
        guard case .new = transfer.state else {
            // The task was cancelled before it got here.
            continuation.resume(returning: .failure(transfer.failure(.canceled, "the task was cancelled")))
            return
        }
        transfer.continuation = continuation
        do throws(HTTPClientError) {
            guard !isShutDown else { throw transfer.failure(.shutDown, "the client was shut down") }
            let destination = Destination(
                origin: try transfer.request.validate(),
                connections: transfer.request.connections,
                avoidsProxy: transfer.request.avoidsProxy
            )
            transfer.destination = destination
            setTimer(transfer)
            try admit(transfer, to: destination)
        } catch {
            fail(transfer, error)
        }
    }

    /// Ends a request at once, with the error `canceled`.
    func cancel(_ transfer: Transfer) {
        loop.preconditionOnLoop()
        fail(transfer, transfer.failure(.canceled, "the task was cancelled"))
    }

    /// Ends every request and closes every connection. No request starts afterwards.
    func shutDown() {
        loop.preconditionOnLoop()
        guard !isShutDown else { return }
        isShutDown = true
        // The queues are emptied first, so that a request that ends cannot start the next one.
        let waiting = hosts.keys.flatMap { hosts[$0]?.removeWaiting() ?? [] }
        for transfer in waiting + Array(running.values) {
            fail(transfer, transfer.failure(.shutDown, "the client was shut down"))
        }
        for host in hosts.values { for connection in host.idle { connection.close() } }
        hosts = [:]
        loop.cancel(idleTimer.take())
    }

    /// Sends a piece of a request's upload.
    func upload(_ piece: [UInt8], of transfer: Transfer) {
        loop.preconditionOnLoop()
        guard case .running(let connection) = transfer.state else { return }
        connection.send(upload: piece)
    }

    /// Passes the next part of a streamed response to its reader.
    func read(_ transfer: Transfer, _ reader: StreamBuffer.Reader) {
        loop.preconditionOnLoop()
        transfer.stream?.read(reader)
        guard case .running(let connection) = transfer.state else { return }
        if transfer.timer == nil { setTimer(transfer) }
        connection.resumeReading()
    }

    // MARK: Steps

    private func setTimer(_ transfer: Transfer) {
        let time = transfer.request.totalTimeout ?? settings.totalTimeout
        transfer.timer = loop.schedule(after: time) { [self] in
            fail(transfer, transfer.failure(.timedOut, "timed out after \(time.wholeMilliseconds) ms"))
        }
    }

    private func admit(_ transfer: Transfer, to destination: Destination) throws(HTTPClientError) {
        let limit = settings.connectionLimits[destination.connections] ?? settings.maximumConnections
        if hosts[destination, default: HostQueue()].enter(limit: max(1, limit)) {
            start(transfer, destination)
        } else if let count = hosts[destination]?.waitingCount, count < settings.maximumWaitingRequests {
            transfer.state = .waiting
            hosts[destination]?.wait(transfer)
        } else {
            throw transfer.failure(.overloaded, "too many requests are waiting for a connection")
        }
    }

    /// Sends a request that its queue has admitted.
    private func start(_ transfer: Transfer, _ destination: Destination) {
        guard !isExpired(transfer) else {
            fail(transfer, expiry(of: transfer))
            return leave(destination)
        }
        while let connection = hosts[destination]?.idle.popLast() {
            if send(transfer, on: connection) { return }
        }
        connect(transfer, destination)
    }

    private func isExpired(_ transfer: Transfer) -> Bool {
        guard let latestStart = transfer.request.latestStart else { return false }
        // Read the clock again: the loop's cached time may be from before a stall.
        return EventLoop.milliseconds() >= latestStart
    }

    private func expiry(of transfer: Transfer) -> HTTPClientError {
        transfer.failure(.expired, "no connection became available in time")
    }

    /// Sends a request on a kept-alive connection. Returns `false`, and closes the connection, if that is not possible.
    private func send(_ transfer: Transfer, on connection: Connection) -> Bool {
        // Otherwise a request that must not be sent twice could be lost on a connection that the peer has closed, and any
        // request could take an earlier message of the peer, such as a 408, for its response.
        guard loop.now < connection.idleUntil, connection.checkIsFresh() else {
            connection.close()
            return false
        }
        run(transfer, on: connection)
        return true
    }

    /// Establishes a connection for a request.
    private func connect(_ transfer: Transfer, _ destination: Destination) {
        var settings = settings
        if destination.avoidsProxy { settings.proxy = nil }
        let connector = Connector(to: destination.origin, settings: settings, sessions: sessions, loop: loop) {
            [self] result in
            connected(transfer, destination, result)
        }
        transfer.state = .connecting(connector)
        running[ObjectIdentifier(transfer)] = transfer
        connector.start()
    }

    private func connected(
        _ transfer: Transfer,
        _ destination: Destination,
        _ result: Result<Channel, Connector.Failure>
    ) {
        switch result {
        case .failure(let failure):
            fail(transfer, transfer.failure(failure.code, failure.message))
        case .success(let channel):
            let connection = Connection(channel, destination: destination, loop: loop)
            guard connection.start() else {
                connection.close()
                return fail(transfer, transfer.failure(.internalFailure, "the loop has no memory"))
            }
            connection.onEnd = { [self] in ended($0, $1, $2) }
            connection.onPart = { [self] in received($0, $1, $2) }
            connection.onIdleEnd = { [self] connection in
                hosts[connection.destination]?.idle.removeAll { $0 === connection }
                connection.close()
                removeHostIfEmpty(connection.destination)
            }
            run(transfer, on: connection)
        }
    }

    private func run(_ transfer: Transfer, on connection: Connection) {
        transfer.state = .running(connection)
        running[ObjectIdentifier(transfer)] = transfer
        guard !isExpired(transfer) else { return fail(transfer, expiry(of: transfer)) }
        connection.send(transfer, &encoder, settings)
    }

    /// Passes on the head of a streamed response, or a part of its body. The time limit restarts.
    private func received(_ transfer: Transfer, _ head: ResponseParser.Head?, _ part: [UInt8]) {
        loop.cancel(transfer.timer.take())
        if let head {
            transfer.continuation?.resume(returning: .success(HTTPClientResponse(head: head, body: [])))
            transfer.continuation = nil
        }
        transfer.stream?.append(part)
        // While nothing more is received, it is the reader who makes the host wait.
        if transfer.stream?.isFull == false { setTimer(transfer) }
    }

    private func ended(_ connection: Connection, _ transfer: Transfer, _ end: Connection.End) {
        switch end {
        case .response(let head, let body, let keepsAlive):
            running[ObjectIdentifier(transfer)] = nil
            transfer.state = .finished
            let idleTime = Self.idleMilliseconds(head)
            let isKept = keepsAlive && idleTime > 0
            if connection.destination.origin.isSecure, let session = connection.newSession {
                sessions[connection.destination.origin] = session
            }
            if isKept { connection.idleUntil = loop.now + idleTime } else { connection.close() }
            resume(transfer, .success(HTTPClientResponse(head: head, body: body)))
            leave(connection.destination, isKept ? connection : nil)
        case .failure(let code, let message, let receivedNothing):
            connection.close()
            // The host closed the connection as the request was sent. On a new connection, that does not happen again.
            if connection.wasUsed, receivedNothing, code == .connectionLost, transfer.mayBeSentAgain {
                connect(transfer, connection.destination)
            } else {
                fail(transfer, transfer.failure(code, message))
            }
        }
    }

    /// Passes a finished request's place to the next waiting request that has not expired, and keeps its connection if
    /// there is one to reuse.
    private func leave(_ destination: Destination, _ connection: Connection? = nil) {
        if let connection { addIdle(connection) }
        while let next = hosts[destination]?.leave() {
            guard isExpired(next) else { return start(next, destination) }
            fail(next, expiry(of: next))
        }
        removeHostIfEmpty(destination)
    }

    private func removeHostIfEmpty(_ destination: Destination) {
        if hosts[destination]?.isEmpty == true { hosts[destination] = nil }
    }

    /// Fails a request without a response, once, in any state. Its connection is closed.
    private func fail(_ transfer: Transfer, _ error: HTTPClientError) {
        let state = transfer.state
        if case .finished = state { return }
        transfer.state = .finished
        running[ObjectIdentifier(transfer)] = nil
        resume(transfer, .failure(error))
        switch state {
        case .connecting(let connector): connector.cancel()
        case .running(let connection): connection.close()
        case .new, .waiting, .finished: return
        }
        if let destination = transfer.destination { leave(destination) }
    }

    private func resume(_ transfer: Transfer, _ outcome: Outcome) {
        loop.cancel(transfer.timer)
        transfer.continuation?.resume(returning: outcome)
        transfer.continuation = nil
        transfer.stream?.finish(outcome.map { _ in })
        transfer.endUpload()
    }

    // MARK: Idle connections

    /// Returns the time for which a connection may be idle after a response, in milliseconds.
    private static func idleMilliseconds(_ head: ResponseParser.Head) -> UInt64 {
        // A second less than the host says, so that a request does not meet the end of the connection on its way.
        guard let seconds = head.keepAliveTimeout else { return maximumIdleMilliseconds }
        return min(maximumIdleMilliseconds, UInt64(max(0, min(seconds, 3600) - 1)) * 1000)
    }

    private func addIdle(_ connection: Connection) {
        hosts[connection.destination]?.idle.append(connection)
        closeIdle(at: connection.idleUntil)
    }

    private func closeIdle(at time: UInt64) {
        guard time < idleTime else { return }
        loop.cancel(idleTimer.take())
        idleTime = time
        idleTimer = loop.schedule(after: .milliseconds(time - min(time, loop.now))) { [self] in closeIdle() }
    }

    /// Closes the connections that have been idle for too long, before their hosts do.
    private func closeIdle() {
        (idleTimer, idleTime) = (nil, .max)
        var next = UInt64.max
        for destination in Array(hosts.keys) {
            for connection in hosts[destination]?.removeIdle(at: loop.now) ?? [] { connection.close() }
            for connection in hosts[destination]?.idle ?? [] { next = min(next, connection.idleUntil) }
            removeHostIfEmpty(destination)
        }
        closeIdle(at: next)
    }
}
