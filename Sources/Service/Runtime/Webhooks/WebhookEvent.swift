package import FoundationEssentials
package import Postgres

/// The place of an event in its source: by the transaction that made it, and among those of the transaction.
package struct WebhookPosition: Sendable, Equatable {
    /// The id of the transaction: an `xid8`, in decimal digits.
    package let xid: String
    /// The key of the event's row.
    package let key: String

    package init(xid: String, key: String) {
        self.xid = xid
        self.key = key
    }
}

/// An event that becomes a webhook.
package struct WebhookEvent: Sendable {
    package let position: WebhookPosition
    /// `nil` if the row has changed since and is no event any more.
    package let type: WebhookType?
    package let happenedAt: Date
    /// When it was stored. This is long after it happened if Kakao's call was in the journal.
    package let storedAt: Date
    /// The user that it is about; `nil` for none, or several.
    package let userID: Int64?
    /// The member `data` of the webhook: a JSON object.
    package let data: [UInt8]

    package init(
        position: WebhookPosition,
        type: WebhookType?,
        happenedAt: Date,
        storedAt: Date,
        userID: Int64? = nil,
        data: [UInt8]
    ) {
        self.position = position
        self.type = type
        self.happenedAt = happenedAt
        self.storedAt = storedAt
        self.userID = userID
        self.data = data
    }
}

/// The events of a source from a position on, in the order of their positions.
package struct WebhookRange: Sendable {
    /// The first position.
    let start: WebhookPosition
    /// The transaction at which the events end; `nil` for the oldest one that is still running. All before it have ended, so
    /// that no event can appear there later.
    let endXID: String?
    let limit: Int

    package init(from start: WebhookPosition, before endXID: String? = nil, limit: Int) {
        self.start = start
        self.endXID = endXID
        self.limit = limit
    }

    /// The parameters `$1` to `$4` of a ``WebhookStatement``.
    var parameters: [PostgresValue] {
        [.text(start.xid), .text(start.key), .text(endXID), .int64(Int64(limit))]
    }
}

/// A statement that lists the events of a source.
///
/// Its parameters are those of a ``WebhookRange``: the transaction and the key at which it begins, as texts, the transaction
/// at which it ends, or NULL, and the number of rows. It qualifies `event_xid` in its `ORDER BY`, which otherwise means the text in
/// the list of columns.
package protocol WebhookStatement: PostgresStatement {
    var range: WebhookRange { get }

    init(range: WebhookRange)
}

extension WebhookStatement {
    package var parameters: [PostgresValue] { range.parameters }
}
