internal import EventLoop
internal import Locking

/// Questions to somebody elsewhere, of which each is asked once at a time, however many tasks of whatever loops want its answer.
///
/// It goes on when the task that was the first to ask is cancelled: the others want the answer too.
final class SingleFlight<Key: Hashable & Sendable, Answer: Sendable>: Sendable {
    private let limit: Int
    /// Who waits for the answer to each question that is under way.
    private let waiting = Locked<[Key: [CheckedContinuation<Answer?, Never>]]>([:])

    /// Where somebody who asks comes in.
    private enum Place {
        /// Nobody has asked yet.
        case first
        /// The question is under way.
        case later
        /// Too many questions are under way.
        case none
    }

    /// - Parameter limit: How many questions may be under way.
    init(limit: Int) {
        self.limit = limit
    }

    /// The answer to a question: that of the one that is under way, or of a new one.
    ///
    /// - Parameters:
    ///   - loop: Where a new question is asked.
    ///   - ask: Asks. It looks first whether the answer is known by now, and has noted it when it returns.
    /// - Returns: `nil` when too many questions are under way.
    func answer(
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
