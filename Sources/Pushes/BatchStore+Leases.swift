internal import FoundationEssentials
internal import Postgres
internal import ServiceKit

/// The lease under which a server claims batches: see ``SenderLease``.
extension BatchStore {
    /// Stores a new lease.
    func acquire(_ lease: UUID) async throws {
        try await pool.write(AcquireLease(id: lease, duration: leaseDuration))
    }

    /// The result of a renewal.
    struct Renewal: Sendable {
        /// Whether any server has pushes to send.
        let hasUnfinishedPushes: Bool
    }

    /// Renews a lease. Returns `nil` if another server has deleted it, and with it has reclaimed its batches.
    func renew(_ lease: UUID) async throws -> Renewal? {
        try await pool.write(RenewLease(id: lease, duration: leaseDuration)).first.map(Renewal.init)
    }

    /// Deletes a lease unless batches are being sent under it. Returns whether it is deleted.
    func release(_ lease: UUID) async throws -> Bool {
        try await pool.withTransaction { transaction in
            // A claim that is being committed holds a lock on the row: the next statement sees its batches.
            try await transaction.query(LockLease(id: lease))
            return try await transaction.query(ReleaseLease(id: lease)).first ?? true
        }
    }

    /// Reads the batches that are being sent under a lease, as far as the database knows, without their users.
    ///
    /// Batches that the server does not know were claimed by a statement whose response was lost.
    func open(under lease: UUID) async throws -> [BatchClaim] {
        try await pool.read(ListOpenBatches(lease: lease)).flatMap(\.self)
    }
}

// MARK: Statements

/// Stores a new lease.
struct AcquireLease: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO push_leases (id, ends_at)
        VALUES ($1, now() + make_interval(secs => $2))
        """

    let id: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(id), .float64(duration.inSeconds)] }
}

/// Renews a lease, and returns whether there are pushes to send. Returns no row if the lease was deleted.
struct RenewLease: PostgresStatement {
    static let sql: SQL = """
        UPDATE push_leases
        SET ends_at = now() + make_interval(secs => $2)
        WHERE id = $1
        RETURNING EXISTS (
            SELECT 1
            FROM pushes
            WHERE state IN ('scheduled', 'preparing', 'sending')
                AND (state <> 'scheduled' OR send_at <= now() + interval '10 s')
        )
        """

    let id: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(id), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Locks a lease until the end of the transaction.
struct LockLease: PostgresStatement {
    static let sql: SQL = """
        SELECT 1
        FROM push_leases
        WHERE id = $1
        FOR UPDATE
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

/// Deletes a lease without open batches. Returns whether it has no row then.
struct ReleaseLease: PostgresStatement {
    static let sql: SQL = """
        WITH released AS (
            DELETE FROM push_leases
            WHERE id = $1
                AND NOT EXISTS (SELECT 1 FROM push_batches WHERE lease = $1 AND state = 'sending')
                AND NOT EXISTS (SELECT 1 FROM push_claims WHERE lease = $1)
            RETURNING id
        )
        SELECT EXISTS (SELECT 1 FROM released) OR NOT EXISTS (SELECT 1 FROM push_leases WHERE id = $1)
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
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
        let (pushID, first, claims, origin, lease, settled) = try row.decode(
            UUID.self,
            Int32.self,
            Int32.self,
            Int32?.self,
            UUID.self,
            String?.self
        )
        func claim(_ number: Int32, shared: Range<Int32>?) -> BatchClaim {
            BatchClaim(
                pushID: pushID,
                number: number,
                userIDs: [],
                attempts: 0,
                claims: claims,
                origin: origin,
                lease: lease,
                shared: shared
            )
        }
        guard let settled else { return [claim(first, shared: nil)] }
        let shared = first..<first + Int32(clamping: settled.utf8.count)
        return zip(shared, settled.utf8).filter { $0.1 == UInt8(ascii: "0") }.map { claim($0.0, shared: shared) }
    }
}
