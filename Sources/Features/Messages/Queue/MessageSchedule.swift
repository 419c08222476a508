import DequeModule
import EventLoop
import FoundationEssentials
import KakaoAPI
import Runtime

/// Which receivers a server claims and sends next.
///
/// A claim also reserves the receivers' quotas. It is made just before the request: if the server stops, the outcome of its claims is
/// unknown, and a claimed receiver can neither be canceled nor expire.
struct MessageSchedule: QueueSchedule {
    /// The maximum number of requests at a time.
    private static let maxRequestsInFlight = 16
    /// The number of results waiting to be stored at which nothing more is claimed.
    private static let maxPendingWrites = 1000
    /// The time for a commit, in milliseconds.
    private static let commitMilliseconds: UInt64 = 50
    /// The interval in milliseconds at which a server looks for messages that begin within seconds.
    private static let searchMilliseconds: UInt64 = 1000

    enum Chore: Sendable {
        /// Ends the messages whose time is over, and wakes the worker that resolves receivers.
        case search
        /// Ends those of these messages whose last result is stored.
        case finish([UUID])
        /// Finds messages without open receivers, whose server may have stopped before it ended them.
        case findFinished
    }

    private let requestsPerSecond: Int
    private var rateLimit: RateLimit
    private var ready: Deque<ReceiverBatch> = []
    /// The messages that may have no open receivers left.
    private var possiblyFinished: Set<UUID> = []
    private var wantsFinished = false
    /// Whether there was anything to do for any server when the lease was last renewed.
    private var hasWork = false
    // When to look for receivers, and for messages to end and to resolve, by the loop's clock in milliseconds.
    private var nextClaim: UInt64 = 0
    private var nextSearch: UInt64 = 0

    private(set) var known = KnownReceivers()
    var wantsPass = false
    var released: [ReceiverClaim] = []

    init(requestsPerSecond: Int) {
        self.requestsPerSecond = requestsPerSecond
        rateLimit = RateLimit(perSecond: requestsPerSecond, now: 0)
    }

    var isBusy: Bool { hasWork || !ready.isEmpty }

    func isResting(at now: UInt64) -> Bool { ready.isEmpty && nextClaim > now }

    /// Looks at once for receivers.
    private mutating func claimNow() {
        nextClaim = 0
        wantsPass = true
    }

    /// Looks at once for messages to resolve, to send and to end.
    private mutating func searchNow() {
        nextSearch = 0
        claimNow()
    }

    // MARK: Passes

    mutating func noticed(_ changes: MessageNotices.Changes, _ load: QueueLoad) {
        if changes.hasChange { (nextSearch, nextClaim) = (0, 0) }
        possiblyFinished.formUnion(changes.resolved)
    }

    mutating func nextChore(_ phase: QueuePhase, _ load: QueueLoad) -> Chore? {
        switch phase {
        case .beforeClaims:
            guard load.now >= nextSearch else { return nil }
            nextSearch = .max
            return .search
        case .afterClaims:
            if wantsFinished {
                wantsFinished = false
                return .findFinished
            }
            let isDue = load.pendingWrites == 0 || possiblyFinished.count >= Self.maxPendingWrites
            guard !possiblyFinished.isEmpty, isDue else { return nil }
            defer { possiblyFinished = [] }
            return .finish(Array(possiblyFinished))
        }
    }

    mutating func completed(_ chore: Chore, _ found: [UUID], _ load: QueueLoad) {
        possiblyFinished.formUnion(found)
    }

    mutating func failed(_ chore: Chore) {
        if case .finish(let ids) = chore { possiblyFinished.formUnion(ids) }
    }

    mutating func failed(until time: UInt64) {
        (nextClaim, nextSearch) = (time, time)
    }

    func nextPass(_ load: QueueLoad) -> UInt64 {
        var next = nextSearch
        if load.mayClaim { next = min(next, nextClaim) }
        if !ready.isEmpty, load.inFlight < Self.maxRequestsInFlight {
            next = min(next, max(load.now + rateLimit.wait.wholeMilliseconds, load.nextTrial ?? 0))
        }
        return next
    }

    // MARK: Claims

    /// Returns the number of requests for which receivers are claimed: those that can be made within about a second.
    mutating func nextOrder(_ load: QueueLoad) -> Int? {
        guard load.now >= nextClaim else { return nil }
        // The end of a request, or of a write, leads here again.
        nextClaim = .max
        guard ready.isEmpty, load.inFlight < Self.maxRequestsInFlight, load.pendingWrites < Self.maxPendingWrites else {
            return nil
        }
        guard rateLimit.available(at: load.now) > 0 else {
            nextClaim = load.now + rateLimit.wait.wholeMilliseconds
            return nil
        }
        guard let nextTrial = load.nextTrial else {
            return min(Self.maxRequestsInFlight - load.inFlight, requestsPerSecond)
        }
        // While calls are in vain, one finds out whether that has changed.
        guard load.inFlight == 0 else { return nil }
        guard load.now >= nextTrial else {
            nextClaim = nextTrial
            return nil
        }
        return 1
    }

    mutating func claimed(_ claimed: ClaimedReceivers, by order: Int, _ load: QueueLoad) {
        // A message whose receivers have failed because a quota is used up may have ended.
        possiblyFinished.formUnion(claimed.receivers.lazy.map(\.claim.messageID))
        ready.append(contentsOf: claimed.batches)
        if !claimed.receivers.isEmpty { nextClaim = 0 }
        // Calls have turned out to be in vain meanwhile.
        if let nextTrial = load.nextTrial, load.now < nextTrial { released += removeReady() }
    }

    // MARK: The lease

    mutating func lookAgain() { searchNow() }

    mutating func reclaimed() {
        wantsFinished = true
        searchNow()
    }

    mutating func leaseRenewed(hasWork: Bool, _ load: QueueLoad) {
        self.hasWork = hasWork
        guard hasWork else { return }
        // Messages that begin or end within seconds, or whose notification was lost.
        nextSearch = min(nextSearch, load.now + Self.searchMilliseconds)
        nextClaim = min(nextClaim, load.now + Self.searchMilliseconds)
    }

    mutating func removeReady() -> [ReceiverClaim] {
        defer { ready = [] }
        return ready.flatMap(\.receivers)
    }

    // MARK: Requests

    mutating func popReady(_ load: QueueLoad, _ admits: () -> Bool) -> ReceiverBatch? {
        guard load.inFlight < Self.maxRequestsInFlight, !ready.isEmpty, rateLimit.available(at: load.now) > 0, admits()
        else { return nil }
        rateLimit.take(1)
        return ready.popFirst()
    }

    mutating func ended(
        _ batch: ReceiverBatch,
        _ results: [QueueResult<ReceiverClaim, ReceiverResult>],
        _ load: QueueLoad
    ) {
        for result in results { known.record(result.outcome, of: result.claim, from: batch.message.sender) }
        // Another server may reach Kakao in another way. But the response to a request in flight may show that only one was in
        // vain.
        if load.inFlight == 0, load.nextTrial != nil { released += removeReady() }
        // A claim is worth its statements if it is for several requests.
        if ready.count + load.inFlight <= Self.maxRequestsInFlight / 2 { claimNow() }
    }

    mutating func recorded(_ result: QueueResult<ReceiverClaim, ReceiverResult>, _ load: QueueLoad) {
        switch result.outcome.state {
        case .pending: claimNow()
        case .waiting:
            if let seconds = result.outcome.secondsUntilDue {
                // The database counts from the commit.
                nextClaim = min(nextClaim, load.now + UInt64(seconds * 1000) + Self.commitMilliseconds)
                wantsPass = true
            }
        case .sending, .sent, .failed, .uncertain, .skipped:
            possiblyFinished.insert(result.claim.messageID)
        }
        if load.pendingWrites == Self.maxPendingWrites - 1 { claimNow() }
        if load.pendingWrites == 0 { wantsPass = true }
    }

    static func claims(_ batch: ReceiverBatch) -> [ReceiverClaim] { batch.receivers }
    static var notSent: ReceiverResult { .notSent }
}
