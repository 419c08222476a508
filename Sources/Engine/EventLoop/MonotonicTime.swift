import Glibc

/// A point in time on a clock that never steps back and includes the time for which the machine was suspended
/// (`CLOCK_BOOTTIME`).
///
/// `ContinuousClock` reads the same clock, but the layout of its instants is known only at run time. Copying a
/// structure that holds one calls Swift's runtime, at a cost that is measurable per request.
package struct MonotonicTime: Comparable, Sendable {
    /// Nanoseconds since the machine started.
    private let nanoseconds: Int64

    package static var now: MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return MonotonicTime(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    private init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// Adds a duration. Saturates about 300 years away.
    package static func + (time: MonotonicTime, duration: Duration) -> MonotonicTime {
        let (seconds, attoseconds) = duration.components
        let (whole, isWholeTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isSumTooLong) = time.nanoseconds.addingReportingOverflow(whole)
        let (nanoseconds, isTooLong) = sum.addingReportingOverflow(attoseconds / 1_000_000_000)
        guard !isWholeTooLong, !isSumTooLong, !isTooLong else {
            return MonotonicTime(nanoseconds: seconds < 0 ? .min : .max)
        }
        return MonotonicTime(nanoseconds: nanoseconds)
    }

    package static func - (end: MonotonicTime, start: MonotonicTime) -> Duration {
        .nanoseconds(end.nanoseconds) - .nanoseconds(start.nanoseconds)
    }

    /// Whole milliseconds since the machine started, or 0 for a time before that.
    package var milliseconds: UInt64 { UInt64(clamping: nanoseconds) / 1_000_000 }

    /// Returns the seconds from this time to `other`, negative if `other` is earlier.
    package func seconds(to other: MonotonicTime) -> Double {
        (Double(other.nanoseconds) - Double(nanoseconds)) / 1e9
    }

    package static func < (time: MonotonicTime, other: MonotonicTime) -> Bool {
        time.nanoseconds < other.nanoseconds
    }
}
