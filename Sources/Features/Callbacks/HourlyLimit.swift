import Locking

/// A limit of how often something happens in an hour.
final class HourlyLimit: Sendable {
    private struct State {
        var begin: ContinuousClock.Instant?
        var count = 0
    }

    private let limit: Int
    private let state = Locked(State())

    /// - Parameter limit: The number of times in an hour, which begins with the first.
    init(_ limit: Int) {
        self.limit = limit
    }

    /// Returns whether it may happen once more, and counts it.
    func allows(at now: ContinuousClock.Instant) -> Bool {
        state.withLock { state in
            if state.begin.map({ $0.duration(to: now) >= .seconds(3600) }) ?? true { state = State(begin: now) }
            guard state.count < limit else { return false }
            state.count += 1
            return true
        }
    }
}
