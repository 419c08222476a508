package import FoundationEssentials
internal import Locking
package import Postgres

/// The switch that stops all that is sent: pushes and KakaoTalk messages, on all servers of a database.
///
/// It is a row that the statements that claim work read and lock. Nothing is claimed after the commit of a stop, even by a
/// server that has not been notified. What was claimed before is sent, or released within seconds.
package final class SenderControl: Sendable {
    /// A stop by an operator.
    package struct Stop: Sendable, Equatable {
        package let at: Date
        package let reason: String
        /// The name of the operator key.
        package let by: String
    }

    private let pool: PostgresPool
    private let query: CachedQuery<Stop?>
    private let observers = Locked<[@Sendable () -> Void]>([])

    init(pool: PostgresPool) {
        self.pool = pool
        query = CachedQuery(pool, Self.read)
    }

    /// Adds what is to happen when the switch changes: waking a sender, on this server and on others. Called before the
    /// server starts.
    package func onChange(_ observer: @escaping @Sendable () -> Void) {
        observers.withLock { $0.append(observer) }
    }

    /// Returns the stop in effect, up to a few seconds old; `nil` if the sender is not stopped, or the database does not
    /// respond.
    package func stop() async -> Stop? { await query.value() ?? nil }

    /// Stops the sender. A sender that is stopped already remains so, for the earlier reason.
    ///
    /// - Parameter record: The record for the audit log.
    /// - Returns: The stop in effect.
    @discardableResult package func stop(
        reason: String,
        by name: String,
        recording record: AuditRecord?
    ) async throws -> Stop? {
        _ = try await pool.write(StopSender(reason: reason, by: name), recording: record) as Int
        return try await notifyAndRead()
    }

    /// Starts the sender again.
    ///
    /// - Parameter record: The record for the audit log.
    /// - Returns: The stop in effect: `nil`, unless another operator stops it at the same time.
    package func start(recording record: AuditRecord?) async throws -> Stop? {
        _ = try await pool.write(StartSender(), recording: record) as Int
        return try await notifyAndRead()
    }

    private func notifyAndRead() async throws -> Stop? {
        for observer in observers.withLock({ $0 }) { observer() }
        await query.forget()
        return try await Self.read(pool)
    }

    @Sendable private static func read(_ pool: PostgresPool) async throws -> Stop? {
        try await pool.read(ReadSenderStop()).first
    }
}

// MARK: Statements

/// Stops the sender unless it is stopped. Waits for the claims in flight, which have locked the row.
struct StopSender: PostgresStatement {
    static let sql: SQL = """
        UPDATE sender
        SET stopped_at = now(),
            reason = $1,
            stopped_by = $2
        WHERE stopped_at IS NULL
        """

    let reason: String
    let by: String

    var parameters: [PostgresValue] { [.text(reason), .text(by)] }
}

/// Starts the sender.
struct StartSender: PostgresStatement {
    static let sql: SQL = """
        UPDATE sender
        SET stopped_at = NULL,
            reason = NULL,
            stopped_by = NULL
        WHERE stopped_at IS NOT NULL
        """

    var parameters: [PostgresValue] { [] }
}

/// Reads the stop in effect. Returns no row while the sender runs.
struct ReadSenderStop: PostgresStatement {
    static let sql: SQL = """
        SELECT stopped_at, reason, stopped_by
        FROM sender
        WHERE stopped_at IS NOT NULL
        """

    var parameters: [PostgresValue] { [] }

    static func decode(_ row: PostgresRow) throws -> SenderControl.Stop {
        let (at, reason, by) = try row.decode(Date.self, String.self, String.self)
        return SenderControl.Stop(at: at, reason: reason, by: by)
    }
}
