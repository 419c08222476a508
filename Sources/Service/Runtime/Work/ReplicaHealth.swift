import Endpoints
import EventLoop
import FoundationEssentials
import Locking
import Logging
import Postgres

/// How far the replica of `database.read_url` is behind, and hence whether it is read.
///
/// A server renews its leases every five seconds. Its lease on the replica therefore tells from when the replica's state is,
/// whatever copies the database: a standby, logical replication, or the storage of a cloud. Each pool asks over its own
/// connection to the replica, since a name may stand for several.
package final class ReplicaHealth: Sendable {
    /// The lag from which on a replica is not read.
    package static let defaultMaximumLag = Duration.seconds(60)
    /// The time between two checks.
    private static let interval = Duration.seconds(5)
    private static let up = Metric(
        "kakao_push_replica_up",
        .gauge,
        "1 if the replica of the database is read, 0 if the primary is read instead."
    )
    private static let lag = Metric(
        "kakao_push_replica_lag_seconds",
        .gauge,
        "How many seconds the replica of the database is behind, to about five."
    )
    private static let failures = Metric(
        "kakao_push_replica_failures_total",
        .counter,
        "Reads that the replica of the database failed and the primary answered instead."
    )

    /// Whether the replica is read.
    package enum State: String, CaseIterable, Sendable {
        case ok
        /// It is a minute behind: ``ReplicaHealth/defaultMaximumLag``.
        case behind
        /// It does not respond, or does not have the server's lease: it is of another database, or the server has just started.
        case unreachable
    }

    /// The result of a check.
    package struct Report: Sendable {
        package var state: State
        /// `nil` if it is unknown.
        package var lag: Duration?
    }

    private struct Observed {
        var report = Report(state: .unreachable)
        /// The end of the lease that the primary had at the previous check; `nil` after a check that failed.
        var previous: Date?
        var isReported = false
    }

    private let pools: [PostgresPool]
    private let process: UUID
    private let maximumLag: Duration
    private let logger: Logger
    private let observed = Locked(Observed())

    /// - Parameters:
    ///   - pools: The pools of the server, each with one of the replica.
    ///   - commits: Names the process of the server's leases.
    ///   - maximumLag: The lag from which on the replica is not read.
    package init(pools: [PostgresPool], commits: LostCommits, maximumLag: Duration, logger: Logger) {
        self.pools = pools
        process = commits.process
        self.maximumLag = maximumLag
        self.logger = logger
    }

    /// The result of the latest check: that of the pool whose replica is furthest behind.
    package var report: Report { observed.withLock { $0.report } }

    /// The metrics.
    @Sendable package func monitoring() async -> Monitoring.Report {
        let report = report
        let lag: [(Metric.Labels, Double)] = report.lag.map { [([], $0.inSeconds)] } ?? []
        return Monitoring.Report(
            metrics: [
                Self.up.reading(report.state == .ok ? 1 : 0),
                Self.lag.reading(lag),
                Self.failures.reading(Double(pools.reduce(0) { $0 + $1.replicaFailures })),
            ]
        )
    }

    /// Makes the worker that checks the replica.
    ///
    /// - Parameter pool: The pool that asks the primary.
    package func worker(on pool: PostgresPool) -> BackgroundWorker {
        BackgroundWorker(
            "check-replica",
            on: pool.loop,
            every: Self.interval,
            pace: nil,
            failure: "Replica not checked",
            logger: logger
        ) { _ in
            try await self.check(pool)
            return nil
        }
    }

    private func check(_ pool: PostgresPool) async throws {
        let previous = observed.withLock { $0.previous.take() }
        // Without an answer, and before the server has a lease, the replica is read no longer than the last check allows.
        guard let primary = try await pool.read(ReadLeaseEnd(process: process)).first ?? nil else { return }
        let results = await withTaskGroup(of: (Report, String?).self) { group in
            for pool in pools {
                group.addTask { await self.check(pool, primary: primary, previous: previous) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        try Task.checkCancellation()
        observed.withLock { $0.previous = primary }
        // One whose lag is unknown is not read.
        let furthest = results.max { ($0.0.lag ?? .seconds(Int64.max)) < ($1.0.lag ?? .seconds(Int64.max)) }
        if let furthest { record(furthest.0, furthest.1) }
    }

    /// Checks the replica of a pool. Returns also why it is not read, if it is not.
    private func check(_ pool: PostgresPool, primary: Date, previous: Date?) async -> (Report, String?) {
        guard let replica = pool.replica else { return (Report(state: .unreachable), nil) }
        let begin = MonotonicTime.now
        do {
            let copy = try await replica.read(ReadLeaseEnd(process: process)).first ?? nil
            guard let lag = Self.lag(primary: primary, previous: previous, replica: copy) else {
                pool.useReplica(until: nil)
                return (Report(state: .unreachable), "it does not have this server's lease")
            }
            pool.useReplica(until: lag < maximumLag ? begin + (maximumLag - lag) : nil)
            return lag < maximumLag
                ? (Report(state: .ok, lag: lag), nil)
                : (Report(state: .behind, lag: lag), "it is \(Int(lag.inSeconds)) s behind")
        } catch {
            pool.useReplica(until: nil)
            return (Report(state: .unreachable), String(reflecting: error))
        }
    }

    /// Returns the lag of a replica. Pure.
    ///
    /// - Parameters:
    ///   - primary: The end of the lease at the primary.
    ///   - previous: The end at the previous check; `nil` if that failed.
    ///   - replica: The end at the replica; `nil` if it does not have the lease.
    /// - Returns: Zero if the replica has what the primary had at the previous check: a lease that was renewed just now says
    ///   nothing. `nil` if the lag is unknown: the replica has no lease, or one that the primary does not know, as after a
    ///   failover to a machine with another clock.
    package static func lag(primary: Date, previous: Date?, replica: Date?) -> Duration? {
        guard let replica, replica.timeIntervalSince(primary) <= 2 * interval.inSeconds else { return nil }
        if let previous, previous <= primary, replica >= previous { return .zero }
        return .seconds(max(0, primary.timeIntervalSince(replica)))
    }

    /// - Parameter reason: Why the replica is not read, if it is not.
    private func record(_ report: Report, _ reason: String?) {
        let isChanged = observed.withLock { observed in
            observed.report = report
            defer { observed.isReported = reason != nil }
            return observed.isReported != (reason != nil)
        }
        guard isChanged else { return }
        if let reason {
            logger.warning("Replica is not read: the primary is instead", metadata: ["reason": "\(reason)"])
        } else {
            logger.notice("Replica is read")
        }
    }
}

// MARK: Statements

/// Reads when the lease of a process ends; NULL if it has none.
package struct ReadLeaseEnd: PostgresStatement {
    package static let sql: SQL = """
        SELECT max(ends_at)
        FROM work_leases
        WHERE process = $1
        """

    let process: UUID

    package init(process: UUID) {
        self.process = process
    }

    package var parameters: [PostgresValue] { [.uuid(process)] }
    package static func decode(_ row: PostgresRow) throws -> Date? { try row.decode(Date?.self) }
}

/// Finds the server whose lease ends last, and when it ends. Returns no row while no server is running.
package struct FindNewestLease: PostgresStatement {
    package static let sql: SQL = """
        SELECT process, ends_at
        FROM work_leases
        WHERE process IS NOT NULL
        ORDER BY ends_at DESC
        LIMIT 1
        """

    package init() {}

    package static func decode(_ row: PostgresRow) throws -> (process: UUID, endsAt: Date) {
        try row.decode(UUID.self, Date.self)
    }
}
