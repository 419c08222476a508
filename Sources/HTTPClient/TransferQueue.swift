internal import EventLoop

/// The requests of a client: which are under way, which wait for a connection, and when each has had its time.
///
/// Waiting is done here and not in libcurl, whose own queue has neither bound nor time-out.
final class TransferQueue: @unchecked Sendable {
    // Owned by its loop: made anywhere, and touched only there, which every method that enters from outside checks.

    typealias Outcome = Result<HTTPClientResponse, HTTPClientError>

    private let settings: HTTPClientSettings
    private let loop: EventLoop
    private let multi: MultiHandle
    private var lanes: [Origin: Lane] = [:]
    private var isShutDown = false

    init(settings: HTTPClientSettings, loop: EventLoop) throws(HTTPClientError) {
        self.settings = settings
        self.loop = loop
        multi = try MultiHandle(settings: settings, loop: loop)
        multi.onEnd = { [unowned self] transfer, outcome in finish(transfer, outcome) }
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
        let waiting = lanes.keys.flatMap { lanes[$0]?.removeWaiting() ?? [] }
        for transfer in waiting + multi.transfers {
            finish(transfer, .failure(transfer.failure(.shutDown, "the client was shut down")))
        }
        multi.close()
    }

    // MARK: Steps

    private func setTimer(_ transfer: Transfer) {
        let time = transfer.request.totalTimeout ?? settings.totalTimeout
        transfer.timer = loop.schedule(after: time) { [unowned self] in
            finish(transfer, .failure(transfer.failure(.timedOut, "not done within \(time.wholeMilliseconds) ms")))
        }
    }

    private func admit(_ transfer: Transfer, to origin: Origin) throws(HTTPClientError) {
        if lanes[origin, default: Lane()].enter(limit: max(1, settings.maximumConnections)) {
            start(transfer, origin)
        } else if let count = lanes[origin]?.waitingCount, count < settings.maximumWaitingRequests {
            transfer.state = .waiting
            lanes[origin]?.wait(transfer)
        } else {
            throw transfer.failure(.overloaded, "too many requests wait for a connection")
        }
    }

    /// Hands a request that its lane has let in to libcurl.
    private func start(_ transfer: Transfer, _ origin: Origin) {
        do throws(HTTPClientError) {
            try multi.start(transfer)
        } catch {
            finish(transfer, .failure(error))
            leave(origin)
        }
    }

    /// Gives the place of a request that is over to the next in line.
    private func leave(_ origin: Origin) {
        if let next = lanes[origin]?.leave() {
            start(next, origin)
        } else if lanes[origin]?.isEmpty == true {
            lanes[origin] = nil
        }
    }

    /// Ends a request, whatever state it is in: once.
    private func finish(_ transfer: Transfer, _ outcome: Outcome) {
        let state = transfer.state
        if case .finished = state { return }
        transfer.state = .finished
        if let timer = transfer.timer { loop.cancel(timer) }
        if case .running(let handle) = state { multi.remove(handle) }
        transfer.continuation?.resume(returning: outcome)
        transfer.continuation = nil
        if case .running = state, let origin = transfer.origin { leave(origin) }
    }
}
