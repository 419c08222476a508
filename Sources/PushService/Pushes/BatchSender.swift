internal import DequeModule
internal import EventLoop
internal import FoundationEssentials
internal import KakaoAPI
internal import Locking
internal import Logging

/// Sends batches to Kakao: claims what is due, keeps a bounded number of requests in flight, and stores the result of each.
///
/// Any number of servers do this side by side on one database. A server holds its batches under a lease (``SenderLease``) that it renews;
/// the batches of a server that stops are taken over by another. Pushes share the requests in flight evenly, so that a small push does not
/// wait for a large one.
///
/// `BatchSender+Leases.swift` keeps the batches that the server tracks and those that the database has open under its lease the same, whatever
/// responses are lost. `BatchSender+Sending.swift` sends, `BatchSender+Results.swift` records results.
actor BatchSender {
    /// Results that may wait to be stored before no more is sent.
    static let maximumPendingWrites = 4096
    /// Milliseconds over which requests are counted, at least: how many batches are claimed ahead depends on it.
    static let countingTime: UInt64 = 25

    nonisolated let unownedExecutor: UnownedSerialExecutor
    let loop: EventLoop
    let store: BatchStore
    let kakao: KakaoPushAPI
    private let version: PushVersion
    let availability: KakaoAvailability
    private let returnURL: String?
    /// Requests in flight at a time.
    let limit: Int
    let intervals: SenderIntervals
    let logger: Logger
    let notices: PushNotices
    let signal: Signal
    let progress: SenderProgress

    var rateLimit: RateLimit?
    var pushes: [UUID: OutgoingPush] = [:]
    /// The pushes with claimed batches that are not sent yet.
    var ready: [OutgoingPush] = []
    var inFlight = 0
    var pendingWrites = 0
    /// Batches that are claimed and not sent yet.
    var claimed = 0
    /// Every batch that this server has claimed and whose result is not stored.
    var tracked: Set<BatchID> = []
    /// Batches that were sent at their first attempt and whose result is not being stored yet.
    var sent: [BatchClaim] = []
    var isWritingSent = false
    var lease: SenderLease?
    let leaseSignal: Signal
    private var isStopping = false
    /// The process ends: results that cannot be stored at once are left to the server that takes over.
    var hasNoTime = false
    private var whenIdle: CheckedContinuation<Void, Never>?

    /// The next pause when Kakao's quota is exhausted.
    var quotaWait: Duration
    // In the loop's milliseconds.
    var pausedUntil: UInt64 = 0
    var nextRefresh: UInt64 = 0
    var nextTakeOver: UInt64 = 0
    var nextReconciliation: UInt64 = 0
    /// A claim may have been committed whose response was lost.
    var hasLostClaim = false
    var nextStorageWarning: UInt64 = 0
    /// The requests begun since a time, for how many batches are to be claimed ahead.
    private var begun = 0
    private var begunSince: UInt64 = 0
    private var begunPerSecond = 0.0

    /// - Parameters:
    ///   - kakao: The API that batches are sent by.
    ///   - version: The version that `kakao` speaks.
    ///   - returnURL: Where Kakao reports failed tokens; `nil` for nowhere.
    ///   - limit: Requests in flight at a time.
    ///   - requestsPerSecond: Requests begun in a second; `nil` for no limit.
    ///   - notices: Signal that there is something to send.
    ///   - progress: Records whether the sender gets through its work.
    init(
        loop: EventLoop,
        store: BatchStore,
        kakao: KakaoPushAPI,
        version: PushVersion,
        availability: KakaoAvailability,
        returnURL: String?,
        limit: Int,
        requestsPerSecond: Int?,
        intervals: SenderIntervals,
        notices: PushNotices,
        progress: SenderProgress,
        logger: Logger
    ) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.kakao = kakao
        self.version = version
        self.availability = availability
        self.returnURL = returnURL
        self.limit = limit
        self.intervals = intervals
        quotaWait = intervals.quotaWait
        rateLimit = requestsPerSecond.map { RateLimit(perSecond: $0, now: 0) }
        self.logger = logger
        self.notices = notices
        self.progress = progress
        signal = notices.sending
        leaseSignal = Signal(loop: loop)
    }

    // MARK: Life

    /// Works until it is stopped, and until every request then in flight has been answered and its result stored.
    ///
    /// When the task is cancelled, results that cannot be stored at once are left to the server that takes over.
    func run() async {
        await withTaskCancellationHandler {
            let leasing = Task(executorPreference: loop) { await self.keepLease() }
            while !isStopping {
                await work()
                guard !isStopping else { break }
                await signal.wait(atMost: waitTime)
            }
            for push in pushes.values { release(push) }
            await becomeIdle()
            try? await endFinished()
            leasing.cancel()
            await leasing.value
            await releaseLease()
        } onCancel: {
            loop.execute { self.assumeIsolated { $0.hasNoTime = true } }
        }
    }

    /// Lets ``run()`` end.
    func stop() {
        isStopping = true
        signal.send()
    }

    private func work() async {
        do {
            try await drainNotifications()
            if lease != nil {
                if !pushes.isEmpty, loop.now >= nextTakeOver { try await takeOver() }
                if !pushes.isEmpty, loop.now >= nextReconciliation { try await reconcile() }
                while !isStopping, try await claim() {}
            }
            try await endFinished()
        } catch {
            recordFailure(error)
            // Not in a busy loop while the database is unavailable.
            nextRefresh = loop.now + intervals.retry.wholeMilliseconds
            // The response to a claim may be lost: nothing more is claimed before the batches that are open are known.
            hasLostClaim = true
            nextReconciliation = nextRefresh
            for push in pushes.values { push.idleUntil = max(push.idleUntil, nextRefresh) }
        }
    }

    /// Logs a failed pass, and warns once the sender has made no progress for a while.
    func recordFailure(_ error: any Error) {
        logger.debug("Sender pass failed", metadata: ["error": "\(String(reflecting: error))"])
        guard let duration = progress.recordFailure(warningAfter: intervals.stall) else { return }
        logger.warning(
            "Sender makes no progress",
            metadata: ["for": "\(duration.components.seconds) s", "error": "\(String(reflecting: error))"]
        )
    }

    /// Releases the lease, and before that the batches of claims whose responses were lost.
    private func releaseLease() async {
        // Twice, for a claim that was committed meanwhile.
        for _ in 0..<2 {
            guard let lease, !hasNoTime else { return }
            do {
                try await reconcile()
                await becomeIdle()
                if try await store.release(lease.id) { return }
            } catch {
                // It ends by itself.
                return
            }
        }
    }

    private func becomeIdle() async {
        if inFlight + pendingWrites > 0 { await withCheckedContinuation { whenIdle = $0 } }
    }

    func resumeWhenIdle() {
        guard inFlight + pendingWrites == 0, let continuation = whenIdle else { return }
        whenIdle = nil
        continuation.resume()
    }

    /// The time after which there is something to do without a signal.
    private var waitTime: Duration {
        var next = min(nextRefresh, loop.now + 3_600_000)
        if lease != nil, !pushes.isEmpty { next = min(next, nextTakeOver, nextReconciliation) }
        for push in pushes.values { if let expiry = push.expiry, !push.isExpiring { next = min(next, expiry) } }
        if loop.now < pausedUntil {
            next = min(next, pausedUntil)
        } else {
            if mayClaim { for push in claimable { next = min(next, push.idleUntil) } }
            if claimed > 0, let rateLimit { next = min(next, loop.now + rateLimit.wait.wholeMilliseconds) }
        }
        return .milliseconds(Int(max(1, next - min(loop.now, next))))
    }

    // MARK: Active pushes

    private func drainNotifications() async throws {
        let news = notices.take()
        let hasUnknown = news.batches.keys.contains { pushes[$0] == nil }
        if news.hasChange || hasUnknown || loop.now >= nextRefresh { try await refreshActivePushes() }
        for (id, areLast) in news.batches {
            guard let push = pushes[id] else { continue }
            push.idleUntil = 0
            if areLast { push.isPrepared = true }
            push.mayBeFinished = true
        }
    }

    /// Reads which pushes there are to send. After that, a notification or the next renewal of the lease says when there are others.
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
            let message = push.message.rendered(for: version, returnURL: returnURL)
            pushes[push.id] = OutgoingPush(push, message: SendMessage(message, bypass: push.bypass))
        }
        // A push that is stopped goes once its last results are stored.
        var looksAgain = false
        defer { if looksAgain { nextRefresh = min(nextRefresh, start + intervals.renewal.wholeMilliseconds) } }
        for (id, push) in pushes {
            guard let timeLeft = active.timeLeft[id] else {
                // Stopped meanwhile: its claimed batches go back.
                release(push)
                if push.heldBatches == 0 { pushes[id] = nil } else { looksAgain = true }
                continue
            }
            push.idleUntil = 0
            push.expiry = timeLeft.map { start + $0.wholeMilliseconds }
            if !active.unprepared.contains(id) { push.isPrepared = true }
            // Another server may have stored the last result, or an operator resumed a push of which nothing was left.
            push.mayBeFinished = true
        }
    }

    /// Ends pushes of which nothing is left, or whose time is over.
    private func endFinished() async throws {
        var candidates: [UUID] = []
        for (id, push) in pushes {
            if push.isExpired(at: loop.now) {
                push.isExpiring = true
                release(push)
                try await store.expire(id)
                nextRefresh = min(nextRefresh, loop.now + intervals.retry.wholeMilliseconds)
            } else if push.isPrepared, push.mayBeFinished, push.heldBatches == 0 {
                push.mayBeFinished = false
                candidates.append(id)
            }
        }
        guard !candidates.isEmpty else { return }
        do {
            for id in try await store.finish(candidates) { pushes[id] = nil }
        } catch {
            for id in candidates { pushes[id]?.mayBeFinished = true }
            throw error
        }
    }

    // MARK: Claiming

    /// The batches that are to be claimed ahead: what is sent while the next claim is in flight, and more.
    private var target: Int { max(2 * limit, Int(min(begunPerSecond / 5, 1_000_000))) }

    /// Whether batches of any push may be claimed.
    private var mayClaim: Bool {
        guard let lease, lease.maySend(at: EventLoop.milliseconds()) else { return false }
        return !hasLostClaim && claimed < target && pendingWrites < Self.maximumPendingWrites
    }

    /// The pushes of which batches may be claimed, once they are no longer idle.
    private var claimable: [OutgoingPush] {
        let target = target
        let hasRoom = hasAtMostOnceRoom
        return pushes.values.filter {
            $0.claims.count <= target / 2 && !$0.isExpired(at: loop.now) && !$0.isHeld && !$0.isHalting
                && (hasRoom || $0.push.delivery != .atMostOnce)
        }
    }

    /// How many more batches of pushes that are sent at most once this server may hold: those that it holds are uncertain if it stops.
    private var atMostOnceRoom: Int {
        pushes.values.reduce(2 * limit) { $1.push.delivery == .atMostOnce ? $0 - $1.heldBatches : $0 }
    }

    /// Whether there is room for so many that a claim is worth a statement.
    var hasAtMostOnceRoom: Bool { atMostOnceRoom >= max(2, limit) }

    /// The batches to claim of each push that is not idle.
    private func shares(at now: UInt64) -> [(push: OutgoingPush, batches: Int)] {
        let wanting = claimable.filter { $0.idleUntil <= now }.sorted { $0.heldBatches < $1.heldBatches }
        guard !wanting.isEmpty else { return [] }
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

    /// Claims batches of the pushes that want some. Returns whether there may be more to claim at once.
    private func claim() async throws -> Bool {
        let now = loop.now
        defer { sendClaimed() }
        guard now >= pausedUntil, mayClaim, let lease else { return false }
        let shares = shares(at: now)
        guard !shares.isEmpty else { return false }
        for (push, _) in shares { push.splitsAtClaim = push.splits }
        let claimed = try await store.claim(
            shares.map { BatchStore.Share(pushID: $0.push.push.id, batches: $0.batches) },
            lease: lease.id
        )
        guard take(claimed, under: lease) else { return false }
        let counts = claimed.batches.reduce(into: [:]) { $0[$1.pushID, default: 0] += 1 }
        for (push, batches) in shares {
            let id = push.push.id
            if let usersPerSecond = push.push.usersPerSecond {
                // Twice in the time that the rate allows for a batch.
                let perSecond = UInt64(max(1, usersPerSecond))
                push.idleUntil = loop.now + max(20, 500 * min(perSecond, UInt64(KakaoPushAPI.maximumUsers)) / perSecond)
            } else if counts[id, default: 0] < batches, !claimed.cutShort.contains(id) {
                push.recordNothingToClaim(at: loop.now)
            }
        }
        progress.recordSuccess()
        return !claimed.batches.isEmpty
    }

    /// Enqueues claimed batches. Returns whether the lease is still held; otherwise they are another server's.
    private func take(_ claimed: ClaimedBatches, under lease: SenderLease) -> Bool {
        guard claimed.isLeaseValid, self.lease?.id == lease.id else {
            leaseSignal.send()
            return false
        }
        for claim in claimed.batches {
            // A push stays for as long as the loop of passes that claims of it.
            guard let push = pushes[claim.pushID] else { continue }
            if push.claims.isEmpty { ready.append(push) }
            push.claims.append(claim)
            tracked.insert(claim.id)
            self.claimed += 1
        }
        // Rejected while these were being claimed.
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
        while let claim = takeNext() {
            Task(executorPreference: loop) { await self.send(claim) }
        }
    }

    /// Takes the next batch to send, of the push that has the fewest in flight; `nil` if none may be sent now.
    func takeNext() -> BatchClaim? {
        // A stall may have lasted until after the end of the lease: the clock is read anew.
        let now = EventLoop.milliseconds()
        guard let lease, lease.maySend(at: now), now >= pausedUntil, !isStopping else { return nil }
        while inFlight < limit, pendingWrites < Self.maximumPendingWrites, !ready.isEmpty {
            if rateLimit?.available(at: now) == 0 { return nil }
            var index = 0
            for other in ready.indices.dropFirst() where ready[other].inFlight < ready[index].inFlight { index = other }
            let push = ready[index]
            if push.isExpired(at: now) {
                release(push)
                signal.send()
                continue
            }
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
        begun += 1
        let elapsed = loop.now - begunSince
        guard elapsed >= Self.countingTime else { return }
        begunPerSecond = Double(begun) * 1000 / Double(elapsed)
        begun = 0
        begunSince = loop.now
    }
}
