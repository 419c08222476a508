import Endpoints
import FoundationEssentials
import Postgres
import Runtime

/// The messages in PostgreSQL: creates, cancels and sends them. The statements that change them are in `Transitions`, those that show
/// them beside ``MessageSummary`` and ``ReceiverSummary``.
final class MessageStore: Sendable {
    let pool: PostgresPool
    let quotas: MessageQuotaSettings
    private let results: StatementCoalescer<RecordReceivers>

    init(pool: PostgresPool, quotas: MessageQuotaSettings) {
        self.pool = pool
        self.quotas = quotas
        results = StatementCoalescer(pool: pool) { RecordReceivers(items: $0, quotas: quotas) }
    }

    /// Claims receivers that are due for up to `limit` requests, and reserves their messages in the quotas. Returns none
    /// if none was due.
    func claim(requests limit: Int, under lease: UUID) async throws -> [ClaimReceivers.Receiver] {
        try await pool.withTransaction { transaction in
            try await transaction.query(LockMessageQuotas(timeZone: quotas.timeZone))
            return try await transaction.query(ClaimReceivers(lease: lease, requests: limit, quotas: quotas))
        }
    }

    /// Stores what became of a receiver, together with others. Returns after it is committed.
    func record(_ result: ReceiverResult, of claim: ReceiverClaim) async throws {
        try await results.submit(RecordReceivers.Item(claim: claim, result: result))
    }
}

// Requests of operators.
extension MessageStore {
    /// Stores a message. Returns after it is committed.
    ///
    /// - Parameters:
    ///   - response: The response to the request and to its repetitions.
    ///   - now: The time of the request.
    /// - Throws: ``Problem`` 422 if another request has used the key, 400 if its times are past; ``PostgresError``.
    func create(
        _ message: NewMessage,
        _ idempotency: Idempotency?,
        response: [UInt8],
        now: Date
    ) async throws -> Creation {
        let create = CreateMessage(message: message, idempotency: idempotency, response: response, now: now)
        guard try await (pool.write(create) as [Bool]).isEmpty else { return Creation(id: message.id, body: response) }
        if let idempotency, let found = try await pool.write(FindIdempotentMessage(idempotency: idempotency)).first {
            guard let earlier = found else { throw Idempotency.keyInUse }
            return earlier
        }
        try await message.times.check(pool)
        throw PostgresError(.decoding, detail: "a message with a free key was not stored")
    }

    /// Ends a message. Returns whether it was active.
    ///
    /// - Parameter record: The record for the audit log.
    func cancel(_ id: UUID, recording record: AuditRecord?) async throws -> Bool {
        try await (pool.write(CancelMessage(id: id), recording: record) as [Bool]).first ?? false
    }
}

// The receivers as the work of a queue.
extension MessageStore: WorkStore {
    var queue: String { "messages" }

    func renew(_ lease: UUID, for duration: Duration) async throws -> Bool? {
        try await pool.write(RenewMessageLease(id: lease, duration: duration)).first
    }

    func isWorkOpen(under lease: UUID, in transaction: PostgresTransaction) async throws -> Bool {
        try await transaction.query(FindOpenReceiver(lease: lease)).first ?? false
    }

    func orphanedLeases() async throws -> [UUID] {
        try await pool.read(FindOrphanedMessageLeases())
    }

    func reclaim(_ leases: [UUID], in transaction: PostgresTransaction) async throws -> ReclaimedWork {
        ReclaimedWork(try await transaction.query(ReclaimReceivers(leases: leases)))
    }

    /// Reads the receivers that are being sent under a lease, as far as the database knows.
    func open(under lease: UUID) async throws -> [ReceiverClaim] {
        try await pool.read(ListOpenReceivers(lease: lease))
    }
}

// MARK: Statements

/// Finds an earlier request with an idempotency key.
struct FindIdempotentMessage: PostgresStatement {
    static let sql: SQL = """
        SELECT id, response, request_sha256 = $3
        FROM messages
        WHERE (operator_key, idempotency_key) = ($1, $2)
        """

    let idempotency: Idempotency

    var parameters: [PostgresValue] { idempotency.parameters }
    static func decode(_ row: PostgresRow) throws -> Creation? { try Creation.decode(row) }
}

/// Renews a lease, and returns whether there is anything to do, now or within seconds: messages to send or to end, or work
/// of other servers, which may have stopped. Returns no row if the lease was deleted.
struct RenewMessageLease: PostgresStatement {
    static let sql: SQL = """
        UPDATE work_leases
        SET ends_at = now() + make_interval(secs => $2)
        WHERE id = $1
        RETURNING EXISTS (SELECT 1 FROM message_receivers WHERE due_at <= now() + interval '10 s')
            OR EXISTS (SELECT 1 FROM message_receivers WHERE lease IS NOT NULL)
            OR EXISTS (SELECT 1 FROM messages WHERE state = 'active' AND resolve_at <= now() + interval '10 s')
            OR EXISTS (SELECT 1 FROM messages WHERE state = 'active' AND expires_at <= now() + interval '10 s')
            OR \(SQL.otherLeasesHaveExpired)
        """

    let id: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(id), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Returns whether a receiver is being sent under a lease.
struct FindOpenReceiver: PostgresStatement {
    static let sql: SQL = """
        SELECT EXISTS (SELECT 1 FROM message_receivers WHERE lease = $1)
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Finds the leases of receivers whose row in `work_leases` is missing.
struct FindOrphanedMessageLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT DISTINCT lease
        FROM message_receivers
        WHERE lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM work_leases WHERE id = lease)
        """

    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Lists the receivers that are being sent under a lease.
struct ListOpenReceivers: PostgresStatement {
    static let sql: SQL = """
        SELECT \(ReceiverClaim.columns)
        FROM message_receivers
        WHERE lease = $1
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }

    static func decode(_ row: PostgresRow) throws -> ReceiverClaim { try row.decode { try ReceiverClaim(&$0) } }
}
