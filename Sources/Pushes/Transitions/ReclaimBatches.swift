internal import FoundationEssentials
internal import Postgres

extension BatchStore {
    /// Reclaims the batches of other servers whose leases have expired, and of leases without a row.
    ///
    /// If their push allows it, the batches are sent again, and marked because their users may be reached twice. If
    /// not, they are uncertain.
    ///
    /// - Parameter own: The lease of this server.
    /// - Returns: The numbers of reclaimed leases and batches.
    func reclaim(except own: UUID) async throws -> (leases: Int, batches: Int) {
        let expired = try await pool.read(FindExpiredLeases(own: own))
        guard !expired.isEmpty else { return (0, 0) }
        return try await pool.withTransaction { transaction in
            try await transaction.query(DeleteExpiredLeases(leases: expired))
            let deleted = try await transaction.query(FindDeletedLeases(leases: expired))
            try await transaction.query(AddRowsOfSharedBatches(leases: deleted))
            let batches = try await transaction.query(ReclaimBatches(leases: deleted)).first ?? 0
            return (deleted.count, Int(batches))
        }
    }
}

/// Finds expired leases of other servers, and leases of batches whose row in `push_leases` is missing.
struct FindExpiredLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT id
        FROM push_leases
        WHERE ends_at <= now()
            AND id <> $1
        UNION
        SELECT lease
        FROM push_claims
        WHERE lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM push_leases WHERE id = lease)
        UNION
        SELECT lease
        FROM push_batches
        WHERE state = 'sending'
            AND lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM push_leases WHERE id = lease)
        """

    let own: UUID

    var parameters: [PostgresValue] { [.uuid(own)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Deletes those of the given leases that are still expired. Skips a locked one, under which a server is claiming
/// batches or which another server is reclaiming.
struct DeleteExpiredLeases: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_leases
        WHERE id IN (
            SELECT id
            FROM push_leases
            WHERE id = ANY ($1)
                AND ends_at <= now()
            FOR UPDATE SKIP LOCKED
        )
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
}

/// Finds those of the given leases that have no row.
struct FindDeletedLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT id
        FROM unnest($1::uuid[]) AS given (id)
        WHERE NOT EXISTS (SELECT 1 FROM push_leases WHERE push_leases.id = given.id)
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
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

/// Makes the open batches of the given leases waiting or, if they are to be sent at most once, uncertain. Returns their
/// number.
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
            RETURNING batch.push_id, batch.state, batch.users
        ),
        counted AS (
            INSERT INTO push_counts AS counts (push_id, slot, state, users, batches)
            SELECT push_id, -2, state, sum(users), count(*)
            FROM batch
            WHERE state <> 'waiting'
            GROUP BY push_id, state
            ORDER BY push_id, state
            ON CONFLICT (push_id, slot, state) DO UPDATE
            SET users = counts.users + excluded.users,
                batches = counts.batches + excluded.batches
        )
        SELECT count(*)
        FROM batch
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
