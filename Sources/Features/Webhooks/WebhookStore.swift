import Endpoints
import FoundationEssentials
import Postgres
import Runtime

/// The endpoint and the cursors in PostgreSQL.
///
/// One server delivers at a time: the one whose lease the endpoint's row has.
struct WebhookStore: Sendable {
    /// The channel on which servers notify the one that delivers.
    static let channel = "kakao_push_webhooks"

    let pool: PostgresPool

    /// Stores the endpoint, and a cursor at the present for each source without one. A stored endpoint with the same URL keeps
    /// its state.
    ///
    /// - Parameter sources: The sources whose events the endpoint gets. The cursors of others are deleted.
    func prepare(_ url: WebhookURL, _ sources: [WebhookSource]) async throws {
        try await pool.withTransaction { transaction in
            try await transaction.query(StoreEndpoint(urlSHA256: url.digest))
            try await transaction.query(ShiftTransactions())
            try await transaction.query(DeleteOtherCursors(sources: sources))
            try await transaction.query(StoreCursors(sources: sources))
            try await transaction.query(StoreMark())
        }
    }

    /// Deletes the endpoint, unless a server delivers to it, whose settings then differ from this one's.
    func removeEndpoint() async throws {
        try await pool.withTransaction { transaction in
            guard try await transaction.query(DeleteUnusedEndpoint()) > 0 else { return }
            try await transaction.query(DeleteOtherCursors(sources: []))
        }
    }

    /// Takes the endpoint under a lease, unless another server has it.
    ///
    /// - Returns: The stored state of the endpoint, the cursors of the sources, and the run of PostgreSQL that they belong to; `nil` if
    ///   another server delivers.
    func claim(under lease: UUID) async throws -> (EndpointStatus, [String: WebhookPosition], run: String)? {
        try await pool.withTransaction { transaction in
            guard let (status, run) = try await transaction.query(ClaimEndpoint(lease: lease)).first else { return nil }
            let cursors = try await transaction.query(ListCursors())
            return (status, Dictionary(uniqueKeysWithValues: cursors.map { ($0.source, $0.position) }), run)
        }
    }

    /// Notifies the server that delivers that there is something to read, or that the endpoint has changed.
    func notify(_ subject: String) async throws {
        _ = try await pool.write(SendNotification(channel: Self.channel, payload: subject))
    }
}

// The delivery as the work of a queue: it is open while a server has the endpoint.
extension WebhookStore: WorkStore {
    var queue: String { "webhooks" }

    func renew(_ lease: UUID, for duration: Duration) async throws -> Bool? {
        try await pool.write(RenewWebhookLease(id: lease, duration: duration)).first
    }

    func isWorkOpen(under lease: UUID, in transaction: PostgresTransaction) async throws -> Bool {
        try await transaction.query(FindOpenEndpoint(lease: lease)).first ?? false
    }

    func orphanedLeases() async throws -> [UUID] {
        try await pool.read(FindOrphanedEndpointLeases())
    }

    func reclaim(_ leases: [UUID], in transaction: PostgresTransaction) async throws -> Int {
        try await transaction.query(ReleaseEndpoint(leases: leases))
    }

    /// A webhook may be delivered twice.
    func presumeUnfinished(in transaction: PostgresTransaction) async throws {}

    /// No claim is written to a file.
    func isStored(_ claim: ClaimFile.Claim) async throws -> Bool? { nil }
}

// MARK: Statements

/// Stores the endpoint. If its URL has changed, its state becomes `delivering` and its last error is deleted.
struct StoreEndpoint: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO webhook_endpoint AS endpoint (url_sha256)
        VALUES ($1)
        ON CONFLICT (is_only) DO UPDATE
        SET url_sha256 = excluded.url_sha256,
            state = 'delivering',
            since = now(),
            last_error = NULL,
            last_error_at = NULL
        WHERE endpoint.url_sha256 <> excluded.url_sha256
        """

    let urlSHA256: [UInt8]

    var parameters: [PostgresValue] { [.bytes(urlSHA256)] }
}

/// Moves the ids of new events beyond all others, if those are of transactions that are still to come: the database was restored from
/// a dump, and transaction ids restarted.
struct ShiftTransactions: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_endpoint
        SET xid_offset = webhook_last_xid()::text::bigint - pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1
        WHERE webhook_last_xid() > webhook_xid(pg_snapshot_xmax(pg_current_snapshot()), xid_offset)
        """
}

/// Deletes the endpoint if no server has a lease of this queue.
struct DeleteUnusedEndpoint: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_endpoint
        WHERE NOT EXISTS (
            SELECT 1
            FROM work_leases
            WHERE queue = 'webhooks'
                AND ends_at > now()
        )
        """
}

/// Stores a cursor for each source without one, at the oldest transaction that is still running: an event of a later one is
/// delivered.
struct StoreCursors: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO webhook_cursors (source, xid, key)
        SELECT source, webhook_horizon(), key
        FROM unnest($1::text[], $2::text[]) AS given (source, key)
        CROSS JOIN webhook_endpoint
        ON CONFLICT (source) DO NOTHING
        """

    let sources: [WebhookSource]

    var parameters: [PostgresValue] { [.texts(sources.map(\.name)), .texts(sources.map(\.key.lowest))] }
}

/// Deletes the cursors of sources whose events the endpoint does not get.
struct DeleteOtherCursors: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_cursors
        WHERE source <> ALL ($1::text[])
        """

    let sources: [WebhookSource]

    var parameters: [PostgresValue] { [.texts(sources.map(\.name))] }
}

/// Takes the endpoint under a valid lease, also if that was done before and the response was lost. Returns its state and the run of
/// PostgreSQL; no row if another server has it.
struct ClaimEndpoint: PostgresStatement {
    static let sql: SQL = """
        WITH lease AS MATERIALIZED (
            SELECT id
            FROM work_leases
            WHERE id = $1
                AND ends_at > now()
            FOR KEY SHARE
        )
        UPDATE webhook_endpoint AS endpoint
        SET lease = lease.id
        FROM lease
        WHERE endpoint.lease IS NULL
            OR endpoint.lease = lease.id
        RETURNING endpoint.state, database_run()
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }
    static func decode(_ row: PostgresRow) throws -> (EndpointStatus, run: String) {
        let (state, run) = try row.decode(String.self, String.self)
        return (try EndpointStatus(state), run)
    }
}

/// Releases the endpoint, if one of these leases has it.
struct ReleaseEndpoint: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_endpoint
        SET lease = NULL
        WHERE lease = ANY ($1)
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
}

/// Renews a lease, and returns whether no other server with a valid lease has the endpoint. Returns no row if the lease was
/// deleted.
struct RenewWebhookLease: PostgresStatement {
    static let sql: SQL = """
        UPDATE work_leases
        SET ends_at = now() + make_interval(secs => $2)
        WHERE id = $1
        RETURNING NOT EXISTS (
            SELECT 1
            FROM webhook_endpoint AS endpoint
            JOIN work_leases AS held ON held.id = endpoint.lease
            WHERE held.id <> $1
                AND held.ends_at > now()
        )
        """

    let id: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(id), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Returns whether a lease has the endpoint.
struct FindOpenEndpoint: PostgresStatement {
    static let sql: SQL = """
        SELECT EXISTS (SELECT 1 FROM webhook_endpoint WHERE lease = $1)
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Finds the lease of the endpoint if its row in `work_leases` is missing.
struct FindOrphanedEndpointLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT lease
        FROM webhook_endpoint
        WHERE lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM work_leases WHERE id = lease)
        """

    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Lists how far each source is delivered.
struct ListCursors: PostgresStatement {
    static let sql: SQL = """
        SELECT source, xid::text, key
        FROM webhook_cursors
        """

    static func decode(_ row: PostgresRow) throws -> (source: String, position: WebhookPosition) {
        let (source, xid, key) = try row.decode(String.self, String.self, String.self)
        return (source, WebhookPosition(xid: xid, key: key))
    }
}

/// Stores how far a source is delivered, if a lease has the endpoint, and the position is of the present run of PostgreSQL: another run may
/// have lost transactions, and then it gives their ids to others.
struct MoveCursor: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_cursors
        SET xid = $2::text::xid8,
            key = $3
        WHERE source = $1
            AND EXISTS (SELECT 1 FROM webhook_endpoint WHERE lease = $4)
            AND database_run() = $5
        """

    let source: String
    let position: WebhookPosition
    let lease: UUID
    let run: String

    var parameters: [PostgresValue] {
        [.text(source), .text(position.xid), .text(position.key), .uuid(lease), .text(run)]
    }
}

/// The endpoint as operators see it.
struct EndpointState: Sendable {
    let status: EndpointStatus
    let since: Date
    let lastError: String?
    let lastErrorAt: Date?
}

/// Reads the state of the endpoint.
struct ReadEndpoint: PostgresStatement {
    static let sql: SQL = """
        SELECT state, since, last_error, last_error_at
        FROM webhook_endpoint
        """

    static func decode(_ row: PostgresRow) throws -> EndpointState {
        let (state, since, lastError, lastErrorAt) = try row.decode(
            String.self,
            Date.self,
            String?.self,
            Date?.self
        )
        return EndpointState(
            status: try EndpointStatus(state),
            since: since,
            lastError: lastError,
            lastErrorAt: lastErrorAt
        )
    }
}

/// Stores a change of the endpoint, if a lease has it.
struct RecordEndpoint: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_endpoint
        SET state = COALESCE($2, state),
            since = CASE WHEN state <> $2 THEN now() ELSE since END,
            last_error = COALESCE($3, last_error),
            last_error_at = CASE WHEN $3 IS NULL THEN last_error_at ELSE now() END
        WHERE lease = $1
        """

    let lease: UUID
    let change: EndpointChange

    var parameters: [PostgresValue] { [.uuid(lease), .text(change.status?.rawValue), .text(change.error)] }
}

/// Stores that the endpoint accepts webhooks, as an operator's test has shown.
struct RestoreEndpoint: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_endpoint
        SET state = 'delivering',
            since = now()
        WHERE state <> 'delivering'
        """
}

/// Stores which transactions are running now.
struct StoreMark: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO webhook_marks (oldest_xid, next_xid)
        SELECT webhook_xid(pg_snapshot_xmin(now), xid_offset), webhook_xid(pg_snapshot_xmax(now), xid_offset)
        FROM (SELECT pg_current_snapshot() AS now) AS snapshot
        CROSS JOIN webhook_endpoint
        ON CONFLICT (marked_at) DO NOTHING
        """
}

/// Deletes the marks of times that are longer ago than any event is kept.
struct DeleteOldMarks: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_marks
        WHERE marked_at < now() - interval '10 years'
        """
}

extension EndpointStatus {
    fileprivate init(_ stored: String) throws {
        guard let status = EndpointStatus(rawValue: stored) else {
            throw PostgresError(.decoding, detail: "an endpoint has the unknown state \(stored)")
        }
        self = status
    }
}
