import EventLoop
import FoundationEssentials
import Locking
import Logging
import Postgres

/// Finds out whether PostgreSQL has lost commits, and stores again what this server knows of them.
///
/// PostgreSQL loses commits that it has confirmed when a standby that lagged is promoted, or in a crash with
/// `synchronous_commit = off`. Both begin a new run (`database_run()` in `migrations/functions`). A new run alone is no loss:
/// each feature compares what it has had confirmed in the last minutes with the database. Until all servers have done so, no
/// work is claimed (`commits_are_checked()`), so that nobody is sent to again meanwhile. A server whose lease is lost as well is
/// not known to the others: they wait for some seconds (`run_wait()`), in which it stores a lease again.
///
/// After a loss the sender is stopped (``SenderControl``) until an operator starts it: what others have committed, such as a
/// cancellation, may be lost too. It is stopped before anything is stored again, so that no PostgreSQL has the one without the other.
public final class LostCommits: Sendable {
    /// Compares what this server knows to be committed with the database, reports what is missing, and then stores it again.
    package typealias Check = @Sendable (Report) async throws -> Void

    /// Records how many things are missing, and which pushes and messages are lost entirely. A check calls it once, with all that it has
    /// found and before it stores anything again: if it fails halfway, its repetition finds only the rest.
    public typealias Report = @Sendable (_ missing: Int, _ gone: [String]) async throws -> Void

    /// The name of the operator in the stop of the sender.
    private static let actor = "push-server"
    /// The interval at which the run is read. A new connection of the listener wakes the worker before.
    private static let interval = Duration.seconds(5)
    /// The number of lost pushes and messages that the reason names.
    private static let maximumNames = 20
    private static let lost = Metric(
        "kakao_push_lost_commits_total",
        .counter,
        "Commits that PostgreSQL had confirmed to this server and lost in a failover or a crash, by what they stored."
    )

    private struct State {
        /// The run that this server has compared with what it knows; `nil` before it has read one.
        var checkedRun: String?
        var checks: [(object: String, check: Check)] = []
        var lost: [String: Int] = [:]
        /// What was missing in this run, until all of it is compared.
        var found = Loss()
        /// The reason that the sender is stopped for, as far as it is stored.
        var reason: String?
        var observers: [@Sendable () -> Void] = []
        /// Whether the senders have yet to be woken: a run is compared, but claims still wait.
        var isSettling = false
    }

    /// What PostgreSQL has lost.
    private struct Loss {
        var counts: [String: Int] = [:]
        /// The pushes and messages that it does not have any more.
        var gone: [String] = []

        /// What was lost, for the log.
        var summary: String {
            counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
        }

        /// The first lost pushes and messages; empty if there are none.
        var names: String {
            let others = gone.count - LostCommits.maximumNames
            return gone.prefix(LostCommits.maximumNames).joined(separator: ", ")
                + (others > 0 ? " and \(others) more" : "")
        }

        /// Why the sender is stopped.
        var reason: String {
            let repeated =
                gone.isEmpty
                ? ""
                : " Users of these were reached, but it does not have them any more: \(names). A repeated request reaches them again."
            return """
                PostgreSQL has lost commits (\(summary)).\(repeated) Look at the unfinished pushes and messages, since cancellations \
                may be lost too, and start the sender.
                """
        }
    }

    /// Whether PostgreSQL commits at all.
    package let health: CommitHealth
    /// The process as ``AcquireLease`` stores it.
    let process = UUID()
    private let pool: PostgresPool
    private let control: SenderControl
    private let logger: Logger
    private let signal: Signal
    private let state = Locked(State())

    package init(pool: PostgresPool, control: SenderControl, monitoring: Monitoring, logger: Logger) {
        self.pool = pool
        self.control = control
        self.logger = logger
        health = CommitHealth(logger: logger)
        signal = Signal(loop: pool.loop)
        monitoring.register { [state, health] in
            let lost = state.withLock { $0.lost }
            let samples = lost.sorted { $0.key < $1.key }.map { ($0.key, Double($0.value)) }
            return Monitoring.Report(
                metrics: [Self.lost.reading("object", samples)],
                isDatabaseUp: health.state == .committing
            )
        }
    }

    /// Adds a check. Features call it before the server starts.
    ///
    /// - Parameter object: What is compared, in the plural: the label of the metric.
    package func register(_ object: String, _ check: @escaping Check) {
        state.withLock { state in
            state.checks.append((object, check))
            state.lost[object] = 0
        }
    }

    /// Adds an observer that is called when PostgreSQL has begun a new run, before anything is compared. Called before the server starts.
    package func onNewRun(_ observer: @escaping @Sendable () -> Void) {
        state.withLock { $0.observers.append(observer) }
    }

    /// Looks at once whether PostgreSQL has begun a new run: connections to it were lost.
    package func checkNow() { signal.send() }

    /// The run that this server has compared with what it knows; `nil` before it has read one.
    var checkedRun: String? { state.withLock { $0.checkedRun } }

    /// Records the run in which a process that knows nothing yet begins.
    func adopt(_ run: String) {
        state.withLock { $0.checkedRun = $0.checkedRun ?? run }
    }

    /// Returns whether the present run of PostgreSQL is compared, or is the one in which this process began.
    ///
    /// - Throws: ``PostgresError``.
    package func areChecked() async throws -> Bool {
        try await confirm().run == checkedRun
    }

    /// Returns the worker that compares after each new run of PostgreSQL.
    package func worker() -> BackgroundWorker {
        BackgroundWorker(
            "check-commits",
            on: pool.loop,
            every: Self.interval,
            signal: signal,
            retryAfter: .seconds(1),
            pace: nil,
            failure: "Commits not compared with the database: nothing is sent until they are",
            logger: logger
        ) { _ in
            try await self.step()
        }
    }

    /// Returns the time until the next step: zero after a comparison, since PostgreSQL may have begun another run meanwhile.
    private func step() async throws -> Duration? {
        let (run, wait) = try await confirm()
        guard let checked = checkedRun, checked != run else {
            adopt(run)
            let isSettled = state.withLock { state in
                defer { state.isSettling = wait > .zero }
                return state.isSettling && wait == .zero
            }
            if isSettled { control.changed() }
            return wait > .zero ? min(wait, Self.interval) : nil
        }
        for observer in state.withLock({ $0.observers }) { observer() }
        try await check()
        state.withLock { state in
            state.checkedRun = run
            state.isSettling = true
        }
        return .zero
    }

    /// Stores in the leases of this process the run that is compared, and returns the present one, and how long claims still wait.
    private func confirm() async throws -> (run: String, wait: Duration) {
        let confirmed = try await pool.write(ConfirmRun(process: process, run: checkedRun)).first
        guard let confirmed else { throw PostgresError(.decoding, detail: "database_run() returned no row") }
        return confirmed
    }

    private func check() async throws {
        for (object, check) in state.withLock({ $0.checks }) {
            try await check { try await self.record(object, $0, $1) }
        }
        let found = state.withLock { $0.found }
        guard !found.counts.isEmpty else {
            logger.notice("PostgreSQL was restarted or replaced: nothing is lost")
            return
        }
        // Not twice for the same: an operator may have started it meanwhile.
        if found.reason != state.withLock({ $0.reason }) { try await stop(for: found.reason) }
        log(found)
        state.withLock { state in
            state.found = Loss()
            state.reason = nil
        }
    }

    /// Records what a check has found, and stops the sender if it still runs.
    private func record(_ object: String, _ missing: Int, _ gone: [String]) async throws {
        guard missing > 0 else { return }
        let reason = state.withLock { state in
            // A check that is repeated after a failure finds what it has not yet stored again.
            let more = max(0, missing - state.found.counts[object, default: 0])
            state.found.counts[object, default: 0] += more
            state.lost[object, default: 0] += more
            let others = gone.filter { !state.found.gone.contains($0) }
            state.found.gone += others
            return state.reason == nil ? state.found.reason : nil
        }
        if let reason { try await stop(for: reason) }
    }

    /// Records that PostgreSQL has lost a claim of a process that was killed: it may have lost whatever the process did.
    func recordLostClaim() async throws {
        let loss = Loss(counts: ["claims": 1])
        try await control.recordLoss(reason: loss.reason, replacing: nil, by: Self.actor)
        state.withLock { $0.lost["claims", default: 0] += 1 }
        log(loss)
    }

    private func stop(for reason: String) async throws {
        try await control.recordLoss(reason: reason, replacing: state.withLock { $0.reason }, by: Self.actor)
        state.withLock { $0.reason = reason }
    }

    private func log(_ loss: Loss) {
        var metadata: Logger.Metadata = ["lost": "\(loss.summary)"]
        if !loss.gone.isEmpty { metadata["gone"] = "\(loss.names)" }
        logger.error(
            "PostgreSQL has lost commits: stored again where they are known, and the sender is stopped",
            metadata: metadata
        )
    }
}

// MARK: Statements

/// Stores in the leases of a process the run that it has compared, if that is the present run; and the present run, if no server has seen
/// it before. Returns the present run, and how long claims still wait.
struct ConfirmRun: PostgresStatement {
    static let sql: SQL = """
        WITH present AS MATERIALIZED (
            SELECT database_run() AS run
        ),
        seen AS (
            UPDATE sender
            SET run = present.run,
                -- No server has used a database without a run, so that none has to be waited for.
                run_seen_at = CASE WHEN sender.run IS NULL AND $2::text IS NULL THEN '-infinity' ELSE now() END
            FROM present
            WHERE sender.run IS DISTINCT FROM present.run
        ),
        confirmed AS (
            UPDATE work_leases
            SET checked_run = $2
            FROM present
            WHERE process = $1
                AND checked_run <> $2
                AND $2 = present.run
        )
        SELECT run, EXTRACT(epoch FROM run_wait())::float8
        FROM present
        """

    let process: UUID
    /// `nil` before the first.
    let run: String?

    var parameters: [PostgresValue] { [.uuid(process), .text(run)] }
    static func decode(_ row: PostgresRow) throws -> (run: String, wait: Duration) {
        let (run, wait) = try row.decode(String.self, Double.self)
        return (run, .seconds(wait))
    }
}
