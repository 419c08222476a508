import EventLoop
import FoundationEssentials
import Locking
import Postgres
import Runtime

/// The notifications of this server and of others that there are messages to send.
final class MessageNotices: Sendable {
    /// Wakes the sender.
    let signal: Signal
    /// Wakes the worker that resolves receivers.
    let resolving: Signal
    let servers: ServerNotices
    let webhooks: WebhookNotice
    private let changes: Locked<Changes>

    /// The changes since the sender last drained them.
    struct Changes: Sendable {
        /// Whether there may be something to send.
        var hasChange = false
        /// The messages whose receivers were looked up. Some of these receivers may have failed.
        var resolved: Set<UUID> = []
    }

    init(pool: PostgresPool, webhooks: WebhookNotice) {
        let signal = Signal(loop: pool.loop)
        let changes = Locked(Changes())
        self.signal = signal
        self.changes = changes
        self.webhooks = webhooks
        resolving = Signal(loop: pool.loop)
        servers = ServerNotices(channel: "kakao_message_work", pool: pool) {
            changes.withLock { $0.hasChange = true }
            signal.send()
        }
    }

    /// Notifies this server's sender that the receivers of a message were resolved.
    func resolved(_ id: UUID) {
        changes.withLock { changes in
            changes.hasChange = true
            changes.resolved.insert(id)
        }
        signal.send()
    }

    /// Returns the changes since the last call.
    func drainChanges() -> Changes {
        changes.withLock { changes in
            defer { changes = Changes() }
            return changes
        }
    }
}
