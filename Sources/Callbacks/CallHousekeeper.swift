internal import EventLoop
internal import FoundationEssentials
internal import Logging
internal import Postgres
internal import ServiceKit

/// Deletes old link callbacks and events in the background, in steps that are too small to delay other work.
struct CallHousekeeper: Sendable {
    private static let interval = Duration.seconds(600)
    /// The delay after the start. It is short, so that a server that is restarted often cleans up too.
    private static let firstInterval = Duration.seconds(30)
    /// The number of rows that one statement deletes. A pause follows each statement.
    private static let rows = 1000
    private static let pause = Duration.milliseconds(100)

    let pool: PostgresPool
    let settings: CallbackSettings
    let logger: Logger

    func worker(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        BackgroundWorker(
            "remove-old-calls",
            on: loop,
            every: Self.interval,
            firstAfter: Self.firstInterval,
            retryAfter: Self.interval,
            pace: pace,
            failure: "Cleanup failed",
            logger: logger
        ) { worker in
            try await remove(worker) {
                try await pool.write(DeleteOldLinkCallbacks(retentionDays: settings.retentionDays, limit: Self.rows))
            }
            try await remove(worker) {
                try await pool.write(DeleteOldEvents(retentionDays: settings.eventRetentionDays, limit: Self.rows))
            }
            return nil
        }
    }

    private func remove(_ worker: BackgroundWorker, _ step: () async throws -> Int) async throws {
        while !worker.isStopping, try await step() == Self.rows { try await worker.loop.sleep(for: Self.pause) }
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
