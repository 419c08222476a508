import FoundationEssentials
import Postgres
import Runtime
import Schemas

/// Lists accounts in the order of the transactions since which their users must log in. A user who has logged in again
/// since is no event any more.
struct ListAccountWebhooks: WebhookStatement {
    static let sql: SQL = """
        SELECT event_xid::text, event_at, \(Account.columns)
        FROM accounts AS account
        WHERE (event_xid, user_id) >= ($1::text::xid8, $2::text::bigint)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY account.event_xid, user_id
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> WebhookEvent {
        try row.decode { column in
            let xid = try column.next(String.self)
            let eventAt = try column.next(Date.self)
            let account = try Account(&column)
            return WebhookEvent(
                position: WebhookPosition(xid: xid, key: String(account.userID)),
                type: account.state == .loginRequired ? .accountLoginRequired : nil,
                happenedAt: eventAt,
                storedAt: eventAt,
                userID: account.userID,
                data: Account.shape.json(account)
            )
        }
    }
}
