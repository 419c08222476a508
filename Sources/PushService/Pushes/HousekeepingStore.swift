internal import FoundationEssentials
internal import Postgres

/// Removes pushes from PostgreSQL whose time is over.
///
/// Several servers may be at it: rows that another one is removing are passed over.
struct HousekeepingStore: Sendable {
    let pool: PostgresPool

    /// Picks the push that finished first of those that finished more than `retentionDays` ago. It cannot be retried any more.
    func expiredPush(retentionDays: Int) async throws -> UUID? {
        let rows = try await pool.write(
            """
            UPDATE pushes
            SET removed_at = COALESCE(removed_at, now())
            WHERE id = (
                SELECT id
                FROM pushes
                WHERE finished_at < now() - make_interval(days => $1)
                ORDER BY finished_at
                LIMIT 1
                FOR UPDATE SKIP LOCKED
            )
            RETURNING id
            """,
            [.int32(Int32(clamping: retentionDays))]
        )
        return try rows.first?.decode(UUID.self)
    }

    /// What a push has many rows of.
    enum Table: String {
        case batches = "push_batches"
        case claims = "push_claims"
        case parts = "push_parts"
    }

    /// Removes up to `limit` rows of a push. Returns how many there were.
    func remove(_ table: Table, of push: UUID, limit: Int) async throws -> Int {
        let rows = try await pool.write(
            """
            DELETE FROM \(table.rawValue)
            WHERE push_id = $1
                AND number IN (
                    SELECT number
                    FROM \(table.rawValue)
                    WHERE push_id = $1
                    ORDER BY number
                    LIMIT $2
                    FOR UPDATE SKIP LOCKED
                )
            """,
            [.uuid(push), .int64(Int64(limit))]
        )
        return rows.affectedRows
    }

    /// Removes a push, and what belongs to it, if nothing that ``Table`` names is left of it.
    func remove(_ push: UUID) async throws {
        _ = try await pool.write(
            """
            WITH push AS (
                DELETE FROM pushes
                WHERE id = $1
                    AND NOT EXISTS (SELECT 1 FROM push_batches WHERE push_id = $1)
                    AND NOT EXISTS (SELECT 1 FROM push_claims WHERE push_id = $1)
                    AND NOT EXISTS (SELECT 1 FROM push_parts WHERE push_id = $1)
                RETURNING id
            ),
            counts AS (
                DELETE FROM push_counts USING push WHERE push_id = push.id
            )
            DELETE FROM idempotency_keys
            USING push
            WHERE push_id = push.id
            """,
            [.uuid(push)]
        )
    }
}
