import Endpoints
import FoundationEssentials
import Postgres
import Runtime

// The batches as the work of a queue.
extension BatchStore: WorkStore {
    var queue: String { "pushes" }

    func renew(_ lease: UUID, for duration: Duration) async throws -> Bool? {
        try await pool.write(RenewPushLease(id: lease, duration: duration)).first
    }

    func isWorkOpen(under lease: UUID, in transaction: PostgresTransaction) async throws -> Bool {
        try await transaction.query(FindOpenBatch(lease: lease)).first ?? false
    }

    func orphanedLeases() async throws -> [UUID] {
        try await pool.read(FindOrphanedLeases())
    }

    func isStored(_ claim: ClaimFile.Claim) async throws -> Bool? {
        try await pool.read(FindClaimedBatch(claim: claim)).first ?? nil
    }

    /// Reads the batches that are being sent under a lease, as far as the database knows, without their users.
    ///
    /// Batches that the server does not know were claimed by a statement whose response was lost.
    func open(under lease: UUID) async throws -> [BatchClaim] {
        try await pool.read(ListOpenBatches(lease: lease)).flatMap(\.self)
    }
}

// MARK: Statements

/// Renews a lease, and returns whether there is anything to do: pushes to send, or work of other servers, which may have stopped. Returns
/// no row if the lease was deleted.
struct RenewPushLease: PostgresStatement {
    static let sql: SQL = """
        UPDATE work_leases
        SET ends_at = now() + make_interval(secs => $2)
        WHERE id = $1
        RETURNING EXISTS (
            SELECT 1
            FROM pushes
            WHERE state IN ('scheduled', 'preparing', 'sending')
                AND (state <> 'scheduled' OR send_at <= now() + interval '10 s')
        )
            OR \(SQL.otherLeasesHaveExpired)
        """

    let id: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(id), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Returns whether a batch is being sent under a lease.
struct FindOpenBatch: PostgresStatement {
    static let sql: SQL = """
        SELECT EXISTS (SELECT 1 FROM push_batches WHERE lease = $1 AND state = 'sending')
            OR EXISTS (SELECT 1 FROM push_claims WHERE lease = $1)
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Finds the leases of batches whose row in `work_leases` is missing.
struct FindOrphanedLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT lease
        FROM push_claims
        WHERE lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM work_leases WHERE id = lease)
        UNION
        SELECT lease
        FROM push_batches
        WHERE state = 'sending'
            AND lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM work_leases WHERE id = lease)
        """

    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Lists the batches that are being sent under a lease, without their users. A row has one batch or those that share a
/// row.
struct ListOpenBatches: PostgresStatement {
    static let sql: SQL = """
        SELECT push_id, number, claims, origin, lease, NULL AS settled
        FROM push_batches
        WHERE lease = $1
            AND state = 'sending'
        UNION ALL
        SELECT push_id, number, 1, NULL, lease, settled::text
        FROM push_claims
        WHERE lease = $1
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }

    static func decode(_ row: PostgresRow) throws -> [BatchClaim] {
        try row.decode { column in
            let first = try BatchClaim(
                pushID: column.next(),
                number: column.next(),
                claims: column.next(),
                origin: column.next(),
                lease: column.next()
            )
            guard let settled = try column.next(String?.self) else { return [first] }
            let shared = first.number..<first.number + Int32(clamping: settled.utf8.count)
            return zip(shared, settled.utf8).filter { $0.1 == UInt8(ascii: "0") }.map { number, _ in
                var claim = first
                (claim.number, claim.shared) = (number, shared)
                return claim
            }
        }
    }
}
