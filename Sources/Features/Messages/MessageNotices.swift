import EventLoop
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
    /// The source of webhooks about messages.
    let webhooks = MessageWebhooks.source()
    private let hasChange: Locked<Bool>

    init(pool: PostgresPool) {
        let signal = Signal(loop: pool.loop)
        let hasChange = Locked(false)
        self.signal = signal
        self.hasChange = hasChange
        resolving = Signal(loop: pool.loop)
        servers = ServerNotices(channel: "kakao_message_work", pool: pool) {
            hasChange.withLock { $0 = true }
            signal.send()
        }
    }

    /// Wakes this server's sender: there is something to send.
    func changed() {
        hasChange.withLock { $0 = true }
        signal.send()
    }

    /// Returns whether there was a notification since the last call.
    func drainNotifications() -> Bool {
        hasChange.withLock { hasChange in
            defer { hasChange = false }
            return hasChange
        }
    }
}
