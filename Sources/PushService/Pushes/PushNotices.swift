internal import EventLoop
internal import FoundationEssentials
internal import Locking
internal import Postgres

/// How those who work on pushes tell each other that there is something to do, so that nobody has to ask often: within a server, and by
/// `NOTIFY` from one server to the others.
final class PushNotices: Sendable {
    /// What servers tell each other on.
    static let channel = "kakao_push_work"

    /// What the sender has been told since it last looked.
    struct News: Sendable {
        /// A push was stored, or an operator has done something about one.
        var hasChange = false
        /// Pushes that have new batches, and whether those are the last.
        var batches: [UUID: Bool] = [:]
    }

    /// Others are told at most once in this time: each notification keeps all others that commit waiting for a moment.
    private static let interval = Duration.milliseconds(20)

    /// Wakes the sender.
    let sending: Signal
    /// Wakes the preparer.
    let preparing: Signal
    private let pool: PostgresPool
    /// This server's own notifications are told from others by it.
    private let serverID = UUID().lowercased
    private let news = Locked(News())
    /// Wakes who tells others.
    private let telling: Signal
    private let isStopping = Locked(false)

    init(sending: EventLoop, preparing: EventLoop, pool: PostgresPool) {
        self.sending = Signal(loop: sending)
        self.preparing = Signal(loop: preparing)
        telling = Signal(loop: pool.loop)
        self.pool = pool
    }

    /// A push was stored, or an operator has done something about one: so much is committed. Callable from anywhere.
    func pushChanged() {
        hear()
        telling.send()
    }

    /// Another server has said so, or may have said so unheard.
    func receive(_ event: PostgresListener.Event) {
        if case .notification(let channel, let serverID) = event,
            channel != Self.channel || serverID == self.serverID
        {
            return
        }
        hear()
    }

    private func hear() {
        news.withLock { $0.hasChange = true }
        sending.send()
        preparing.send()
    }

    /// Tells other servers, until it is stopped. Who is not told, for whatever reason, looks before long.
    func run() async {
        while true {
            await telling.wait(atMost: .seconds(3600))
            guard !isStopping.withLock({ $0 }) else { return }
            _ = try? await pool.write(SendPushNotice(serverID: serverID))
            try? await pool.loop.sleep(for: Self.interval)
        }
    }

    /// Lets ``run()`` end.
    func stop() {
        isStopping.withLock { $0 = true }
        telling.send()
    }

    /// A push has new batches. Callable from anywhere.
    func batchesAdded(to id: UUID, areLast: Bool) {
        news.withLock { $0.batches[id] = areLast }
        sending.send()
    }

    /// What has been told since this was last asked.
    func take() -> News {
        news.withLock { news in
            defer { news = News() }
            return news
        }
    }
}

// MARK: Statements

/// Notifies the other servers that there is something to do.
struct SendPushNotice: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_notify($1, $2)
        """

    /// The server that sends the notification: it ignores its own.
    let serverID: String

    var parameters: [PostgresValue] { [.text(PushNotices.channel), .text(serverID)] }
}
