/// The calls to Kakao that have failed one after the other, and whether that has lasted for so long that the log is to say so. Pure.
struct FailureStreak: Sendable {
    /// What the log is to say.
    enum Change: Sendable, Equatable {
        /// All calls have failed for a while.
        case began(calls: Int)
        /// A call has succeeded after a streak that the log has mentioned.
        case ended(calls: Int)
    }

    /// The least number of calls, so that one call that a lost packet has failed is no streak.
    static let minCalls = 5
    /// The least time from the first of them to the last, in milliseconds: many calls may fail within a moment.
    static let minMilliseconds: UInt64 = 5000

    private var calls = 0
    private var start: UInt64 = 0
    /// Whether the log has mentioned it.
    private(set) var isReported = false

    /// Adds a call that has ended.
    ///
    /// - Parameters:
    ///   - hasFailed: Whether Kakao did not answer, or answered with an error that is its own.
    ///   - now: The clock of the loops, in milliseconds.
    mutating func add(hasFailed: Bool, at now: UInt64) -> Change? {
        guard hasFailed else {
            defer { self = FailureStreak() }
            return isReported ? .ended(calls: calls) : nil
        }
        if calls == 0 { start = now }
        calls += 1
        guard !isReported, calls >= Self.minCalls, now >= start + Self.minMilliseconds else { return nil }
        isReported = true
        return .began(calls: calls)
    }
}
