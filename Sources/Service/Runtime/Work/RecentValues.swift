package import EventLoop

/// What holds for all that a server keeps for the case that PostgreSQL loses it.
package enum RecentFacts {
    /// The age from which nothing is compared with the database any more. Retention deletes nothing before, and the records by which a
    /// server knows that something was deleted (`former_devices`, `erased_users`, `requested_unlinks`) stay for a day.
    package static let maximumAge = Duration.seconds(12 * 3600)
}

/// Values of the last minutes by key, the latest of each. The older half is dropped after ``period``, or when there are very many. Without
/// further values the last ones stay, since PostgreSQL may be away for hours, but only for ``RecentFacts/maximumAge``.
package struct RecentValues<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    /// The time for which a value is kept at least, unless there are too many.
    package static var period: Duration { .seconds(300) }

    private let maximumHalf: Int
    private var current: [Key: Value] = [:]
    private var previous: [Key: Value] = [:]
    private var currentSince = MonotonicTime.now
    private var previousSince = MonotonicTime.now

    /// - Parameter maximum: The most values that are kept.
    package init(maximum: Int) {
        maximumHalf = maximum / 2
    }

    /// Stores a value in place of an earlier one.
    package mutating func store(_ value: Value, for key: Key, at now: MonotonicTime = .now) {
        update(key, from: value, at: now) { $0 = value }
    }

    /// Changes the value of a key: `initial`, unless the newer half has one. See ``all(combining:)``.
    package mutating func update(
        _ key: Key,
        from initial: @autoclosure () -> Value,
        at now: MonotonicTime = .now,
        _ change: (inout Value) -> Void
    ) {
        if now - currentSince >= Self.period || current.count >= maximumHalf {
            previous = current
            previousSince = currentSince
            current = [:]
            currentSince = now
        }
        change(&current[key, default: initial()])
    }

    package var all: [Key: Value] { all { $1 } }

    /// Returns all values.
    ///
    /// - Parameter combine: Combines the values of a key in the older and in the newer half.
    package func all(at now: MonotonicTime = .now, combining combine: (Value, Value) -> Value) -> [Key: Value] {
        func recent(_ half: [Key: Value], since start: MonotonicTime) -> [Key: Value] {
            now - start < RecentFacts.maximumAge ? half : [:]
        }
        return recent(previous, since: previousSince)
            .merging(recent(current, since: currentSince), uniquingKeysWith: combine)
    }
}
