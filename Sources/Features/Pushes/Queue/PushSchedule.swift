import DequeModule
import EventLoop
import FoundationEssentials
import KakaoAPI
import Runtime

/// Which batches of which pushes a server claims and sends next.
///
/// Pushes share the requests in flight evenly, so that a small push does not wait for a large one. Batches are claimed ahead, as many as
/// are sent in a fifth of a second.
struct PushSchedule: QueueSchedule {
    /// The number of results waiting to be stored at which sending stops.
    private static let maxPendingWrites = 4096
    /// The minimum period in milliseconds over which the request rate is measured. The number of batches claimed ahead depends on it.
    private static let countingMilliseconds: UInt64 = 25
    /// The longest pause because of Kakao's quota, in multiples of the first one.
    private static let longestQuotaWait = 60

    enum Chore: Sendable {
        /// Reads the pushes to send, besides the known ones.
        case refresh(besides: [UUID])
        /// Ends a push whose time is over.
        case expire(UUID)
        /// Ends those of these pushes that have nothing left to send.
        case finish([UUID])
        /// Reports that nothing is sent until a time in milliseconds of the loop's clock, because Kakao's quota is exhausted.
        case reportPause(until: UInt64, KakaoError)
    }

    enum ChoreResult: Sendable {
        case active(BatchStore.ActivePushes)
        case finished([UUID])
        case done
    }

    /// The changes since the last pass.
    struct Notices: Sendable {
        var changes = PushNotices.Changes()
        /// The maximum number of requests begun per second, which a reload may change; `nil` for no limit.
        var requestsPerSecond: Int?
    }

    private let maxRequestsInFlight: Int
    private let intervals: WorkIntervals
    private var rateLimit: RateLimit?
    private var pushes: [UUID: OutgoingPush] = [:]
    /// The pushes with claimed batches that are not sent yet.
    private var ready: [OutgoingPush] = []
    /// The number of batches that are claimed and not sent yet.
    private var claimed = 0

    /// The duration of the next pause when Kakao's quota is exhausted.
    private var quotaWait: Duration
    private var unreportedPause: KakaoError?
    // Times in milliseconds of the loop's clock.
    private var pausedUntil: UInt64 = 0
    private var nextRefresh: UInt64 = 0
    private var refreshedAt: UInt64 = 0
    /// The number of requests started since `countedSince`, to measure the request rate.
    private var startedRequests = 0
    private var countedSince: UInt64 = 0
    private var measuredRate = 0.0

    private(set) var known = KnownBatches()
    /// Whether the last renewal of the lease found work for any server.
    private var hasWork = false
    var wantsPass = false
    var released: [BatchClaim] = []

    init(maxRequestsInFlight: Int, intervals: WorkIntervals) {
        self.maxRequestsInFlight = maxRequestsInFlight
        self.intervals = intervals
        quotaWait = intervals.quotaWait
    }

    /// A stopped server may have left batches of pushes that are not sent any more, such as canceled ones.
    var isBusy: Bool { hasWork || !pushes.isEmpty }

    func isResting(at now: UInt64) -> Bool { pushes.isEmpty || now < pausedUntil }

    // MARK: Passes

    mutating func noticed(_ notices: Notices, _ load: QueueLoad) {
        if notices.requestsPerSecond != rateLimit?.perSecond {
            rateLimit = notices.requestsPerSecond.map { RateLimit(perSecond: $0, now: load.now) }
        }
        if notices.changes.hasChange { nextRefresh = 0 }
        for (id, areLast) in notices.changes.batches {
            guard let push = pushes[id] else {
                nextRefresh = 0
                continue
            }
            push.idleUntil = 0
            push.mayBeFinished = true
            if areLast { push.isPrepared = true }
        }
    }

    mutating func nextChore(_ phase: QueuePhase, _ load: QueueLoad) -> Chore? {
        switch phase {
        case .beforeClaims:
            if let error = unreportedPause.take() { return .reportPause(until: pausedUntil, error) }
            guard load.now >= nextRefresh else { return nil }
            // Further pushes are announced by a notification, or found at the next renewal of the lease.
            (nextRefresh, refreshedAt) = (.max, load.now)
            return .refresh(besides: Array(pushes.keys))
        case .afterClaims:
            return nextEnd(load)
        }
    }

    /// Returns a push to expire, or those to finish.
    private mutating func nextEnd(_ load: QueueLoad) -> Chore? {
        var finished: [UUID] = []
        for (id, push) in pushes where !push.isExpiring {
            if push.isExpired(at: load.now) {
                push.isExpiring = true
                release(push)
                return .expire(id)
            }
            if push.isPrepared, push.mayBeFinished, push.heldBatches == 0 { finished.append(id) }
        }
        guard !finished.isEmpty else { return nil }
        for id in finished { pushes[id]?.mayBeFinished = false }
        return .finish(finished)
    }

    mutating func completed(_ chore: Chore, _ result: ChoreResult, _ load: QueueLoad) {
        switch result {
        case .active(let active): adopt(active)
        case .finished(let ids): for id in ids { pushes[id] = nil }
        case .done:
            // An expired push is not listed any more.
            if case .expire = chore { nextRefresh = min(nextRefresh, load.now + intervals.retry.wholeMilliseconds) }
        }
    }

    mutating func failed(_ chore: Chore) {
        switch chore {
        case .refresh: nextRefresh = 0
        // If it is still listed then, it is tried again.
        case .expire: break
        case .finish(let ids): for id in ids { pushes[id]?.mayBeFinished = true }
        case .reportPause: break
        }
    }

    mutating func failed(until time: UInt64) {
        nextRefresh = time
        for push in pushes.values { push.idleUntil = max(push.idleUntil, time) }
    }

    /// Adopts the pushes that are being sent.
    private mutating func adopt(_ active: BatchStore.ActivePushes) {
        if let nextStart = active.nextStart {
            nextRefresh = min(nextRefresh, refreshedAt + nextStart.wholeMilliseconds + 1)
        }
        for (push, message) in active.new { pushes[push.id] = OutgoingPush(push, message: message) }
        for (id, push) in pushes {
            guard let timeLeft = active.timeLeft[id] else {
                // The push was stopped. It is removed once its last results are stored.
                if push.heldBatches == 0 {
                    pushes[id] = nil
                } else {
                    release(push)
                    nextRefresh = min(nextRefresh, refreshedAt + intervals.renewal.wholeMilliseconds)
                }
                continue
            }
            push.idleUntil = 0
            push.isExpiring = false
            push.expiry = timeLeft.map { refreshedAt + $0.wholeMilliseconds }
            push.hoursEnd = active.hoursLeft[id].map { refreshedAt + $0.wholeMilliseconds }
            // It is no longer listed then.
            if let end = push.hoursEnd { nextRefresh = min(nextRefresh, end) }
            if !active.unprepared.contains(id) { push.isPrepared = true }
            // Another server may have stored the last result, or an operator may have resumed a push with nothing left
            // to send.
            push.mayBeFinished = true
        }
    }

    func nextPass(_ load: QueueLoad) -> UInt64 {
        var next = nextRefresh
        for push in pushes.values { if let expiry = push.expiry, !push.isExpiring { next = min(next, expiry) } }
        if load.now < pausedUntil {
            next = min(next, pausedUntil)
        } else if let nextTrial = load.nextTrial, load.now < nextTrial || load.inFlight > 0 {
            if load.inFlight == 0, !pushes.isEmpty { next = min(next, nextTrial) }
        } else {
            if mayClaim(load) { for push in claimable(load) { next = min(next, push.idleUntil) } }
            if claimed > 0, load.inFlight < maxRequestsInFlight, let rateLimit {
                next = min(next, load.now + rateLimit.wait.wholeMilliseconds)
            }
        }
        return next
    }

    // MARK: Claims

    /// The number of batches to claim ahead: more than are sent while the next claim is in flight.
    private var target: Int { max(2 * maxRequestsInFlight, Int(min(measuredRate / 5, 1_000_000))) }

    /// Whether batches of any push may be claimed.
    private func mayClaim(_ load: QueueLoad) -> Bool {
        load.mayClaim && claimed < target && load.pendingWrites < Self.maxPendingWrites
    }

    /// The pushes whose batches may be claimed once the push is no longer idle.
    private func claimable(_ load: QueueLoad) -> [OutgoingPush] {
        let target = target
        let hasRoom = hasAtMostOnceRoom
        return pushes.values.filter {
            $0.claims.count <= target / 2 && !$0.isOver(at: load.now) && !$0.isHeld && !$0.isHalting
                && ($0.push.delivery == .atLeastOnce || hasRoom)
        }
    }

    /// The number of further at-most-once batches that this server may hold. It is limited, because they become
    /// uncertain if the server stops.
    private var atMostOnceRoom: Int {
        pushes.values.reduce(2 * maxRequestsInFlight) { $1.push.delivery == .atMostOnce ? $0 - $1.heldBatches : $0 }
    }

    /// Whether there is room for enough at-most-once batches to be worth a statement.
    private var hasAtMostOnceRoom: Bool { atMostOnceRoom >= max(2, maxRequestsInFlight) }

    /// Returns the number of batches to claim of each push that is not idle.
    mutating func nextOrder(_ load: QueueLoad) -> [BatchStore.Share]? {
        guard load.now >= pausedUntil, mayClaim(load) else { return nil }
        let shares = shares(load)
        guard !shares.isEmpty else { return nil }
        for share in shares { pushes[share.pushID]?.beginClaim() }
        return shares
    }

    private func shares(_ load: QueueLoad) -> [BatchStore.Share] {
        let wanting = claimable(load).filter { $0.idleUntil <= load.now }.sorted { $0.heldBatches < $1.heldBatches }
        guard let first = wanting.first else { return [] }
        if let nextTrial = load.nextTrial {
            guard load.now >= nextTrial, load.inFlight == 0, claimed == 0 else { return [] }
            return [BatchStore.Share(pushID: first.push.id, batches: 1)]
        }
        let share = max(1, (target - claimed + wanting.count - 1) / wanting.count)
        var room = atMostOnceRoom
        // A claim returns up to twice its share.
        let largest = max(1, room / 2 / max(1, wanting.count { $0.push.delivery == .atMostOnce }))
        return wanting.compactMap { push in
            guard push.push.delivery == .atMostOnce else {
                return BatchStore.Share(pushID: push.push.id, batches: share)
            }
            guard room >= 2 else { return nil }
            let batches = min(share, largest)
            room -= 2 * batches
            return BatchStore.Share(pushID: push.push.id, batches: batches)
        }
    }

    mutating func claimed(_ claimed: ClaimedBatches, by shares: [BatchStore.Share], _ load: QueueLoad) {
        var counts: [UUID: Int] = [:]
        for claim in claimed.batches {
            counts[claim.pushID, default: 0] += 1
            // Only a chore, which does not run beside a claim, removes pushes.
            guard let push = pushes[claim.pushID] else {
                released.append(claim)
                continue
            }
            if push.claims.isEmpty { ready.append(push) }
            push.claims.append(claim)
            self.claimed += 1
        }
        // Another server may have a quota of its own.
        if load.now < pausedUntil { released += removeReady() }
        for share in shares {
            guard let push = pushes[share.pushID] else { continue }
            if push.isRejectedSinceClaim { release(push) }
            if let usersPerSecond = push.push.usersPerSecond {
                // Claims twice in the time that the rate allows for a batch.
                let perSecond = UInt64(max(1, usersPerSecond))
                push.idleUntil = load.now + max(20, 500 * min(perSecond, UInt64(SendPush.maximumUsers)) / perSecond)
            } else if counts[share.pushID, default: 0] < share.batches, !claimed.cutShort.contains(share.pushID) {
                push.recordNothingToClaim(at: load.now)
            }
        }
    }

    // MARK: The lease

    /// Looks at once for batches of all pushes, and for pushes to finish.
    mutating func lookAgain() {
        for push in pushes.values {
            push.idleUntil = 0
            push.mayBeFinished = true
        }
    }

    mutating func leaseRenewed(hasWork: Bool, _ load: QueueLoad) {
        self.hasWork = hasWork
        // Finds pushes whose notification was lost. An idle server does not read them at each renewal.
        if hasWork { nextRefresh = 0 }
    }

    mutating func removeReady() -> [BatchClaim] {
        defer {
            for push in ready { push.claims = [] }
            ready = []
            claimed = 0
        }
        return ready.flatMap(\.claims)
    }

    /// Releases the batches of a push that are claimed and not sent yet.
    private mutating func release(_ push: OutgoingPush) {
        guard !push.claims.isEmpty else { return }
        released.append(contentsOf: push.claims)
        claimed -= push.claims.count
        push.claims = []
        ready.removeAll { $0 === push }
    }

    // MARK: Requests

    /// Removes and returns the next batch, from the push with the fewest requests in flight.
    mutating func popReady(_ load: QueueLoad, _ admits: () -> Bool) -> PushRequest? {
        let limit = load.nextTrial == nil ? maxRequestsInFlight : 1
        guard load.now >= pausedUntil, load.inFlight < limit, load.pendingWrites < Self.maxPendingWrites else {
            return nil
        }
        while !ready.isEmpty {
            if rateLimit?.available(at: load.now) == 0 { return nil }
            var index = 0
            for other in ready.indices.dropFirst() where ready[other].inFlight < ready[index].inFlight { index = other }
            let push = ready[index]
            guard !push.isOver(at: load.now) else {
                release(push)
                wantsPass = true
                continue
            }
            guard admits() else { return nil }
            let claim = push.claims.popFirst()
            if push.claims.isEmpty { ready.remove(at: index) }
            guard let claim else { continue }
            push.inFlight += 1
            rateLimit?.take(1)
            claimed -= 1
            countRequest(at: load.now)
            if claimed < target / 2 { wantsPass = true }
            return PushRequest(claim: claim, push: push)
        }
        return nil
    }

    private mutating func countRequest(at now: UInt64) {
        startedRequests += 1
        let elapsed = now - min(countedSince, now)
        guard elapsed >= Self.countingMilliseconds else { return }
        measuredRate = Double(startedRequests) * 1000 / Double(elapsed)
        startedRequests = 0
        countedSince = now
    }

    mutating func ended(
        _ request: PushRequest,
        _ results: [QueueResult<BatchClaim, BatchResult>],
        _ load: QueueLoad
    ) {
        // A push is not removed while batches of it are held.
        if let push = pushes[request.claim.pushID] {
            push.inFlight -= 1
            for result in results { react(to: result.outcome, of: result.claim, push, load) }
        }
        if claimed < target / 2 { wantsPass = true }
        // The next request is made alone, and later. Another server may reach Kakao in another way meanwhile. But the response to
        // a request in flight may show that only one was in vain.
        if load.inFlight == 0, load.nextTrial != nil { released += removeReady() }
    }

    private mutating func react(
        to result: BatchResult,
        of claim: BatchClaim,
        _ push: OutgoingPush,
        _ load: QueueLoad
    ) {
        switch result {
        case .sent:
            quotaWait = intervals.quotaWait
            push.recordAcceptance()
        case .wait(let error):
            pause(error, load)
        case .retry(let delay, _, _), .unrecognized(let delay, _, _):
            push.recordRetry(at: load.now + delay.wholeMilliseconds)
        case .halt:
            // The claimed batches of the push are released. Other servers detect the rejection themselves.
            push.isHalting = true
            release(push)
        case .split:
            push.recordSplit(of: claim)
            if push.isHeld { release(push) }
        case .failed(let error):
            guard error.disposition == .invalid else { break }
            push.recordRejection(of: claim)
            if push.isHeld { release(push) }
        case .uncertain, .notSent:
            break
        }
    }

    /// Pauses because Kakao's quota is exhausted.
    private mutating func pause(_ error: KakaoError, _ load: QueueLoad) {
        // All requests in flight get the same response, which counts once.
        guard load.now >= pausedUntil else { return }
        let longest = intervals.quotaWait * Self.longestQuotaWait
        let wait = max(quotaWait, min(error.retryAfter ?? .zero, longest))
        pausedUntil = load.now + wait.wholeMilliseconds
        quotaWait = min(quotaWait * 2, longest)
        unreportedPause = error
        // Another server may have a quota of its own.
        released += removeReady()
        wantsPass = true
    }

    // MARK: Results

    mutating func recording(_ result: inout QueueResult<BatchClaim, BatchResult>) {
        known.record(result.outcome, of: result.claim)
        guard let push = pushes[result.claim.pushID] else { return }
        push.pendingWrites += 1
        result.claim.isCounted = true
        result.claim.isRejectedRepeatedly = push.isRejectedRepeatedly
    }

    mutating func recorded(_ result: QueueResult<BatchClaim, BatchResult>, _ load: QueueLoad) {
        guard let push = pushes[result.claim.pushID], result.claim.isCounted else { return }
        push.pendingWrites -= 1
        switch result.outcome {
        case .sent, .failed, .uncertain:
            push.mayBeFinished = true
            // It may have ended a probe, so that there is more to claim.
            if result.claim.origin != nil { push.idleUntil = 0 }
        case .split:
            push.recordHalves()
        case .halt:
            push.isHalting = false
            nextRefresh = 0
        case .retry, .unrecognized, .wait, .notSent: break
        }
        if push.heldBatches == 0 || load.pendingWrites == Self.maxPendingWrites - 1
            || push.push.delivery == .atMostOnce && hasAtMostOnceRoom
        {
            wantsPass = true
        }
    }

    static func claims(_ request: PushRequest) -> [BatchClaim] { [request.claim] }
    static var notSent: BatchResult { .notSent }
}

/// The request that sends a batch.
struct PushRequest: Sendable {
    let claim: BatchClaim
    let message: EncodedPushMessage
    let bypass: Bool
    let delivery: Delivery
    /// The end of the hours for advertising, by the loop's clock in milliseconds.
    let hoursEnd: UInt64?

    init(claim: BatchClaim, push: OutgoingPush) {
        self.claim = claim
        message = push.message
        bypass = push.push.bypass
        delivery = push.push.delivery
        hoursEnd = push.hoursEnd
    }
}
