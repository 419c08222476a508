import FoundationEssentials
import Postgres
import Runtime

extension BatchStore {
    /// Makes the open batches of deleted leases available again.
    ///
    /// If their push allows it, the batches are sent again, and marked because their users may be reached twice. If
    /// not, they are uncertain.
    func reclaim(_ leases: [UUID], in transaction: PostgresTransaction) async throws -> ReclaimedWork {
        try await transaction.query(AddRowsOfSharedBatches(leases: leases))
        return ReclaimedWork(try await transaction.query(ReclaimBatches(leases: leases)))
    }
}

/// Adds a row of its own for each open batch of the given leases that shares a row of `push_claims`.
struct AddRowsOfSharedBatches: PostgresStatement {
    static let sql: SQL = """
        WITH claim AS MATERIALIZED (
            SELECT push_id, number, batch_users, users, lease, settled
            FROM push_claims
            WHERE lease = ANY ($1)
            ORDER BY push_id, number
            FOR UPDATE
        ),
        cleared AS (
            UPDATE push_claims
            SET lease = NULL
            FROM claim
            WHERE push_claims.push_id = claim.push_id
                AND push_claims.number = claim.number
        )
        INSERT INTO push_batches (push_id, number, users, state, attempts, claims, lease)
        SELECT push_id, number + place, LEAST(batch_users, users - place * batch_users), 'sending', 1, 1, lease
        FROM claim
        CROSS JOIN generate_series(0, length(settled) - 1) AS place
        WHERE get_bit(settled, place) = 0
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
}

/// Makes the open batches of the given leases waiting or, if they are to be sent at most once, uncertain. Returns for each
/// push the number of its batches among them, and the number of users who are uncertain.
struct ReclaimBatches: PostgresStatement {
    static let sql: SQL = """
        WITH batch AS (
            UPDATE push_batches AS batch
            SET state = CASE WHEN push.delivery = 'at_least_once' THEN 'waiting' ELSE 'uncertain' END,
                finished_at = CASE WHEN push.delivery = 'at_least_once' THEN NULL ELSE now() END,
                next_attempt_at = now(),
                may_repeat = batch.may_repeat OR push.delivery = 'at_least_once',
                lease = NULL,
                kakao_status = NULL,
                kakao_code = NULL,
                kakao_message = 'The server stopped before it recorded Kakao''s answer.'
            FROM pushes AS push
            WHERE batch.lease = ANY ($1)
                AND batch.state = 'sending'
                AND push.id = batch.push_id
            RETURNING batch.push_id, batch.state, batch.users, batch.may_repeat
        ),
        counted AS (
            INSERT INTO push_counts AS counts (push_id, slot, state, users, batches, may_repeat)
            SELECT push_id, -2, state, sum(users), count(*), COALESCE(sum(users) FILTER (WHERE may_repeat), 0)
            FROM batch
            WHERE state <> 'waiting'
            GROUP BY push_id, state
            ORDER BY push_id, state
            ON CONFLICT (push_id, slot, state) DO UPDATE
            SET users = counts.users + excluded.users,
                batches = counts.batches + excluded.batches,
                may_repeat = counts.may_repeat + excluded.may_repeat
        )
        SELECT push_id, count(*), COALESCE(sum(users) FILTER (WHERE state = 'uncertain'), 0)
        FROM batch
        GROUP BY push_id
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
    static func decode(_ row: PostgresRow) throws -> (ownerID: UUID, items: Int64, uncertain: Int64) {
        try row.decode(UUID.self, Int64.self, Int64.self)
    }
}
