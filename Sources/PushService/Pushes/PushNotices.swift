internal import EventLoop
internal import Locking

/// How the parts of a server that work on pushes tell each other that there is something to do, so that nobody has to ask often.
final class PushNotices: Sendable {
    /// Wakes the sender.
    let sending: Wakeup
    /// Wakes the preparer.
    let preparing: Wakeup
    private let isNew = Locked(false)

    init(sending: EventLoop, preparing: EventLoop) {
        self.sending = Wakeup(loop: sending)
        self.preparing = Wakeup(loop: preparing)
    }

    /// A push was stored, or an operator has done something about one. Callable from anywhere.
    func pushChanged() {
        batchesAdded()
        preparing.signal()
    }

    /// There are new batches. Callable from anywhere.
    func batchesAdded() {
        isNew.withLock { $0 = true }
        sending.signal()
    }

    /// Whether something has changed since this was last asked.
    func take() -> Bool {
        isNew.withLock { isNew in
            defer { isNew = false }
            return isNew
        }
    }
}
