import Endpoints
import EventLoop
import FoundationEssentials
import Logging
import Postgres
import Runtime
import Schemas

/// The replays: webhooks of a time that operators want to be delivered again. They become pending in steps, so that live webhooks, which
/// come first, never wait behind millions of rows.
struct WebhookReplays: Sendable {
    /// The number of webhooks that a step looks at.
    private static let webhooksPerStep = 10_000
    /// The number of replayed webhooks that wait for an endpoint from which there are no further steps.
    private static let maximumWaiting = 5000
    /// The number of replays that a pass continues.
    private static let maximumReplays = 100

    private let store: WebhookStore
    private let intervals: WebhookIntervals
    private let notices: WebhookNotices
    private let logger: Logger
    /// Wakes the worker.
    private let signal: Signal

    init(store: WebhookStore, intervals: WebhookIntervals, notices: WebhookNotices, logger: Logger) {
        self.store = store
        self.intervals = intervals
        self.notices = notices
        self.logger = logger
        signal = Signal(loop: store.pool.loop)
    }

    /// Makes this server look for replays now. Others look once a minute.
    func wake() { signal.send() }

    /// Returns the worker that makes the steps. Several servers may run it.
    func worker(_ pace: PollPace) -> BackgroundWorker {
        BackgroundWorker(
            "replay-webhooks",
            on: store.pool.loop,
            every: .seconds(60),
            signal: signal,
            retryAfter: intervals.work.retry,
            pace: pace,
            failure: "Webhooks not replayed",
            logger: logger
        ) { [pool = store.pool, intervals, notices] worker in
            let replays = try await pool.read(ListReplays(endpoint: nil, limit: Self.maximumReplays))
            guard !replays.isEmpty else { return nil }
            var isSearching = false
            for replay in replays where !worker.isStopping {
                let step = StepReplay(id: replay.id, limit: Self.webhooksPerStep, maximumWaiting: Self.maximumWaiting)
                guard let found = try await pool.write(step).first else { continue }
                if found > 0 { notices.wake() } else { isSearching = true }
            }
            return isSearching ? .zero : intervals.replay
        }
    }
}

/// A part of the time whose webhooks are to be delivered again, to one endpoint.
struct WebhookReplay: Sendable {
    let id: UUID
    let endpoint: String
    /// The times between which its webhooks were stored.
    let since: Date
    let until: Date
    let types: [String]

    static let shape = Shape<WebhookReplay>(
        "WebhookReplay",
        [
            .member("endpoint", .text, "The name of the endpoint.", \.endpoint),
            .member("since", .time, "Webhooks that were stored since then.", \.since),
            .member("until", .time, "Webhooks that were stored before then.", \.until),
            .array("types", .text, "The types of the webhooks.", \.types),
        ]
    )
}

extension WebhookStore {
    /// The number of webhooks that get their states back at a time.
    private static let restoredPerStep = 10_000

    /// Ends all replays. Their webhooks that wait are again what they were before.
    func cancelReplays() async throws {
        // A step in progress ends first.
        try await pool.write(DeleteReplays())
        while try await pool.write(RestoreReplayedWebhooks(limit: Self.restoredPerStep)) == Self.restoredPerStep {}
    }
}

// MARK: Statements

/// Stores replays: one for each endpoint that gets some of the types.
struct StoreReplays: PostgresStatement {
    // The ids that a step looks at begin with milliseconds, and those of the first one are rounded.
    static let sql: SQL = """
        INSERT INTO webhook_replays (id, endpoint, since, until, types, position)
        SELECT uuid_v7(), name, $1, LEAST($2, now()), ARRAY(SELECT unnest(types) INTERSECT SELECT unnest($3::text[])),
            uuid_v7_floor($1 - interval '1 ms')
        FROM webhook_endpoints
        WHERE types && $3
            AND name = COALESCE($4, name)
        """

    let since: Date
    let until: Date
    let types: WebhookTypes
    /// The name of one endpoint; `nil` for all.
    let endpoint: String?

    var parameters: [PostgresValue] {
        [.timestamp(since), .timestamp(until), .texts(types.names), .text(endpoint)]
    }
}

/// Lists replays, the oldest first.
struct ListReplays: PostgresStatement {
    static let sql: SQL = """
        SELECT id, endpoint, since, until, types
        FROM webhook_replays
        WHERE endpoint = COALESCE($1, endpoint)
        ORDER BY id
        LIMIT $2
        """

    /// The name of one endpoint; `nil` for all.
    let endpoint: String?
    let limit: Int

    var parameters: [PostgresValue] { [.text(endpoint), .int64(Int64(limit))] }

    static func decode(_ row: PostgresRow) throws -> WebhookReplay {
        try row.decode { column in
            try WebhookReplay(
                id: column.next(),
                endpoint: column.next(),
                since: column.next(),
                until: column.next(),
                types: column.next()
            )
        }
    }
}

/// Makes webhooks of a replay pending again: those among the next `limit` of all webhooks. After the last one, or if the endpoint is gone,
/// the replay is deleted.
///
/// Returns their number; no row if another server makes a step of the replay, or if enough replayed webhooks wait.
struct StepReplay: PostgresStatement {
    static let sql: SQL = """
        WITH replay AS MATERIALIZED (
            SELECT id, endpoint, since, until, types, position
            FROM webhook_replays AS replay
            WHERE id = $1
                AND $3 > (
                    SELECT count(*)
                    FROM (
                        SELECT 1
                        FROM webhook_events AS event
                        WHERE event.endpoint = replay.endpoint
                            AND state = 'pending'
                            AND replayed_from IS NOT NULL
                        LIMIT $3
                    ) AS waiting
                )
            FOR UPDATE SKIP LOCKED
        ),
        step AS MATERIALIZED (
            SELECT event.id,
                event.endpoint = replay.endpoint
                    AND event.type = ANY (replay.types)
                    AND event.stored_at >= replay.since
                    AND event.stored_at < replay.until AS is_wanted
            FROM replay
            JOIN webhook_endpoints AS endpoint ON endpoint.name = replay.endpoint
            CROSS JOIN LATERAL (
                SELECT id, endpoint, type, stored_at
                FROM webhook_events
                WHERE id > replay.position
                    AND id < uuid_v7_floor(replay.until + interval '1 ms')
                ORDER BY id
                LIMIT $2
            ) AS event
            WHERE endpoint.state <> 'removed'
        ),
        replayed AS (
            UPDATE webhook_events
            SET state = 'pending',
                attempts = 0,
                due_at = stored_at,
                replayed_from = state
            WHERE id = ANY (ARRAY(SELECT id FROM step WHERE is_wanted))
                AND state IN ('delivered', 'failed', 'dropped')
            RETURNING id
        ),
        moved AS (
            UPDATE webhook_replays
            SET position = (SELECT id FROM step ORDER BY id DESC LIMIT 1)
            WHERE id = (SELECT id FROM replay)
                AND (SELECT count(*) FROM step) = $2
        ),
        ended AS (
            DELETE FROM webhook_replays
            WHERE id = (SELECT id FROM replay)
                AND (SELECT count(*) FROM step) < $2
        )
        SELECT (SELECT count(*) FROM replayed)
        FROM replay
        """

    let id: UUID
    let limit: Int
    let maximumWaiting: Int

    var parameters: [PostgresValue] { [.uuid(id), .int64(Int64(limit)), .int64(Int64(maximumWaiting))] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Deletes all replays.
struct DeleteReplays: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_replays
        """
}

/// Gives up to `limit` replayed webhooks that wait the states back that they had before.
struct RestoreReplayedWebhooks: PostgresStatement {
    // A failed one had attempts, without which it would not be listed.
    static let sql: SQL = """
        UPDATE webhook_events
        SET state = replayed_from,
            attempts = CASE replayed_from WHEN 'failed' THEN GREATEST(attempts, 1) ELSE attempts END,
            replayed_from = NULL
        WHERE id = ANY (ARRAY(
            SELECT id
            FROM webhook_events
            WHERE state = 'pending'
                AND replayed_from IS NOT NULL
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        ))
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
