import Endpoints
import FoundationEssentials
import Postgres
import Runtime
import ServiceKit

/// The endpoints and their webhooks in PostgreSQL.
struct WebhookStore: Sendable {
    let pool: PostgresPool

    /// Claims webhooks that are due, under a lease.
    ///
    /// - Parameter time: The time for which no other server probes an endpoint that is failing.
    /// - Returns: For each of the endpoints, a row for each claimed webhook, or one without.
    func claim(
        _ order: [WebhookSchedule.Room],
        under lease: UUID,
        probe time: Duration
    ) async throws -> [ClaimWebhooks.Row] {
        try await pool.write(ClaimWebhooks(lease: lease, order: order, probeTime: time))
    }

    /// Returns the webhooks that are claimed under a lease, as far as the database knows, without their messages.
    func open(under lease: UUID) async throws -> [WebhookClaim] {
        try await pool.read(ListOpenWebhooks(lease: lease))
    }

    /// Stores what became of claimed webhooks.
    func record(_ results: [QueueResult<WebhookClaim, WebhookResult>]) async throws {
        try await pool.write(RecordWebhooks(results: results.sorted { $0.claim.event < $1.claim.event }))
    }
}

// The webhooks as the work of a queue.
extension WebhookStore: WorkStore {
    var queue: String { "webhooks" }

    func renew(_ lease: UUID, for duration: Duration) async throws -> Bool? {
        try await pool.write(RenewWebhookLease(id: lease, duration: duration)).first
    }

    func isWorkOpen(under lease: UUID, in transaction: PostgresTransaction) async throws -> Bool {
        try await transaction.query(FindOpenWebhook(lease: lease)).first ?? false
    }

    func orphanedLeases() async throws -> [UUID] {
        try await pool.read(FindOrphanedWebhookLeases())
    }

    func reclaim(_ leases: [UUID], in transaction: PostgresTransaction) async throws -> ReclaimedWork {
        ReclaimedWork(items: try await transaction.query(ReclaimWebhooks(leases: leases)))
    }

    /// A webhook may be delivered twice.
    func presumeUnfinished(in transaction: PostgresTransaction) async throws {}

    /// No claim is written to a file.
    func isStored(_ claim: ClaimFile.Claim) async throws -> Bool? { nil }
}

/// Deletes the webhooks about a user who is erased.
struct WebhookUserObserver: UserObserver {
    let pool: PostgresPool
    /// Whether user ids are Kakao's. Events have Kakao's ids, which may be those of other users otherwise.
    let hasKakaoUserIDs: Bool

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        try await pool.write(DeleteWebhooksOfUser(userID: userID, hasKakaoUserIDs: hasKakaoUserIDs))
        return true
    }
}

// MARK: Statements

/// Renews a lease, and returns whether there is anything to do, now or within seconds: webhooks to deliver, or work of other servers, which
/// may have stopped. Returns no row if the lease was deleted.
struct RenewWebhookLease: PostgresStatement {
    static let sql: SQL = """
        UPDATE work_leases
        SET ends_at = now() + make_interval(secs => $2)
        WHERE id = $1
        RETURNING EXISTS (
                SELECT 1
                FROM webhook_endpoints AS endpoint
                WHERE state IN ('delivering', 'failing')
                    AND (
                        EXISTS (
                            SELECT 1
                            FROM webhook_events
                            WHERE webhook_events.endpoint = endpoint.name
                                AND state = 'pending'
                                AND replayed_from IS NULL
                                AND due_at <= now() + interval '10 s'
                        )
                        OR EXISTS (
                            SELECT 1
                            FROM webhook_events
                            WHERE webhook_events.endpoint = endpoint.name
                                AND state = 'pending'
                                AND replayed_from IS NOT NULL
                                AND due_at <= now() + interval '10 s'
                        )
                    )
            )
            OR EXISTS (SELECT 1 FROM webhook_events WHERE lease IS NOT NULL)
            OR \(SQL.otherLeasesHaveExpired)
        """

    let id: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(id), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Returns whether a webhook is claimed under a lease.
struct FindOpenWebhook: PostgresStatement {
    static let sql: SQL = """
        SELECT EXISTS (SELECT 1 FROM webhook_events WHERE lease = $1)
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Finds the leases of claimed webhooks whose row in `work_leases` is missing.
struct FindOrphanedWebhookLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT DISTINCT lease
        FROM webhook_events
        WHERE lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM work_leases WHERE id = lease)
        """

    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Ends the claims of deleted leases.
struct ReclaimWebhooks: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_events
        SET state = 'pending',
            lease = NULL
        WHERE lease = ANY ($1)
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
}

/// Deletes the webhooks about a user, in whatever state they are.
struct DeleteWebhooksOfUser: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_events
        WHERE user_id = $1
            AND ($2 OR type NOT IN ('user.unlinked', 'account.event.received', 'channel.added', 'channel.blocked'))
        """

    let userID: Int64
    /// Otherwise those about events stay.
    let hasKakaoUserIDs: Bool

    var parameters: [PostgresValue] { [.int64(userID), .bool(hasKakaoUserIDs)] }
}

/// Deletes up to `limit` webhooks that were stored more than `retentionDays` ago and will not be sent, the oldest first. Skips rows that
/// another server is deleting.
struct DeleteOldWebhooks: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_events
        WHERE id = ANY (ARRAY(
            SELECT id
            FROM webhook_events
            WHERE id < uuid_v7_floor(now() - make_interval(days => $1))
                AND state IN ('delivered', 'failed', 'dropped')
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        ))
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
