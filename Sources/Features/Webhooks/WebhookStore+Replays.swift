import Endpoints
import FoundationEssentials
import Postgres
import Runtime

/// A part of what an operator wants to be delivered again: the events of one source.
struct WebhookReplay: Sendable {
    let id: UUID
    let source: String
    /// How far it is.
    var position: WebhookPosition
    /// The transaction at which it ends.
    let endXID: String
    /// The times between which its events were stored.
    let since: Date
    let until: Date
    let types: [String]

    func includes(_ event: WebhookEvent) -> Bool {
        guard let type = event.type?.rawValue else { return false }
        return event.storedAt >= since && event.storedAt < until && types.contains(type)
    }
}

// What operators want to be delivered again.
extension WebhookStore {
    /// Stores that the events of these types that were stored within a time are to be delivered again.
    func replay(_ types: [WebhookType], of sources: [WebhookSource], since: Date, until: Date) async throws {
        try await pool.write(StoreReplays(sources: sources, since: since, until: until, types: types))
    }

    /// Returns the next part to deliver again.
    func nextReplay() async throws -> WebhookReplay? {
        try await pool.read(ListReplays(limit: 1)).first
    }

    /// Returns the parts that are to be delivered again, in their order, up to `limit`.
    func replays(limit: Int) async throws -> [WebhookReplay] {
        try await pool.read(ListReplays(limit: limit))
    }

    /// Stores how far a part is. Returns `false` if it was canceled.
    func move(_ replay: WebhookReplay) async throws -> Bool {
        try await pool.write(MoveReplay(replay: replay)) > 0
    }

    /// Deletes a part that is delivered.
    func delete(_ replay: WebhookReplay) async throws {
        try await pool.write(DeleteReplay(id: replay.id))
    }
}

// MARK: Statements

/// Stores what is to be delivered again, a row for each source. It begins at the latest mark before the time, and ends at the first
/// mark after it.
struct StoreReplays: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO webhook_replays (id, source, xid, key, end_xid, since, until, types)
        SELECT id, source,
            COALESCE(
                (SELECT oldest_xid FROM webhook_marks WHERE marked_at <= $4 ORDER BY marked_at DESC LIMIT 1),
                '0'::xid8
            ),
            key,
            COALESCE(
                (SELECT next_xid FROM webhook_marks WHERE marked_at >= $5 ORDER BY marked_at LIMIT 1),
                webhook_horizon()
            ),
            $4, $5, $6
        FROM unnest($1::uuid[], $2::text[], $3::text[]) AS given (id, source, key)
        CROSS JOIN webhook_endpoint
        """

    let sources: [WebhookSource]
    let since: Date
    let until: Date
    let types: [WebhookType]

    var parameters: [PostgresValue] {
        [
            .uuids(sources.map { _ in .v7() }), .texts(sources.map(\.name)), .texts(sources.map(\.key.lowest)),
            .timestamp(since), .timestamp(until), .texts(types.map(\.rawValue)),
        ]
    }
}

/// Lists replays, the oldest first.
struct ListReplays: PostgresStatement {
    static let sql: SQL = """
        SELECT id, source, xid::text, key, end_xid::text, since, until, types
        FROM webhook_replays
        ORDER BY id
        LIMIT $1
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }

    static func decode(_ row: PostgresRow) throws -> WebhookReplay {
        try row.decode { column in
            try WebhookReplay(
                id: column.next(),
                source: column.next(),
                position: WebhookPosition(xid: column.next(), key: column.next()),
                endXID: column.next(),
                since: column.next(),
                until: column.next(),
                types: column.next()
            )
        }
    }
}

/// Stores how far a replay is. Affects no row if it was canceled.
struct MoveReplay: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_replays
        SET xid = $2::text::xid8,
            key = $3
        WHERE id = $1
        """

    let replay: WebhookReplay

    var parameters: [PostgresValue] {
        [.uuid(replay.id), .text(replay.position.xid), .text(replay.position.key)]
    }
}

/// Deletes all replays.
struct DeleteReplays: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_replays
        """
}

/// Deletes a replay.
struct DeleteReplay: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_replays
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}
