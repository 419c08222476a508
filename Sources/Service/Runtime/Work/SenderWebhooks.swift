import Endpoints
import FoundationEssentials
import Postgres
import Schemas

/// The webhooks about the sender, which `record_sender` stores.
package enum SenderWebhooks {
    package static let data = [
        WebhookData([.senderStopped, .senderHalted, .senderResumed], ReadSenderWebhooks.self)
    ]
}

/// A change of the sender as a webhook shows it.
private struct SenderChange: Sendable {
    let state: String
    let reason: String?
    let by: String?
    let at: Date

    static let shape = Shape<SenderChange>(
        "SenderChange",
        [
            .member("state", .text, "`stopped`, `halted` or `resumed`.", \.state),
            .nullable("reason", .text, "Why it does not send.", \.reason),
            .nullable("by", .text, "The name of the operator key that stopped it.", \.by),
            .member("at", .time, "When.", \.at),
        ]
    )
}

// MARK: Statements

/// Reads the sender as it was after its changes.
struct ReadSenderWebhooks: WebhookDataStatement {
    static let sql: SQL = """
        SELECT webhook.id, sender.state, sender.reason, sender.by, sender.at
        FROM webhook_events AS webhook
        CROSS JOIN LATERAL jsonb_to_record(webhook.data) AS sender (state text, reason text, by text, at timestamptz)
        WHERE webhook.id = ANY ($1)
        """

    let events: [UUID]

    static func decode(_ row: PostgresRow) throws -> WebhookData.Item {
        try row.decode { column in
            let event = try column.next(UUID.self)
            let change = try SenderChange(
                state: column.next(),
                reason: column.next(),
                by: column.next(),
                at: column.next()
            )
            return (event, SenderChange.shape.json(change))
        }
    }
}
