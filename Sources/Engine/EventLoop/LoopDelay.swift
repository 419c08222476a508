/// The longest time within about the last minute for which a loop did not look for events: how long a request may have
/// waited before the loop noticed it.
///
/// Two periods of half a minute are kept, so that a reader that comes every 15 s sees each delay. Pure: the loop
/// provides the clock.
struct LoopDelay {
    /// The length of a period in milliseconds.
    static let period: UInt64 = 30_000

    /// The longest delays of the current period and of the one before, in milliseconds.
    private var current: UInt64 = 0
    private var previous: UInt64 = 0
    /// The end of the current period, in the loop's milliseconds.
    private var end: UInt64 = 0

    /// Records a delay that ended at `now`.
    mutating func record(_ delay: UInt64, at now: UInt64) {
        if now >= end { beginPeriod(at: now) }
        if delay > current { current = delay }
    }

    /// Returns the longest delay of the current and the previous period, in milliseconds.
    mutating func longest(at now: UInt64) -> UInt64 {
        if now >= end { beginPeriod(at: now) }
        return max(current, previous)
    }

    private mutating func beginPeriod(at now: UInt64) {
        previous = now < end + Self.period ? current : 0
        current = 0
        end = now + Self.period
    }
}
