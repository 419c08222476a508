import Endpoints
import FoundationEssentials
import Postgres
import Runtime
import ServiceKit

/// The endpoints and their webhooks in PostgreSQL.
struct WebhookStore: Sendable {
    let pool: PostgresPool

    // MARK: Endpoints

    /// Stores the endpoints of the settings. One with the same URL keeps its state.
    func store(_ endpoints: [WebhookEndpoint]) async throws {
        guard !endpoints.isEmpty else { return }
        try await pool.withTransaction { transaction in
            // In one order, so that two servers do not wait for each other.
            for endpoint in endpoints.sorted(by: { $0.name < $1.name }) {
                try await transaction.query(StoreEndpoint(endpoint: endpoint))
            }
        }
    }

    /// Removes the endpoints that no server has confirmed for some time, and drops a part of their webhooks.
    ///
    /// - Returns: The number of webhooks that were dropped, up to `limit`.
    func removeEndpoints(unconfirmedFor time: Duration, limit: Int) async throws -> Int {
        try await pool.withTransaction { transaction in
            try await transaction.query(RemoveEndpoints(time: time))
            let dropped = try await transaction.query(DropWebhooks(limit: limit)).first ?? 0
            try await transaction.query(DeleteRemovedEndpoints())
            return Int(dropped)
        }
    }

    /// Stores a change of an endpoint.
    ///
    /// - Returns: The endpoint, and whether its state is new; `nil` if no server has the endpoint any more.
    func store(
        _ change: EndpointChange,
        of endpoint: String,
        _ intervals: WebhookIntervals
    ) async throws -> (StoredEndpoint, isNew: Bool)? {
        try await pool.write(StoreEndpointChange(endpoint: endpoint, change: change, intervals: intervals)).first
    }

    // MARK: Webhooks

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

// MARK: Statements about endpoints

/// Stores an endpoint, and that it is in the settings of a server. If its URL has changed, its state becomes `delivering`.
struct StoreEndpoint: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO webhook_endpoints AS endpoint (name, url_sha256, types)
        VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE
        SET url_sha256 = excluded.url_sha256,
            types = excluded.types,
            confirmed_at = now(),
            (state, since, probes, last_error, last_error_at) = (
                SELECT CASE WHEN is_new THEN 'delivering' ELSE endpoint.state END,
                    CASE WHEN is_new THEN now() ELSE endpoint.since END,
                    CASE WHEN is_new THEN 0 ELSE endpoint.probes END,
                    CASE WHEN is_new THEN NULL ELSE endpoint.last_error END,
                    CASE WHEN is_new THEN NULL ELSE endpoint.last_error_at END
                FROM (
                    SELECT endpoint.url_sha256 <> excluded.url_sha256 OR endpoint.state = 'removed' AS is_new
                ) AS given
            )
        """

    let endpoint: WebhookEndpoint

    var parameters: [PostgresValue] {
        [.text(endpoint.name), .bytes(endpoint.url.digest), .texts(endpoint.types.names)]
    }
}

/// Removes the endpoints that no server has confirmed for some time: no further webhooks are stored for them.
struct RemoveEndpoints: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_endpoints
        SET state = 'removed',
            since = now(),
            types = '{}'
        WHERE state <> 'removed'
            AND confirmed_at < now() - make_interval(secs => $1)
        """

    let time: Duration

    var parameters: [PostgresValue] { [.float64(time.inSeconds)] }
}

/// Drops up to `limit` webhooks of removed endpoints. One that was delivered before keeps that state. Returns their number.
struct DropWebhooks: PostgresStatement {
    /// The webhooks of `endpoint` that wait. Each part has an index of its own.
    fileprivate static let pending: SQL = """
        SELECT id
        FROM webhook_events AS event
        WHERE event.endpoint = endpoint.name
            AND event.state = 'pending'
            AND replayed_from IS NULL
        UNION ALL
        SELECT id
        FROM webhook_events AS event
        WHERE event.endpoint = endpoint.name
            AND event.state = 'pending'
            AND replayed_from IS NOT NULL
        """

    static let sql: SQL = """
        WITH dropped AS (
            UPDATE webhook_events
            SET state = COALESCE(replayed_from, 'dropped'),
                replayed_from = NULL
            WHERE state = 'pending'
                AND id = ANY (ARRAY(
                    SELECT pending.id
                    FROM webhook_endpoints AS endpoint
                    CROSS JOIN LATERAL (\(pending)) AS pending
                    WHERE endpoint.state = 'removed'
                    LIMIT $1
                ))
            RETURNING 1
        )
        SELECT count(*)
        FROM dropped
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Deletes the removed endpoints that have no webhook to be delivered or dropped any more.
struct DeleteRemovedEndpoints: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_endpoints AS endpoint
        WHERE state = 'removed'
            AND NOT EXISTS (\(DropWebhooks.pending))
            AND NOT EXISTS (SELECT 1 FROM webhook_events AS event WHERE lease IS NOT NULL AND event.endpoint = endpoint.name)
        """
}

/// Stores a change of an endpoint. Returns the endpoint as it is then, and whether its state is new.
///
/// The wait before the next probe doubles with each failed one, whichever server makes it.
struct StoreEndpointChange: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_endpoints AS endpoint
        SET state = COALESCE($2, state),
            since = CASE WHEN state <> $2 THEN now() ELSE since END,
            probes = CASE $2 WHEN 'failing' THEN probes + 1 WHEN 'delivering' THEN 0 ELSE probes END,
            next_probe_at = CASE $2
                WHEN 'failing' THEN now() + make_interval(
                    secs => GREATEST(LEAST($5 * 2 ^ LEAST(probes, 20), $6) * (0.8 + 0.4 * random()), $4)
                )
                ELSE next_probe_at
            END,
            last_error = COALESCE($3, last_error),
            last_error_at = CASE WHEN $3 IS NULL THEN last_error_at ELSE now() END
        WHERE name = $1
            AND state <> 'removed'
        RETURNING \(StoredEndpoint.columns), endpoint.since = now()
        """

    /// The longest wait that an endpoint can ask for.
    private static let longestRetryAfter = Duration.seconds(3600)

    let endpoint: String
    let change: EndpointChange
    let intervals: WebhookIntervals

    var parameters: [PostgresValue] {
        [
            .text(endpoint), .text(change.status?.rawValue), .text(change.error),
            .float64(min(change.retryAfter ?? .zero, Self.longestRetryAfter).inSeconds),
            .float64(intervals.firstProbe.inSeconds), .float64(intervals.longestProbe.inSeconds),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> (StoredEndpoint, isNew: Bool) {
        try row.decode { try (StoredEndpoint(&$0), isNew: $0.next()) }
    }
}

/// Stores that an endpoint accepts webhooks, as an operator's test has shown.
struct RestoreEndpoint: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_endpoints
        SET state = 'delivering',
            since = now(),
            probes = 0
        WHERE name = $1
            AND state IN ('failing', 'gone')
        """

    let endpoint: String

    var parameters: [PostgresValue] { [.text(endpoint)] }
}

extension StoredEndpoint {
    fileprivate static let columns: SQL = """
        endpoint.name, endpoint.state, extract(epoch FROM endpoint.next_probe_at - now())::float8
        """

    /// Decodes ``columns``.
    fileprivate init(_ column: inout ColumnCursor) throws {
        let name = try column.next(String.self)
        let state = try column.next(String.self)
        guard let status = EndpointStatus(rawValue: state) else {
            throw PostgresError(.decoding, detail: "the endpoint \(name) has the unknown state \(state)")
        }
        self.init(name: name, status: status, secondsToProbe: try column.next())
    }
}

// MARK: Statements about webhooks

/// Claims webhooks that are due under a valid lease, live ones before those that are delivered again. Of an endpoint that is failing, it
/// claims one, if no other server probes the endpoint.
struct ClaimWebhooks: PostgresStatement {
    static let sql: SQL = """
        WITH held AS MATERIALIZED (
            SELECT id
            FROM work_leases
            WHERE id = $1
                AND ends_at > now()
            FOR KEY SHARE
        ),
        probe AS (
            UPDATE webhook_endpoints AS endpoint
            SET next_probe_at = now() + make_interval(secs => $4)
            FROM held
            WHERE endpoint.name = ANY ($2)
                AND endpoint.state = 'failing'
                AND endpoint.next_probe_at <= now()
            RETURNING endpoint.name
        ),
        open AS (
            SELECT name, CASE WHEN probe.name IS NULL THEN given.room ELSE 1 END AS room
            FROM unnest($2::text[], $3::int[]) AS given (name, room)
            JOIN webhook_endpoints AS endpoint USING (name)
            LEFT JOIN probe USING (name)
            CROSS JOIN held
            WHERE endpoint.state = 'delivering'
                OR probe.name IS NOT NULL
        ),
        claimed AS (
            UPDATE webhook_events
            SET state = 'sending',
                lease = $1,
                claims = claims + 1
            WHERE id = ANY (ARRAY(
                SELECT due.id
                FROM open
                CROSS JOIN LATERAL (
                    SELECT id
                    FROM (
                        SELECT id
                        FROM webhook_events
                        WHERE endpoint = open.name
                            AND state = 'pending'
                            AND replayed_from IS NULL
                            AND due_at <= now()
                        ORDER BY due_at
                        LIMIT open.room
                        FOR UPDATE SKIP LOCKED
                    ) AS live
                    UNION ALL
                    SELECT id
                    FROM (
                        SELECT id
                        FROM webhook_events
                        WHERE endpoint = open.name
                            AND state = 'pending'
                            AND replayed_from IS NOT NULL
                            AND due_at <= now()
                        ORDER BY due_at
                        LIMIT open.room
                        FOR UPDATE SKIP LOCKED
                    ) AS replayed
                    LIMIT open.room
                ) AS due
            ))
            RETURNING id, endpoint, claims, attempts, type, happened_at, subject, revision, due_at,
                replayed_from IS NOT NULL AS is_replayed
        )
        SELECT \(StoredEndpoint.columns), EXISTS (SELECT 1 FROM held), claimed.id, claimed.claims, claimed.attempts, claimed.type,
            claimed.happened_at, claimed.subject, claimed.revision
        FROM webhook_endpoints AS endpoint
        LEFT JOIN claimed ON claimed.endpoint = endpoint.name
        WHERE endpoint.name = ANY ($2)
        ORDER BY endpoint.name, claimed.is_replayed, claimed.due_at
        """

    /// A claimed webhook without its data.
    struct Event: Sendable {
        let id: UUID
        let claims: Int32
        let attempts: Int32
        let type: String
        let happenedAt: Date
        let subject: String
        let revision: Int64

        func message(data: [UInt8]) -> WebhookMessage {
            WebhookMessage(
                id: WebhookMessage.id(id),
                type: type,
                happenedAt: happenedAt,
                subject: subject,
                revision: revision,
                data: data
            )
        }
    }

    struct Row: Sendable {
        let endpoint: StoredEndpoint
        let isLeaseValid: Bool
        /// `nil` if none of the endpoint's webhooks was claimed.
        let event: Event?
    }

    let lease: UUID
    let order: [WebhookSchedule.Room]
    let probeTime: Duration

    var parameters: [PostgresValue] {
        [
            .uuid(lease), .texts(order.map(\.endpoint)), .int32s(order.map { Int32(clamping: $0.webhooks) }),
            .float64(probeTime.inSeconds),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Row {
        try row.decode { column in
            let endpoint = try StoredEndpoint(&column)
            let isLeaseValid = try column.next(Bool.self)
            let id = try column.next(UUID?.self)
            let claims = try column.next(Int32?.self)
            let attempts = try column.next(Int32?.self)
            let type = try column.next(String?.self)
            let happenedAt = try column.next(Date?.self)
            let subject = try column.next(String?.self)
            let revision = try column.next(Int64?.self)
            guard let id, let claims, let attempts, let type, let happenedAt, let subject, let revision else {
                return Row(endpoint: endpoint, isLeaseValid: isLeaseValid, event: nil)
            }
            let event = Event(
                id: id,
                claims: claims,
                attempts: attempts,
                type: type,
                happenedAt: happenedAt,
                subject: subject,
                revision: revision
            )
            return Row(endpoint: endpoint, isLeaseValid: isLeaseValid, event: event)
        }
    }
}

/// Stores what became of claimed webhooks. Has no effect on those that were claimed again since, or reclaimed, or deleted.
struct RecordWebhooks: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_events AS event
        SET state = given.state,
            lease = NULL,
            attempts = event.attempts + given.failures,
            due_at = CASE WHEN given.wait IS NULL THEN event.due_at ELSE now() + make_interval(secs => given.wait) END,
            replayed_from = CASE WHEN given.state = 'pending' THEN event.replayed_from END,
            last_status = COALESCE(given.status, event.last_status),
            last_error = COALESCE(given.error, event.last_error)
        FROM unnest($1::uuid[], $2::int[], $3::text[], $4::int[], $5::float8[], $6::int[], $7::text[])
            AS given (id, claims, state, failures, wait, status, error)
        WHERE event.id = given.id
            AND event.claims = given.claims
            AND event.state = 'sending'
        """

    let results: [QueueResult<WebhookClaim, WebhookResult>]

    var parameters: [PostgresValue] {
        [
            .uuids(results.map(\.claim.event)), .int32s(results.map(\.claim.claims)),
            .texts(results.map(\.claim.next.state)), .int32s(results.map(\.claim.next.failures)),
            .float64s(results.map { $0.claim.next.wait?.inSeconds }),
            .int32s(results.map { $0.outcome.attempt?.status.map { Int32(clamping: $0) } }),
            .texts(results.map { $0.outcome.attempt?.error }),
        ]
    }
}

extension WebhookClaim.Next {
    /// The state of the row.
    fileprivate var state: String {
        switch self {
        case .delivered: "delivered"
        case .retried, .held: "pending"
        case .failed: "failed"
        case .dropped: "dropped"
        }
    }

    /// The attempts that count.
    fileprivate var failures: Int32 {
        switch self {
        case .delivered, .dropped, .held: 0
        case .retried, .failed: 1
        }
    }

    /// The time until it is due; `nil` if that does not change.
    fileprivate var wait: Duration? {
        switch self {
        case .delivered, .failed, .dropped, .held: nil
        case .retried(let wait): wait
        }
    }
}

/// Lists the webhooks that are claimed under a lease.
struct ListOpenWebhooks: PostgresStatement {
    static let sql: SQL = """
        SELECT id, claims, endpoint, attempts
        FROM webhook_events
        WHERE lease = $1
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }

    static func decode(_ row: PostgresRow) throws -> WebhookClaim {
        try row.decode { column in
            try WebhookClaim(
                event: column.next(),
                claims: column.next(),
                endpoint: column.next(),
                attempts: column.next(),
                isProbe: false,
                readAt: 0,
                message: nil
            )
        }
    }
}

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
            OR EXISTS (SELECT 1 FROM work_leases WHERE queue = 'webhooks' AND ends_at < now())
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
            AND ($2 OR type NOT IN ('user.unlinked', 'account.event.received'))
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
