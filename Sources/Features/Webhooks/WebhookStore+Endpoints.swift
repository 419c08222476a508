import Endpoints
import FoundationEssentials
import Postgres

// The endpoints.
extension WebhookStore {
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
}

// MARK: Statements

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
    static let columns: SQL = """
        endpoint.name, endpoint.state, extract(epoch FROM endpoint.next_probe_at - now())::float8
        """

    /// Decodes ``columns``.
    init(_ column: inout ColumnCursor) throws {
        let name = try column.next(String.self)
        let state = try column.next(String.self)
        guard let status = EndpointStatus(rawValue: state) else {
            throw PostgresError(.decoding, detail: "the endpoint \(name) has the unknown state \(state)")
        }
        self.init(name: name, status: status, secondsToProbe: try column.next())
    }
}
