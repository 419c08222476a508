internal import EventLoop
internal import Locking

/// A record of whether the sender makes progress. It makes none while each of its passes fails, for example because the
/// database is unavailable.
final class SenderProgress: Sendable {
    private struct State {
        var failingSince: MonotonicTime?
        var nextWarning: MonotonicTime?
    }

    private let state = Locked(State())

    /// The time since the first failure after the last success; zero if nothing has failed since.
    var failingFor: Duration {
        state.withLock { $0.failingSince.map { MonotonicTime.now - $0 } ?? .zero }
    }

    /// Records that batches were claimed, a result was stored, or there was nothing to do.
    func recordSuccess() {
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
