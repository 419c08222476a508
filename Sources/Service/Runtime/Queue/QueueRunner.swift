import EventLoop
import FoundationEssentials
import Logging
import Postgres
import ServiceLifecycle

/// Carries out the work of a queue that any number of servers share: claims what is due under its lease, makes the requests that its
/// schedule allows, and stores their results.
///
/// It owns what is the same for all queues. ``QueueWork`` says what claims, requests and results are, and ``QueueSchedule`` what comes next.
/// Every change of the schedule is followed by ``act()``, which releases claims and wakes the passes.
///
/// A pass adopts notifications, reclaims the work of servers that have stopped, does chores, and claims. Requests and the writes of their
/// results run beside the passes. ``WorkQueue`` keeps the lease.
///
/// It is public, and so is all that it requires of features, so that a release build compiles it for the types of each (`Package.swift`).
/// Otherwise each request would look up the metadata of generic types.
public actor QueueRunner<Work: QueueWork> {
    private typealias Claim = Work.Schedule.Claim
    private typealias Result = QueueResult<Work.Schedule.Claim, Work.Schedule.Outcome>

    /// The event loop of the queue.
    public nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let work: Work
    private var schedule: Work.Schedule
    private let queue: WorkQueue
    private let signal: Signal
    private let stateDirectory: String?
    private let logger: Logger

    private var inFlight = 0
    /// The number of results that are not stored.
    private var pendingWrites = 0
    /// Results that are stored together, and whether a task is storing them.
    private var group: [Result] = []
    private var isWritingGroup = false
    /// Whether nothing is sent because what this server knows is being compared with the database.
    private var isRestoring = false
    /// The number of comparisons that have begun: what was claimed before one may be lost.
    private var restorations = 0
    private var isStopping = false
    /// Whether ``signal`` was sent because the schedule wants a pass.
    private var isWoken = false
    private var whenIdle: CheckedContinuation<Void, Never>?

    /// - Parameters:
    ///   - store: The statements about leases.
    ///   - signal: Wakes the runner when there is work.
    ///   - stateDirectory: A directory that outlives the process, for its last claim; `nil` for none.
    ///   - progress: Records whether the queue makes progress.
    package init(
        _ work: Work,
        _ schedule: sending Work.Schedule,
        store: any WorkStore,
        signal: Signal,
        commits: LostCommits,
        stateDirectory: String?,
        intervals: WorkIntervals,
        progress: WorkProgress,
        logger: Logger
    ) {
        loop = store.pool.loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.work = work
        self.schedule = schedule
        self.signal = signal
        self.stateDirectory = stateDirectory
        self.logger = logger
        queue = WorkQueue(
            loop: loop,
            store: store,
            commits: commits,
            intervals: intervals,
            progress: progress,
            logger: logger
        )
    }

    // MARK: Life

    /// Runs until the server shuts down, the requests in flight have completed, and their results are stored.
    ///
    /// If the task is cancelled, results that cannot be stored at once are left to the server that reclaims the work.
    public final func run() async {
        await withGracefulShutdownHandler {
            await withTaskCancellationHandler {
                await runUntilStopped()
            } onCancel: {
                loop.execute {
                    self.assumeIsolated { runner in
                        runner.queue.stopRetryingWrites()
                        runner.stop()
                    }
                }
            }
        } onGracefulShutdown: {
            self.loop.execute { self.assumeIsolated { $0.stop() } }
        }
    }

    private func runUntilStopped() async {
        await queue.openClaimFile(in: stateDirectory) { isStopping }
        let leasing = Task(executorPreference: loop) { await self.keepLease() }
        while !isStopping {
            await pass()
            guard !isStopping else { break }
            await signal.wait(atMost: waitTime)
        }
        releaseReady()
        await becomeIdle()
        try? await doChores(.afterClaims)
        leasing.cancel()
        await leasing.value
        await queue.releaseLease {
            try await reconcile()
            await becomeIdle()
        }
    }

    private func stop() {
        isStopping = true
        signal.send()
    }

    private func becomeIdle() async {
        if inFlight + pendingWrites > 0 { await withCheckedContinuation { whenIdle = $0 } }
    }

    private func resumeWhenIdle() {
        guard inFlight + pendingWrites == 0, let continuation = whenIdle.take() else { return }
        continuation.resume()
    }

    // MARK: Passes

    private func pass() async {
        schedule.wantsPass = false
        isWoken = false
        do {
            schedule.noticed(work.drainNotices(), load())
            if queue.lease != nil, isBusy { try await maintain() }
            try await doChores(.beforeClaims)
            if queue.lease != nil { while !isStopping, try await claim() {} }
            try await doChores(.afterClaims)
        } catch {
            schedule.failed(until: queue.recordFailedPass(error))
        }
        dispatch()
    }

    private func doChores(_ phase: QueuePhase) async throws {
        while let chore = schedule.nextChore(phase, load()) {
            act()
            do {
                schedule.completed(chore, try await work.perform(chore), load())
            } catch {
                schedule.failed(chore)
                throw error
            }
            act()
        }
    }

    private func maintain() async throws {
        if let reclaimed = try await queue.reclaimExpired() {
            work.reclaimed(reclaimed)
            schedule.reclaimed()
        }
        if queue.needsReconciliation { try await reconcile() }
    }

    private func reconcile() async throws {
        for claim in try await queue.reconcile(work.open, \.id) { release(claim) }
    }

    /// Whether this server may have work that has to be reclaimed or reconciled.
    private var isBusy: Bool { schedule.isBusy || inFlight + pendingWrites > 0 || queue.hasLostClaim }

    private var waitTime: Duration {
        let load = load(mayClaim: queue.mayClaim)
        var next = min(schedule.nextPass(load), load.now + 3_600_000)
        if queue.lease != nil, isBusy { next = min(next, queue.nextMaintenance) }
        return .milliseconds(Int(max(1, next - min(load.now, next))))
    }

    /// Returns the state by which the schedule decides.
    ///
    /// - Parameters:
    ///   - now: The time, which is read again for each decision: a stall may have lasted for longer than the lease.
    ///   - mayClaim: Whether the lease allows claims.
    private func load(at now: UInt64 = EventLoop.milliseconds(), mayClaim: Bool = false) -> QueueLoad {
        QueueLoad(
            now: now,
            inFlight: inFlight,
            pendingWrites: pendingWrites,
            mayClaim: mayClaim,
            nextTrial: work.nextTrial
        )
    }

    /// Does what follows from a change of the schedule.
    private func act() {
        while !schedule.released.isEmpty {
            let released = schedule.released
            schedule.released = []
            for claim in released { release(claim) }
        }
        guard schedule.wantsPass, !isWoken else { return }
        isWoken = true
        signal.send()
    }

    // MARK: The lease

    private func keepLease() async {
        await queue.keepLease { change in
            switch change {
            case .acquired:
                schedule.lookAgain()
            case .renewed(let hasWork):
                schedule.leaseRenewed(hasWork: hasWork, load())
                if schedule.isResting(at: loop.now) { queue.progress.recordSuccess() }
                dispatch()
            case .lost:
                let unsent = schedule.removeReady()
                for claim in unsent { queue.untrack(claim.id) }
                logger.warning(
                    "Lease lost: another server has reclaimed the work of this one",
                    metadata: [
                        "queue": "\(queue.name)", "unsent": "\(unsent.count)",
                        "requests_in_flight": "\(inFlight)",
                    ]
                )
            }
            signal.send()
        }
    }

    /// Stores again what this server has done, where PostgreSQL has lost that. Waits until the requests in flight have completed.
    ///
    /// - Parameter report: Records how many results are missing.
    public final func restore(_ report: LostCommits.Report) async throws {
        isRestoring = true
        restorations += 1
        defer {
            isRestoring = false
            schedule.lookAgain()
            signal.send()
        }
        // Their claims may be lost.
        releaseReady()
        while inFlight + pendingWrites > 0 { try await loop.sleep(for: .milliseconds(20)) }
        try await work.restore(schedule.known, report)
    }

    // MARK: Claims

    /// Claims what the schedule orders. Returns whether there may be more to claim at once.
    private func claim() async throws -> Bool {
        defer { dispatch() }
        let load = load(mayClaim: queue.mayClaim)
        guard load.mayClaim, let lease = queue.lease, let order = schedule.nextOrder(load) else { return false }
        let restorations = restorations
        let claimed = try await work.claim(order, under: lease.id)
        let claims = claimed.claims
        if let last = claims.last { await queue.write(last.id, under: lease) }
        guard claimed.isLeaseValid, queue.holds(lease) else {
            // They belong to another server.
            queue.renewLeaseNow()
            return false
        }
        for claim in claims { queue.track(claim.id) }
        schedule.claimed(claimed, by: order, self.load())
        if isRestoring || restorations != self.restorations { releaseReady() }
        act()
        queue.progress.recordSuccess()
        return !claims.isEmpty
    }

    private func releaseReady() {
        for claim in schedule.removeReady() { release(claim) }
    }

    private func release(_ claim: Claim) {
        record(Result(claim, Work.Schedule.notSent))
    }

    // MARK: Requests

    /// Makes all requests that may be made.
    private func dispatch() {
        while let item = nextRequest() {
            let lease = queue.lease?.id
            Task(executorPreference: loop) { await self.send(item, under: lease) }
        }
        act()
    }

    /// Returns the next request, which is to be made under the present lease.
    private func nextRequest() -> Work.Schedule.Item? {
        let now = EventLoop.milliseconds()
        guard !isStopping, !isRestoring, queue.lease?.maySend(at: now) == true,
            let item = schedule.popReady(load(at: now), { work.admits() })
        else { return nil }
        inFlight += 1
        return item
    }

    /// Makes a request, and then further ones until there is none. The results are stored beside the next request.
    private func send(_ first: Work.Schedule.Item, under lease: UUID?) async {
        var next: Work.Schedule.Item? = first
        // The lease may have been renewed since the request was chosen, but not replaced.
        var sendingEnd = queue.lease?.id == lease ? queue.lease?.sendingEnd : nil
        while let item = next {
            let results: [Result]
            if let sendingEnd {
                results = await work.perform(item, startingBefore: sendingEnd)
            } else {
                results = Work.Schedule.claims(item).map { Result($0, Work.Schedule.notSent) }
            }
            inFlight -= 1
            schedule.ended(item, results, load())
            for result in results { record(result) }
            next = nextRequest()
            sendingEnd = queue.lease?.sendingEnd
            dispatch()
        }
    }

    // MARK: Results

    /// Stores a result in the background.
    private func record(_ result: Result) {
        pendingWrites += 1
        var result = result
        schedule.recording(&result)
        guard work.isGrouped(result) else {
            Task(executorPreference: loop) { await self.write(result) }
            return
        }
        group.append(result)
        guard !isWritingGroup else { return }
        isWritingGroup = true
        Task(executorPreference: loop) { await self.writeGroups() }
    }

    private func write(_ result: Result) async {
        await persist { try await self.work.record(result) }
        recorded(result)
    }

    private func writeGroups() async {
        while !group.isEmpty {
            let results = group
            group = []
            await persist { try await self.work.recordGroup(results) }
            for result in results { recorded(result) }
        }
        isWritingGroup = false
    }

    private func persist(_ write: () async throws -> Void) async {
        await queue.persist(pending: { pendingWrites }, write)
    }

    private func recorded(_ result: Result) {
        queue.untrack(result.claim.id)
        pendingWrites -= 1
        work.recorded(result)
        schedule.recorded(result, load())
        act()
        resumeWhenIdle()
    }
}
