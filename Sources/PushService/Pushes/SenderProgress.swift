internal import EventLoop
internal import Locking

/// Whether the sender gets through its work: it does not while each of its passes fails, as when the database is unavailable.
final class SenderProgress: Sendable {
    private struct State {
        var failingSince: MonotonicTime?
        var nextWarning: MonotonicTime?
    }

    private let state = Locked(State())

    /// How long nothing has succeeded; zero unless something has failed since.
    var failingFor: Duration {
        state.withLock { $0.failingSince.map { MonotonicTime.now - $0 } ?? .zero }
    }

    /// Records that batches were claimed, a result was stored, or there was nothing to do.
    func recordSuccess() {
        state.withLock { $0 = State() }
    }

    /// Records that a pass failed. Returns for how long, if that is to be logged: after `delay`, and then once in each further `delay`.
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
