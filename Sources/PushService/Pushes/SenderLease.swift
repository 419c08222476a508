internal import EventLoop
internal import FoundationEssentials

/// A server's right to claim and send batches, as the server knows it.
///
/// A lease is a row of `push_leases`. While the row exists, the batches claimed under it belong to this server; a server that deletes it
/// after its end takes them over in the same transaction, so that neither can act on them as the other does. Nothing is claimed without the
/// row, and nothing is sent shortly before its end.
///
/// All times are milliseconds of the loop's clock, which includes the time for which the machine was suspended.
struct SenderLease {
    /// The row's key. Each lease has a new one: an id that has lost its row never gets it back.
    let id: UUID
    private let intervals: SenderIntervals
    /// When the latest renewal was requested; the database counts from a later moment.
    private(set) var renewedAt: UInt64
    /// Since when it has been renewed in time.
    private var unbrokenSince: UInt64

    /// - Parameter start: When it was requested.
    init(requestedAt start: UInt64, _ intervals: SenderIntervals) {
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

    /// From then on no request to Kakao begins, until the next renewal.
    var sendingEnd: UInt64 { renewedAt + (intervals.lease - intervals.margin).wholeMilliseconds }

    /// Whether a request to Kakao may begin.
    func maySend(at now: UInt64) -> Bool { now < sendingEnd }

    /// Whether other servers' leases that have ended may be taken over.
    ///
    /// After an outage of the database every lease has ended, though its server lives. So a server takes over only when it has itself renewed
    /// in time for as long as a lease lasts: every other living server has renewed its own by then.
    func mayTakeOver(at now: UInt64) -> Bool {
        now >= unbrokenSince + intervals.lease.wholeMilliseconds && now <= renewedAt + brokenAfter
    }

    /// The time without a renewal after which it is late: other servers' renewals may be late as well.
    private var brokenAfter: UInt64 { intervals.lease.wholeMilliseconds / 2 }
}
