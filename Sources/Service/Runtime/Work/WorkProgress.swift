import EventLoop
import Locking

/// A record of whether the work of a queue makes progress. It makes none while each of its passes fails, for example
/// because the database is unavailable.
package final class WorkProgress: Sendable {
    private struct State {
        var failingSince: MonotonicTime?
        var nextWarning: MonotonicTime?
    }

    private let state = Locked(State())

    package init() {}

    /// The time since the first failure after the last success; zero if nothing has failed since.
    package var failingFor: Duration {
        state.withLock { $0.failingSince.map { MonotonicTime.now - $0 } ?? .zero }
    }

    /// Records that work was claimed, a result was stored, or there was nothing to do.
    package func recordSuccess() {
        state.withLock { $0 = State() }
    }

    /// Records that a pass failed.
    ///
    /// - Returns: The time without progress if it is to be logged: after `delay`, and then once in each further
    ///   `delay`.
    func recordFailure(warningAfter delay: Duration) -> Duration? {
        state.withLock { state in
            let now = MonotonicTime.now
            let since = state.failingSince ?? now
            state.failingSince = since
            let nextWarning = state.nextWarning ?? since + delay
            state.nextWarning = nextWarning
            guard now >= nextWarning else { return nil }
            state.nextWarning = now + delay
            return now - since
        }
    }
}
