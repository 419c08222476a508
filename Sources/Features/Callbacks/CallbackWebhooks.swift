import FoundationEssentials
import Postgres
import Runtime
import Schemas

/// The webhooks about calls from Kakao, which ``InsertLinkCallbacks`` and ``InsertEvents`` store.
enum CallbackWebhooks {
    static let data = [
        WebhookData([.linkCallbackReceived], ReadLinkCallbackWebhooks.self),
        WebhookData([.userUnlinked, .accountEventReceived, .channelAdded, .channelBlocked], ReadEventWebhooks.self),
    ]
}

// MARK: Statements

/// Reads the link callbacks of webhooks.
///
/// `OFFSET 0` has each looked up in the index of ids, or in that of each partition (docs/scaling.md). A join may read whole tables.
struct ReadLinkCallbackWebhooks: WebhookDataStatement {
    static let sql: SQL = """
        SELECT event.id, call.*
        FROM webhook_events AS event
        CROSS JOIN LATERAL (
            SELECT \(StoredCall<LinkCallback>.columns)
            FROM link_callbacks
            WHERE id = split_part(event.subject, '/', 2)::uuid
            OFFSET 0
        ) AS call
        WHERE event.id = ANY ($1)
        """

    let events: [UUID]

    static func decode(_ row: PostgresRow) throws -> WebhookData.Item {
        try row.decode { try ($0.next(), LinkCallback.shape.json(StoredCall(&$0))) }
    }
}

/// Reads the events of webhooks, each by its id as ``ReadLinkCallbackWebhooks`` does.
struct ReadEventWebhooks: WebhookDataStatement {
    static let sql: SQL = """
        SELECT event.id, call.*
        FROM webhook_events AS event
        CROSS JOIN LATERAL (
            SELECT \(StoredCall<KakaoEvent>.columns)
            FROM events
            WHERE id = split_part(event.subject, '/', 2)::uuid
            OFFSET 0
        ) AS call
        WHERE event.id = ANY ($1)
        """

    let events: [UUID]

    static func decode(_ row: PostgresRow) throws -> WebhookData.Item {
        try row.decode { try ($0.next(), KakaoEvent.shape.json(StoredCall(&$0))) }
    }
}
