internal import EventLoop

/// The requests of a client: which are under way, which wait for a connection, and when each has had its time.
///
/// Waiting is done here and not in libcurl, whose own queue has neither bound nor time-out.
final class TransferQueue: @unchecked Sendable {
    // Owned by its loop: made anywhere, and touched only there, which every method that enters from outside checks.

    typealias Outcome = Result<HTTPClientResponse, HTTPClientError>

    /// A connection that had nothing to do for longer is not used again: shorter than the idle time-out of common servers (60 s, 75 s), so that
    /// it is seldom they who hang up first.
    private static let maximumIdleMilliseconds: UInt64 = 30_000

    private let settings: HTTPClientSettings
    private let loop: EventLoop
    private let connector: Connector
    private var encoder: RequestEncoder
    /// What is under way, or waits for its connection to stand.
    private var running: [ObjectIdentifier: Transfer] = [:]
    private var hosts: [Origin: HostQueue] = [:]
    private var isShutDown = false

    init(settings: HTTPClientSettings, loop: EventLoop) throws(HTTPClientError) {
        self.settings = settings
        self.loop = loop
        encoder = RequestEncoder(userAgent: settings.userAgent)
        connector = try Connector(settings: settings, loop: loop)
        connector.onEnd = { [unowned self] connection, failure in connected(connection, failure) }
    }

    // MARK: From outside

    /// Takes a request on. The continuation is resumed once, with the response or with what went wrong.
    func begin(_ transfer: Transfer, _ continuation: CheckedContinuation<Outcome, Never>) {
        loop.preconditionOnLoop()
        guard case .new = transfer.state else {
            // The task was cancelled before it came here.
            continuation.resume(returning: .failure(transfer.failure(.canceled, "the task was cancelled")))
            return
        }
        transfer.continuation = continuation
        do throws(HTTPClientError) {
            guard !isShutDown else { throw transfer.failure(.shutDown, "the client was shut down") }
            let origin = try transfer.request.validate()
            transfer.origin = origin
            setTimer(transfer)
            try admit(transfer, to: origin)
        } catch {
            finish(transfer, .failure(error))
        }
    }

    /// Takes a request back, at once.
    func cancel(_ transfer: Transfer) {
        loop.preconditionOnLoop()
        finish(transfer, .failure(transfer.failure(.canceled, "the task was cancelled")))
    }

    /// Ends every request and closes every connection; nothing begins any more.
    func shutDown() {
        loop.preconditionOnLoop()
        guard !isShutDown else { return }
        isShutDown = true
        // The lines first, lest a request that ends lets the next one begin.
        let waiting = hosts.keys.flatMap { hosts[$0]?.removeWaiting() ?? [] }
        for transfer in waiting + Array(running.values) {
            finish(transfer, .failure(transfer.failure(.shutDown, "the client was shut down")))
        }
        connector.close()
        hosts = [:]
    }

    // MARK: Steps

    private func setTimer(_ transfer: Transfer) {
        let time = transfer.request.totalTimeout ?? settings.totalTimeout
        transfer.timer = loop.schedule(after: time) { [unowned self] in
            finish(transfer, .failure(transfer.failure(.timedOut, "not done within \(time.wholeMilliseconds) ms")))
        }
    }

    private func admit(_ transfer: Transfer, to origin: Origin) throws(HTTPClientError) {
        if hosts[origin, default: HostQueue()].enter(limit: max(1, settings.maximumConnections)) {
            start(transfer, origin)
        } else if let count = hosts[origin]?.waitingCount, count < settings.maximumWaitingRequests {
            transfer.state = .waiting
            hosts[origin]?.wait(transfer)
        } else {
            throw transfer.failure(.overloaded, "too many requests wait for a connection")
        }
    }

    /// Sends a request that its lane has let in.
    private func start(_ transfer: Transfer, _ origin: Origin) {
        while let connection = hosts[origin]?.takeIdle() {
            if send(transfer, on: connection) { return }
        }
        connect(transfer, origin)
    }

    /// Sends a request on a connection that was kept. Returns whether that is possible; the connection is closed otherwise.
    private func send(_ transfer: Transfer, on connection: Connection) -> Bool {
        let isYoung = loop.now < connection.idleSince + Self.maximumIdleMilliseconds
        // What may not be sent twice must not find out with its body that the other side has hung up.
        guard isYoung, transfer.request.isIdempotent || connection.isFresh else {
            connector.close(connection)
            return false
        }
        run(transfer, on: connection)
        return true
    }

    /// Makes a connection for a request.
    private func connect(_ transfer: Transfer, _ origin: Origin) {
        transfer.state = .waiting
        do throws(HTTPClientError) {
            let connection = try connector.open(origin)
            connection.onEnd = { [unowned self] connection, end in ended(connection, end) }
            connection.onIdleEnd = { [unowned self] connection in
                hosts[connection.origin]?.removeIdle(connection)
                connector.close(connection)
            }
            transfer.state = .running(connection)
            running[ObjectIdentifier(connection)] = transfer
        } catch {
            finish(transfer, .failure(error))
            leave(origin)
        }
    }

    private func connected(_ connection: Connection, _ failure: Connector.Failure?) {
        guard let transfer = running[ObjectIdentifier(connection)] else { return connector.close(connection) }
        if let failure {
            finish(transfer, .failure(transfer.failure(failure.code, failure.message)))
        } else {
            run(transfer, on: connection)
        }
    }

    private func run(_ transfer: Transfer, on connection: Connection) {
        transfer.state = .running(connection)
        running[ObjectIdentifier(connection)] = transfer
        // Read anew: the loop's own time may be from before a stall.
        if let latestStart = transfer.request.latestStart, EventLoop.milliseconds() >= latestStart {
            return finish(transfer, .failure(transfer.failure(.expired, "waited too long for a connection")))
        }
        connection.prepare(transfer, &encoder, maximumResponseBytes: settings.maximumResponseBytes)
        connection.send()
    }

    private func ended(_ connection: Connection, _ end: Connection.End) {
        guard let transfer = running.removeValue(forKey: ObjectIdentifier(connection)) else { return }
        switch end {
        case .response(let response, let keepsAlive):
            transfer.state = .finished
            if !keepsAlive { connector.close(connection) }
            resume(
                transfer,
                .success(HTTPClientResponse(status: response.status, head: response.head, body: response.body))
            )
            leave(connection.origin, keepsAlive ? connection : nil)
        case .failure(let code, let message, let isUnheard):
            connector.close(connection)
            // The host hung up as the request came. On a connection of its own that does not happen again.
            if connection.wasUsed, isUnheard, code == .connectionLost, transfer.mayBeSentAgain {
                connect(transfer, connection.origin)
            } else {
                finish(transfer, .failure(transfer.failure(code, message)))
            }
        }
    }

    /// Gives the place of a request that is over to the next in line, and its connection, if that is of use.
    private func leave(_ origin: Origin, _ connection: Connection? = nil) {
        let next = hosts[origin]?.leave()
        if let connection {
            connection.idleSince = loop.now
            hosts[origin]?.keep(connection)
        }
        if let next {
            start(next, origin)
        } else if hosts[origin]?.isEmpty == true {
            hosts[origin] = nil
        }
    }

    /// Ends a request without a response, whatever state it is in: once. Its connection goes with it.
    private func finish(_ transfer: Transfer, _ outcome: Outcome) {
        let state = transfer.state
        if case .finished = state { return }
        transfer.state = .finished
        if case .running(let connection) = state {
            running[ObjectIdentifier(connection)] = nil
            connector.close(connection)
        }
        resume(transfer, outcome)
        if case .running = state, let origin = transfer.origin { leave(origin) }
    }

    private func resume(_ transfer: Transfer, _ outcome: Outcome) {
        if let timer = transfer.timer { loop.cancel(timer) }
        transfer.continuation?.resume(returning: outcome)
        transfer.continuation = nil
    }
}
