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
        SELECT event_xid::text, id, NULLIF(key, id::text), chat_type, hash_chat_id, template_id, args, signature, share_id,
            received_at, stored_at
        FROM link_callbacks AS callback
        WHERE (event_xid, id) >= ($1::text::xid8, $2::text::uuid)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY callback.event_xid, id
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> WebhookEvent {
        let (xid, id, resourceID, chatType, hashChatID, templateID, args, signature, shareID, receivedAt, storedAt) =
            try row.decode(
                String.self,
                UUID.self,
                String?.self,
                String.self,
                String.self,
                Int64?.self,
                [UInt8].self,
                String?.self,
                UUID?.self,
                Date.self,
                Date.self
            )
        let stored = StoredCall<LinkCallback>(
            (id, resourceID, chatType, hashChatID, templateID, args, signature, shareID, receivedAt, storedAt)
        )
        return WebhookEvent(
            position: WebhookPosition(xid: xid, key: id.lowercased),
            type: .linkCallbackReceived,
            happenedAt: receivedAt,
            storedAt: storedAt,
            data: LinkCallback.shape.json(stored)
        )
    }
}

/// Lists the events of users in the order of their transactions.
struct ListEventWebhooks: WebhookStatement {
    static let sql: SQL = """
        SELECT event_xid::text, key, id, type, user_id, referrer_type, payload, received_at, stored_at
        FROM events AS event
        WHERE (event_xid, id) >= ($1::text::xid8, $2::text::uuid)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY event.event_xid, id
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> WebhookEvent {
        let (xid, key, id, type, userID, referrerType, payload, receivedAt, storedAt) = try row.decode(
            String.self,
            String.self,
            UUID.self,
            String.self,
            Int64?.self,
            String?.self,
            [UInt8].self,
            Date.self,
            Date.self
        )
        let stored = StoredCall<KakaoEvent>(
            (key, id, type, userID, referrerType, payload, receivedAt, storedAt)
        )
        return WebhookEvent(
            position: WebhookPosition(xid: xid, key: id.lowercased),
            type: type == KakaoEvent.unlinkType ? .userUnlinked : .accountEventReceived,
            happenedAt: receivedAt,
            storedAt: storedAt,
            userID: userID,
            data: KakaoEvent.shape.json(stored)
        )
    }
}
