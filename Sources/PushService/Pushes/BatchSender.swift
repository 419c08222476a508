internal import DequeModule
internal import EventLoop
internal import FoundationEssentials
internal import KakaoAPI
internal import Logging

/// Sends batches to Kakao: claims what is due, keeps a bounded number of requests under way, and writes down what became of each.
///
/// Any number of servers do this side by side on one database. What one has claimed it holds under a lease that it renews; of one that
/// dies another takes over. Of several pushes each gets its share of the requests, so that a small one does not wait behind a large.
actor BatchSender {
    /// How often it looks without having been woken, as a safety net beneath `NOTIFY`.
    private static let lookInterval: UInt64 = 3000
    private static let renewInterval: UInt64 = 5000
    /// Seconds before the end of its lease from which a server sends no more: it may have to be sent and answered within it.
    private static let leaseMargin = 5.0
    private static let takeOverInterval: UInt64 = 2000
    /// The first wait when a quota is used up; each further one is twice as long.
    private static let shortestQuotaWait = Duration.seconds(60)
    private static let longestQuotaWait = Duration.seconds(3600)
    /// Milliseconds over which requests are counted, at least: how many batches lie ready goes by that.
    private static let countingTime: UInt64 = 25
    /// Results that may wait to be stored before no more is sent.
    private static let maximumUnwritten = 4096

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: BatchStore
    private let kakao: KakaoPushAPI
    private let version: PushVersion
    private let standing: KakaoStanding
    private let returnURL: String?
    private let limit: Int
    private let logger: Logger
    private let notices: PushNotices
    private let wakeup: Wakeup
    private let writer: BatchResultWriter

    private var rateLimit: RateLimit?
    private var pushes: [UUID: OutgoingPush] = [:]
    /// Those that have something claimed.
    private var ready: [OutgoingPush] = []
    private var underWay = 0
    private var unwritten = 0
    private var claimed = 0
    /// Batches that were sent at their first attempt, and of which that is to be written.
    private var sent: [BatchStore.Settlement] = []
    private var isWritingSent = false
    private var lease = UUID()
    /// In the loop's milliseconds, a little before the database's: until then what is claimed is nobody else's.
    private var leaseEnd: UInt64 = 0
    private var isStopping = false
    private var hasNoTime = false
    private var whenIdle: CheckedContinuation<Void, Never>?

    private var quotaWait = BatchSender.shortestQuotaWait
    // In the loop's milliseconds.
    private var pausedUntil: UInt64 = 0
    private var nextLook: UInt64 = 0
    private var nextTakeOver: UInt64 = 0
    private var nextRenewal: UInt64 = 0
    /// Requests that were begun since, for how many batches are to be claimed ahead.
    private var begun = 0
    private var begunSince: UInt64 = 0
    private var begunPerSecond = 0.0

    /// - Parameters:
    ///   - kakao: What the batches are sent by.
    ///   - version: The version that `kakao` speaks.
    ///   - returnURL: Where Kakao is to report tokens that failed; `nil` for nowhere.
    ///   - limit: Requests under way at a time.
    ///   - requestsPerSecond: Requests begun in a second; `nil` for as many as Kakao takes.
    ///   - notices: Say when there is something to send.
    init(
        loop: EventLoop,
        store: BatchStore,
        kakao: KakaoPushAPI,
        version: PushVersion,
        standing: KakaoStanding,
        returnURL: String?,
        limit: Int,
        requestsPerSecond: Int?,
        notices: PushNotices,
        logger: Logger
    ) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.kakao = kakao
        self.version = version
        self.standing = standing
        self.returnURL = returnURL
        self.limit = limit
        rateLimit = requestsPerSecond.map { RateLimit(perSecond: $0, now: 0) }
        self.logger = logger
        self.notices = notices
        wakeup = notices.sending
        writer = BatchResultWriter(loop: loop, store: store, notices: notices, logger: logger)
    }

    // MARK: Life

    /// Works until it is stopped, and until what is then under way has been answered and written down.
    ///
    /// When the task is cancelled, what cannot be written down at once is left to whoever takes over.
    func run() async {
        await withTaskCancellationHandler {
            while !isStopping {
                await work()
                guard !isStopping else { break }
                await wakeup.wait(atMost: waitTime)
            }
            await finish()
        } onCancel: {
            loop.execute { self.assumeIsolated { $0.hasNoTime = true } }
        }
    }

    /// Lets ``run()`` end.
    func stop() {
        isStopping = true
        wakeup.signal()
    }

    private func work() async {
        do {
            try await takeNews()
            if loop.now >= nextTakeOver { try await takeOver() }
            if loop.now >= nextRenewal { try await renew() }
            while !isStopping, try await claim() {}
            try await endFinished()
        } catch {
            logger.debug("The sender has to wait for the database", metadata: ["error": "\(error)"])
            // Not in a circle while it is away.
            nextLook = loop.now + 1000
            for push in pushes.values { push.idleUntil = max(push.idleUntil, nextLook) }
        }
    }

    /// Gives back what has been claimed and not sent, waits for the rest, and gives up the lease.
    private func finish() async {
        for push in pushes.values { giveBack(push) }
        if underWay + unwritten > 0 { await withCheckedContinuation { whenIdle = $0 } }
        try? await store.giveUp(lease)
    }

    private func noteIdle() {
        guard underWay + unwritten == 0, let continuation = whenIdle else { return }
        whenIdle = nil
        continuation.resume()
    }

    /// Until something is to be looked at without anybody saying so.
    private var waitTime: Duration {
        var next = nextLook
        if !pushes.isEmpty { next = min(next, nextTakeOver) }
        if isHolding { next = min(next, nextRenewal) }
        if loop.now < pausedUntil {
            next = min(next, pausedUntil)
        } else {
            if claimed < target { for push in pushes.values { next = min(next, push.idleUntil) } }
            if claimed > 0, let rateLimit { next = min(next, loop.now + rateLimit.wait.wholeMilliseconds) }
        }
        return .milliseconds(Int(max(1, next - min(loop.now, next))))
    }

    private var isHolding: Bool { claimed + underWay + unwritten > 0 }

    // MARK: Looking

    private func takeNews() async throws {
        let news = notices.take()
        let hasUnknown = news.batches.keys.contains { pushes[$0] == nil }
        if news.hasChange || hasUnknown || loop.now >= nextLook { try await look() }
        for (id, areLast) in news.batches {
            guard let push = pushes[id] else { continue }
            push.idleUntil = 0
            if areLast { push.isPrepared = true }
            push.mayBeFinished = true
        }
    }

    /// Learns which pushes there are to send.
    private func look() async throws {
        nextLook = loop.now + Self.lookInterval
        let look = try await store.active(besides: Array(pushes.keys))
        if !look.unprepared.isEmpty { notices.preparing.signal() }
        if let nextStart = look.nextStart { nextLook = min(nextLook, loop.now + nextStart.wholeMilliseconds + 1) }
        for push in look.new {
            let message = push.message.rendered(for: version, returnURL: returnURL)
            pushes[push.id] = OutgoingPush(push, message: SendMessage(message, bypass: push.bypass))
        }
        for (id, push) in pushes {
            push.idleUntil = 0
            guard !push.isPrepared, !look.unprepared.contains(id) else { continue }
            push.isPrepared = true
            push.mayBeFinished = true
        }
        let active = Set(look.ids)
        // Stopped meanwhile: what was claimed of it goes back.
        for (id, push) in pushes where !active.contains(id) {
            giveBack(push)
            if !push.isBusy { pushes[id] = nil }
        }
    }

    private func giveBack(_ push: OutgoingPush) {
        while let claim = push.claims.popFirst() {
            claimed -= 1
            beginWriting(.notSent, claim)
        }
        ready.removeAll { $0 === push }
    }

    private func takeOver() async throws {
        nextTakeOver = loop.now + Self.takeOverInterval
        guard !pushes.isEmpty else { return }
        let (leases, batches) = try await store.takeOver()
        // Also without batches: it may have written its last result and not lived to end the push.
        guard leases > 0 else { return }
        if batches > 0 {
            logger.warning("Took over what a server had claimed that is gone", metadata: ["batches": "\(batches)"])
        }
        for push in pushes.values {
            push.idleUntil = 0
            push.mayBeFinished = true
        }
    }

    private func renew() async throws {
        let now = loop.now
        // If it fails.
        nextRenewal = now + 1000
        guard isHolding else { return }
        guard try await !store.renew(lease) else {
            noteRenewal(at: now)
            return dispatch()
        }
        // What was under way is another server's now, and its results are refused one by one; the rest is not sent.
        logger.warning("Another server has taken over what this one had claimed: its lease had ended")
        lease = UUID()
        for push in ready {
            claimed -= push.claims.count
            push.claims = []
        }
        ready = []
    }

    /// - Parameter start: When it was asked for: the database began to count later.
    private func noteRenewal(at start: UInt64) {
        nextRenewal = start + Self.renewInterval
        leaseEnd = start + UInt64((BatchStore.leaseSeconds - Self.leaseMargin) * 1000)
    }

    // MARK: Claiming

    /// Batches that are to lie ready: what is sent while the next claim is under way, and more.
    private var target: Int { max(2 * limit, Int(begunPerSecond / 5)) }

    /// Claims what is wanted. Returns whether there may be more to claim at once.
    private func claim() async throws -> Bool {
        let now = loop.now
        guard now >= pausedUntil, claimed < target, unwritten < Self.maximumUnwritten else { return false }
        let wanting = pushes.values.filter {
            $0.idleUntil <= now && $0.claims.count <= target / 2 && !$0.isExpiring && !$0.isHeld
        }
        guard !wanting.isEmpty else { return false }
        for push in wanting { push.splitsAtClaim = push.splits }
        let share = max(1, (target - claimed + wanting.count - 1) / wanting.count)
        let quick = wanting.filter { $0.push.usersPerSecond == nil }.map { push in
            // Of what is sent at most once as little as possible is to be in doubt if this server dies.
            let batches = push.push.delivery == .atMostOnce ? min(share, limit) : share
            return BatchStore.Share(pushID: push.push.id, batches: batches)
        }
        var found = 0
        if !quick.isEmpty {
            let claimed = try await store.claim(quick, lease: lease)
            found += take(claimed.batches, askedAt: now)
            let counts = claimed.batches.reduce(into: [:]) { $0[$1.pushID, default: 0] += 1 }
            for share in quick
            where counts[share.pushID, default: 0] < share.batches && !claimed.cutShort.contains(share.pushID) {
                pushes[share.pushID]?.hasNothing(at: loop.now)
            }
        }
        for push in wanting where push.push.usersPerSecond != nil {
            let start = loop.now
            let claimed = try await store.claimSlowly(push.push.id, batches: share, lease: lease)
            found += take(claimed.batches, askedAt: start)
            // Twice in the time that the rate wants for a batch.
            let perSecond = UInt64(push.push.usersPerSecond ?? 1)
            push.idleUntil = loop.now + max(20, 500 * min(perSecond, UInt64(KakaoPushAPI.maximumUsers)) / perSecond)
        }
        dispatch()
        return found > 0
    }

    /// Puts claims in line. Returns how many there are.
    private func take(_ claims: [BatchClaim], askedAt start: UInt64) -> Int {
        for claim in claims {
            guard let push = pushes[claim.pushID] else { continue }
            if push.claims.isEmpty { ready.append(push) }
            push.claims.append(claim)
            claimed += 1
        }
        // What was refused while these were claimed.
        for push in ready where push.splits != push.splitsAtClaim && !push.wasAccepted { giveBack(push) }
        // The claim has renewed the lease.
        if !claims.isEmpty { noteRenewal(at: start) }
        return claims.count
    }

    /// Ends pushes of which nothing is left, or whose time is over.
    private func endFinished() async throws {
        let now = Date()
        var candidates: [UUID] = []
        for (id, push) in pushes {
            if let expiresAt = push.push.expiresAt, expiresAt <= now {
                push.isExpiring = true
                giveBack(push)
                try await store.expire(id)
                nextLook = min(nextLook, loop.now + 1000)
            } else if push.isPrepared, push.mayBeFinished, !push.isBusy {
                push.mayBeFinished = false
                candidates.append(id)
            }
        }
        guard !candidates.isEmpty else { return }
        do {
            for id in try await store.endFinished(candidates) { pushes[id] = nil }
        } catch {
            for id in candidates { pushes[id]?.mayBeFinished = true }
            throw error
        }
    }

    // MARK: Sending

    /// Sends as much of what is claimed as may be under way.
    private func dispatch() {
        while let claim = takeNext() {
            Task(executorPreference: loop) { await self.send(claim) }
        }
        if claimed < target / 2 { wakeup.signal() }
    }

    /// What is to be sent now, of the push that has the least under way, if anything is: it is under way then.
    private func takeNext() -> BatchClaim? {
        while underWay < limit, unwritten < Self.maximumUnwritten, !ready.isEmpty, !isStopping, loop.now >= pausedUntil
        {
            // While the database is away it cannot be renewed: another server may take over any moment.
            guard loop.now < leaseEnd else { return nil }
            if rateLimit?.available(at: loop.now) == 0 { return nil }
            var index = 0
            for other in ready.indices.dropFirst() where ready[other].underWay < ready[index].underWay { index = other }
            let push = ready[index]
            if let expiresAt = push.push.expiresAt, expiresAt <= Date() {
                giveBack(push)
                wakeup.signal()
                continue
            }
            let claim = push.claims.popFirst()
            if push.claims.isEmpty { ready.remove(at: index) }
            guard let claim else { continue }
            rateLimit?.take(1)
            claimed -= 1
            underWay += 1
            push.underWay += 1
            noteBegun()
            return claim
        }
        return nil
    }

    private func noteBegun() {
        begun += 1
        let elapsed = loop.now - begunSince
        guard elapsed >= Self.countingTime else { return }
        begunPerSecond = Double(begun) * 1000 / Double(elapsed)
        begun = 0
        begunSince = loop.now
    }

    /// Sends a batch, and what is to be sent when that is over, and so on. Each one's result is stored while the next is under way.
    private func send(_ first: BatchClaim) async {
        var next: BatchClaim? = first
        // A push stays for as long as it is busy.
        while let claim = next, let push = pushes[claim.pushID] {
            let outcome = await attempt(claim, push)
            underWay -= 1
            push.underWay -= 1
            note(outcome, push)
            beginWriting(outcome, claim)
            next = takeNext()
            dispatch()
        }
    }

    private func attempt(_ claim: BatchClaim, _ push: OutgoingPush) async -> BatchOutcome {
        do throws(KakaoError) {
            try await kakao.send(push.message, to: claim.userIDs)
            standing.noteAccepted()
            return .sent
        } catch {
            standing.note(error)
            return BatchOutcome(
                error,
                attempts: claim.attempts,
                users: claim.userIDs.count,
                delivery: push.push.delivery,
                jitter: Double.random(in: 0.8...1.2)
            )
        }
    }

    private func note(_ outcome: BatchOutcome, _ push: OutgoingPush) {
        switch outcome {
        case .sent:
            quotaWait = Self.shortestQuotaWait
            push.wasAccepted = true
        case .wait(let error):
            // Every request under way is told the same: they count as one.
            guard loop.now >= pausedUntil else { return }
            let wait = max(quotaWait, min(error.retryAfter ?? .zero, Self.longestQuotaWait))
            pausedUntil = loop.now + wait.wholeMilliseconds
            // Another server may have a quota of its own.
            for push in pushes.values { giveBack(push) }
            standing.noteQuotaUsedUp(for: wait)
            quotaWait = min(quotaWait * 2, Self.longestQuotaWait)
            wakeup.signal(after: wait)
            logger.warning(
                "Kakao's quota is used up; the sender waits",
                metadata: ["for": "\(wait)", "kakao": "\(error)"]
            )
        case .retry(let delay, _, _):
            push.noteRetry(at: loop.now + delay.wholeMilliseconds)
        case .halt:
            // What is claimed of it goes back; the others find out for themselves.
            giveBack(push)
            nextLook = 0
        case .split:
            push.splits += 1
            push.unsplit += 1
            if push.isHeld { giveBack(push) }
        case .failed, .uncertain, .notSent:
            break
        }
    }

    // MARK: Results

    /// Has what became of a batch written down, in the background.
    private func beginWriting(_ outcome: BatchOutcome, _ claim: BatchClaim) {
        unwritten += 1
        pushes[claim.pushID]?.unwritten += 1
        guard case .sent = outcome, let shared = claim.shared else {
            Task(executorPreference: loop) { await self.write(outcome, claim) }
            return
        }
        sent.append(BatchStore.Settlement(claim: claim, shared: shared, isSent: true))
        guard !isWritingSent else { return }
        isWritingSent = true
        Task(executorPreference: loop) { await self.writeSent() }
    }

    private func write(_ outcome: BatchOutcome, _ claim: BatchClaim) async {
        await writer.write(outcome, claim) { hasNoTime }
        noteWritten(outcome, claim)
    }

    /// Writes what has been sent, until there is no more of it: what comes while a group is being written is the next one.
    private func writeSent() async {
        while !sent.isEmpty {
            let group = sent
            sent = []
            await writer.write(sent: group) { hasNoTime }
            for settlement in group { noteWritten(.sent, settlement.claim) }
        }
        isWritingSent = false
    }

    private func noteWritten(_ outcome: BatchOutcome, _ claim: BatchClaim) {
        unwritten -= 1
        guard let push = pushes[claim.pushID] else { return }
        push.unwritten -= 1
        switch outcome {
        case .sent, .failed, .uncertain:
            push.mayBeFinished = true
            // It may have ended a probe, so that there is more to claim.
            if claim.origin != nil { push.idleUntil = 0 }
        case .split:
            push.unsplit -= 1
            push.idleUntil = 0
        case .retry, .wait, .halt, .notSent: break
        }
        if !push.isBusy || unwritten == Self.maximumUnwritten - 1 { wakeup.signal() }
        noteIdle()
    }
}
