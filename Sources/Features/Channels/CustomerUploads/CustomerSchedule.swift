import EventLoop
import Runtime

/// Which part of an upload a server sends next: one at a time, so that Kakao gets no burst.
struct CustomerSchedule: QueueSchedule {
    typealias Item = CustomerPart
    typealias Order = Void
    typealias Chore = Never
    typealias ChoreResult = Void
    /// Whether there may be a part that is due.
    typealias Notices = Bool

    /// The time for a commit, in milliseconds.
    private static let commitMilliseconds: UInt64 = 50

    private var ready: CustomerPart?
    /// Whether there was anything to do for any server when the lease was last renewed.
    private var hasWork = false
    /// When to look for a part, by the loop's clock in milliseconds.
    private var nextClaim: UInt64 = 0
    /// When the next part whose attempt has failed is due. Those of other uploads are found when the lease is renewed.
    private var nextRetry: UInt64 = .max

    var wantsPass = false
    var released: [CustomerPart] = []
    /// A part that is sent twice has the effect of one, since those after it wait.
    let known: Void = ()

    var isBusy: Bool { hasWork || ready != nil }

    private mutating func look(at time: UInt64) {
        nextClaim = min(nextClaim, time)
        wantsPass = true
    }

    mutating func noticed(_ hasChange: Bool, _ load: QueueLoad) {
        if hasChange { look(at: load.now) }
    }

    mutating func nextChore(_ phase: QueuePhase, _ load: QueueLoad) -> Never? { nil }
    mutating func completed(_ chore: Never, _ result: Void, _ load: QueueLoad) {}
    mutating func failed(_ chore: Never) {}

    mutating func nextOrder(_ load: QueueLoad) -> Void? {
        guard load.now >= min(nextClaim, nextRetry), isIdle(load) else { return nil }
        // The end of a request leads here again.
        nextClaim = .max
        if load.now >= nextRetry { nextRetry = .max }
        return ()
    }

    mutating func claimed(_ claimed: ClaimedCustomerPart, by order: Void, _ load: QueueLoad) {
        ready = claimed.claims.first
    }

    mutating func failed(until time: UInt64) { nextClaim = time }

    func nextPass(_ load: QueueLoad) -> UInt64 {
        load.mayClaim && isIdle(load) ? min(nextClaim, nextRetry) : .max
    }

    private func isIdle(_ load: QueueLoad) -> Bool { ready == nil && load.inFlight == 0 && load.pendingWrites == 0 }

    mutating func lookAgain() { look(at: 0) }

    mutating func leaseRenewed(hasWork: Bool, _ load: QueueLoad) {
        self.hasWork = hasWork
        if hasWork { look(at: load.now) }
    }

    mutating func removeReady() -> [CustomerPart] {
        defer { ready = nil }
        return ready.map { [$0] } ?? []
    }

    mutating func popReady(_ load: QueueLoad, _ admits: () -> Bool) -> CustomerPart? {
        guard load.inFlight == 0, ready != nil, admits() else { return nil }
        return ready.take()
    }

    mutating func ended(
        _ part: CustomerPart,
        _ results: [QueueResult<CustomerPart, CustomerPartResult>],
        _ load: QueueLoad
    ) {}

    mutating func recorded(_ result: QueueResult<CustomerPart, CustomerPartResult>, _ load: QueueLoad) {
        switch result.outcome {
        case .notSent, .accepted, .refused: look(at: load.now)
        // The database counts from the commit. The parts of uploads to other files are due as before.
        case .retried(let delay, _):
            nextRetry = min(nextRetry, load.now + delay.wholeMilliseconds + Self.commitMilliseconds)
            look(at: load.now)
        }
    }

    static func claims(_ part: CustomerPart) -> [CustomerPart] { [part] }
    static var notSent: CustomerPartResult { .notSent }
}
