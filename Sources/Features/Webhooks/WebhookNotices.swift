import EventLoop
import Locking
import Postgres
import Runtime

/// The notifications of this server and of others that there may be webhooks to deliver.
final class WebhookNotices: Sendable {
    /// Wakes the queue's runner.
    let signal: Signal
    let servers: ServerNotices
    private let notice: WebhookNotice
    private let changes = Locked(WebhookSchedule.Notices())

    /// - Parameter notice: Tells of events of this server.
    init(_ notice: WebhookNotice, pool: PostgresPool) {
        let signal = Signal(loop: pool.loop)
        self.signal = signal
        self.notice = notice
        // A server delivers the webhooks of its own events. The others help if there are many, so that they need not know at once.
        servers = ServerNotices(channel: "kakao_push_webhooks", pool: pool, every: .seconds(1)) { [changes] in
            changes.withLock { $0.hasChange = true }
            signal.send()
        }
        notice.observe(servers.send)
    }

    /// Makes this server look for webhooks, also of endpoints that do not accept them, and tells the others that there may be some.
    /// Callable from anywhere.
    func wake() {
        changes.withLock { $0.asksEndpoints = true }
        servers.send()
    }

    /// Notes that the settings have other endpoints.
    func endpointsChanged(_ names: [String]) {
        changes.withLock { $0.endpoints = names }
        wake()
    }

    /// Returns what has changed since the last call.
    func drain() -> WebhookSchedule.Notices {
        notice.expect()
        return changes.withLock { changes in
            defer { changes = WebhookSchedule.Notices() }
            return changes
        }
    }
}
