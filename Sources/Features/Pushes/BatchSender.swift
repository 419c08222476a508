import DequeModule
import EventLoop
import FoundationEssentials
import KakaoAPI
import Logging
import Runtime
import ServiceLifecycle

/// Sends batches to Kakao: claims batches that are due, keeps a bounded number of requests in flight, and stores the
/// result of each.
///
/// Any number of servers may send concurrently from one database. A server holds its batches under a lease
/// (``WorkQueue``) that it renews. If a server stops, another one reclaims its batches. Pushes share the requests in
/// flight evenly, so that a small push does not wait for a large one.
///
/// `BatchSender+Sending.swift` sends, `BatchSender+Results.swift` records results.
actor BatchSender: Service {
    /// The number of results waiting to be stored at which sending stops.
    static let maxPendingWrites = 4096
    /// The minimum period in milliseconds over which the request rate is measured. The number of batches claimed ahead
    /// depends on this rate.
    static let countingMilliseconds: UInt64 = 25

    nonisolated let unownedExecutor: UnownedSerialExecutor
    let loop: EventLoop
    let store: BatchStore
    let kakao: KakaoClient
    let version: PushVersion
    let availability: KakaoAvailability
    private let returnURL: @Sendable () -> String?
    private let requestsPerSecond: @Sendable () -> Int?
    /// The maximum number of requests in flight.
    let maxRequestsInFlight: Int
    let logger: Logger
    let notices: PushNotices
    let users: LoopCounts<BatchState>.Own
    let signal: Signal
    let work: WorkQueue

    var rateLimit: RateLimit?
    var pushes: [UUID: OutgoingPush] = [:]
    /// The pushes with claimed batches that are not sent yet.
    var ready: [OutgoingPush] = []
    var inFlight = 0
    var pendingWrites = 0
    /// The number of batches that are claimed and not sent yet.
    var claimed = 0
    /// Batches that were sent at their first attempt and whose results are not being stored yet.
    var sent: [BatchClaim] = []
    var isWritingSent = false
    private let stateDirectory: String?
    /// The batches that this server has sent, in case PostgreSQL loses their results.
    var known = KnownBatches()
    /// Whether nothing is sent because `known` is being compared with the database.
    private var isRestoring = false
    /// The number of comparisons that have begun: what was claimed before one may be lost.
    private var restorations = 0
    private var isStopping = false
    private var whenIdle: CheckedContinuation<Void, Never>?

    /// The duration of the next pause when Kakao's quota is exhausted.
    var quotaWait: Duration
    // Times in milliseconds of the loop's clock.
    var pausedUntil: UInt64 = 0
    var nextRefresh: UInt64 = 0
    /// The number of requests started since `countedSince`, to measure the request rate.
    private var startedRequests = 0
    private var countedSince: UInt64 = 0
    private var measuredRate = 0.0

    /// - Parameters:
    ///   - kakao: The API by which batches are sent.
    ///   - version: The API version of `kakao`.
    ///   - returnURL: Returns the URL to which Kakao reports failed tokens; `nil` for no reports.
    ///   - maxRequestsInFlight: The maximum number of requests in flight.
    ///   - requestsPerSecond: Returns the maximum number of requests begun per second; `nil` for no limit.
    ///   - notices: Signals that there is something to send.
    ///   - stateDirectory: A directory that outlives the process, for its last claim; `nil` for none.
    ///   - users: Counts users by the final state of their batch.
    ///   - progress: Records whether the sender makes progress.
    init(
        loop: EventLoop,
        store: BatchStore,
        kakao: KakaoClient,
        version: PushVersion,
        availability: KakaoAvailability,
        returnURL: @escaping @Sendable () -> String?,
        maxRequestsInFlight: Int,
        requestsPerSecond: @escaping @Sendable () -> Int?,
        commits: LostCommits,
        stateDirectory: String?,
        intervals: WorkIntervals,
        notices: PushNotices,
        users: LoopCounts<BatchState>.Own,
        progress: WorkProgress,
        logger: Logger
    ) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.kakao = kakao
        self.version = version
        self.availability = availability
        self.returnURL = returnURL
        self.maxRequestsInFlight = maxRequestsInFlight
        work = WorkQueue(
            loop: loop,
            store: store,
            commits: commits,
            intervals: intervals,
            progress: progress,
            logger: logger
        )
        quotaWait = intervals.quotaWait
        self.stateDirectory = stateDirectory
        self.requestsPerSecond = requestsPerSecond
        self.logger = logger
        self.notices = notices
        self.users = users
        signal = notices.sending
    }

    // MARK: Life

    /// Runs until the server shuts down, the requests in flight have completed, and their results are stored.
    ///
    /// If the task is cancelled, results that cannot be stored at once are left to the server that reclaims the
    /// batches.
    func run() async {
        await withGracefulShutdownHandler {
            await sendUntilStopped()
        } onGracefulShutdown: {
            self.loop.execute { self.assumeIsolated { $0.stop() } }
        }
    }

    private func sendUntilStopped() async {
        await withTaskCancellationHandler {
            await work.openClaimFile(in: stateDirectory) { isStopping }
            let leasing = Task(executorPreference: loop) { await self.keepLease() }
            while !isStopping {
                await pass()
                guard !isStopping else { break }
                await signal.wait(atMost: waitTime)
            }
            for push in pushes.values { release(push) }
            await becomeIdle()
            try? await endFinished()
            leasing.cancel()
            await leasing.value
            await work.releaseLease {
                try await reconcile()
                await becomeIdle()
            }
        } onCancel: {
            loop.execute { self.assumeIsolated { $0.work.stopRetryingWrites() } }
        }
    }

    private func stop() {
        isStopping = true
        signal.send()
    }

    private func pass() async {
        adoptRateLimit()
        do {
            try await drainNotifications()
            if work.lease != nil {
                if !pushes.isEmpty {
                    if try await work.reclaimExpired() { recheckAllPushes() }
                    if work.needsReconciliation { try await reconcile() }
                }
                while !isStopping, try await claim() {}
            }
            try await endFinished()
        } catch {
            nextRefresh = work.recordFailedPass(error)
            for push in pushes.values { push.idleUntil = max(push.idleUntil, nextRefresh) }
        }
    }

    /// Adopts the rate of the settings, which a reload may change.
    private func adoptRateLimit() {
        let perSecond = requestsPerSecond()
        guard perSecond != rateLimit?.perSecond else { return }
        rateLimit = perSecond.map { RateLimit(perSecond: $0, now: 0) }
    }

    // MARK: The lease

    private func keepLease() async {
        await work.keepLease { change in
            switch change {
            case .acquired:
                signal.send()
            case .renewed(let hasWork):
                // Finds pushes whose notification was lost. An idle server does not read them at each renewal.
                if hasWork { nextRefresh = 0 }
                if pushes.isEmpty || loop.now < pausedUntil { work.progress.recordSuccess() }
                dispatch()
                signal.send()
            case .lost:
                dropClaims()
            }
        }
    }

    /// Drops the batches that are not sent yet, because another server has reclaimed them. The results of those in
    /// flight will not count.
    private func dropClaims() {
        logger.warning(
            "Lease lost: another server has reclaimed the batches of this one",
            metadata: ["unsent_batches": "\(claimed)", "batches_in_flight": "\(inFlight)"]
        )
        for push in ready {
            for claim in push.claims { work.untrack(claim.id) }
            push.claims = []
        }
        ready = []
        claimed = 0
    }

    /// Looks at once for batches of all pushes, and for pushes to finish: batches of other servers were reclaimed.
    private func recheckAllPushes() {
        for push in pushes.values {
            push.idleUntil = 0
            push.mayBeFinished = true
        }
    }

    /// Releases the batches that are open under the lease although this server has not received their claim.
    private func reconcile() async throws {
        for claim in try await work.reconcile(store.open, \.id) { record(.notSent, of: claim) }
    }

    /// Stores again which batches this server has sent, where PostgreSQL has lost that. Waits until the requests in flight have
    /// completed.
    ///
    /// - Parameter report: Records how many results are missing.
    func restoreBatches(_ report: LostCommits.Report) async throws {
        isRestoring = true
        restorations += 1
        defer { isRestoring = false }
        // Their claims may be lost.
        for push in pushes.values { release(push) }
        while inFlight + pendingWrites > 0 { try await loop.sleep(for: .milliseconds(20)) }
        try await store.restore(known, report)
    }

    private func becomeIdle() async {
        if inFlight + pendingWrites > 0 { await withCheckedContinuation { whenIdle = $0 } }
    }

    func resumeWhenIdle() {
        guard inFlight + pendingWrites == 0, let continuation = whenIdle else { return }
        whenIdle = nil
        continuation.resume()
    }

    /// The time until there is something to do without a signal.
    private var waitTime: Duration {
        var next = min(nextRefresh, loop.now + 3_600_000)
        if work.lease != nil, !pushes.isEmpty { next = min(next, work.nextMaintenance) }
        for push in pushes.values { if let expiry = push.expiry, !push.isExpiring { next = min(next, expiry) } }
        if loop.now < pausedUntil {
            next = min(next, pausedUntil)
        } else if let nextCall = availability.nextCall(.pushes), loop.now < nextCall || inFlight > 0 {
            if inFlight == 0, !pushes.isEmpty { next = min(next, nextCall) }
        } else {
            if mayClaim { for push in claimable { next = min(next, push.idleUntil) } }
            if claimed > 0, let rateLimit { next = min(next, loop.now + rateLimit.wait.wholeMilliseconds) }
        }
        return .milliseconds(Int(max(1, next - min(loop.now, next))))
    }

    // MARK: Active pushes

    private func drainNotifications() async throws {
        let changes = notices.drainChanges()
        let hasUnknown = changes.batches.keys.contains { pushes[$0] == nil }
        if changes.hasChange || hasUnknown || loop.now >= nextRefresh { try await refreshActivePushes() }
        for (id, areLast) in changes.batches {
            guard let push = pushes[id] else { continue }
            push.idleUntil = 0
            if areLast { push.isPrepared = true }
            push.mayBeFinished = true
        }
    }

    /// Reads the pushes to send. Further ones are announced by a notification, or found at the next renewal of the
    /// lease.
    private func refreshActivePushes() async throws {
        let start = loop.now
        nextRefresh = .max
        let active: BatchStore.ActivePushes
        do {
            active = try await store.active(besides: Array(pushes.keys))
        } catch {
            nextRefresh = 0
            throw error
        }
        if !active.unprepared.isEmpty { notices.preparing.send() }
        if let nextStart = active.nextStart { nextRefresh = start + nextStart.wholeMilliseconds + 1 }
        for push in active.new {
            let message = push.message.rendered(for: version, returnURL: returnURL())
            pushes[push.id] = OutgoingPush(push, message: EncodedPushMessage(message))
        }
        // A stopped push is removed once its last results are stored.
        var looksAgain = false
        defer { if looksAgain { nextRefresh = min(nextRefresh, start + work.intervals.renewal.wholeMilliseconds) } }
        for (id, push) in pushes {
            guard let timeLeft = active.timeLeft[id] else {
                // The push was stopped: its claimed batches are released.
                release(push)
                if push.heldBatches == 0 { pushes[id] = nil } else { looksAgain = true }
                continue
            }
            push.idleUntil = 0
            push.expiry = timeLeft.map { start + $0.wholeMilliseconds }
            push.hoursEnd = active.hoursLeft[id].map { start + $0.wholeMilliseconds }
            // It is no longer listed then.
            if let end = push.hoursEnd { nextRefresh = min(nextRefresh, end) }
            if !active.unprepared.contains(id) { push.isPrepared = true }
            // Another server may have stored the last result, or an operator may have resumed a push with nothing left
            // to send.
            push.mayBeFinished = true
        }
    }

    /// Ends pushes that have nothing left to send or that have expired.
    private func endFinished() async throws {
        var candidates: [UUID] = []
        for (id, push) in pushes {
            if push.isExpired(at: loop.now) {
                push.isExpiring = true
                release(push)
                try await store.expire(id)
                notices.webhooks.changed()
                nextRefresh = min(nextRefresh, loop.now + work.intervals.retry.wholeMilliseconds)
            } else if push.isPrepared, push.mayBeFinished, push.heldBatches == 0 {
                push.mayBeFinished = false
                candidates.append(id)
            }
        }
        guard !candidates.isEmpty else { return }
        do {
            for id in try await store.finish(candidates) { pushes[id] = nil }
            notices.webhooks.changed()
        } catch {
            for id in candidates { pushes[id]?.mayBeFinished = true }
            throw error
        }
    }

    // MARK: Claiming

    /// The number of batches to claim ahead: more than are sent while the next claim is in flight.
    private var target: Int { max(2 * maxRequestsInFlight, Int(min(measuredRate / 5, 1_000_000))) }

    /// Whether batches of any push may be claimed.
    private var mayClaim: Bool {
        work.mayClaim && claimed < target && pendingWrites < Self.maxPendingWrites
    }

    /// The pushes whose batches may be claimed once the push is no longer idle.
    private var claimable: [OutgoingPush] {
        let target = target
        let hasRoom = hasAtMostOnceRoom
        return pushes.values.filter {
            $0.claims.count <= target / 2 && !$0.isExpired(at: loop.now) && !$0.isHeld && !$0.isHalting
                && (hasRoom || $0.push.delivery != .atMostOnce)
        }
    }

    /// The number of further at-most-once batches that this server may hold. It is limited, because they become
    /// uncertain if the server stops.
    private var atMostOnceRoom: Int {
        pushes.values.reduce(2 * maxRequestsInFlight) { $1.push.delivery == .atMostOnce ? $0 - $1.heldBatches : $0 }
    }

    /// Whether there is room for enough at-most-once batches to be worth a statement.
    var hasAtMostOnceRoom: Bool { atMostOnceRoom >= max(2, maxRequestsInFlight) }

    /// Returns the number of batches to claim of each push that is not idle.
    private func shares(at now: UInt64) -> [(push: OutgoingPush, batches: Int)] {
        let wanting = claimable.filter { $0.idleUntil <= now }.sorted { $0.heldBatches < $1.heldBatches }
        guard let first = wanting.first else { return [] }
        if let next = availability.nextCall(.pushes) {
            return now >= next && inFlight == 0 && claimed == 0 ? [(first, 1)] : []
        }
        let share = max(1, (target - claimed + wanting.count - 1) / wanting.count)
        var room = atMostOnceRoom
        // A claim returns up to twice its share.
        let largest = max(1, room / 2 / max(1, wanting.count { $0.push.delivery == .atMostOnce }))
        return wanting.compactMap { push in
            guard push.push.delivery == .atMostOnce else { return (push, share) }
            guard room >= 2 else { return nil }
            let batches = min(share, largest)
            room -= 2 * batches
            return (push, batches)
        }
    }

    /// Claims batches of the pushes that need them. Returns whether there may be more to claim at once.
    private func claim() async throws -> Bool {
        let now = loop.now
        defer { sendClaimed() }
        guard now >= pausedUntil, mayClaim, let lease = work.lease else { return false }
        let shares = shares(at: now)
        guard !shares.isEmpty else { return false }
        for (push, _) in shares { push.splitsAtClaim = push.splits }
        let restorations = restorations
        let claimed = try await store.claim(
            shares.map { BatchStore.Share(pushID: $0.push.push.id, batches: $0.batches) },
            lease: lease.id
        )
        if let last = claimed.batches.last { await work.write(last.id, under: lease) }
        guard enqueue(claimed, under: lease) else { return false }
        if isRestoring || restorations != self.restorations { for (push, _) in shares { release(push) } }
        let counts = claimed.batches.reduce(into: [:]) { $0[$1.pushID, default: 0] += 1 }
        for (push, batches) in shares {
            let id = push.push.id
            if let usersPerSecond = push.push.usersPerSecond {
                // Claims twice in the time that the rate allows for a batch.
                let perSecond = UInt64(max(1, usersPerSecond))
                push.idleUntil = loop.now + max(20, 500 * min(perSecond, UInt64(SendPush.maximumUsers)) / perSecond)
            } else if counts[id, default: 0] < batches, !claimed.cutShort.contains(id) {
                push.recordNothingToClaim(at: loop.now)
            }
        }
        work.progress.recordSuccess()
        return !claimed.batches.isEmpty
    }

    /// Enqueues claimed batches. Returns whether the lease is still held; if not, the batches belong to another server.
    private func enqueue(_ claimed: ClaimedBatches, under lease: WorkLease) -> Bool {
        guard claimed.isLeaseValid, work.holds(lease) else {
            work.renewLeaseNow()
            return false
        }
        for claim in claimed.batches {
            // Only the loop of passes, which makes this claim, removes pushes.
            guard let push = pushes[claim.pushID] else { continue }
            if push.claims.isEmpty { ready.append(push) }
            push.claims.append(claim)
            work.track(claim.id)
            self.claimed += 1
        }
        // The message was rejected while these batches were being claimed.
        for push in ready where push.splits != push.splitsAtClaim && push.isMessageInDoubt { release(push) }
        return true
    }

    // MARK: Sending

    /// Sends as many of the claimed batches as may be in flight, and wakes the sender when there are few left.
    func dispatch() {
        sendClaimed()
        if claimed < target / 2 { signal.send() }
    }

    private func sendClaimed() {
        while let claim = dequeueNext() {
            Task(executorPreference: loop) { await self.send(claim) }
        }
    }

    /// Dequeues the next batch to send, from the push with the fewest requests in flight; `nil` if none may be sent now.
    func dequeueNext() -> BatchClaim? {
        // The clock is read again, because the lease may have expired during a stall.
        let now = EventLoop.milliseconds()
        guard let lease = work.lease, lease.maySend(at: now), now >= pausedUntil, !isStopping, !isRestoring else {
            return nil
        }
        let limit = availability.nextCall(.pushes) == nil ? maxRequestsInFlight : 1
        while inFlight < limit, pendingWrites < Self.maxPendingWrites, !ready.isEmpty {
            if rateLimit?.available(at: now) == 0 { return nil }
            var index = 0
            for other in ready.indices.dropFirst() where ready[other].inFlight < ready[index].inFlight { index = other }
            let push = ready[index]
            if push.isExpired(at: now) || push.isOutsideHours(at: now) {
                release(push)
                signal.send()
                continue
            }
            guard availability.admits(.pushes) else { return nil }
            let claim = push.claims.popFirst()
            if push.claims.isEmpty { ready.remove(at: index) }
            guard let claim else { continue }
            rateLimit?.take(1)
            claimed -= 1
            inFlight += 1
            push.inFlight += 1
            countRequest()
            return claim
        }
        return nil
    }

    private func countRequest() {
        startedRequests += 1
        let elapsed = loop.now - countedSince
        guard elapsed >= Self.countingMilliseconds else { return }
        measuredRate = Double(startedRequests) * 1000 / Double(elapsed)
        startedRequests = 0
        countedSince = loop.now
    }
}
