import FoundationEssentials
import Postgres
import Runtime
import Schemas

/// The webhooks about accounts whose users must log in again, which `record_account` stores.
enum AccountWebhooks {
    static let data = [WebhookData([.accountLoginRequired], ReadAccountWebhooks.self)]
}

// MARK: Statements

/// Reads accounts as they were after events.
struct ReadAccountWebhooks: WebhookDataStatement {
    static let sql: SQL = """
        SELECT webhook.id, \(Account.columns)
        FROM webhook_events AS webhook
        CROSS JOIN LATERAL jsonb_populate_record(NULL::account_summaries, webhook.data) AS account
        WHERE webhook.id = ANY ($1)
        """

    let events: [UUID]

    static func decode(_ row: PostgresRow) throws -> WebhookData.Item {
        try row.decode { (try $0.next(), Account.shape.json(try Account(&$0))) }
    }
}
