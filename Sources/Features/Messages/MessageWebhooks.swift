import FoundationEssentials
import Postgres
import Runtime
import Schemas

/// The webhooks about messages that have ended, which `record_message` stores.
enum MessageWebhooks {
    static let data = [
        WebhookData([.messageDone, .messageCanceled, .messageExpired], ReadMessageWebhooks.self)
    ]
}

// MARK: Statements

/// Reads messages as they were when they ended.
struct ReadMessageWebhooks: WebhookDataStatement {
    static let sql: SQL = """
        SELECT webhook.id, \(MessageSummary.columns)
        FROM webhook_events AS webhook
        CROSS JOIN LATERAL jsonb_populate_record(NULL::message_summaries, webhook.data) AS message
        WHERE webhook.id = ANY ($1)
        """

    let events: [UUID]

    static func decode(_ row: PostgresRow) throws -> WebhookData.Item {
        try row.decode { (try $0.next(), MessageSummary.shape.json(try MessageSummary(&$0))) }
    }
}
