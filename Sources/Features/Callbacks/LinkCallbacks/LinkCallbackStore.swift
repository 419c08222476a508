import Endpoints
import FoundationEssentials
import Postgres
import Runtime
import Sharing

/// The link callbacks in PostgreSQL.
final class LinkCallbackStore: Sendable {
    private let inserts: StatementCoalescer<InsertLinkCallbacks>
    private let webhooks: WebhookNotice

    /// - Parameter statisticsArgs: The custom arguments by which callbacks count.
    init(pool: PostgresPool, statisticsArgs: [String], webhooks: WebhookNotice) {
        self.webhooks = webhooks
        inserts = StatementCoalescer(pool: pool, concurrency: 2) {
            InsertLinkCallbacks(callbacks: $0, statisticsArgs: statisticsArgs)
        }
    }

    /// Stores and counts a callback, once for each resource id. Returns when it is committed, and whether it was new.
    func insert(_ callback: LinkCallback) async throws -> Bool {
        defer { webhooks.send() }
        return try await inserts.submit(callback)
    }

    /// Stores a callback as ``insert(_:)`` does, for at most `limit`. Continues even if the client disconnects.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/timedOut`` after `limit`.
    func insert(_ callback: LinkCallback, within limit: Duration) async throws -> Bool {
        defer { webhooks.send() }
        return try await inserts.submit(callback, within: limit)
    }
}

// MARK: Statements

/// Inserts callbacks, once for each resource id, with their webhooks, and enqueues the arrivals that they report to be counted.
/// Returns for each whether it was new.
///
/// A malformed callback, or one with an expired or invalid signature, does not count. Keys are inserted in their order, so that concurrent
/// statements with the same ids do not deadlock.
struct InsertLinkCallbacks: CoalescedStatement {
    typealias Item = LinkCallback
    typealias Output = Bool

    static let sql: SQL = """
        WITH callback AS (
            INSERT INTO link_callbacks (
                key, id, chat_type, hash_chat_id, template_id, args, received_at, share_id, signature, raw
            )
            SELECT *
            FROM unnest(
                $1::text[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::jsonb[], $7::timestamptz[],
                $8::uuid[], $9::text[], $11::text[]
            ) AS received (key)
            ORDER BY key
            ON CONFLICT (key) DO NOTHING
            RETURNING *
        ),
        arrival AS (
            INSERT INTO share_events (kind, name, share_id, template_id, args, happened_at)
            SELECT 'arrival', chat_type, share_id, template_id,
                (SELECT jsonb_object_agg(name, left(args ->> name, 101)) FROM unnest($10::text[]) AS name),
                received_at
            FROM callback
            WHERE raw IS NULL
                AND (signature IS NULL OR signature = 'valid')
        ),
        webhook AS (
            INSERT INTO webhook_events (id, endpoint, type, happened_at, subject)
            SELECT uuid_v7(), endpoint.name, 'link.callback.received', callback.received_at, 'callbacks/' || callback.id
            FROM callback
            CROSS JOIN webhook_endpoints AS endpoint
            WHERE 'link.callback.received' = ANY (endpoint.types)
        )
        SELECT callback.id IS NOT NULL
        FROM unnest($2::uuid[]) WITH ORDINALITY AS given (id, number)
        LEFT JOIN callback ON callback.id = given.id
        ORDER BY given.number
        """

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Bool] { try rows.map(decode) }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }

    let callbacks: [LinkCallback]
    let statisticsArgs: [String]

    var parameters: [PostgresValue] {
        [
            .texts(callbacks.map(\.key)),
            .uuids(callbacks.map(\.id)),
            .texts(callbacks.map(\.chatType)),
            .texts(callbacks.map(\.hashChatID)),
            .int64s(callbacks.map(\.templateID)),
            .jsonbs(callbacks.map(\.args)),
            .timestamps(callbacks.map(\.receivedAt)),
            .uuids(callbacks.map { $0.signature?.shareID?.uuid }),
            .texts(callbacks.map { $0.signature?.name }),
            .texts(statisticsArgs),
            .texts(callbacks.map(\.raw)),
        ]
    }
}

/// Removes an argument from those of the next callbacks in which its value is a user's id, and what Kakao sent from
/// malformed ones in which the id occurs anywhere.
///
/// The keys are an array, which is looked up in the index of each partition (docs/scaling.md). A join may read whole partitions.
struct RemoveUserFromLinkCallbacks: ArgumentErasureStatement {
    static let sql: SQL = """
        WITH step AS (
            SELECT id, key, args, raw
            FROM link_callbacks
            WHERE id > $1
            ORDER BY id
            LIMIT $4
        ),
        changed AS (
            UPDATE link_callbacks
            SET args = CASE WHEN args ->> $2 = $3 THEN args - $2 ELSE args END,
                raw = CASE WHEN position($3 IN raw) > 0 THEN '' ELSE raw END
            WHERE key = ANY (ARRAY(SELECT key FROM step WHERE args ->> $2 = $3 OR position($3 IN raw) > 0))
        )
        SELECT id
        FROM step
        ORDER BY id DESC
        LIMIT 1
        """

    let step: ArgumentErasure
}

/// Lists up to `limit` callbacks, the latest first. A criterion that is `nil` does not restrict the list.
///
/// Times restrict the ids as well, which begin with them and are indexed. An id is made right after its time.
struct ListLinkCallbacks: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredCall<LinkCallback>.columns)
        FROM link_callbacks
        WHERE ($1::timestamptz IS NULL OR received_at >= $1)
            AND ($2::timestamptz IS NULL OR received_at < $2)
            AND ($3::text IS NULL OR chat_type = $3)
            AND ($4::bigint IS NULL OR template_id = $4)
            AND ($5::jsonb IS NULL OR args @> $5)
            AND ($6::uuid IS NULL OR id < $6)
            AND ($8::timestamptz IS NULL OR stored_at >= $8)
            AND ($9::uuid IS NULL OR share_id = $9)
            AND id >= COALESCE(uuid_v7_floor($1), '00000000-0000-0000-0000-000000000000')
            AND id < COALESCE(uuid_v7_floor($2 + interval '1 minute'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        ORDER BY id DESC
        LIMIT $7
        """

    var since: Date?
    var until: Date?
    /// Only callbacks that were stored since then, however long ago they were received.
    var storedSince: Date?
    var chatType: String?
    var templateID: Int64?
    /// Only callbacks of this share.
    var shareID: ShareID?
    /// A JSON object of custom arguments that a callback must have.
    var args: [UInt8]?
    /// Only callbacks that were received before the one with this id.
    var before: UUID?
    var limit: Int

    var parameters: [PostgresValue] {
        [
            .timestamp(since), .timestamp(until), .text(chatType), .int64(templateID), .jsonb(args), .uuid(before),
            .int64(Int64(limit)), .timestamp(storedSince), .uuid(shareID?.uuid),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> StoredCall<LinkCallback> {
        try row.decode { try StoredCall(&$0) }
    }
}

extension ListLinkCallbacks {
    /// Runs the statement. A program that polls with ``storedSince`` would miss calls if one page came from a replica and the
    /// page before did not.
    func read(on pool: PostgresPool) async throws -> [StoredCall<LinkCallback>] {
        try await pool.read(self, mayBeBehind: storedSince == nil)
    }
}

/// Deletes up to `limit` link callbacks that were received more than `retentionDays` ago, the oldest first. Skips rows
/// that another server is deleting. The keys are an array, as in ``RemoveUserFromLinkCallbacks``.
struct DeleteOldLinkCallbacks: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM link_callbacks
        WHERE key = ANY (ARRAY(
            SELECT key
            FROM link_callbacks
            WHERE id < uuid_v7_floor(now() - make_interval(days => $1))
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        ))
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
