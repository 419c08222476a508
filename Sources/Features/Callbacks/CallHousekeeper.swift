import EventLoop
import FoundationEssentials
import Logging
import Postgres
import Runtime

/// Deletes old link callbacks and events in the background, in steps that are too small to delay other work.
struct CallHousekeeper: Sendable {
    /// The number of rows that one statement deletes.
    private static let rows = 1000

    let pool: PostgresPool
    let settings: CallbackSettings
    let logger: Logger

    func worker(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        .cleanup("remove-old-calls", on: loop, pace: pace, logger: logger) { worker in
            try await worker.delete(inStepsOf: Self.rows) {
                try await pool.write(DeleteOldLinkCallbacks(retentionDays: settings.retentionDays, limit: Self.rows))
            }
            try await worker.delete(inStepsOf: Self.rows) {
                try await pool.write(DeleteOldEvents(retentionDays: settings.eventRetentionDays, limit: Self.rows))
            }
        }
    }
}

// MARK: Statements

/// Deletes up to `limit` link callbacks that were received more than `retentionDays` ago, the oldest first. Skips rows
/// that another server is deleting.
struct DeleteOldLinkCallbacks: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM link_callbacks
        WHERE key IN (
            SELECT key
            FROM link_callbacks
            WHERE id < uuid_v7_floor(now() - make_interval(days => $1))
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}

/// Deletes up to `limit` events that were received more than `retentionDays` ago, the oldest first. Skips rows that
/// another server is deleting.
struct DeleteOldEvents: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM events
        WHERE key IN (
            SELECT key
            FROM events
            WHERE id < uuid_v7_floor(now() - make_interval(days => $1))
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
