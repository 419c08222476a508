internal import FoundationEssentials
internal import Postgres

/// The events in PostgreSQL.
struct EventStore: Sendable {
    let pool: PostgresPool

    /// Stores events, and does what follows from them for their users in the same step: withdraws devices, and notifies all servers of tokens that
    /// were revoked. An event that is stored already changes nothing: its user may have come back meanwhile. For the same reason only devices
    /// are withdrawn whose last registration is older than the event. Their times are the database's, so the age of the event counts, not
    /// its time by this machine's clock.
    ///
    /// - Returns: How many devices were withdrawn, of which Kakao is to be told.
    func insert(_ events: [KakaoEvent]) async throws -> Int {
        let rows = try await retryingDeadlocks {
            try await pool.write(
                """
                WITH stored AS (
                    INSERT INTO events (key, id, type, user_id, referrer_type, payload, received_at, happened_at)
                    SELECT *, now() - ($11::timestamptz - received_at)
                    FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::jsonb[], $7::timestamptz[])
                        AS event (key, id, type, user_id, referrer_type, payload, received_at)
                    ON CONFLICT (key) DO NOTHING
                    RETURNING key, user_id, happened_at
                ),
                withdrawn AS (
                    UPDATE devices AS device
                    SET withdrawn = true,
                        revision = device.revision + 1,
                        updated_at = now(),
                        attempts = 0,
                        next_attempt_at = now()
                    FROM stored
                    WHERE stored.key = ANY ($8::text[])
                        AND device.user_id = stored.user_id
                        AND NOT device.withdrawn
                        AND device.updated_at <= stored.happened_at
                    RETURNING device.user_id
                ),
                told AS (
                    SELECT pg_notify($10, user_id::text)
                    FROM stored
                    WHERE key = ANY ($9::text[])
                        AND user_id IS NOT NULL
                )
                SELECT (SELECT count(*) FROM withdrawn), (SELECT count(told) FROM told)
                """,
                [
                    .texts(events.map(\.key)), .uuids(events.map(\.id)), .texts(events.map(\.type)),
                    .int64s(events.map(\.userID)), .texts(events.map(\.referrerType)), .jsonbs(events.map(\.payload)),
                    .timestamps(events.map(\.receivedAt)),
                    .texts(events.filter { $0.effect == .userGone }.map(\.key)),
                    .texts(events.filter { $0.effect != .none }.map(\.key)),
                    .text(KakaoAccessTokens.channel), .timestamp(Date()),
                ]
            )
        }
        guard let row = rows.first else { return 0 }
        let (withdrawn, _) = try row.decode(Int64.self, Int64.self)
        return Int(withdrawn)
    }

    /// Forgets what Kakao has told of a user.
    func remove(userID: Int64) async throws {
        _ = try await pool.write(
            """
            DELETE FROM events
            WHERE user_id = $1
            """,
            [.int64(userID)]
        )
    }

    /// The events, the latest first, at most `limit` of them.
    ///
    /// - Parameters:
    ///   - type: Only those of this type.
    ///   - storedSince: Only those that were stored since then, however long ago they were received.
    ///   - before: Only what was received before this one.
    func list(
        type: String?,
        storedSince: Date?,
        before: UUID?,
        limit: Int
    ) async throws -> [StoredCall<KakaoEvent>] {
        // Two statements, so that each has its index whatever the values are.
        let condition = type == nil ? "$1::text IS NULL" : "type = $1"
        let rows = try await pool.read(
            """
            SELECT key, id, type, user_id, referrer_type, payload, received_at, stored_at
            FROM events
            WHERE \(condition)
                AND id < $2
                AND ($4::timestamptz IS NULL OR stored_at >= $4)
            ORDER BY id DESC
            LIMIT $3
            """,
            [.text(type), .uuid(before ?? Self.afterAll), .int64(Int64(limit)), .timestamp(storedSince)]
        )
        return try rows.map { row in
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
            return StoredCall(call: event, storedAt: storedAt)
        }
    }

    /// No event has so great an id.
    private static let afterAll = UUID(
        uuid: (255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255)
    )
}
