import EventLoop
import FoundationEssentials

/// A server's right to claim the work of a queue and to carry it out, as the server knows it.
///
/// A lease is a row of `work_leases`. While the row exists, the work claimed under it belongs to this server. After the
/// lease has expired, another server may delete the row and reclaim the work in the same transaction, so that the work
/// always belongs to one server. Nothing is claimed without the row, and no request begins shortly before the lease ends. One that is
/// still in flight then may reach its receiver although the work belongs to another server.
///
/// All times are milliseconds of the loop's clock, which continues while the machine is suspended.
package struct WorkLease: Sendable {
    /// The key of the row. Each lease has a new id, because a deleted row is never restored.
    package let id: UUID
    private let intervals: WorkIntervals
    /// The time at which the latest renewal was requested. The database counts from a later time.
    private(set) var renewedAt: UInt64
    /// The time since which each renewal was in time.
    private var unbrokenSince: UInt64

    /// - Parameter start: When it was requested.
    init(requestedAt start: UInt64, _ intervals: WorkIntervals) {
        id = UUID()
        self.intervals = intervals
        renewedAt = start
        unbrokenSince = start
    }

    /// Records a successful renewal.
    ///
    /// - Parameter start: When it was requested.
    mutating func renewed(at start: UInt64) {
        if start > renewedAt + brokenAfter { unbrokenSince = start }
        renewedAt = max(renewedAt, start)
    }

    /// The time after which no request to Kakao begins, unless the lease is renewed.
    package var sendingEnd: UInt64 { renewedAt + (intervals.lease - intervals.margin).wholeMilliseconds }

    /// Returns whether a request to Kakao may begin.
    package func maySend(at now: UInt64) -> Bool { now < sendingEnd }

    /// Returns whether the work of other servers' expired leases may be reclaimed.
    ///
    /// After an outage of the database, all leases have expired, even those of running servers. Therefore a server
    /// reclaims work only after it has renewed its own lease in time for the duration of a lease. By then, every
    /// other running server has renewed its lease too.
    func mayReclaim(at now: UInt64) -> Bool {
        now >= unbrokenSince + intervals.lease.wholeMilliseconds && now <= renewedAt + brokenAfter
    }

    /// The time between two renewals after which the second is late. Other servers' renewals may then be late as well.
    private var brokenAfter: UInt64 { intervals.lease.wholeMilliseconds / 2 }
}
