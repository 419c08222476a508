import FoundationEssentials
import Postgres
import Runtime

/// Removes pushes from PostgreSQL after their retention time.
///
/// Several servers may do so concurrently: rows that another server is removing are skipped.
struct HousekeepingStore: Sendable {
    /// The number of batches or claims that one statement deletes.
    private static let maxRowsPerStatement = 1000
    /// The number of users who have opened a push that one statement deletes.
    private static let maxOpensPerStatement = 5000
    /// The number of parts or lists of skipped users that one statement deletes, with up to 50,000 users each.
    static let maxPartsPerStatement = 5

    let pool: PostgresPool

    /// Removes all pushes that finished more than `retentionDays` ago, with their rows.
    func removeExpiredPushes(retentionDays: Int, _ worker: BackgroundWorker) async throws {
        while !worker.isStopping, let push = try await expiredPush(retentionDays: retentionDays) {
            try await worker.delete(inStepsOf: Self.maxRowsPerStatement) {
                try await pool.write(DeletePushBatches(pushID: push, limit: Self.maxRowsPerStatement))
            }
            try await worker.delete(inStepsOf: Self.maxRowsPerStatement) {
                try await pool.write(DeletePushClaims(pushID: push, limit: Self.maxRowsPerStatement))
            }
            try await worker.delete(inStepsOf: Self.maxOpensPerStatement) {
                try await pool.write(DeletePushOpens(pushID: push, limit: Self.maxOpensPerStatement))
            }
            try await worker.delete(inStepsOf: Self.maxPartsPerStatement) {
                try await pool.write(DeletePushParts(pushID: push, limit: Self.maxPartsPerStatement))
            }
            try await worker.delete(inStepsOf: Self.maxPartsPerStatement) {
                try await pool.write(DeleteSkippedUsers(pushID: push, limit: Self.maxPartsPerStatement))
            }
            guard !worker.isStopping else { return }
            try await pool.write(DeletePush(id: push))
        }
    }

    /// Picks the push that finished first of those that finished more than `retentionDays` ago. From then on it cannot
    /// be retried.
    func expiredPush(retentionDays: Int) async throws -> UUID? {
        try await pool.write(PickExpiredPush(retentionDays: retentionDays)).first
    }
}

// MARK: Statements

/// Picks the push that finished first of those that finished more than `retentionDays` ago, and marks it as removed. A push
/// is kept while another one that leaves out its users is not prepared.
struct PickExpiredPush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET removed_at = COALESCE(removed_at, now())
        WHERE id = (
            SELECT id
            FROM pushes
            WHERE finished_at < now() - make_interval(days => $1)
                AND NOT EXISTS (
                    SELECT 1
                    FROM pushes AS excluding
                    WHERE excluding.excluded_pushes IS NOT NULL
                        AND excluding.prepared_at IS NULL
                        AND excluding.finished_at IS NULL
                        AND pushes.id = ANY (excluding.excluded_pushes)
                )
            ORDER BY finished_at
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        )
        RETURNING id
        """

    let retentionDays: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays))] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Returns a query of the numbers of the first `$2` rows of the push `$1` in a table, without those that another server is deleting.
private func firstNumbers(in table: SQL) -> SQL {
    """
    (
        SELECT number
        FROM \(table)
        WHERE push_id = $1
        ORDER BY number
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    )
    """
}

/// Deletes up to `limit` batches of a push. Skips rows that another server is deleting.
struct DeletePushBatches: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_batches
        WHERE push_id = $1
            AND number IN \(firstNumbers(in: "push_batches"))
        """

    let pushID: UUID
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(pushID), .int64(Int64(limit))] }
}

/// Deletes up to `limit` claims of a push. Skips rows that another server is deleting.
struct DeletePushClaims: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_claims
        WHERE push_id = $1
            AND number IN \(firstNumbers(in: "push_claims"))
        """

    let pushID: UUID
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(pushID), .int64(Int64(limit))] }
}

/// Deletes up to `limit` parts of a push. Skips rows that another server is deleting.
struct DeletePushParts: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_parts
        WHERE push_id = $1
            AND number IN \(firstNumbers(in: "push_parts"))
        """

    let pushID: UUID
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(pushID), .int64(Int64(limit))] }
}

/// Deletes up to `limit` lists of users whom a push skipped. Skips rows that another server is deleting.
struct DeleteSkippedUsers: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_skipped
        WHERE push_id = $1
            AND (cause, position) IN (
                SELECT cause, position
                FROM push_skipped
                WHERE push_id = $1
                ORDER BY cause, position
                LIMIT $2
                FOR UPDATE SKIP LOCKED
            )
        """

    let pushID: UUID
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(pushID), .int64(Int64(limit))] }
}

/// Deletes a push, its counts and its idempotency keys, unless it still has batches, claims, parts, skipped users or users who have opened it.
struct DeletePush: PostgresStatement {
    static let sql: SQL = """
        WITH push AS (
            DELETE FROM pushes
            WHERE id = $1
                AND NOT EXISTS (SELECT 1 FROM push_batches WHERE push_id = $1)
                AND NOT EXISTS (SELECT 1 FROM push_claims WHERE push_id = $1)
                AND NOT EXISTS (SELECT 1 FROM push_parts WHERE push_id = $1)
                AND NOT EXISTS (SELECT 1 FROM push_opens WHERE push_id = $1)
                AND NOT EXISTS (SELECT 1 FROM push_skipped WHERE push_id = $1)
            RETURNING id
        ),
        counts AS (
            DELETE FROM push_counts USING push WHERE push_id = push.id
        ),
        open_counts AS (
            DELETE FROM push_open_counts USING push WHERE push_id = push.id
        )
        DELETE FROM idempotency_keys
        USING push
        WHERE push_id = push.id
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}
