import Endpoints
import FoundationEssentials
import Postgres
import Runtime
import Schemas

/// The webhooks about messages that have ended.
enum MessageWebhooks {
    static func source() -> WebhookSource {
        WebhookSource("messages", [.messageDone, .messageCanceled, .messageExpired], key: .uuid) { pool, range in
            var events: [WebhookEvent] = []
            for row in try await pool.read(ListMessageWebhooks(range: range)) {
                guard let message = try await pool.read(ReadMessage(id: row.id)).first else { continue }
                events.append(
                    WebhookEvent(
                        position: WebhookPosition(xid: row.xid, key: row.id.lowercased),
                        type: WebhookType(rawValue: "message.\(message.state.rawValue)"),
                        happenedAt: row.endedAt,
                        storedAt: row.endedAt,
                        userID: message.sender,
                        data: MessageSummary.shape.json(message)
                    )
                )
            }
            return events
        }
    }
}

// MARK: Statements

/// Lists messages in the order of the transactions that ended them.
struct ListMessageWebhooks: WebhookStatement {
    static let sql: SQL = """
        SELECT event_xid::text, event_at, id
        FROM messages AS message
        WHERE (event_xid, id) >= ($1::text::xid8, $2::text::uuid)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY message.event_xid, id
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> (xid: String, endedAt: Date, id: UUID) {
        try row.decode(String.self, Date.self, UUID.self)
    }
}
