import Endpoints
import EventLoop
package import FoundationEssentials
import Locking
package import Logging
package import Postgres

/// How far the replica of `database.read_url` is behind, and hence whether it is read.
///
/// The servers renew their leases every five seconds. A lease on the replica therefore tells from when its state is,
/// whatever copies the database: a standby, logical replication, or the storage of a cloud.
package final class ReplicaHealth: Sendable {
    /// The lag from which on the replica is not read.
    package static let maximumLag = Duration.seconds(60)
    /// The time between two checks.
    private static let interval = Duration.seconds(5)

    /// Whether the replica is read.
    package enum State: String, CaseIterable, Sendable {
        case ok
        /// It is more than ``ReplicaHealth/maximumLag`` behind.
        case behind
        /// It does not respond, or it has none of the servers' leases.
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
        var lag = ReplicaLag()
        var isReported = false
    }

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

    private let pools: [PostgresPool]
    private let logger: Logger
    private let observed = Locked(Observed())

    /// - Parameter pools: The pools of the server, each with one of the replica.
    package init(pools: [PostgresPool], logger: Logger) {
        self.pools = pools
        self.logger = logger
    }

    /// The result of the latest check.
    package var report: Report { observed.withLock { $0.report } }

    /// The metrics.
    @Sendable package func monitoring() async -> Monitoring.Report {
        let report = report
        let lag: [(Metric.Labels, Double)] = report.lag.map { [([], $0.inSeconds)] } ?? []
        return Monitoring.Report(metrics: [Self.up.reading(report.state == .ok ? 1 : 0), Self.lag.reading(lag)])
    }

    /// Makes the worker that checks the replica.
    ///
    /// - Parameter pool: The pool that checks it.
    package func worker(on pool: PostgresPool) -> BackgroundWorker {
        BackgroundWorker(
            "check-replica",
            on: pool.loop,
            every: Self.interval,
            pace: nil,
            failure: "Replica not checked",
            logger: logger
        ) { _ in
            await self.check(pool)
            return nil
        }
    }

    private func check(_ pool: PostgresPool) async {
        do {
            // Without the primary, nothing is known, and the last state stays.
            guard let newest = try await pool.read(FindNewestLease()).first, let replica = pool.replica else { return }
            do {
                let copy = try await replica.read(ReadLease(id: newest.id)).first
                let lag = observed.withLock { $0.lag.record(primary: newest.endsAt, replica: copy) }
                guard let lag else { return record(Report(state: .unreachable), "it lacks the newest lease") }
                let state: State = lag < Self.maximumLag ? .ok : .behind
                record(Report(state: state, lag: lag), "it is \(lag.inSeconds) s behind")
            } catch {
                record(Report(state: .unreachable), String(reflecting: error))
            }
        } catch {
            logger.debug("Replica not checked", metadata: ["error": "\(String(reflecting: error))"])
        }
    }

    /// - Parameter reason: Why the replica is not read, if it is not.
    private func record(_ report: Report, _ reason: String) {
        for pool in pools { pool.useReplica(report.state == .ok) }
        let isReported = observed.withLock { observed in
            let isReported = observed.isReported
            observed.report = report
            observed.isReported = report.state != .ok
            return isReported
        }
        guard isReported != (report.state != .ok) else { return }
        if isReported {
            logger.notice("Replica is read again")
        } else {
            logger.warning("Replica is not read: the primary is instead", metadata: ["reason": "\(reason)"])
        }
    }
}

/// How far a replica is behind, as the newest leases there and at the primary tell. Pure.
struct ReplicaLag {
    /// The end of the newest lease that the primary had at the previous check.
    private var previous: Date?

    /// Records a check.
    ///
    /// - Parameters:
    ///   - primary: The end of the newest lease at the primary.
    ///   - replica: The end of the same lease at the replica; `nil` if it does not have the lease.
    /// - Returns: The lag. Zero if the replica has what the primary had at the previous check: a lease that was renewed just
    ///   now says nothing. `nil` if it is unknown.
    mutating func record(primary: Date, replica: Date?) -> Duration? {
        defer { previous = primary }
        guard let replica else { return nil }
        if let previous, replica >= previous { return .zero }
        return .seconds(max(0, primary.timeIntervalSince(replica)))
    }
}

// MARK: Statements

/// Finds the lease of a server that was renewed last.
package struct FindNewestLease: PostgresStatement {
    package static let sql: SQL = """
        SELECT id, ends_at
        FROM work_leases
        WHERE queue = 'pushes'
        ORDER BY ends_at DESC
        LIMIT 1
        """

    package init() {}

    package static func decode(_ row: PostgresRow) throws -> (id: UUID, endsAt: Date) {
        try row.decode(UUID.self, Date.self)
    }
}

/// Reads the end of a lease.
package struct ReadLease: PostgresStatement {
    package static let sql: SQL = """
        SELECT ends_at
        FROM work_leases
        WHERE id = $1
        """

    let id: UUID

    package init(id: UUID) {
        self.id = id
    }

    package var parameters: [PostgresValue] { [.uuid(id)] }
    package static func decode(_ row: PostgresRow) throws -> Date { try row.decode(Date.self) }
}
