import EventLoop
import FoundationEssentials
import Locking
import Postgres
import Runtime

/// The notifications of this server and of others that there is work on pushes.
final class PushNotices: Sendable {
    /// The changes since the sender last drained them.
    struct Changes: Sendable {
        /// Whether a push was stored or has changed.
        var hasChange = false
        /// The pushes that have new batches, and whether these are the last.
        var batches: [UUID: Bool] = [:]
    }

    /// Wakes the sender.
    let sending: Signal
    /// Wakes the preparer.
    let preparing: Signal
    let servers: ServerNotices
    let webhooks: WebhookNotice
    /// Makes this server look for pushes to send and to prepare. Callable from anywhere.
    let wakeWorkers: @Sendable () -> Void
    private let changes: Locked<Changes>

    init(sending: EventLoop, preparing: EventLoop, pool: PostgresPool, webhooks: WebhookNotice) {
        let (sending, preparing) = (Signal(loop: sending), Signal(loop: preparing))
        let changes = Locked(Changes())
        let wakeWorkers = { @Sendable in
            changes.withLock { $0.hasChange = true }
            sending.send()
            preparing.send()
        }
        self.sending = sending
        self.preparing = preparing
        self.changes = changes
        self.webhooks = webhooks
        self.wakeWorkers = wakeWorkers
        servers = ServerNotices(channel: "kakao_push_work", pool: pool, onNotice: wakeWorkers)
    }

    /// Notifies all servers that a push was stored or has changed, after the commit. Callable from anywhere.
    func pushChanged() {
        servers.send()
        webhooks.send()
    }

    /// Notifies this server's sender that a push has new batches. Callable from anywhere.
    func batchesAdded(to id: UUID, areLast: Bool) {
        changes.withLock { $0.batches[id] = areLast }
        sending.send()
    }

    /// Returns the changes since the last call.
    func drainChanges() -> Changes {
        changes.withLock { changes in
            defer { changes = Changes() }
            return changes
        }
    }
}
