import EventLoop
import FoundationEssentials
import Locking
package import Logging
package import Postgres

/// Finds out whether PostgreSQL has lost commits, and stores again what this server knows of them.
///
/// PostgreSQL loses commits that it has confirmed when a standby that lagged is promoted, or in a crash with
/// `synchronous_commit = off`. Both begin a new run (`database_run()` in `migrations/functions`). A new run alone is no loss:
/// each feature compares what it has had confirmed in the last minutes with the database. Until all servers have done so, no
/// work is claimed (`commits_are_checked()`), so that nobody is sent to again meanwhile.
///
/// After a loss the sender is stopped (``SenderControl``) until an operator starts it: what others have committed, such as a
/// cancellation, may be lost too.
package final class LostCommits: Sendable {
    /// Compares what this server knows to be committed with the database, and stores again what is missing.
    ///
    /// - Returns: The number of things that were missing.
    package typealias Check = @Sendable () async throws -> Int

    /// The name of the operator in the stop of the sender.
    private static let actor = "push-server"
    /// The interval at which the run is read. A new connection of the listener wakes the worker before.
    private static let interval = Duration.seconds(5)
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
        /// What was missing in this run, until the sender is stopped for it.
        var found: [String: Int] = [:]
    }

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
        signal = Signal(loop: pool.loop)
        monitoring.register { [state] in
            let lost = state.withLock { $0.lost }
            let samples = lost.sorted { $0.key < $1.key }.map { ($0.key, Double($0.value)) }
            return Monitoring.Report(metrics: [Self.lost.reading("object", samples)])
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
        let run = try await confirm()
        return run == checkedRun
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

    /// Returns the time until the next step: zero if PostgreSQL has begun another run meanwhile.
    private func step() async throws -> Duration? {
        let run = try await confirm()
        guard let checked = checkedRun, checked != run else {
            adopt(run)
            return nil
        }
        try await check()
        state.withLock { $0.checkedRun = run }
        guard try await confirm() == run else { return .zero }
        control.changed()
        return nil
    }

    /// Stores in the leases of this process the run that is compared, and returns the present one.
    private func confirm() async throws -> String {
        let confirmed = try await pool.write(ConfirmRun(process: process, run: checkedRun)).first
        guard let confirmed else { throw PostgresError(.decoding, detail: "database_run() returned no row") }
        return confirmed
    }

    private func check() async throws {
        for (object, check) in state.withLock({ $0.checks }) {
            let missing = try await check()
            // Counted at once: what is stored again is not missing any more if a later step fails and all are repeated.
            guard missing > 0 else { continue }
            state.withLock { state in
                state.lost[object, default: 0] += missing
                state.found[object, default: 0] += missing
            }
        }
        let missing = state.withLock { $0.found }
        guard !missing.isEmpty else {
            logger.notice("PostgreSQL was restarted or replaced: nothing is lost")
            return
        }
        let found = missing.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
        logger.error(
            "PostgreSQL has lost commits: stored again where they are known, and the sender is stopped",
            metadata: ["lost": "\(found)"]
        )
        try await control.recordLoss(
            reason: """
                PostgreSQL has lost commits (\(found)). Look at the unfinished pushes and messages, since cancellations may be \
                lost too, and start the sender.
                """,
            by: Self.actor
        )
        state.withLock { $0.found = [:] }
    }
}

// MARK: Statements

/// Stores in the leases of a process the run that it has compared, if that is the present run. Returns the present run.
struct ConfirmRun: PostgresStatement {
    static let sql: SQL = """
        WITH confirmed AS (
            UPDATE work_leases
            SET checked_run = $2
            WHERE process = $1
                AND checked_run <> $2
                AND $2 = database_run()
        )
        SELECT database_run()
        """

    let process: UUID
    /// `nil` before the first.
    let run: String?

    var parameters: [PostgresValue] { [.uuid(process), .text(run)] }
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}
