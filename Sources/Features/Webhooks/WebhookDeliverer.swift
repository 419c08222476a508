import DequeModule
import EventLoop
import FoundationEssentials
import HTTPClient
import Logging
import Postgres
import Runtime
import ServiceLifecycle

/// Delivers the events of all sources to the endpoint, each source in the order of its transactions, one request at a time.
///
/// One server of those that share a database delivers, under its lease (``WorkQueue``). No transaction is open while the endpoint is
/// called. How far a source is delivered is stored after a group of events, so that after a crash some are delivered again.
actor WebhookDeliverer: Service {
    /// The number of events that are read at a time.
    private static let eventsPerPage = 200
    /// The longest time, in milliseconds, for which a position is not stored although events are delivered.
    private static let storeInterval: UInt64 = 1000
    /// The shortest time between two reads of a source, in milliseconds, so that one read finds several events.
    private static let gathering: UInt64 = 20
    /// The first wait after which a source is read again that has changed: an event can be read only when all transactions before it
    /// have ended. Doubled each time, up to ``longestPoll``; then the source is polled like one that has not changed.
    private static let firstPoll = Duration.milliseconds(50)
    private static let longestPoll = Duration.seconds(1)
    /// The number of webhooks that are retried before the next are read.
    private static let retriesPerPass = 50
    /// The time between two marks.
    private static let markInterval = Duration.seconds(600)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: WebhookStore
    private let sender: WebhookSender
    private let sources: [WebhookSource]
    private let types: WebhookTypes
    private let intervals: WebhookIntervals
    private let notices: WebhookNotices
    private let outcomes: LoopCounts<WebhookOutcome>.Own
    private let work: WorkQueue
    private let logger: Logger

    /// The endpoint as long as this server delivers to it.
    private struct Claim {
        /// The number of the claim, by which the end of a request knows whether it still counts.
        let number: Int
        let lease: UUID
        /// The run of PostgreSQL that the positions belong to.
        let run: String
        var condition: EndpointCondition
        /// The new state and error that are still to be stored; `nil` if there are none.
        var unstored: EndpointChange?
        /// How far each source is delivered.
        var positions: [String: WebhookPosition]
        /// When each source was read last, by the loop's clock in milliseconds.
        var reads: [String: UInt64] = [:]
        /// The wait until each source is read again that has changed.
        var polls: [String: Duration] = [:]
    }

    /// `nil` while another server delivers.
    private var delivery: Claim?
    private var claims = 0
    private var isStopping = false
    /// The workers that wait until they may send a request.
    private var waiting: Deque<CheckedContinuation<Bool, Never>> = []
    private var timer: TimerID?
    /// The number of workers with a step in progress.
    private var active = 0
    private var whenIdle: CheckedContinuation<Void, Never>?

    init(
        store: WebhookStore,
        sender: WebhookSender,
        sources: [WebhookSource],
        types: WebhookTypes,
        commits: LostCommits,
        intervals: WebhookIntervals,
        notices: WebhookNotices,
        outcomes: LoopCounts<WebhookOutcome>.Own,
        logger: Logger
    ) {
        loop = store.pool.loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.sender = sender
        self.sources = sources
        self.types = types
        self.intervals = intervals
        self.notices = notices
        self.outcomes = outcomes
        self.logger = logger
        work = WorkQueue(
            loop: loop,
            store: store,
            commits: commits,
            intervals: intervals.work,
            progress: WorkProgress(),
            logger: logger
        )
    }

    // MARK: Life

    /// Keeps the lease until the server shuts down and the workers have ended.
    func run() async {
        await withGracefulShutdownHandler {
            await withTaskCancellationHandler {
                await keepDelivering()
            } onCancel: {
                loop.execute { self.assumeIsolated { $0.work.stopRetryingWrites() } }
            }
        } onGracefulShutdown: {
            self.loop.execute { self.assumeIsolated { $0.stop() } }
        }
    }

    private func keepDelivering() async {
        let leasing = Task(executorPreference: loop) { await self.keepLease() }
        let signal = notices.signal(.endpoint)
        while !isStopping {
            var wait = Duration.seconds(3600)
            do {
                if delivery == nil {
                    try await claim()
                } else {
                    try await storeChange()
                    try await readStatus()
                }
            } catch {
                _ = work.recordFailedPass(error)
                wait = intervals.work.retry
            }
            guard !isStopping else { break }
            await signal.wait(atMost: wait)
        }
        if active > 0 { await withCheckedContinuation { whenIdle = $0 } }
        leasing.cancel()
        await leasing.value
        await work.releaseLease { try await release() }
        try? await store.notify(WebhookNotices.Subject.endpoint.rawValue)
        // Its connections must be closed before the loop ends.
        await sender.client.shutdown()
    }

    private func stop() {
        isStopping = true
        admitWaiting()
        notices.signal(.endpoint).send()
    }

    private func keepLease() async {
        await work.keepLease { change in
            switch change {
            case .acquired: notices.signal(.endpoint).send()
            case .renewed(let isFree):
                work.progress.recordSuccess()
                if isFree, delivery == nil { notices.signal(.endpoint).send() }
            case .lost:
                logger.warning("Lease lost: another server delivers webhooks")
                stopDelivering()
            }
            // Those that waited because the lease was about to end.
            admitWaiting()
        }
    }

    /// Takes the endpoint if no other server delivers to it.
    private func claim() async throws {
        guard let lease = work.lease else { return }
        _ = try await work.reclaimExpired()
        guard let (status, positions, run) = try await store.claim(under: lease.id), work.holds(lease) else { return }
        claims += 1
        delivery = Claim(
            number: claims,
            lease: lease.id,
            run: run,
            condition: EndpointCondition(
                status,
                firstProbe: intervals.firstProbe,
                longestProbe: intervals.longestProbe,
                at: loop.now
            ),
            positions: positions
        )
        logger.notice("Delivering webhooks", metadata: ["state": "\(status)"])
        notices.setDelivering(true)
    }

    /// Gives the endpoint to another server.
    private func release() async throws {
        // Otherwise the next server has to learn it from the endpoint again.
        try? await storeChange()
        stopDelivering()
        guard let lease = work.lease else { return }
        try await store.pool.write(ReleaseEndpoint(leases: [lease.id]))
    }

    /// Stops delivering: another server has the endpoint, or may take it.
    private func stopDelivering() {
        guard delivery != nil else { return }
        delivery = nil
        notices.setDelivering(false)
        admitWaiting()
    }

    /// Claims the endpoint again, and so reads from where to deliver: in a new run, PostgreSQL may have lost that events were delivered, and
    /// the events. It gives the ids of lost transactions to others, which may be below the positions in memory.
    nonisolated func readPositionsAgain() {
        loop.execute {
            self.assumeIsolated { $0.stopDelivering() }
            self.notices.signal(.endpoint).send()
        }
    }

    /// Begins a step of a worker. Returns `false` if this server does not deliver.
    private func beginStep() -> Bool {
        guard delivery != nil, !isStopping else { return false }
        active += 1
        return true
    }

    private func endStep() {
        active -= 1
        guard active == 0, let continuation = whenIdle else { return }
        whenIdle = nil
        continuation.resume()
    }

    // MARK: The endpoint

    /// Waits until a request may begin. Returns `false` if this server does not deliver any more.
    private func admission() async -> Bool {
        await withCheckedContinuation { continuation in
            waiting.append(continuation)
            admitWaiting()
        }
    }

    /// Lets the workers send that have waited longest, as far as the endpoint and the lease allow.
    private func admitWaiting() {
        while !waiting.isEmpty {
            guard delivery != nil, !isStopping else {
                while let continuation = waiting.popFirst() { continuation.resume(returning: false) }
                return
            }
            // After the renewal it continues.
            guard work.lease?.maySend(at: EventLoop.milliseconds()) == true else { return }
            switch delivery?.condition.admit(at: loop.now) {
            case .now: waiting.popFirst()?.resume(returning: true)
            case .at(let time): return wake(at: time)
            case .later, nil: return
            }
        }
    }

    private func wake(at time: UInt64) {
        if let timer { loop.cancel(timer) }
        timer = loop.schedule(after: .milliseconds(Int(time - min(loop.now, time)))) {
            self.assumeIsolated { deliverer in
                deliverer.timer = nil
                deliverer.admitWaiting()
            }
        }
    }

    /// What became of the request for a webhook.
    private enum Request {
        case ended(WebhookAttempt, EndpointCondition.Verdict)
        /// It was not made: the webhook was read longer ago than ``WebhookIntervals/freshness``.
        case stale
        /// It was not made, or does not count: this server does not deliver any more.
        case released
    }

    /// Sends a webhook once it may be sent.
    ///
    /// - Parameters:
    ///   - time: When the webhook was read.
    ///   - number: The number of the attempt.
    private func request(_ message: WebhookMessage, readAt time: UInt64, number: Int) async -> Request {
        guard await admission(), let claim = delivery?.number else { return .released }
        guard loop.now < time + intervals.freshness.wholeMilliseconds else {
            delivery?.condition.withdraw()
            admitWaiting()
            return .stale
        }
        let attempt = await sender.send(message)
        outcomes.add(to: attempt.outcome)
        guard delivery?.number == claim, let before = delivery?.condition.status,
            let verdict = delivery?.condition.ended(attempt, attempts: number, at: loop.now)
        else { return .released }
        record(attempt, before)
        admitWaiting()
        return .ended(attempt, verdict)
    }

    /// Notes the endpoint's new state and error after a request. ``keepDelivering()`` stores them.
    private func record(_ attempt: WebhookAttempt, _ before: EndpointStatus) {
        guard let claim = delivery, attempt.outcome != .abandoned else { return }
        let status = claim.condition.status
        guard status != before || attempt.error != nil else { return }
        if status != before {
            switch status {
            case .delivering: logger.notice("Webhook endpoint accepts webhooks again")
            case .failing, .gone, .off:
                logger.warning(
                    status == .gone ? "Webhook endpoint is gone" : "Webhook endpoint does not accept webhooks",
                    metadata: ["error": "\(attempt.error ?? "")"]
                )
            }
        }
        let change = EndpointChange(status: status == before ? nil : status, error: attempt.error)
        delivery?.unstored = change.after(claim.unstored)
        notices.signal(.endpoint).send()
    }

    /// Stores the endpoint's new state and error, if there are any.
    private func storeChange() async throws {
        guard let claim = delivery, let change = claim.unstored else { return }
        delivery?.unstored = nil
        do {
            let record = RecordEndpoint(lease: claim.lease, change: change)
            guard try await store.pool.write(record) == 0 else { return }
            stopDelivering()
            work.renewLeaseNow()
        } catch {
            if let present = delivery, present.number == claim.number {
                delivery?.unstored = present.unstored?.after(change) ?? change
            }
            throw error
        }
    }

    /// Reads the stored state of the endpoint, which an operator's test may have changed.
    private func readStatus() async throws {
        guard delivery?.condition.status != .delivering else { return }
        guard try await store.pool.read(ReadEndpoint()).first?.status == .delivering else { return }
        // Otherwise the state may have changed since it was read. It is stored first, and read again.
        guard delivery?.unstored == nil else { return }
        delivery?.condition.restore()
        admitWaiting()
    }

    /// Sends the webhook of an event until it is delivered or set aside, or the event is no longer at its position. Returns `false` if
    /// this server does not deliver any more.
    ///
    /// - Parameters:
    ///   - time: When the event was read.
    ///   - isWanted: Returns whether the event is still to be delivered. Called before it is read again.
    private func deliver(
        _ event: WebhookEvent,
        of source: WebhookSource,
        readAt time: UInt64,
        while isWanted: () async throws -> Bool = { true }
    ) async throws -> Bool {
        var (event, time) = (event, time)
        var attempts = 1
        while let type = event.type, types.contains(type), let message = WebhookMessage(event, of: source) {
            switch await request(message, readAt: time, number: attempts) {
            case .released: return false
            case .stale:
                time = loop.now
                guard try await isWanted(), let current = try await source.event(at: event.position, store.pool)
                else { return true }
                event = current
            case .ended(_, .delivered): return true
            case .ended(let attempt, .hold):
                if attempt.outcome == .abandoned { return false }
                attempts += 1
            case .ended(let attempt, .setAside):
                let wait = (intervals.retries.first ?? .zero) * RetryDelay.jitter()
                try await store.setAside(message, after: attempt, wait)
                notices.signal(.failures).send(after: wait)
                return true
            }
        }
        return true
    }

    // MARK: Sources

    /// Delivers the next events of a source. Returns when to continue; `nil` if there are none.
    func deliver(_ source: WebhookSource) async throws -> Duration? {
        guard beginStep() else { return nil }
        defer { endStep() }
        if let last = delivery?.reads[source.name], loop.now < last + Self.gathering {
            try await loop.sleep(for: .milliseconds(Int(last + Self.gathering - loop.now)))
        }
        let hasChanged = source.expectChange()
        guard let claim = delivery, let start = claim.positions[source.name] else { return nil }
        let time = loop.now
        delivery?.reads[source.name] = time
        let events = try await events(of: source, from: start, before: nil)
        var stored = (position: start, at: loop.now)
        for event in events {
            guard try await deliver(event, of: source, readAt: time) else { break }
            guard delivery?.number == claim.number else { return nil }
            delivery?.positions[source.name] = event.position
            if loop.now >= stored.at + Self.storeInterval {
                stored = (event.position, loop.now)
                try await move(source, to: event.position, claim)
            }
        }
        guard delivery?.number == claim.number, let end = delivery?.positions[source.name] else { return nil }
        if end != stored.position { try await move(source, to: end, claim) }
        guard events.count < Self.eventsPerPage else { return .zero }
        let isActive = hasChanged || !events.isEmpty
        let poll = isActive ? Self.firstPoll : delivery?.polls[source.name].map { $0 * 2 }
        delivery?.polls[source.name] = poll.flatMap { $0 <= Self.longestPoll ? $0 : nil }
        return delivery?.polls[source.name]
    }

    /// Returns the next events of a source after a position, up to a page.
    private func events(
        of source: WebhookSource,
        from start: WebhookPosition,
        before end: String?
    ) async throws -> [WebhookEvent] {
        let events = try await source.events(
            in: WebhookRange(from: start, before: end, limit: Self.eventsPerPage + 1),
            store.pool
        )
        return Array((events.first?.position == start ? events.dropFirst() : events[...]).prefix(Self.eventsPerPage))
    }

    private func move(_ source: WebhookSource, to position: WebhookPosition, _ claim: Claim) async throws {
        let move = MoveCursor(source: source.name, position: position, lease: claim.lease, run: claim.run)
        guard try await store.pool.write(move) == 0 else { return }
        stopDelivering()
        work.renewLeaseNow()
    }

    // MARK: Failed webhooks and replays

    /// Retries the webhooks that are due. Returns when to continue; `nil` if there are none.
    func retryFailed() async throws -> Duration? {
        guard beginStep() else { return nil }
        defer { endStep() }
        let time = loop.now
        let due = try await store.dueWebhooks(limit: Self.retriesPerPass)
        for webhook in due {
            // As its last attempt, so that it is set aside again if it is rejected, even while the endpoint is failing.
            switch await request(webhook.message, readAt: time, number: EndpointCondition.attemptLimit) {
            case .released: return nil
            case .stale: return .zero
            case .ended(_, .delivered): try await store.delete(webhook)
            case .ended(let attempt, .hold): return attempt.outcome == .abandoned ? nil : .zero
            case .ended(let attempt, .setAside):
                let wait = wait(after: Int(webhook.attempts) + 1)
                try await store.postpone(webhook, after: attempt, wait)
                if let wait { notices.signal(.failures).send(after: wait) }
            }
        }
        return due.isEmpty ? nil : .zero
    }

    /// Returns the wait after a number of attempts; `nil` if there is no further one.
    private func wait(after attempts: Int) -> Duration? {
        attempts <= intervals.retries.count ? intervals.retries[attempts - 1] * RetryDelay.jitter() : nil
    }

    /// Delivers the next events of the oldest replay. Returns when to continue; `nil` if there is none.
    func replay() async throws -> Duration? {
        guard beginStep() else { return nil }
        defer { endStep() }
        guard var replay = try await store.nextReplay() else { return nil }
        guard let source = sources.first(where: { $0.name == replay.source }) else {
            try await store.delete(replay)
            return .zero
        }
        let claim = delivery?.number
        let time = loop.now
        let events = try await events(of: source, from: replay.position, before: replay.endXID)
        var storedAt = time
        for event in events {
            if replay.includes(event) {
                // It may be canceled meanwhile.
                guard try await deliver(event, of: source, readAt: time, while: { try await store.move(replay) })
                else { break }
            }
            guard delivery?.number == claim else { return nil }
            replay.position = event.position
            if loop.now >= storedAt + Self.storeInterval {
                storedAt = loop.now
                guard try await store.move(replay) else { return .zero }
            }
        }
        if replay.position == events.last?.position ?? replay.position, events.count < Self.eventsPerPage {
            try await store.delete(replay)
        } else {
            _ = try await store.move(replay)
        }
        return .zero
    }

    /// Stores a mark, from which a replay can begin.
    func mark() async throws {
        guard delivery != nil else { return }
        try await store.pool.write(StoreMark())
    }

    /// Returns the workers, each of which delivers something.
    nonisolated func workers(pace: PollPace) -> [BackgroundWorker] {
        var workers = sources.map { source in
            worker(source.name, pace) { try await self.deliver(source) }
        }
        workers.append(worker(WebhookNotices.Subject.failures.rawValue, pace) { try await self.retryFailed() })
        workers.append(worker(WebhookNotices.Subject.replays.rawValue, pace) { try await self.replay() })
        workers.append(
            BackgroundWorker(
                "mark-transactions",
                on: loop,
                every: Self.markInterval,
                firstAfter: Self.markInterval,
                pace: pace,
                failure: "Mark of webhooks not stored",
                logger: logger
            ) { _ in
                try await self.mark()
                return nil
            }
        )
        return workers
    }

    private nonisolated func worker(
        _ name: String,
        _ pace: PollPace,
        _ step: @escaping @Sendable () async throws -> Duration?
    ) -> BackgroundWorker {
        BackgroundWorker(
            "deliver-\(name)",
            on: loop,
            every: intervals.poll,
            signal: notices.signal(name),
            retryAfter: intervals.work.retry,
            pace: pace,
            failure: "Webhooks not delivered",
            logger: logger
        ) { _ in try await step() }
    }
}
