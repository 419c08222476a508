/// Durations on the clock of an event loop, counted by size without a lock: each loop has counts of its own, and a
/// reader adds them up.
package struct DurationCounts: Sendable, Equatable {
    /// The upper bounds of the counts, in milliseconds. Kakao waits 3 s for a response.
    package static let upperBounds: [UInt64] = [5, 25, 100, 500, 3000]

    /// The number of durations up to each bound and above the one before; the last number is that of durations above
    /// all bounds.
    package private(set) var counts = [Int](repeating: 0, count: upperBounds.count + 1)
    /// The sum of the durations in milliseconds.
    package private(set) var sum: UInt64 = 0

    package init() {}

    /// Counts a duration.
    package mutating func record(milliseconds: UInt64) {
        var index = 0
        while index < Self.upperBounds.count, milliseconds > Self.upperBounds[index] { index += 1 }
        counts[index] += 1
        sum += milliseconds
    }

    /// Adds the durations that another loop has counted.
    package static func += (total: inout DurationCounts, other: DurationCounts) {
        for index in total.counts.indices { total.counts[index] += other.counts[index] }
        total.sum += other.sum
    }
}
