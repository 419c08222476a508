import Endpoints
import EventLoop
import FoundationEssentials
import Logging
import Postgres

/// The notifications that there is work to do, within a server and, by `NOTIFY`, from one server to the others. They make
/// frequent polling unnecessary.
package final class ServerNotices: Sendable {
    /// The PostgreSQL channel of the notifications between servers.
    package let channel: String
    private let pool: PostgresPool
    private let interval: Duration
    private let onNotice: @Sendable () -> Void
    /// The payload that identifies this server's own notifications.
    private let serverID = UUID().lowercased
    /// Wakes the worker that notifies other servers.
    private let notifying: Signal

    /// - Parameters:
    ///   - interval: The minimum time between two notifications to other servers. Each `NOTIFY` briefly blocks the commits of all
    ///     other transactions that notify.
    ///   - onNotice: Called for each notification of this server and of others. Callable from anywhere.
    package init(
        channel: String,
        pool: PostgresPool,
        every interval: Duration = .milliseconds(20),
        onNotice: @escaping @Sendable () -> Void
    ) {
        self.channel = channel
        self.pool = pool
        self.interval = interval
        self.onNotice = onNotice
        notifying = Signal(loop: pool.loop)
    }

    /// Notifies all servers, after the commit. Callable from anywhere.
    package func send() {
        onNotice()
        notifying.send()
    }

    /// Handles a notification of another server, or a new connection to PostgreSQL, before which notifications may have
    /// been missed.
    package func receive(_ event: PostgresListener.Event) {
        if case .notification(let channel, let serverID) = event,
            channel != self.channel || serverID == self.serverID
        {
            return
        }
        onNotice()
    }

    /// Returns the worker that notifies other servers. A server that misses a notification polls within seconds.
    package func worker(logger: Logger) -> BackgroundWorker {
        BackgroundWorker(
            "notify-servers",
            on: pool.loop,
            every: .seconds(3600),
            firstAfter: .seconds(3600),
            signal: notifying,
            pace: nil,
            failure: "Other servers not notified",
            logger: logger
        ) { [pool, channel, serverID, interval] worker in
            _ = try? await pool.write(SendNotification(channel: channel, payload: serverID))
            try? await worker.loop.sleep(for: interval)
            return nil
        }
    }
}

// MARK: Statements

/// Notifies all servers that there is something to do.
package struct SendNotification: PostgresStatement {
    package static let sql: SQL = """
        SELECT pg_notify($1, $2)
        """

    private let channel: String
    private let payload: String

    package init(channel: String, payload: String) {
        self.channel = channel
        self.payload = payload
    }

    package var parameters: [PostgresValue] { [.text(channel), .text(payload)] }
}
