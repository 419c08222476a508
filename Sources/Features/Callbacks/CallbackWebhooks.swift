import Endpoints
import FoundationEssentials
import Postgres
import Runtime
import Schemas

/// The webhooks about calls from Kakao.
struct CallbackWebhooks: Sendable {
    let callbacks = WebhookSource("callbacks", [.linkCallbackReceived], key: .uuid, ListLinkCallbackWebhooks.self)
    let events = WebhookSource("events", [.userUnlinked, .accountEventReceived], key: .uuid, ListEventWebhooks.self)
}

// MARK: Statements

/// Lists link callbacks in the order of their transactions.
struct ListLinkCallbackWebhooks: WebhookStatement {
    static let sql: SQL = """
        SELECT event_xid::text, \(StoredCall<LinkCallback>.columns)
        FROM link_callbacks AS callback
        WHERE (event_xid, id) >= ($1::text::xid8, $2::text::uuid)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY callback.event_xid, id
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> WebhookEvent {
        try row.decode { column in
            let xid = try column.next(String.self)
            let stored = try StoredCall<LinkCallback>(&column)
            return WebhookEvent(
                position: WebhookPosition(xid: xid, key: stored.call.id.lowercased),
                type: .linkCallbackReceived,
                happenedAt: stored.call.receivedAt,
                storedAt: stored.storedAt,
                data: LinkCallback.shape.json(stored)
            )
        }
    }
}

/// Lists the events of users in the order of their transactions.
struct ListEventWebhooks: WebhookStatement {
    static let sql: SQL = """
        SELECT event_xid::text, \(StoredCall<KakaoEvent>.columns)
        FROM events AS event
        WHERE (event_xid, id) >= ($1::text::xid8, $2::text::uuid)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY event.event_xid, id
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> WebhookEvent {
        try row.decode { column in
            let xid = try column.next(String.self)
            let stored = try StoredCall<KakaoEvent>(&column)
            let event = stored.call
            return WebhookEvent(
                position: WebhookPosition(xid: xid, key: event.id.lowercased),
                type: event.type == KakaoEvent.unlinkType ? .userUnlinked : .accountEventReceived,
                happenedAt: event.receivedAt,
                storedAt: stored.storedAt,
                userID: event.userID,
                data: KakaoEvent.shape.json(stored)
            )
        }
    }
}
