import Endpoints
import FoundationEssentials
import JSON
import Postgres
import Runtime
import Sharing

/// Stores a message with its receivers, unless its idempotency key is in use, or its times are past. Returns whether it is
/// stored.
///
/// Users have no uuid yet: they can be claimed once the sender's friends are read.
struct CreateMessage: PostgresStatement {
    static let sql: SQL = """
        WITH message AS (
            INSERT INTO messages (
                id, sender, addressing, state, template_object, template_id, template_args, request_url, delivery,
                when_over_quota, send_at, expires_at, created_at, resolve_at, operator_key, idempotency_key,
                request_sha256, response, created_by
            )
            SELECT $1, $2, $3, 'active', $4, $5, $6, $7, $8, $9, $10, $11, $12,
                CASE WHEN $3 = 'users' THEN COALESCE($10, $12) END, $13, $14, $15, $16, $19
            WHERE COALESCE($10 >= now() - \(SendingTimes.tolerance), true)
                AND COALESCE($11 > now(), true)
            ON CONFLICT (operator_key, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
            RETURNING id, sender
        ),
        receiver AS (
            INSERT INTO message_receivers (message_id, position, user_id, uuid, due_at)
            SELECT message.id, item.place - 1, CASE WHEN $3 = 'me' THEN message.sender ELSE item.user_id END, item.uuid,
                CASE WHEN $3 <> 'users' THEN COALESCE($10, $12) END
            FROM message
            CROSS JOIN unnest($17::bigint[], $18::text[]) WITH ORDINALITY AS item (user_id, uuid, place)
        )
        SELECT true
        FROM message
        """

    let message: NewMessage
    let idempotency: Idempotency?
    /// The response to the request and to its repetitions.
    let response: [UInt8]
    let now: Date

    var parameters: [PostgresValue] {
        let content = message.content
        let receivers: (userIDs: [Int64?], uuids: [String?]) =
            switch message.receivers {
            case .me: ([nil], [nil])
            case .friends(let uuids): (uuids.map { _ in nil }, uuids)
            case .users(let ids): (ids, ids.map { _ in nil })
            }
        return [
            .uuid(message.id), .int64(message.sender), .text(message.receivers.addressing.rawValue),
            .text(content.template), .int64(content.templateID),
            .text(content.arguments.map { JSONValue.object($0).description }), .text(content.url),
            .text(message.delivery.rawValue), .text(message.whenOverQuota.rawValue), .timestamp(message.times.sendAt),
            .timestamp(message.times.expiresAt), .timestamp(now), .bytes(idempotency?.operatorKey),
            .text(idempotency?.key), .bytes(idempotency?.digest), .bytes(response), .int64s(receivers.userIDs),
            .texts(receivers.uuids), .text(message.createdBy),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}
