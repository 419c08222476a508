internal import EventLoop
internal import FoundationEssentials
internal import Locking

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

    /// This server's own notifications are told from others by it.
    let serverID = UUID().lowercased
    /// Wakes the sender.
    let sending: Wakeup
    /// Wakes the preparer.
    let preparing: Wakeup
    private let news = Locked(News())

    init(sending: EventLoop, preparing: EventLoop) {
        self.sending = Wakeup(loop: sending)
        self.preparing = Wakeup(loop: preparing)
    }

    /// A push was stored, or an operator has done something about one. Callable from anywhere.
    func pushChanged() {
        news.withLock { $0.hasChange = true }
        sending.signal()
        preparing.signal()
    }

    /// A push has new batches. Callable from anywhere.
    func batchesAdded(to id: UUID, areLast: Bool) {
        news.withLock { $0.batches[id] = areLast }
        sending.signal()
    }

    /// What has been told since this was last asked.
    func take() -> News {
        news.withLock { news in
            defer { news = News() }
            return news
        }
    }
}
