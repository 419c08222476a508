internal import EventLoop

/// The requests of a client: those in flight, those that wait for a connection, and their timeouts.
///
/// Requests wait here and not in libcurl, whose queue has neither a limit nor a timeout.
final class TransferQueue: @unchecked Sendable {
    // Owned by its loop: created on any thread, used only on the loop. Every method called from outside checks that.

    typealias Outcome = Result<HTTPClientResponse, HTTPClientError>

    /// A connection that was idle for longer is not reused. Common servers have longer idle timeouts (60 s, 75 s), so
    /// they seldom close the connection first.
    private static let maximumIdleMilliseconds: UInt64 = 30_000

    private let settings: HTTPClientSettings
    private let loop: EventLoop
    private let connector: Connector
    private var encoder: RequestEncoder
    /// Requests in flight, or whose connection is being established.
    private var running: [ObjectIdentifier: Transfer] = [:]
    private var hosts: [Destination: HostQueue] = [:]
    private var isShutDown = false

    init(settings: HTTPClientSettings, loop: EventLoop) throws(HTTPClientError) {
        self.settings = settings
        self.loop = loop
        encoder = RequestEncoder(userAgent: settings.userAgent)
        connector = try Connector(settings: settings, loop: loop)
        connector.onEnd = { [unowned self] connection, failure in connected(connection, failure) }
    }

    // MARK: Calls from outside

    /// Starts a request. The continuation is resumed exactly once, with the response or an error.
    func begin(_ transfer: Transfer, _ continuation: CheckedContinuation<Outcome, Never>) {
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
                connections: transfer.request.connections
            )
            transfer.destination = destination
            setTimer(transfer)
            try admit(transfer, to: destination)
        } catch {
            finish(transfer, .failure(error))
        }
    }

    /// Ends a request at once, with the error `canceled`.
    func cancel(_ transfer: Transfer) {
        loop.preconditionOnLoop()
        finish(transfer, .failure(transfer.failure(.canceled, "the task was cancelled")))
    }

    /// Ends every request and closes every connection. No request starts afterwards.
    func shutDown() {
        loop.preconditionOnLoop()
        guard !isShutDown else { return }
        isShutDown = true
        // The queues are emptied first, so that a request that ends cannot start the next one.
        let waiting = hosts.keys.flatMap { hosts[$0]?.removeWaiting() ?? [] }
        for transfer in waiting + Array(running.values) {
            finish(transfer, .failure(transfer.failure(.shutDown, "the client was shut down")))
        }
        connector.close()
        hosts = [:]
    }

    /// Sends a piece of a request's upload.
    func upload(_ piece: [UInt8], of transfer: Transfer) {
        loop.preconditionOnLoop()
        guard case .running(let connection) = transfer.state else { return }
        connection.send(upload: piece)
    }

    // MARK: Steps

    private func setTimer(_ transfer: Transfer) {
        let time = transfer.request.totalTimeout ?? settings.totalTimeout
        transfer.timer = loop.schedule(after: time) { [unowned self] in
            finish(transfer, .failure(transfer.failure(.timedOut, "timed out after \(time.wholeMilliseconds) ms")))
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
        while let connection = hosts[destination]?.takeIdle() {
            if send(transfer, on: connection) { return }
        }
        connect(transfer, destination)
    }

    /// Sends a request on a kept-alive connection. Returns `false`, and closes the connection, if that is not possible.
    private func send(_ transfer: Transfer, on connection: Connection) -> Bool {
        let isYoung = loop.now < connection.idleSince + Self.maximumIdleMilliseconds
        // A request that must not be sent twice must not be the one to discover that the peer has closed the
        // connection.
        guard isYoung, transfer.request.isIdempotent || connection.isFresh else {
            connector.close(connection)
            return false
        }
        run(transfer, on: connection)
        return true
    }

    /// Establishes a connection for a request.
    private func connect(_ transfer: Transfer, _ destination: Destination) {
        transfer.state = .waiting
        do throws(HTTPClientError) {
            let connection = try connector.open(destination)
            connection.onEnd = { [unowned self] connection, end in ended(connection, end) }
            connection.onIdleEnd = { [unowned self] connection in
                hosts[connection.destination]?.removeIdle(connection)
                connector.close(connection)
            }
            transfer.state = .running(connection)
            running[ObjectIdentifier(connection)] = transfer
        } catch {
            finish(transfer, .failure(error))
            leave(destination)
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
        // Read the clock again: the loop's cached time may be from before a stall.
        if let latestStart = transfer.request.latestStart, EventLoop.milliseconds() >= latestStart {
            return finish(transfer, .failure(transfer.failure(.expired, "no connection became available in time")))
        }
        connection.prepare(transfer, &encoder, settings)
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
            leave(connection.destination, keepsAlive ? connection : nil)
        case .failure(let code, let message, let isUnheard):
            connector.close(connection)
            // The host closed the connection as the request was sent. On a new connection, that does not happen again.
            if connection.wasUsed, isUnheard, code == .connectionLost, transfer.mayBeSentAgain {
                connect(transfer, connection.destination)
            } else {
                finish(transfer, .failure(transfer.failure(code, message)))
            }
        }
    }

    /// Passes a finished request's place to the next waiting request, and keeps its connection if there is one to
    /// reuse.
    private func leave(_ destination: Destination, _ connection: Connection? = nil) {
        let next = hosts[destination]?.leave()
        if let connection {
            connection.idleSince = loop.now
            hosts[destination]?.keep(connection)
        }
        if let next {
            start(next, destination)
        } else if hosts[destination]?.isEmpty == true {
            hosts[destination] = nil
        }
    }

    /// Ends a request without a response, once, in any state. Its connection is closed.
    private func finish(_ transfer: Transfer, _ outcome: Outcome) {
        let state = transfer.state
        if case .finished = state { return }
        transfer.state = .finished
        if case .running(let connection) = state {
            running[ObjectIdentifier(connection)] = nil
            connector.close(connection)
        }
        resume(transfer, outcome)
        if case .running = state, let destination = transfer.destination { leave(destination) }
    }

    private func resume(_ transfer: Transfer, _ outcome: Outcome) {
        if let timer = transfer.timer { loop.cancel(timer) }
        transfer.continuation?.resume(returning: outcome)
        transfer.continuation = nil
        transfer.endUpload()
    }
}
