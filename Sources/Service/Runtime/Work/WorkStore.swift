import Endpoints
import FoundationEssentials
import Postgres

/// The work of one kind in PostgreSQL, as far as it differs between queues.
///
/// Any number of servers share a queue. A server claims work under its lease (``WorkLease``). The statement that claims
/// work locks the lease's row (`FOR KEY SHARE`), so that no work is claimed under a lease that another server deletes. The
/// statement that stores a result checks the lease and the number of the claim.
package protocol WorkStore: Sendable {
    /// The name of the queue in `work_leases`.
    var queue: String { get }
    var pool: PostgresPool { get }

    /// Renews a lease: sets `ends_at` of its row. One statement also looks for work, since an idle server does little
    /// else.
    ///
    /// - Parameter duration: The time from now until the lease ends, unless it is renewed again.
    /// - Returns: Whether there is work for any server; `nil` if the lease has no row, because another server has
    ///   reclaimed the work under it.
    func renew(_ lease: UUID, for duration: Duration) async throws -> Bool?

    /// Returns whether work is open under a lease.
    func isWorkOpen(under lease: UUID, in transaction: PostgresTransaction) async throws -> Bool

    /// Returns the leases of open work that have no row.
    func orphanedLeases() async throws -> [UUID]

    /// Makes the open work of deleted leases available again, or ends it.
    func reclaim(_ leases: [UUID], in transaction: PostgresTransaction) async throws -> ReclaimedWork

    /// Presumes of all work that is still to be done that it was done: PostgreSQL may have lost commits of a server that has not said what
    /// it knows (``LostCommits``).
    func presumeUnfinished(in transaction: PostgresTransaction) async throws

    /// Returns whether a claim is stored, or a later one of the same work; `nil` if that cannot be known any more.
    func isStored(_ claim: ClaimFile.Claim) async throws -> Bool?
}

/// The work of deleted leases that is available again, or has ended.
public struct ReclaimedWork: Sendable, Equatable {
    /// The number of rows, such as batches of pushes.
    package private(set) var items = 0
    /// The number of users or receivers who are uncertain from now on, by their push or message.
    package private(set) var uncertain: [UUID: Int] = [:]
    /// The sum of ``uncertain``.
    package var uncertainUsers: Int { uncertain.values.reduce(0, +) }

    package init(items: Int = 0, uncertain: [UUID: Int] = [:]) {
        self.items = items
        self.uncertain = uncertain
    }

    /// Adds up the rows of pushes or messages.
    package init(_ rows: [(ownerID: UUID, items: Int64, uncertain: Int64)]) {
        for row in rows {
            items += Int(row.items)
            if row.uncertain > 0 { uncertain[row.ownerID] = Int(row.uncertain) }
        }
    }
}

extension WorkStore {
    /// Stores a new lease.
    ///
    /// - Parameter commits: Compares the database with what this process knows; `nil` for a lease on which no claim waits.
    package func acquire(_ lease: UUID, for duration: Duration, _ commits: LostCommits? = nil) async throws {
        let acquire = AcquireLease(
            id: lease,
            queue: queue,
            duration: duration,
            process: commits?.process,
            checkedRun: commits?.checkedRun
        )
        if let run = try await pool.write(acquire).first { commits?.adopt(run) }
    }

    /// Deletes a lease unless work is open under it, or PostgreSQL has begun a new run that its process has not compared: then the work
    /// may only seem done. Returns whether it is deleted.
    func release(_ lease: UUID) async throws -> Bool {
        try await pool.withTransaction { transaction in
            // A claim that is being committed holds a lock on the row: the next statement sees its work.
            guard try await !transaction.query(LockLease(id: lease)).isEmpty else { return false }
            guard try await !isWorkOpen(under: lease, in: transaction) else { return false }
            return try await transaction.query(DeleteLease(id: lease)) > 0
        }
    }

    /// Settles the last claim of a process of this machine that was killed, which is all that is left of what the process knew.
    ///
    /// If the claim is stored, PostgreSQL has lost nothing that the process did before it. If the claim is missing, that proves a loss, and
    /// whatever is still to be done may have been done. Otherwise what follows is a matter of the lease (``DeleteExpiredLeases``).
    func settle(_ claim: ClaimFile.Claim, _ commits: LostCommits) async throws {
        switch try await isStored(claim) {
        case true?:
            if claim.isLast { try await pool.write(ConfirmLease(id: claim.lease)) }
        case false?:
            // The sender is stopped first: no PostgreSQL has the presumptions without the stop.
            try await commits.recordLostClaim()
            try await pool.withTransaction { try await presumeUnfinished(in: $0) }
        case nil:
            break
        }
    }

    /// Reclaims the work of other servers whose leases have expired, and of leases without a row.
    ///
    /// - Parameter own: The lease of this server.
    /// - Returns: The number of reclaimed leases, their work, and whether unfinished work is presumed done.
    func reclaim(except own: UUID) async throws -> (leases: Int, work: ReclaimedWork, isPresumed: Bool) {
        async let orphaned = orphanedLeases()
        let expired = try await pool.read(FindExpiredLeases(queue: queue, own: own))
        let leases = try await expired + orphaned
        guard !leases.isEmpty else { return (0, ReclaimedWork(), false) }
        return try await pool.withTransaction { transaction in
            let isPresumed = try await transaction.query(DeleteExpiredLeases(leases: leases)).contains(true)
            if isPresumed { try await presumeUnfinished(in: transaction) }
            let deleted = try await transaction.query(FindDeletedLeases(leases: leases))
            return (deleted.count, try await reclaim(deleted, in: transaction), isPresumed)
        }
    }
}

// MARK: Statements

extension SQL {
    /// A query that returns the lease `id` unless it has ended. It keeps other servers from deleting the lease until the transaction ends.
    package static func lockedLease(_ id: SQL) -> SQL {
        """
        SELECT id
        FROM work_leases
        WHERE id = \(id)
            AND ends_at > now()
        FOR KEY SHARE
        """
    }

    /// A condition in a statement that renews a lease: whether leases of other servers on the same queue have expired. These servers may
    /// have stopped, so that there is work to reclaim.
    package static let otherLeasesHaveExpired: SQL = """
        EXISTS (SELECT 1 FROM work_leases AS other WHERE other.queue = work_leases.queue AND other.ends_at < now())
        """
}

/// Stores a new lease, with the server that holds it.
struct AcquireLease: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO work_leases (id, queue, ends_at, host, version, started_at, process, checked_run)
        VALUES ($1, $2, now() + make_interval(secs => $3), $4, $5, $6, $7, COALESCE($8, database_run()))
        RETURNING checked_run
        """

    let id: UUID
    let queue: String
    let duration: Duration
    var process: UUID?
    /// The run that the process has compared; `nil` for a process that has not read one yet, and so knows nothing.
    var checkedRun: String?

    var parameters: [PostgresValue] {
        [
            .uuid(id), .text(queue), .float64(duration.inSeconds), .text(ThisServer.host), .text(ServerVersion.current),
            .timestamp(ThisServer.startedAt), .uuid(process), .text(checkedRun),
        ]
    }

    /// Decodes the run that is stored.
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

/// Locks a lease until the end of the transaction. Returns no row if there is none.
struct LockLease: PostgresStatement {
    static let sql: SQL = """
        SELECT 1
        FROM work_leases
        WHERE id = $1
        FOR UPDATE
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> Int32 { try row.decode(Int32.self) }
}

/// Deletes a lease, unless its process has yet to compare the present run. Such a lease expires.
struct DeleteLease: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM work_leases
        WHERE id = $1
            AND (checked_run IS NULL OR checked_run = database_run())
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

/// Finds expired leases of other servers.
struct FindExpiredLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT id
        FROM work_leases
        WHERE queue = $1
            AND ends_at <= now()
            AND id <> $2
        """

    let queue: String
    let own: UUID

    var parameters: [PostgresValue] { [.text(queue), .uuid(own)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Records for the lease of a process that was killed that PostgreSQL has lost nothing of it.
struct ConfirmLease: PostgresStatement {
    static let sql: SQL = """
        UPDATE work_leases
        SET checked_run = database_run()
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

/// Deletes those of the given leases that are still expired. Skips a locked one, under which a server is claiming work
/// or which another server is reclaiming. Returns for each whether PostgreSQL may have lost what its server did: the server has not
/// compared the present timeline with what it knows; or the present run, if PostgreSQL can lose commits on one timeline.
struct DeleteExpiredLeases: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM work_leases
        WHERE id IN (
            SELECT id
            FROM work_leases
            WHERE id = ANY ($1)
                AND ends_at <= now()
            FOR UPDATE SKIP LOCKED
        )
        RETURNING COALESCE(
            split_part(checked_run, ' ', 1) <> split_part(database_run(), ' ', 1)
                OR checked_run <> database_run() AND current_setting('synchronous_commit') = 'off',
            false
        )
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Finds those of the given leases that have no row. A lease may be given twice, as expired and as orphaned.
struct FindDeletedLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT DISTINCT id
        FROM unnest($1::uuid[]) AS given (id)
        WHERE NOT EXISTS (SELECT 1 FROM work_leases WHERE work_leases.id = given.id)
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}
