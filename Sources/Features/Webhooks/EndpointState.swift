import Endpoints
import FoundationEssentials
import Postgres
import Schemas

/// An endpoint as operators see it.
struct EndpointState: Sendable {
    let name: String
    let types: [String]
    let status: EndpointStatus
    let since: Date
    let lastError: String?
    let lastErrorAt: Date?
    /// For how long the oldest webhook has been due, in seconds; 0 if none is due. Replayed webhooks do not count.
    let lag: Double
    /// The webhooks that wait, also replayed ones; at most 10,000 are counted.
    let pending: Int64
    /// Its URL; `nil` if this server does not have the endpoint.
    var url: WebhookURL?

    static let shape = Shape<EndpointState>(
        "WebhookEndpoint",
        [
            .member("name", .text, "The name.", \.name),
            .nullable(
                "url",
                .text,
                "The URL without its query; null if this server does not have the endpoint in its settings.",
                \.url?.shown
            ),
            .array("types", .text, "The types of webhooks that it gets.", \.types),
            .member(
                "state",
                .choice,
                "`delivering`; `failing` while it accepts no webhooks, which then wait; `gone` after a response of 410; `removed` if no server has it any more.",
                \.status
            ),
            .member("since", .time, "Since when it is in this state.", \.since),
            .nullable("last_error", .text, "Its last error.", \.lastError),
            .nullable("last_error_at", .time, "When that happened.", \.lastErrorAt),
            .member(
                "lag_seconds",
                .seconds,
                "For how long its oldest webhook has been due, apart from replayed ones; 0 if none is due.",
                \.lag
            ),
            .member("pending", .count, "The number of webhooks that wait; 10,000 for as many or more.", \.pending),
        ]
    )
}

// MARK: Statements

/// Lists the endpoints with what waits for them.
struct ListEndpointStates: PostgresStatement {
    // Each part of `waiting` has an index of its own.
    static let sql: SQL = """
        SELECT endpoint.name, endpoint.types, endpoint.state, endpoint.since, endpoint.last_error, endpoint.last_error_at,
            GREATEST(0, extract(epoch FROM now() - oldest.due_at))::float8, waiting.webhooks
        FROM webhook_endpoints AS endpoint
        LEFT JOIN LATERAL (
            SELECT due_at
            FROM webhook_events AS event
            WHERE event.endpoint = endpoint.name
                AND state = 'pending'
                AND replayed_from IS NULL
            ORDER BY due_at
            LIMIT 1
        ) AS oldest ON true
        CROSS JOIN LATERAL (
            SELECT count(*) AS webhooks
            FROM (
                SELECT 1
                FROM webhook_events AS event
                WHERE event.endpoint = endpoint.name
                    AND state = 'pending'
                    AND replayed_from IS NULL
                UNION ALL
                SELECT 1
                FROM webhook_events AS event
                WHERE event.endpoint = endpoint.name
                    AND state = 'pending'
                    AND replayed_from IS NOT NULL
                LIMIT 10000
            ) AS counted
        ) AS waiting
        WHERE endpoint.name = COALESCE($1, endpoint.name)
        ORDER BY endpoint.name
        """

    /// The name of one endpoint; `nil` for all.
    var endpoint: String?

    var parameters: [PostgresValue] { [.text(endpoint)] }

    static func decode(_ row: PostgresRow) throws -> EndpointState {
        try row.decode { column in
            try EndpointState(
                name: column.next(),
                types: column.next(),
                status: EndpointStatus(stored: column.next()),
                since: column.next(),
                lastError: column.next(),
                lastErrorAt: column.next(),
                lag: column.next(),
                pending: column.next()
            )
        }
    }
}

extension EndpointStatus {
    /// - Throws: ``PostgresError/Code/decoding`` for an unknown state.
    fileprivate init(stored: String) throws {
        guard let status = EndpointStatus(rawValue: stored) else {
            throw PostgresError(.decoding, detail: "an endpoint has the unknown state \(stored)")
        }
        self = status
    }
}
