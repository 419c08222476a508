import Endpoints
import FoundationEssentials
import Postgres
import Schemas

/// A webhook that its endpoint has not accepted.
struct UnacceptedWebhook: Sendable {
    enum State: String, CaseIterable, Sendable {
        /// There is another attempt.
        case pending
        /// The last attempt has failed.
        case failed
        /// Its endpoint, or its object, is gone.
        case dropped
    }

    let id: UUID
    let endpoint: String
    let type: String
    let happenedAt: Date
    let state: State
    let attempts: Int32
    /// `nil` if there is none.
    let nextAttemptAt: Date?
    let lastStatus: Int32?
    let lastError: String?

    static let shape = Shape<UnacceptedWebhook>(
        "UnacceptedWebhook",
        [
            .member("id", .text, "Its `webhook-id`.") { WebhookMessage.id($0.id) },
            .member("endpoint", .text, "The name of the endpoint.", \.endpoint),
            .member("type", .text, "Its type.", \.type),
            .member("timestamp", .time, "When its event happened.", \.happenedAt),
            .member(
                "state",
                .choice,
                "`pending`; `failed` after all attempts; `dropped` if the endpoint or the object is gone.",
                \.state
            ),
            .member("attempts", Kind<Int32>.number, "The failed attempts.", \.attempts),
            .nullable("next_attempt_at", .time, "When it is tried again.", \.nextAttemptAt),
            .nullable("last_status", Kind<Int32>.number, "The status of the last response.", \.lastStatus),
            .nullable("last_error", .text, "The last error.", \.lastError),
        ]
    )
}

// MARK: Statements

/// Lists the webhooks that were not accepted, the latest first.
struct ListUnacceptedWebhooks: PostgresStatement {
    static let sql: SQL = """
        SELECT id, endpoint, type, happened_at, CASE state WHEN 'sending' THEN 'pending' ELSE state END AS state, attempts,
            CASE WHEN state IN ('pending', 'sending') THEN due_at END, last_status, last_error
        FROM webhook_events
        WHERE attempts > 0
            AND state <> 'delivered'
            AND id < COALESCE($1, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            AND endpoint = COALESCE($2, endpoint)
        ORDER BY id DESC
        LIMIT $3
        """

    let cursor: UUID?
    /// The name of one endpoint; `nil` for all.
    let endpoint: String?
    let limit: Int

    init(before cursor: UUID?, endpoint: String?, limit: Int) {
        self.cursor = cursor
        self.endpoint = endpoint
        self.limit = limit
    }

    var parameters: [PostgresValue] { [.uuid(cursor), .text(endpoint), .int64(Int64(limit))] }

    static func decode(_ row: PostgresRow) throws -> UnacceptedWebhook {
        try row.decode { column in
            try UnacceptedWebhook(
                id: column.next(),
                endpoint: column.next(),
                type: column.next(),
                happenedAt: column.next(),
                state: UnacceptedWebhook.State(rawValue: column.next()) ?? .failed,
                attempts: column.next(),
                nextAttemptAt: column.next(),
                lastStatus: column.next(),
                lastError: column.next()
            )
        }
    }
}

/// Makes a webhook due now, with all its attempts, if its endpoint gets its type. Has no effect on the request if it is being sent.
struct RetryWebhook: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_events AS event
        SET state = CASE event.state WHEN 'sending' THEN 'sending' ELSE 'pending' END,
            attempts = 0,
            due_at = now(),
            replayed_from = NULL
        FROM webhook_endpoints AS endpoint
        WHERE event.id = $1
            AND endpoint.name = event.endpoint
            AND event.type = ANY (endpoint.types)
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}
