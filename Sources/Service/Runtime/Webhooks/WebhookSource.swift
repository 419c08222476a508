import FoundationEssentials
import Locking
package import Postgres
import Synchronization

/// A table whose rows become webhooks. The feature that owns it lists it in its `webhookSources`.
package final class WebhookSource: Sendable {
    /// The days for which events that only webhooks need are kept, and the failed webhooks.
    package static let retentionDays = 30

    /// The type of the keys of a table.
    package enum Key: Sendable {
        case uuid, bigint

        /// A key below those of all rows.
        package var lowest: String {
            switch self {
            case .uuid: "00000000-0000-0000-0000-000000000000"
            case .bigint: "0"
            }
        }

        /// Returns whether a text is such a key.
        package func isValid(_ text: String) -> Bool {
            switch self {
            case .uuid: UUID(uuidString: text) != nil
            case .bigint: Int64(text) != nil
            }
        }
    }

    /// The name in webhooks' ids and in the table of cursors, without `_`.
    package let name: String
    /// The types of its events.
    package let types: [WebhookType]
    package let key: Key
    private let list: @Sendable (PostgresPool, WebhookRange) async throws -> [WebhookEvent]
    private let observer = Locked<(@Sendable () -> Void)?>(nil)
    /// Whether the observer knows that there may be events. True while there is no observer.
    private let isKnown = Atomic<Bool>(true)

    /// - Parameter list: Lists the events of a range, as many as there are up to its limit.
    package init(
        _ name: String,
        _ types: [WebhookType],
        key: Key,
        list: @escaping @Sendable (PostgresPool, WebhookRange) async throws -> [WebhookEvent]
    ) {
        self.name = name
        self.types = types
        self.key = key
        self.list = list
    }

    /// Creates a source whose events one statement lists.
    package convenience init<Statement: WebhookStatement>(
        _ name: String,
        _ types: [WebhookType],
        key: Key,
        _: Statement.Type
    ) where Statement.Row == WebhookEvent {
        self.init(name, types, key: key) { pool, range in
            try await pool.read(Statement(range: range))
        }
    }

    /// Returns the events of a range.
    package func events(in range: WebhookRange, _ pool: PostgresPool) async throws -> [WebhookEvent] {
        try await list(pool, range)
    }

    /// Returns the event at a position; `nil` if it has been deleted, or has changed and is at another.
    package func event(at position: WebhookPosition, _ pool: PostgresPool) async throws -> WebhookEvent? {
        let events = try await events(in: WebhookRange(from: position, limit: 1), pool)
        return events.first.flatMap { $0.position == position ? $0 : nil }
    }

    /// Records that there may be an event, after its commit. Callable from anywhere, thousands of times a second.
    package func changed() {
        guard !isKnown.load(ordering: .relaxed), !isKnown.exchange(true, ordering: .acquiringAndReleasing) else {
            return
        }
        observer.withLock { $0 }?()
    }

    /// Sets what happens when there may be an event. The feature that delivers webhooks calls it, once.
    package func onChange(_ observer: @escaping @Sendable () -> Void) {
        self.observer.withLock { $0 = observer }
        expectChange()
    }

    /// Lets the next change call the observer. Called before the events are read. Returns whether there was a change since the last
    /// time.
    @discardableResult
    package func expectChange() -> Bool {
        isKnown.exchange(false, ordering: .acquiringAndReleasing)
    }
}
