import EventLoop

/// The calls to Kakao of the last minutes: their number, how many failed, and how long they took.
package struct RecentCalls: Sendable {
    /// The number of minutes that ``totals(at:)`` covers, the current one included.
    package static let minutes: UInt64 = 5

    /// Some calls together.
    package struct Totals: Sendable, Equatable {
        package var calls: Int64 = 0
        /// The calls that Kakao did not answer, or answered with an error that is not due to the request.
        package var failed: Int64 = 0
        /// The time that all calls took together, in milliseconds.
        package var milliseconds: Int64 = 0

        /// The time that a call took on average, in milliseconds; `nil` without calls.
        package var meanMilliseconds: Int64? { calls > 0 ? milliseconds / calls : nil }
    }

    /// By minute, modulo their number.
    private var byMinute = [(minute: UInt64, totals: Totals)](repeating: (0, Totals()), count: Int(minutes))

    init() {}

    /// Adds a call that has ended.
    ///
    /// - Parameter now: The clock of the loops, in milliseconds.
    mutating func add(_ duration: Duration, hasFailed: Bool, at now: UInt64) {
        let minute = now / 60_000
        let index = Int(minute % Self.minutes)
        if byMinute[index].minute != minute { byMinute[index] = (minute, Totals()) }
        byMinute[index].totals.calls += 1
        if hasFailed { byMinute[index].totals.failed += 1 }
        byMinute[index].totals.milliseconds += Int64(duration.wholeMilliseconds)
    }

    /// Returns the calls of the current minute and of those before it.
    func totals(at now: UInt64) -> Totals {
        let minute = now / 60_000
        return byMinute.reduce(into: Totals()) { sum, own in
            guard own.minute + Self.minutes > minute else { return }
            sum.calls += own.totals.calls
            sum.failed += own.totals.failed
            sum.milliseconds += own.totals.milliseconds
        }
    }
}
