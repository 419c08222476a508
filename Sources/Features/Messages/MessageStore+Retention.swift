import FoundationEssentials
import Postgres
import Runtime

extension MessageStore {
    /// The number of messages that one statement deletes, each with up to 10,000 receivers.
    private static let maxDeletedMessages = 10
    /// The number of messages that one statement ends.
    private static let maxEndedMessages = 1000

    /// Ends messages that no server has ended, and deletes old messages and the quotas of past days.
    func retention(days: Int) -> Retention {
        Retention(
            "remove-old-messages",
            .run { [self] _, _ in try await endAbandoned() },
            .delete(Self.maxDeletedMessages) { DeleteOldMessages(days: days, limit: $0) },
            .delete { DeleteOldMessageQuotas(limit: $0) }
        )
    }

    /// Ends messages whose last open receiver was erased, or whose last result no server has followed up.
    func endAbandoned() async throws {
        let ids = try await pool.read(FindFinishedMessages(limit: Self.maxEndedMessages))
        if !ids.isEmpty { _ = try await pool.write(FinishMessages(ids: ids)) as [UUID] }
    }
}

// MARK: Statements

/// Deletes messages that ended before the given number of days, with their receivers.
struct DeleteOldMessages: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM messages
        WHERE id IN (
            SELECT id
            FROM messages
            WHERE finished_at < now() - make_interval(days => $1)
            ORDER BY finished_at
            LIMIT $2
        )
        """

    let days: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: days)), .int64(Int64(limit))] }
}

/// Deletes the quotas of days that are more than three days past.
struct DeleteOldMessageQuotas: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM message_quotas
        WHERE (day, quota, sender, receiver) IN (
            SELECT day, quota, sender, receiver
            FROM message_quotas
            WHERE day < current_date - 3
            LIMIT $1
        )
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
