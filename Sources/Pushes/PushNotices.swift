internal import EventLoop
internal import FoundationEssentials
internal import Locking
internal import Logging
internal import Postgres
internal import ServiceKit

/// The notifications that there is work on pushes, within a server and, by `NOTIFY`, from one server to the others.
/// They make frequent polling unnecessary.
final class PushNotices: Sendable {
    /// The PostgreSQL channel of the notifications between servers.
    static let channel = "kakao_push_work"

    /// The changes since the sender last took them.
    struct Changes: Sendable {
        /// Whether a push was stored or has changed.
        var hasChange = false
        /// The pushes that have new batches, and whether these are the last.
        var batches: [UUID: Bool] = [:]
    }

    /// The minimum time between two notifications to other servers. Each `NOTIFY` briefly blocks the commits of all
    /// other transactions that notify.
    private static let interval = Duration.milliseconds(20)

    /// Wakes the sender.
    let sending: Signal
    /// Wakes the preparer.
    let preparing: Signal
    private let pool: PostgresPool
    /// The payload that identifies this server's own notifications.
    private let serverID = UUID().lowercased
    private let changes = Locked(Changes())
    /// Wakes the worker that notifies other servers.
    private let notifying: Signal

    init(sending: EventLoop, preparing: EventLoop, pool: PostgresPool) {
        self.sending = Signal(loop: sending)
        self.preparing = Signal(loop: preparing)
        notifying = Signal(loop: pool.loop)
        self.pool = pool
    }

    /// Notifies all servers that a push was stored or has changed, after the commit. Callable from anywhere.
    func pushChanged() {
        notifyWorkers()
        notifying.send()
    }

    /// Handles a notification of another server, or a new connection to PostgreSQL, before which notifications may have
    /// been missed.
    func receive(_ event: PostgresListener.Event) {
        if case .notification(let channel, let serverID) = event,
            channel != Self.channel || serverID == self.serverID
        {
            return
        }
        notifyWorkers()
    }

    /// Wakes the sender and the preparer of this server.
    private func notifyWorkers() {
        changes.withLock { $0.hasChange = true }
        sending.send()
        preparing.send()
    }

    /// Returns the worker that notifies other servers. A server that misses a notification polls within seconds.
    func worker(logger: Logger) -> BackgroundWorker {
        BackgroundWorker(
            "notify-servers",
            on: pool.loop,
            every: .seconds(3600),
            firstAfter: .seconds(3600),
            signal: notifying,
            pace: nil,
            failure: "Other servers not notified",
            logger: logger
        ) { [pool, serverID] worker in
            _ = try? await pool.write(SendPushNotice(serverID: serverID))
            try? await worker.loop.sleep(for: Self.interval)
            return nil
        }
    }

    /// Notifies this server's sender that a push has new batches. Callable from anywhere.
    func batchesAdded(to id: UUID, areLast: Bool) {
        changes.withLock { $0.batches[id] = areLast }
        sending.send()
    }

    /// Returns the changes since the last call.
    func takeChanges() -> Changes {
        changes.withLock { changes in
            defer { changes = Changes() }
            return changes
        }
    }
}

// MARK: Statements

/// Notifies the other servers that there is something to do.
struct SendPushNotice: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_notify($1, $2)
        """

    /// The server that sends the notification. A server ignores its own notifications.
    let serverID: String

    var parameters: [PostgresValue] { [.text(PushNotices.channel), .text(serverID)] }
}
