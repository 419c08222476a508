import EventLoop
import FoundationEssentials

/// The work of one kind that a ``QueueRunner`` carries out: what claims, requests and results mean for a feature. It has no state of its
/// own: what is claimed, and what comes next, is known to its ``QueueSchedule``.
public protocol QueueWork: Sendable {
    associatedtype Schedule: QueueSchedule
    typealias Claim = Schedule.Claim
    typealias Outcome = Schedule.Outcome

    // MARK: Requests

    /// Whether requests are expected to succeed; otherwise when the next one may be made, by the loop's clock in milliseconds. It is made
    /// alone.
    var nextTrial: UInt64? { get }

    /// Returns whether a request may begin now. Called just before it.
    func admits() -> Bool

    /// Carries out one request.
    ///
    /// - Parameter latestStart: The time after which the request must not begin, by the loop's clock in milliseconds.
    /// - Returns: The outcome for each claim of the request.
    func perform(_ item: Schedule.Item, startingBefore latestStart: UInt64) async -> [QueueResult<Claim, Outcome>]

    // MARK: The database

    /// Returns what has changed since the last call, as notifications of this server and of others report it.
    func drainNotices() -> Schedule.Notices

    /// Carries out a chore.
    func perform(_ chore: Schedule.Chore) async throws -> Schedule.ChoreResult

    /// Claims work that is due, under a lease.
    func claim(_ order: Schedule.Order, under lease: UUID) async throws -> Schedule.Claimed

    /// Returns the work that is open under a lease, as far as the database knows.
    func open(under lease: UUID) async throws -> [Claim]

    /// Stores a result. It is repeated until it succeeds, and must be idempotent. Once this server has lost the lease, it has no effect.
    func record(_ result: QueueResult<Claim, Outcome>) async throws

    /// Whether a result is stored together with others by ``recordGroup(_:)``.
    func isGrouped(_ result: QueueResult<Claim, Outcome>) -> Bool

    /// Stores several results, as ``record(_:)`` does. Results that arrive meanwhile form the next group.
    func recordGroup(_ results: [QueueResult<Claim, Outcome>]) async throws

    /// Called once a result is stored, or does not count any more because the lease was lost.
    func recorded(_ result: QueueResult<Claim, Outcome>)

    /// Called once the work of servers that have stopped is reclaimed.
    func reclaimed(_ work: ReclaimedWork)

    /// Stores again what this server has done, where PostgreSQL has lost that.
    ///
    /// - Parameter report: Records how many results are missing.
    func restore(_ known: Schedule.Known, _ report: LostCommits.Report) async throws
}

extension QueueWork {
    package var nextTrial: UInt64? { nil }
    package func admits() -> Bool { true }
    package func isGrouped(_ result: QueueResult<Claim, Outcome>) -> Bool { false }
    package func recordGroup(_ results: [QueueResult<Claim, Outcome>]) async throws {
        for result in results { try await record(result) }
    }
    package func recorded(_ result: QueueResult<Claim, Outcome>) {}
    package func reclaimed(_ work: ReclaimedWork) {}
}

/// What became of a claim.
public struct QueueResult<Claim: Sendable, Outcome: Sendable>: Sendable {
    /// The claim.
    public var claim: Claim
    /// The outcome of its request.
    public let outcome: Outcome

    /// - Parameters:
    ///   - claim: The claim.
    ///   - outcome: The outcome of its request.
    public init(_ claim: Claim, _ outcome: Outcome) {
        self.claim = claim
        self.outcome = outcome
    }
}

/// What a server does next in a queue: which work it claims, what it sends first, and when. Pure: its ``QueueRunner`` provides the clock,
/// and performs what it returns.
public protocol QueueSchedule {
    /// A claimed row: a batch of a push, a receiver of a message, a webhook.
    associatedtype Claim: QueueClaim
    associatedtype Outcome: Sendable
    /// The claims that one request carries out.
    associatedtype Item: Sendable
    /// What is to be claimed, such as how much.
    associatedtype Order: Sendable
    /// What a statement has claimed.
    associatedtype Claimed: QueueClaims<Claim>
    /// What is to be read or stored apart from claims and results, such as the end of a push.
    associatedtype Chore: Sendable
    associatedtype ChoreResult: Sendable
    associatedtype Notices: Sendable
    /// What this server has done lately, in case PostgreSQL loses it.
    associatedtype Known: Sendable

    var known: Known { get }
    /// Whether there may be work for this server or to reclaim. An idle server does not look for it.
    var isBusy: Bool { get }
    /// Whether there is nothing to do now, so that a server that only renews its lease makes progress.
    func isResting(at now: UInt64) -> Bool
    /// Whether the passes are to continue at once. The runner sets it to `false` at the beginning of a pass.
    var wantsPass: Bool { get set }
    /// The claims that are no longer to be sent. The runner releases and removes them.
    var released: [Claim] { get set }

    // MARK: Passes

    /// Takes the changes since the last pass into account.
    mutating func noticed(_ notices: Notices, _ load: QueueLoad)
    /// Returns the next chore of a phase; `nil` if there is none.
    mutating func nextChore(_ phase: QueuePhase, _ load: QueueLoad) -> Chore?
    mutating func completed(_ chore: Chore, _ result: ChoreResult, _ load: QueueLoad)
    /// A chore has failed. It is tried again once ``failed(until:)`` allows it.
    mutating func failed(_ chore: Chore)
    /// Returns what to claim now; `nil` for nothing.
    mutating func nextOrder(_ load: QueueLoad) -> Order?
    /// Adds claimed work to what is ready.
    mutating func claimed(_ claimed: Claimed, by order: Order, _ load: QueueLoad)
    /// A pass has failed: nothing is to be done before a time.
    mutating func failed(until time: UInt64)
    /// When the next pass has something to do without a further event.
    func nextPass(_ load: QueueLoad) -> UInt64

    // MARK: The lease

    /// There may be any work: a lease was acquired, or lost results are stored again.
    mutating func lookAgain()
    /// The leases of other servers have expired, and their work was reclaimed. They may have stopped between their last result and what
    /// follows from it.
    mutating func reclaimed()
    /// - Parameter hasWork: Whether there is work for any server.
    mutating func leaseRenewed(hasWork: Bool, _ load: QueueLoad)
    /// Removes what is ready, and returns its claims.
    mutating func removeReady() -> [Claim]

    // MARK: Requests

    /// Removes and returns the next request to make; `nil` if none may begin.
    ///
    /// - Parameter admits: Returns whether requests may begin. Called only if there is one to make, which then is made.
    mutating func popReady(_ load: QueueLoad, _ admits: () -> Bool) -> Item?
    /// A request has ended.
    mutating func ended(_ item: Item, _ results: [QueueResult<Claim, Outcome>], _ load: QueueLoad)
    /// The result of a claim is about to be stored, or a claim is released. May note on the claim what its result depends on.
    mutating func recording(_ result: inout QueueResult<Claim, Outcome>)
    /// The result of a claim is stored, or the claim belongs to another server.
    mutating func recorded(_ result: QueueResult<Claim, Outcome>, _ load: QueueLoad)

    /// The claims of a request.
    static func claims(_ item: Item) -> [Claim]
    /// The outcome of a claim for which no request was made.
    static var notSent: Outcome { get }
}

extension QueueSchedule {
    package mutating func recording(_ result: inout QueueResult<Claim, Outcome>) {}
    package func isResting(at now: UInt64) -> Bool { !isBusy }
    package mutating func reclaimed() { lookAgain() }
}

/// The part of a pass in which a chore is done.
public enum QueuePhase: Sendable {
    /// It finds out what there is to claim.
    case beforeClaims
    /// It follows from results. The last one before the shutdown.
    case afterClaims
}

/// A claim with the id by which its server tracks it.
public protocol QueueClaim: Sendable {
    var id: ClaimID { get }
}

/// The claims that a statement has made.
public protocol QueueClaims<Claim>: Sendable {
    associatedtype Claim
    var claims: [Claim] { get }
    /// Whether the lease was valid when they were made.
    var isLeaseValid: Bool { get }
}

/// The state of a server's requests and results, by which its schedule decides.
public struct QueueLoad: Sendable {
    /// The loop's clock in milliseconds.
    public let now: UInt64
    /// The number of requests in flight.
    public let inFlight: Int
    /// The number of results that are not stored.
    public let pendingWrites: Int
    /// Whether the lease allows claims, as far as that matters.
    public let mayClaim: Bool
    /// See ``QueueWork/nextTrial``.
    public let nextTrial: UInt64?

    /// Creates a state. Tests leave out what does not matter to them.
    public init(
        now: UInt64,
        inFlight: Int = 0,
        pendingWrites: Int = 0,
        mayClaim: Bool = true,
        nextTrial: UInt64? = nil
    ) {
        self.now = now
        self.inFlight = inFlight
        self.pendingWrites = pendingWrites
        self.mayClaim = mayClaim
        self.nextTrial = nextTrial
    }
}
