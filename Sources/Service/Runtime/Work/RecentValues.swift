import EventLoop

/// What holds for all that a server keeps for the case that PostgreSQL loses it.
package enum RecentFacts {
    /// The age from which nothing is compared with the database any more. Retention deletes nothing before, and the records by which a
    /// server knows that something was deleted (`former_devices`, `erased_users`, `requested_unlinks`) stay for a day.
    package static let maximumAge = Duration.seconds(12 * 3600)
    /// The time for which a record is kept at least, unless there are too many.
    package static let period = Duration.seconds(300)
}

/// A record of the last minutes, kept in two halves. When the newer half is full, or older than ``RecentFacts/period``, the older half is
/// dropped and a new one begins. While nothing is added both halves stay, since PostgreSQL may be away for hours, but no longer than
/// ``RecentFacts/maximumAge``.
package struct RecentHalves<Half: Sendable>: Sendable {
    private let empty: Half
    /// The newer half.
    package private(set) var current: Half
    private var previous: Half
    private var currentSince = MonotonicTime.now
    private var previousSince = MonotonicTime.now

    package init(empty: Half) {
        self.empty = empty
        current = empty
        previous = empty
    }

    /// Changes the newer half, or a new one if it is full or old.
    package mutating func change(isFull: Bool, at now: MonotonicTime = .now, _ body: (inout Half) -> Void) {
        if now - currentSince >= RecentFacts.period || isFull {
            previous = current
            previousSince = currentSince
            current = empty
            currentSince = now
        }
        body(&current)
    }

    /// Returns the halves that are young enough, the older one first.
    package func all(at now: MonotonicTime = .now) -> [Half] {
        [(previous, previousSince), (current, currentSince)].filter { now - $1 < RecentFacts.maximumAge }.map(\.0)
    }
}

/// Values of the last minutes by key, the latest of each: see ``RecentHalves``.
package struct RecentValues<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let maximumHalf: Int
    private var halves = RecentHalves<[Key: Value]>(empty: [:])

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
        halves.change(isFull: halves.current.count >= maximumHalf, at: now) { change(&$0[key, default: initial()]) }
    }

    package var all: [Key: Value] { all { $1 } }

    /// Returns all values.
    ///
    /// - Parameter combine: Combines the values of a key in the older and in the newer half.
    package func all(at now: MonotonicTime = .now, combining combine: (Value, Value) -> Value) -> [Key: Value] {
        halves.all(at: now).reduce(into: [:]) { $0.merge($1, uniquingKeysWith: combine) }
    }
}
