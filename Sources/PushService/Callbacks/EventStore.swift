internal import FoundationEssentials
internal import Postgres

/// The events in PostgreSQL.
struct EventStore: Sendable {
    let pool: PostgresPool

    /// Stores events and their effects on users: withdraws devices, and notifies all servers of revoked tokens. Returns
    /// the number of withdrawn devices, which are to be deregistered at Kakao.
    ///
    /// A duplicate event changes nothing, since its user may have returned.
    func insert(_ events: [KakaoEvent]) async throws -> Int {
        Int(try await pool.write(InsertEvents(events: events, now: Date())).first ?? 0)
    }

    /// Deletes the events of a user.
    func remove(userID: Int64) async throws {
        try await pool.write(DeleteEvents(userID: userID))
    }

    /// Returns up to `limit` events, the latest first.
    ///
    /// - Parameters:
    ///   - type: Only events of this type.
    ///   - storedSince: Only events that were stored since then, however long ago they were received.
    ///   - before: Only events that were received before this one.
    func list(
        type: String?,
        storedSince: Date?,
        before: UUID?,
        limit: Int
    ) async throws -> [StoredCall<KakaoEvent>] {
        guard let type else {
            return try await pool.read(ListEvents(storedSince: storedSince, before: before, limit: Int64(limit)))
        }
        return try await pool.read(
            ListEventsOfType(type: type, storedSince: storedSince, before: before, limit: Int64(limit))
        )
    }
}

// MARK: Statements

/// Stores events, withdraws the devices of users that have left the app, and notifies all servers of users whose tokens
/// were revoked.
///
/// Withdraws only devices that were registered before the event. Both times are by the database's clock: the statement
/// computes an event's time from its age.
struct InsertEvents: PostgresStatement {
    static let sql: SQL = """
        WITH stored AS (
            INSERT INTO events (key, id, type, user_id, referrer_type, payload, received_at, happened_at)
            SELECT *, now() - ($10::timestamptz - received_at)
            FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::jsonb[], $7::timestamptz[])
                AS event (key, id, type, user_id, referrer_type, payload, received_at)
            ON CONFLICT (key) DO NOTHING
            RETURNING key, type, user_id, happened_at
        ),
        withdrawn AS (
            SELECT withdraw_departed_devices(user_id, happened_at) AS devices
            FROM (
                SELECT user_id, happened_at
                FROM stored
                WHERE user_id IS NOT NULL
                    AND is_departure(type)
                ORDER BY user_id
                OFFSET 0
            ) AS departure
        ),
        notified AS (
            SELECT pg_notify($9, user_id::text)
            FROM stored
            WHERE key = ANY ($8::text[])
                AND user_id IS NOT NULL
        )
        SELECT (SELECT COALESCE(sum(devices), 0)::bigint FROM withdrawn), (SELECT count(notified) FROM notified)
        """

    let events: [KakaoEvent]
    let now: Date

    var parameters: [PostgresValue] {
        [
            .texts(events.map(\.key)), .uuids(events.map(\.id)), .texts(events.map(\.type)),
            .int64s(events.map(\.userID)), .texts(events.map(\.referrerType)), .jsonbs(events.map(\.payload)),
            .timestamps(events.map(\.receivedAt)), .texts(events.filter { $0.effect != .none }.map(\.key)),
            .text(KakaoAccessTokens.channel), .timestamp(now),
        ]
    }

    /// The number of devices that were withdrawn.
    static func decode(_ row: PostgresRow) throws -> Int64 {
        let (withdrawn, _) = try row.decode(Int64.self, Int64.self)
        return withdrawn
    }
}

/// Deletes the events of a user.
struct DeleteEvents: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM events
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Lists events, the latest first.
struct ListEvents: PostgresStatement {
    static let sql: SQL = """
        SELECT key, id, type, user_id, referrer_type, payload, received_at, stored_at
        FROM events
        WHERE id < COALESCE($1, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            AND ($2::timestamptz IS NULL OR stored_at >= $2)
        ORDER BY id DESC
        LIMIT $3
        """

    let storedSince: Date?
    let before: UUID?
    let limit: Int64

    var parameters: [PostgresValue] { [.uuid(before), .timestamp(storedSince), .int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> StoredCall<KakaoEvent> { try StoredCall(row) }
}

/// Lists the events of a type, the latest first. A statement of its own, so that it always uses the index of types.
struct ListEventsOfType: PostgresStatement {
    static let sql: SQL = """
        SELECT key, id, type, user_id, referrer_type, payload, received_at, stored_at
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
    static func decode(_ row: PostgresRow) throws -> StoredCall<KakaoEvent> { try StoredCall(row) }
}

extension StoredCall<KakaoEvent> {
    fileprivate init(_ row: PostgresRow) throws {
        let (key, id, type, userID, referrerType, payload, receivedAt, storedAt) = try row.decode(
            String.self,
            UUID.self,
            String.self,
            Int64?.self,
            String?.self,
            [UInt8].self,
            Date.self,
            Date.self
        )
        let event = KakaoEvent(
            id: id,
            key: key,
            type: type,
            userID: userID,
            referrerType: referrerType,
            payload: payload,
            receivedAt: receivedAt
        )
        self.init(call: event, storedAt: storedAt)
    }
}
