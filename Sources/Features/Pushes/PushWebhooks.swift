import Endpoints
import FoundationEssentials
import Locking
import Postgres
import Runtime
import Schemas

/// The webhooks about pushes.
enum PushWebhooks {
    static func source(_ settings: Locked<PushSettings>) -> WebhookSource {
        WebhookSource("pushes", [.pushProposed, .pushDone, .pushHalted, .pushExpired], key: .uuid) { pool, range in
            let pushes = PushReads(pool: pool, settings: settings)
            var events: [WebhookEvent] = []
            for row in try await pool.read(ListPushWebhooks(range: range)) {
                guard let push = try await pushes.summary(row.id) else { continue }
                events.append(
                    WebhookEvent(
                        position: WebhookPosition(xid: row.xid, key: row.id.lowercased),
                        // A push that was resumed or retried since is no event any more.
                        type: WebhookType(rawValue: "push.\(push.state.rawValue)"),
                        happenedAt: row.changedAt,
                        storedAt: row.changedAt,
                        data: PushSummary.shape.json(push)
                    )
                )
            }
            return events
        }
    }
}

// MARK: Statements

/// Lists pushes in the order of the transactions that ended or halted them.
struct ListPushWebhooks: WebhookStatement {
    static let sql: SQL = """
        SELECT event_xid::text, event_at, id
        FROM pushes AS push
        WHERE (event_xid, id) >= ($1::text::xid8, $2::text::uuid)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY push.event_xid, id
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> (xid: String, changedAt: Date, id: UUID) {
        try row.decode(String.self, Date.self, UUID.self)
    }
}
