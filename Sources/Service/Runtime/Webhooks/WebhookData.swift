import FoundationEssentials
import Postgres

/// How a feature writes the member `data` of its webhooks. It lists them in its `webhookData`.
///
/// The webhook of an object that changes has the object in `webhook_events.data`, as it was after the event: a row of the view that shows
/// it, as JSON, which a trigger stores. An object that never changes is read when the webhook is sent.
package struct WebhookData: Sendable {
    /// A webhook's id, and its data: a JSON object.
    package typealias Item = (event: UUID, json: [UInt8])

    /// The types of these webhooks.
    package let types: [WebhookType]
    private let read: @Sendable ([UUID], PostgresPool) async throws -> [Item]

    /// - Parameter types: The types of webhooks whose data the statement returns.
    package init<Statement: WebhookDataStatement>(_ types: [WebhookType], _: Statement.Type) {
        self.types = types
        read = { events, pool in try await pool.read(Statement(events: events)) }
    }

    /// Returns the data of webhooks of ``types``. Those whose object is gone are left out.
    package func data(of events: [UUID], _ pool: PostgresPool) async throws -> [UUID: [UInt8]] {
        Dictionary(try await read(events, pool).map { ($0.event, $0.json) }) { first, _ in first }
    }
}

/// A statement that returns the data of webhooks: a row for each of those rows of `webhook_events` whose ids are `$1`.
package protocol WebhookDataStatement: PostgresStatement where Row == WebhookData.Item {
    var events: [UUID] { get }

    init(events: [UUID])
}

extension WebhookDataStatement {
    package var parameters: [PostgresValue] { [.uuids(events)] }
}
