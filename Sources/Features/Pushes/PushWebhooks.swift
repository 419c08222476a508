import FoundationEssentials
import Postgres
import Runtime
import Schemas

/// The webhooks about pushes, which `record_push` stores.
enum PushWebhooks {
    static let data = [
        WebhookData([.pushProposed, .pushDone, .pushHalted, .pushExpired, .pushUnreached], ReadPushWebhooks.self)
    ]
}

// MARK: Statements

/// Reads pushes as they were after events, in the states that were stored.
struct ReadPushWebhooks: WebhookDataStatement {
    static let sql: SQL = """
        SELECT webhook.id, \(PushSummary.storedColumns)
        FROM webhook_events AS webhook
        CROSS JOIN LATERAL jsonb_populate_record(NULL::push_summaries, webhook.data) AS push
        WHERE webhook.id = ANY ($1)
        """

    let events: [UUID]

    static func decode(_ row: PostgresRow) throws -> WebhookData.Item {
        try row.decode { (try $0.next(), PushSummary.shape.json(try PushSummary(stored: &$0))) }
    }
}
