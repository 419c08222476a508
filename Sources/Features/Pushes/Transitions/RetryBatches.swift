import FoundationEssentials
import Postgres

extension PreparationStore {
    /// The maximum number of batches that one statement makes waiting. It locks the push for some tens of milliseconds.
    private static let maxBatchesPerRetry: Int32 = 2000

    /// Makes the next failed batches of a retried push waiting, and its uncertain ones if requested. Returns whether
    /// these were the last.
    func retryBatches(of id: UUID) async throws -> Bool {
        try await pool.write(RetryBatches(pushID: id, limit: Self.maxBatchesPerRetry)).first ?? true
    }
}

/// Makes failed and uncertain batches of a push waiting, and moves the push's retry position past them.
///
/// Includes only batches that existed when the retry was requested, and does not retry a batch that fails again.
struct RetryBatches: PostgresStatement {
    static let sql: SQL = """
        WITH push AS MATERIALIZED (
            SELECT id, retry_position, retry_end, retry_uncertain
            FROM pushes
            WHERE id = $1
                AND state = 'sending'
                AND retry_position IS NOT NULL
            FOR UPDATE
        ),
        chosen AS MATERIALIZED (
            SELECT batch.number, batch.state, batch.may_repeat
            FROM push
            -- Found by key, and only up to the limit.
            CROSS JOIN LATERAL (
                SELECT number, state, may_repeat
                FROM push_batches
                WHERE push_id = push.id
                    AND number > push.retry_position
                    AND number < push.retry_end
                    AND (state = 'failed' OR state = 'uncertain' AND push.retry_uncertain)
                ORDER BY push_id, number
                LIMIT $2
            ) AS batch
        ),
        reset AS (
            UPDATE push_batches AS batch
            SET state = 'waiting',
                attempts = 0,
                next_attempt_at = now(),
                finished_at = NULL,
                may_repeat = batch.may_repeat OR chosen.state = 'uncertain'
            FROM chosen
            WHERE batch.push_id = $1
                AND batch.number = chosen.number
            RETURNING chosen.state, batch.users, chosen.may_repeat
        ),
        counted AS (
            INSERT INTO push_counts AS counts (push_id, slot, state, users, batches, may_repeat)
            SELECT $1, -1, state, -sum(users), -count(*), -COALESCE(sum(users) FILTER (WHERE may_repeat), 0)
            FROM reset
            GROUP BY state
            ORDER BY state
            ON CONFLICT (push_id, slot, state) DO UPDATE
            SET users = counts.users + excluded.users,
                batches = counts.batches + excluded.batches,
                may_repeat = counts.may_repeat + excluded.may_repeat
        ),
        step AS (
            SELECT CASE WHEN count(*) = $2 THEN max(number) END AS position
            FROM chosen
        )
        UPDATE pushes
        SET retry_position = step.position,
            retry_end = CASE WHEN step.position IS NOT NULL THEN pushes.retry_end END
        FROM push
        CROSS JOIN step
        WHERE pushes.id = push.id
        RETURNING step.position IS NULL
        """

    let pushID: UUID
    let limit: Int32

    var parameters: [PostgresValue] { [.uuid(pushID), .int32(limit)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}
