internal import FoundationEssentials
internal import Postgres

/// The events in PostgreSQL.
struct EventStore: Sendable {
    let pool: PostgresPool

    /// Stores an event, and withdraws the devices of its user in the same step. One that came before changes nothing: its user may have
    /// come back meanwhile.
    ///
    /// - Returns: How many devices were withdrawn, of which Kakao is to be told.
    func insertWithdrawingDevices(_ event: KakaoEvent) async throws -> Int {
        let rows = try await retryingDeadlocks {
            try await pool.write(
                """
                WITH stored AS (
                    INSERT INTO events (key, id, type, user_id, referrer_type, payload, received_at)
                    VALUES ($1, $2, $3, $4, $5, $6, $7)
                    ON CONFLICT (key) DO NOTHING
                    RETURNING user_id
                )
                UPDATE devices AS device
                SET withdrawn = true,
                    revision = device.revision + 1,
                    updated_at = now(),
                    attempts = 0,
                    next_attempt_at = now()
                FROM stored
                WHERE device.user_id = stored.user_id
                    AND NOT device.withdrawn
                """,
                [
                    .text(event.kakaoID.map { "\(event.type) \($0)" } ?? event.id.lowercased), .uuid(event.id),
                    .text(event.type), .int64(event.userID), .text(event.referrerType), .jsonb(event.payload),
                    .timestamp(event.receivedAt),
                ]
            )
        }
        return rows.affectedRows
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
    ///   - before: Only what was received before this one.
    func list(type: String?, before: UUID?, limit: Int) async throws -> [KakaoEvent] {
        let rows = try await pool.read(
            """
            SELECT id, type, user_id, referrer_type, payload, received_at
            FROM events
            WHERE ($1::text IS NULL OR type = $1)
                AND ($2::uuid IS NULL OR id < $2)
            ORDER BY id DESC
            LIMIT $3
            """,
            [.text(type), .uuid(before), .int64(Int64(limit))]
        )
        return try rows.map { row in
            let (id, type, userID, referrerType, payload, receivedAt) = try row.decode(
                UUID.self,
                String.self,
                Int64?.self,
                String?.self,
                [UInt8].self,
                Date.self
            )
            return KakaoEvent(
                id: id,
                kakaoID: nil,
                type: type,
                userID: userID,
                referrerType: referrerType,
                payload: payload,
                receivedAt: receivedAt
            )
        }
    }
}
