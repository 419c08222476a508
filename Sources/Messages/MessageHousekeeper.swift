internal import EventLoop
internal import Logging
internal import Postgres
internal import ServiceKit

/// Deletes old messages, and the quotas of past days.
struct MessageHousekeeper: Sendable {
    /// The number of rows that one statement deletes.
    private static let rows = 1000

    let pool: PostgresPool
    let retentionDays: Int
    let logger: Logger

    func worker(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        .cleanup("remove-old-messages", on: loop, pace: pace, logger: logger) { worker in
            try await worker.delete(inStepsOf: Self.rows) {
                try await pool.write(DeleteOldReceivers(days: retentionDays, limit: Self.rows))
            }
            try await worker.delete(inStepsOf: Self.rows) {
                try await pool.write(DeleteOldMessages(days: retentionDays, limit: Self.rows))
            }
            try await worker.delete(inStepsOf: Self.rows) {
                try await pool.write(DeleteOldMessageQuotas(limit: Self.rows))
            }
        }
    }
}

// MARK: Statements

/// Deletes receivers of messages that ended before the given number of days.
struct DeleteOldReceivers: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM message_receivers
        WHERE (message_id, position) IN (
            SELECT message_id, position
            FROM messages
            JOIN message_receivers ON message_id = id
            WHERE messages.finished_at < now() - make_interval(days => $1)
                AND lease IS NULL
            LIMIT $2
        )
        """

    let days: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: days)), .int64(Int64(limit))] }
}

/// Deletes messages without receivers that ended before the given number of days.
struct DeleteOldMessages: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM messages
        WHERE id IN (
            SELECT id
            FROM messages
            WHERE finished_at < now() - make_interval(days => $1)
                AND NOT EXISTS (SELECT 1 FROM message_receivers WHERE message_id = id)
            LIMIT $2
        )
        """

    let days: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: days)), .int64(Int64(limit))] }
}

/// Deletes the quotas of past days.
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
