import Channels
import FoundationEssentials
import Postgres
import Runtime
import ServiceKit

/// The events in PostgreSQL.
struct EventStore: Sendable {
    let pool: PostgresPool
    let webhooks: WebhookNotice

    /// Stores events, and carries out their effects in the same transaction.
    ///
    /// A duplicate event changes nothing, since its user may have returned.
    ///
    /// - Parameter observers: The reactions to the events.
    /// - Returns: Whether any of the events was new.
    func insert(_ events: [KakaoEvent], _ observers: UserLifecycle.Observers) async throws -> Bool {
        defer { webhooks.send() }
        let statement = InsertEvents(events: events, now: Date())
        let changes = events.compactMap { event in event.channelChange.map { (key: event.key, change: $0) } }
        guard !changes.isEmpty || events.contains(where: { $0.userEventKind != nil }) else {
            return try await !pool.write(statement).isEmpty
        }
        let (isNew, actions) = try await pool.withTransaction { transaction in
            let stored = Dictionary(try await transaction.query(statement)) { first, _ in first }
            let newChanges = changes.filter { stored[$0.key] != nil }.map(\.change)
            let users = try await ChannelRelations.store(newChanges, in: transaction)
            try await observers.channelsChanged(of: users, in: transaction)
            let userEvents = events.compactMap { event in stored[event.key].flatMap { event.userEvent(at: $0) } }
            let actions = userEvents.isEmpty ? [] : try await observers.apply(userEvents, in: transaction)
            return (!stored.isEmpty, actions)
        }
        for action in actions { action() }
        return isNew
    }
}

// MARK: Statements

/// Stores events with their webhooks, and returns those that were not stored before.
///
/// The time of an event is by the database's clock: the statement computes it from the event's age.
struct InsertEvents: PostgresStatement {
    static let sql: SQL = """
        WITH event AS (
            INSERT INTO events (key, id, type, user_id, referrer_type, payload, received_at, raw, happened_at)
            SELECT *, now() - ($8::timestamptz - received_at)
            FROM unnest(
                $1::text[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::jsonb[], $7::timestamptz[], $9::text[]
            ) AS received (key, id, type, user_id, referrer_type, payload, received_at, raw)
            ON CONFLICT (key) DO NOTHING
            RETURNING *
        ),
        webhook AS (
            INSERT INTO webhook_events (id, endpoint, type, happened_at, user_id, subject)
            SELECT uuid_v7(), endpoint.name, webhook.type, event.received_at, event.user_id, 'events/' || event.id
            FROM event
            CROSS JOIN LATERAL (
                SELECT CASE event.type
                    WHEN 'unlink' THEN 'user.unlinked'
                    WHEN 'channel_added' THEN 'channel.added'
                    WHEN 'channel_blocked' THEN 'channel.blocked'
                    -- It does not say which.
                    WHEN 'channel' THEN NULL
                    ELSE 'account.event.received'
                END AS type
            ) AS webhook
            JOIN webhook_endpoints AS endpoint ON webhook.type = ANY (endpoint.types)
        )
        SELECT key, happened_at
        FROM event
        """

    let events: [KakaoEvent]
    let now: Date

    var parameters: [PostgresValue] {
        [
            .texts(events.map(\.key)), .uuids(events.map(\.id)), .texts(events.map(\.type)),
            .int64s(events.map(\.userID)), .texts(events.map(\.referrerType)), .jsonbs(events.map(\.payload)),
            .timestamps(events.map(\.receivedAt)), .timestamp(now), .texts(events.map(\.raw)),
        ]
    }

    /// The key of a stored event, and when it happened.
    static func decode(_ row: PostgresRow) throws -> (String, Date) { try row.decode(String.self, Date.self) }
}

/// Deletes the events of a user, and malformed ones in which the user's id occurs anywhere.
struct DeleteEvents: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM events
        WHERE user_id = $1
            OR raw IS NOT NULL AND position($1::text IN raw) > 0
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Lists events, the latest first.
struct ListEvents: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredCall<KakaoEvent>.columns)
        FROM events
        WHERE id < COALESCE($1, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            AND ($2::timestamptz IS NULL OR stored_at >= $2)
        ORDER BY id DESC
        LIMIT $3
        """

    /// Only events that were stored since then, however long ago they were received.
    let storedSince: Date?
    /// Only events that were received before this one.
    let before: UUID?
    let limit: Int64

    var parameters: [PostgresValue] { [.uuid(before), .timestamp(storedSince), .int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> StoredCall<KakaoEvent> {
        try row.decode { try StoredCall(&$0) }
    }
}

/// Lists the events of a type, the latest first. A statement of its own, so that it always uses the index of types.
struct ListEventsOfType: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredCall<KakaoEvent>.columns)
        FROM events
        WHERE type = $1
            AND id < COALESCE($2, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            AND ($3::timestamptz IS NULL OR stored_at >= $3)
        ORDER BY id DESC
        LIMIT $4
        """

    let type: String
    let storedSince: Date?
    let before: UUID?
    let limit: Int64

    var parameters: [PostgresValue] { [.text(type), .uuid(before), .timestamp(storedSince), .int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> StoredCall<KakaoEvent> {
        try row.decode { try StoredCall(&$0) }
    }
}

/// Lists the events of a user, the latest first. A statement of its own, so that it always uses the index of users.
struct ListEventsOfUser: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredCall<KakaoEvent>.columns)
        FROM events
        WHERE user_id = $1
            AND ($2::text IS NULL OR type = $2)
            AND id < COALESCE($3, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            AND ($4::timestamptz IS NULL OR stored_at >= $4)
        ORDER BY id DESC
        LIMIT $5
        """

    let userID: Int64
    let type: String?
    let storedSince: Date?
    let before: UUID?
    let limit: Int64

    var parameters: [PostgresValue] {
        [.int64(userID), .text(type), .uuid(before), .timestamp(storedSince), .int64(limit)]
    }
    static func decode(_ row: PostgresRow) throws -> StoredCall<KakaoEvent> {
        try row.decode { try StoredCall(&$0) }
    }
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
