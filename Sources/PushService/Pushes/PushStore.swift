internal import FoundationEssentials
internal import JSON
internal import KakaoAPI
internal import Postgres

/// The pushes in PostgreSQL, as they are asked for and shown.
struct PushStore: Sendable {
    private let pool: PostgresPool

    init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Stores a push to at most 100 users, which is one batch, ready to be sent. Returns when it is committed.
    func create(_ push: NewPush) async throws {
        let audience: JSONValue = ["uuids": .array(push.userIDs.map { .string(String($0)) })]
        _ = try await pool.write(
            """
            WITH push AS (
                INSERT INTO pushes (id, state, audience, message, message_version, bypass, delivery, started_at)
                VALUES ($1, 'sending', $2, $3, $4, $5, $6, now())
                RETURNING id
            )
            INSERT INTO push_batches (push_id, number, user_ids, state)
            SELECT id, 1, $7, 'waiting'
            FROM push
            """,
            [
                .uuid(push.id), .jsonb(audience.bytes()), .text(push.message.text),
                .text(push.message.version.rawValue),
                .bool(push.bypass), .text(push.delivery.rawValue), .int64s(push.userIDs),
            ]
        )
    }

    /// A push and its counts, or `nil`.
    func summary(_ id: UUID) async throws -> PushSummary? {
        let rows = try await pool.read(
            """
            SELECT push.name, push.state, push.reason, push.audience, push.delivery, push.users_per_second, push.send_at,
                push.expires_at, push.created_at, push.started_at, push.finished_at,
                COALESCE(counts.states, '{}'), COALESCE(counts.users, '{}'), COALESCE(counts.batches, '{}')
            FROM pushes AS push
            LEFT JOIN LATERAL (
                SELECT array_agg(state) AS states, array_agg(users) AS users, array_agg(batches) AS batches
                FROM (
                    SELECT state, sum(cardinality(user_ids))::bigint AS users, count(*) AS batches
                    FROM push_batches
                    WHERE push_id = push.id
                    GROUP BY state
                ) AS by_state
            ) AS counts ON true
            WHERE push.id = $1
            """,
            [.uuid(id)]
        )
        guard let row = rows.first else { return nil }
        let (
            name, state, reason, audience, delivery, usersPerSecond, sendAt, expiresAt, createdAt, startedAt,
            finishedAt,
            states, users, batches
        ) = try row.decode(
            String?.self,
            String.self,
            String?.self,
            [UInt8].self,
            String.self,
            Int32?.self,
            Date?.self,
            Date?.self,
            Date.self,
            Date?.self,
            Date?.self,
            [String].self,
            [Int64].self,
            [Int64].self
        )
        return PushSummary(
            id: id,
            name: name,
            state: PushState(rawValue: state) ?? .halted,
            reason: reason,
            audience: audience,
            delivery: Delivery(rawValue: delivery) ?? .atLeastOnce,
            usersPerSecond: usersPerSecond,
            sendAt: sendAt,
            expiresAt: expiresAt,
            createdAt: createdAt,
            startedAt: startedAt,
            finishedAt: finishedAt,
            users: Self.counts(states, users),
            batches: Self.counts(states, batches)
        )
    }

    private static func counts(_ states: [String], _ numbers: [Int64]) -> PushCounts {
        var counts = PushCounts()
        for (state, number) in zip(states, numbers) {
            counts.total += number
            switch state {
            case "sent": counts.sent += number
            case "failed": counts.failed += number
            case "uncertain": counts.uncertain += number
            case "skipped": counts.skipped += number
            default: break
            }
        }
        return counts
    }

    /// Lets a halted push go on. Returns whether there was one.
    func resume(_ id: UUID) async throws -> Bool {
        let rows = try await pool.write(
            """
            UPDATE pushes
            SET state = 'sending',
                reason = NULL
            WHERE id = $1
                AND state IN ('halted', 'paused')
            """,
            [.uuid(id)]
        )
        return rows.affectedRows > 0
    }
}
