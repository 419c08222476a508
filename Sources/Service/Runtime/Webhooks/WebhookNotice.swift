import Locking
import Synchronization

/// Tells the delivery of webhooks that there may be a new one.
package final class WebhookNotice: Sendable {
    private let observer = Locked<(@Sendable () -> Void)?>(nil)
    /// Whether the observer knows. Also true while there is none.
    private let isKnown = Atomic<Bool>(true)

    package init() {}

    /// Called after the commit of what may be an event. Callable from anywhere, thousands of times a second.
    package func send() {
        guard !isKnown.load(ordering: .relaxed), !isKnown.exchange(true, ordering: .acquiringAndReleasing) else {
            return
        }
        observer.withLock { $0 }?()
    }

    /// Sets what happens when there may be a webhook. The feature that delivers them calls it, once.
    package func observe(_ observer: @escaping @Sendable () -> Void) {
        self.observer.withLock { $0 = observer }
        expect()
    }

    /// Lets the next notice call the observer. Called before webhooks are claimed.
    package func expect() {
        isKnown.store(false, ordering: .sequentiallyConsistent)
    }
}
