import DequeModule
import EventLoop
import FoundationEssentials
import Runtime

/// Which webhooks a server claims and sends next: each endpoint has requests in flight of its own, so that one that hangs costs the others
/// nothing.
struct WebhookSchedule: QueueSchedule {
    /// The maximum number of requests to an endpoint at a time.
    static let maxRequestsInFlight = 8
    /// The number of results waiting to be stored at which nothing more is claimed.
    private static let maxPendingWrites = 4000
    /// How many webhooks of an endpoint are claimed at a time: more for one that responds soon. They are read when they are claimed, and
    /// should be sent soon after.
    private static let claimSizes = 16...512
    /// A claim that is used up within this time, in milliseconds, is followed by a larger one; one that lasts ten times as long by a smaller
    /// one.
    private static let shortClaim: UInt64 = 200
    /// The shortest time between two claims that find few webhooks, in milliseconds: so many thousands a second do not cost as many claims.
    private static let gathering: UInt64 = 20
    /// The time for a commit, in milliseconds.
    private static let commitMilliseconds: UInt64 = 50

    /// What is to be stored of the endpoints.
    struct Chore: Sendable {
        let endpoint: String
        let change: EndpointChange
    }

    /// What to claim of an endpoint.
    struct Room: Sendable, Equatable {
        let endpoint: String
        let webhooks: Int
    }

    private struct Endpoint {
        var condition = EndpointCondition()
        var ready: Deque<WebhookClaim> = []
        var inFlight = 0
        /// When to look for webhooks, by the loop's clock in milliseconds.
        var nextClaim: UInt64 = 0
        var claimSize = WebhookSchedule.claimSizes.lowerBound
        var claimedAt: UInt64 = 0
        /// Whether the last claim found as much as it asked for.
        var wasFull = false
    }

    private var endpoints: [String: Endpoint] = [:]
    /// The names in the order in which they send next.
    private var turn: Deque<String> = []
    /// What follows from the response to a request whose result is about to be stored.
    private var verdicts: [ClaimID: EndpointCondition.Verdict] = [:]
    private let retries: [Duration]
    /// Whether there was anything to do for any server when the lease was last renewed.
    private var hasWork = false
    /// Nothing is claimed or stored before this time, by the loop's clock in milliseconds.
    private var pausedUntil: UInt64 = 0

    var wantsPass = false
    var released: [WebhookClaim] = []
    /// A webhook whose delivery PostgreSQL has lost is delivered again.
    let known: Void = ()

    /// - Parameter retries: The waits after failed attempts, of which there is one more.
    init(endpoints names: [String], retries: [Duration]) {
        self.retries = retries
        keep(names)
    }

    var isBusy: Bool { hasWork || endpoints.values.contains { !$0.ready.isEmpty } }

    /// Keeps these endpoints, and begins with those that are new.
    private mutating func keep(_ names: [String]) {
        for (name, endpoint) in endpoints where !names.contains(name) {
            released += endpoint.ready
            endpoints[name] = nil
        }
        for name in names where endpoints[name] == nil { endpoints[name] = Endpoint() }
        turn = Deque(names)
    }

    /// Looks for webhooks as soon as they are worth a statement.
    private mutating func look(at now: UInt64) {
        for name in turn {
            guard let claimedAt = endpoints[name]?.claimedAt else { continue }
            look(for: name, at: max(now, claimedAt + Self.gathering))
        }
        wantsPass = true
    }

    /// Looks for webhooks of an endpoint at a time, or earlier.
    private mutating func look(for name: String, at time: UInt64) {
        guard let nextClaim = endpoints[name]?.nextClaim, time < nextClaim else { return }
        endpoints[name]?.nextClaim = time
    }

    /// Looks also for webhooks of endpoints that do not accept them: the database may know better.
    private mutating func lookEverywhere() {
        for name in turn {
            endpoints[name]?.condition.ask()
            endpoints[name]?.nextClaim = 0
        }
        wantsPass = true
    }

    // MARK: Passes

    /// What has changed since the last pass.
    struct Notices: Sendable {
        /// Whether there may be a webhook that is due.
        var hasChange = false
        /// Whether an endpoint may accept webhooks again.
        var asksEndpoints = false
        /// The names of the present endpoints, if they may have changed.
        var endpoints: [String]?
    }

    mutating func noticed(_ notices: Notices, _ load: QueueLoad) {
        if let names = notices.endpoints { keep(names) }
        if notices.asksEndpoints {
            lookEverywhere()
        } else if notices.hasChange {
            look(at: load.now)
        }
    }

    mutating func nextChore(_ phase: QueuePhase, _ load: QueueLoad) -> Chore? {
        guard load.now >= pausedUntil else { return nil }
        for name in turn {
            if let change = endpoints[name]?.condition.beginStoring() { return Chore(endpoint: name, change: change) }
        }
        return nil
    }

    /// - Parameter states: The endpoint as it is stored now; none if it is not.
    mutating func completed(_ chore: Chore, _ states: [StoredEndpoint], _ load: QueueLoad) {
        endpoints[chore.endpoint]?.condition.endedStoring()
        if states.isEmpty { endpoints[chore.endpoint]?.condition.stored(nil, nextProbe: .max) }
        adopt(states, load)
    }

    mutating func failed(_ chore: Chore) {
        endpoints[chore.endpoint]?.condition.failedToStore(chore.change)
    }

    mutating func failed(until time: UInt64) {
        pausedUntil = time
        for name in turn { look(for: name, at: time) }
    }

    func nextPass(_ load: QueueLoad) -> UInt64 {
        var next = UInt64.max
        for endpoint in endpoints.values {
            if endpoint.condition.unstored != nil { next = 0 }
            if load.mayClaim, load.pendingWrites < Self.maxPendingWrites, let time = nextClaim(of: endpoint) {
                next = min(next, time)
            }
        }
        return next == .max ? next : max(next, pausedUntil)
    }

    // MARK: Claims

    /// Returns when webhooks of an endpoint are to be claimed; `nil` if not before a request of it has ended.
    private func nextClaim(of endpoint: Endpoint) -> UInt64? {
        guard endpoint.nextClaim < .max, let allowed = endpoint.condition.nextClaim, allowed < .max else { return nil }
        if endpoint.condition.isDelivering {
            guard endpoint.ready.count <= endpoint.claimSize / 2 else { return nil }
        } else {
            guard endpoint.ready.isEmpty, endpoint.inFlight == 0 else { return nil }
        }
        return max(endpoint.nextClaim, allowed)
    }

    mutating func nextOrder(_ load: QueueLoad) -> [Room]? {
        guard load.now >= pausedUntil, load.pendingWrites < Self.maxPendingWrites else { return nil }
        var order: [Room] = []
        for name in turn {
            guard var endpoint = endpoints[name], let time = nextClaim(of: endpoint), load.now >= time else { continue }
            // The end of a request, or of a write, leads here again.
            endpoint.nextClaim = .max
            if endpoint.wasFull, load.now < endpoint.claimedAt + Self.shortClaim {
                endpoint.claimSize = min(endpoint.claimSize * 2, Self.claimSizes.upperBound)
            } else if load.now > endpoint.claimedAt + 10 * Self.shortClaim {
                endpoint.claimSize = max(endpoint.claimSize / 2, Self.claimSizes.lowerBound)
            }
            endpoint.claimedAt = load.now
            let isDelivering = endpoint.condition.isDelivering
            order.append(Room(endpoint: name, webhooks: isDelivering ? endpoint.claimSize - endpoint.ready.count : 1))
            endpoints[name] = endpoint
        }
        return order.isEmpty ? nil : order
    }

    mutating func claimed(_ claimed: ClaimedWebhooks, by order: [Room], _ load: QueueLoad) {
        adopt(claimed.endpoints, load)
        for claim in claimed.claims {
            guard endpoints[claim.endpoint] != nil else {
                released.append(claim)
                continue
            }
            endpoints[claim.endpoint]?.ready.append(claim)
        }
        for room in order {
            let count = claimed.claims.count { $0.endpoint == room.endpoint }
            endpoints[room.endpoint]?.wasFull = count == room.webhooks
            // There may be more.
            if count > 0, count == room.webhooks { endpoints[room.endpoint]?.nextClaim = 0 }
        }
        releaseHeld()
    }

    /// Takes over what the database knows of endpoints.
    private mutating func adopt(_ states: [StoredEndpoint], _ load: QueueLoad) {
        for state in states {
            let wait = UInt64(max(0, state.secondsToProbe) * 1000)
            let wasDelivering = endpoints[state.name]?.condition.isDelivering
            endpoints[state.name]?.condition.stored(state.status, nextProbe: load.now + wait)
            // Those that waited are due.
            if wasDelivering == false { endpoints[state.name]?.nextClaim = 0 }
        }
    }

    /// Releases what an endpoint that is failing does not accept: another claim may be the probe, also of another server.
    private mutating func releaseHeld() {
        for name in turn {
            guard let endpoint = endpoints[name], !endpoint.condition.isDelivering else { continue }
            released += endpoint.ready.filter { !$0.isProbe }
            endpoints[name]?.ready.removeAll { !$0.isProbe }
        }
    }

    // MARK: The lease

    mutating func lookAgain() { lookEverywhere() }

    mutating func leaseRenewed(hasWork: Bool, _ load: QueueLoad) {
        self.hasWork = hasWork
        // Webhooks that are due again, or whose notification was lost.
        if hasWork { lookEverywhere() }
    }

    mutating func removeReady() -> [WebhookClaim] {
        var claims: [WebhookClaim] = []
        for name in turn {
            claims += endpoints[name]?.ready ?? []
            endpoints[name]?.ready = []
        }
        return claims
    }

    // MARK: Requests

    mutating func popReady(_ load: QueueLoad, _ admits: () -> Bool) -> WebhookClaim? {
        for name in turn {
            // In place: a copy of the endpoint would make each request copy all that is ready.
            guard let inFlight = endpoints[name]?.inFlight, inFlight < Self.maxRequestsInFlight,
                let claim = endpoints[name]?.ready.popFirst()
            else { continue }
            endpoints[name]?.inFlight = inFlight + 1
            // The others come first next time.
            turn.removeAll { $0 == name }
            turn.append(name)
            return claim
        }
        return nil
    }

    mutating func ended(
        _ claim: WebhookClaim,
        _ results: [QueueResult<WebhookClaim, WebhookResult>],
        _ load: QueueLoad
    ) {
        endpoints[claim.endpoint]?.inFlight -= 1
        for result in results {
            guard case .attempted(let attempt) = result.outcome else { continue }
            verdicts[claim.id] =
                endpoints[claim.endpoint]?.condition.ended(attempt, isProbe: claim.isProbe)
                ?? (attempt.outcome == .delivered ? .delivered : .held)
        }
        releaseHeld()
        guard let endpoint = endpoints[claim.endpoint] else { return }
        if endpoint.condition.unstored != nil || nextClaim(of: endpoint) ?? .max <= load.now { wantsPass = true }
    }

    mutating func recording(_ result: inout QueueResult<WebhookClaim, WebhookResult>) {
        switch result.outcome {
        case .notSent: return
        case .objectGone: result.claim.next = .dropped
        case .attempted:
            switch verdicts.removeValue(forKey: result.claim.id) {
            case .delivered: result.claim.next = .delivered
            case .retried:
                let attempts = Int(result.claim.attempts)
                let isLast = attempts >= retries.count
                result.claim.next = isLast ? .failed : .retried(after: retries[attempts] * RetryDelay.jitter())
            case .held, nil: return
            }
        }
    }

    mutating func recorded(_ result: QueueResult<WebhookClaim, WebhookResult>, _ load: QueueLoad) {
        let name = result.claim.endpoint
        switch result.claim.next {
        case .delivered, .failed, .dropped: break
        case .held:
            // It is due again at once.
            look(for: name, at: load.now)
            wantsPass = true
        case .retried(let wait):
            // The database counts from the commit.
            let time = load.now + wait.wholeMilliseconds + Self.commitMilliseconds
            look(for: name, at: time)
            wantsPass = true
        }
        if load.pendingWrites == Self.maxPendingWrites - 1 || load.pendingWrites == 0 { wantsPass = true }
    }

    static func claims(_ claim: WebhookClaim) -> [WebhookClaim] { [claim] }
    static var notSent: WebhookResult { .notSent }
}
