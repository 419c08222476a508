import EventLoop
import Locking

/// Deduplicated asynchronous requests: concurrent callers with the same key, on any event loop, share one request and
/// its answer.
///
/// The request continues when the task that started it is cancelled, since other tasks may wait for the answer.
package final class SingleFlight<Key: Hashable & Sendable, Answer: Sendable>: Sendable {
    private let limit: Int
    /// The waiting callers of each request in flight.
    private let waiting = Locked<[Key: [CheckedContinuation<Answer?, Never>]]>([:])

    /// The place of a caller among those with the same key.
    private enum Place {
        /// No request with this key is in flight: the caller starts one.
        case first
        /// A request with this key is in flight: the caller waits for its answer.
        case later
        /// Too many requests are in flight.
        case none
    }

    /// - Parameter limit: The maximum number of requests in flight.
    package init(limit: Int) {
        self.limit = limit
    }

    /// Returns the answer of the request in flight with this key, or of a new one.
    ///
    /// - Parameters:
    ///   - loop: The event loop on which a new request runs.
    ///   - ask: Performs the request. It first checks whether the answer is known by now, and stores the answer before
    ///     it returns.
    /// - Returns: `nil` when too many requests are in flight.
    package func answer(
        to key: Key,
        on loop: EventLoop,
        ask: @escaping @Sendable () async -> Answer
    ) async -> Answer? {
        await withCheckedContinuation { continuation in
            let place: Place = waiting.withLock { waiting in
                if waiting[key] != nil {
                    waiting[key]?.append(continuation)
                    return .later
                }
                guard waiting.count < limit else { return .none }
                waiting[key] = [continuation]
                return .first
            }
            switch place {
            case .later: break
            case .none: continuation.resume(returning: nil)
            case .first:
                Task(executorPreference: loop) {
                    let answer = await ask()
                    let all = self.waiting.withLock { $0.removeValue(forKey: key) }
                    for one in all ?? [] { one.resume(returning: answer) }
                }
            }
        }
    }
}
