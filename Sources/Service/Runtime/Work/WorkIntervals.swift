/// The intervals by which the work of a queue is carried out. A server uses the defaults; tests shorten them.
package struct WorkIntervals: Sendable {
    /// The duration of a lease unless it is renewed. Longer than a call to Kakao may take, but short enough for another
    /// server to reclaim its work within seconds.
    package var lease = Duration.seconds(20)
    /// The time before the end of its lease at which a server begins no more requests, so that none begins after the lease.
    /// A response may arrive later; its result has no effect if the work was reclaimed.
    package var margin = Duration.seconds(5)
    /// The interval at which a server renews its lease and reconciles its work with the database.
    package var renewal = Duration.seconds(5)
    /// The interval at which a server with work looks for expired leases.
    package var reclaim = Duration.seconds(2)
    /// The first delay after a failed attempt, doubled for each further one; also the delay between two
    /// attempts to store a result.
    package var retry = Duration.seconds(1)
    /// The first pause when Kakao's quota is exhausted, doubled for each further one up to 60 times as
    /// long.
    package var quotaWait = Duration.seconds(60)
    /// The time without progress after which a warning is logged.
    package var stall = Duration.seconds(60)

    /// Creates the intervals of production.
    package init() {}

    /// Creates the intervals of production, all scaled so that a lease lasts for `lease`.
    package init(lease: Duration) {
        let production = WorkIntervals()
        func scaled(_ interval: Duration) -> Duration { interval * (lease / production.lease) }
        self.lease = lease
        margin = scaled(production.margin)
        renewal = scaled(production.renewal)
        reclaim = scaled(production.reclaim)
        retry = scaled(production.retry)
        quotaWait = scaled(production.quotaWait)
        stall = scaled(production.stall)
    }
}
