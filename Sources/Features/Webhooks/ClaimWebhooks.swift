import Endpoints
import FoundationEssentials
import Postgres
import Runtime

// The statements by which webhooks are claimed, and what became of them is stored.

/// Claims webhooks that are due under a valid lease, live ones before those that are delivered again. Of an endpoint that is failing, it
/// claims one, if no other server probes the endpoint.
struct ClaimWebhooks: PostgresStatement {
    /// Returns a query of those webhooks of the endpoint `open` that are due. Each of the two conditions has an index of its own.
    private static func due(_ condition: SQL) -> SQL {
        """
        SELECT id
        FROM webhook_events
        WHERE endpoint = open.name
            AND state = 'pending'
            AND \(condition)
            AND due_at <= now()
        ORDER BY due_at
        LIMIT open.room
        FOR UPDATE SKIP LOCKED
        """
    }

    static let sql: SQL = """
        WITH held AS MATERIALIZED (\(SQL.lockedLease("$1"))),
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
                    FROM (\(due("replayed_from IS NULL"))) AS live
                    UNION ALL
                    SELECT id
                    FROM (\(due("replayed_from IS NOT NULL"))) AS replayed
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
