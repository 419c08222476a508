package import EventLoop

/// Values of the last minutes by key, the latest of each. The older half is dropped after ``period``, or when there are very many.
package struct RecentValues<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    /// The time for which a value is kept at least, unless there are too many.
    package static var period: Duration { .seconds(300) }

    private let maximumHalf: Int
    private var current: [Key: Value] = [:]
    private var previous: [Key: Value] = [:]
    private var currentSince = MonotonicTime.now

    /// - Parameter maximum: The most values that are kept.
    package init(maximum: Int) {
        maximumHalf = maximum / 2
    }

    /// Stores a value in place of an earlier one.
    package mutating func store(_ value: Value, for key: Key, at now: MonotonicTime = .now) {
        if now - currentSince >= Self.period || current.count >= maximumHalf {
            previous = current
            current = [:]
            currentSince = now
        }
        current[key] = value
    }

    package var all: [Key: Value] { previous.merging(current) { $1 } }
}
