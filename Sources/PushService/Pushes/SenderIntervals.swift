/// The intervals by which pushes are delivered. A server uses the defaults; tests shorten them.
package struct SenderIntervals: Sendable {
    /// How long a lease lasts unless it is renewed. Longer than a call to Kakao may take, short enough for another server to take over
    /// within seconds.
    package var lease = Duration.seconds(20)
    /// How long before the end of its lease a server stops sending: what it has begun is to be answered within the lease.
    package var margin = Duration.seconds(5)
    /// How often a server renews its lease and reconciles its batches with the database.
    package var renewal = Duration.seconds(5)
    /// How often a server with pushes to send looks for leases that have ended.
    package var takeOver = Duration.seconds(2)
    /// The first delay after a failed attempt to send a batch, doubled for each further one; also the delay between two attempts to store a
    /// result.
    package var retry = Duration.seconds(1)
    /// How long the sender pauses when Kakao's quota is exhausted, doubled up to sixty times as long.
    package var quotaWait = Duration.seconds(60)
    /// How long the sender may fail to work through its pushes before it logs a warning.
    package var stall = Duration.seconds(60)

    /// The intervals of production.
    package init() {}

    /// The intervals of production, all scaled so that a lease lasts for `lease`.
    package init(lease: Duration) {
        let production = SenderIntervals()
        func scaled(_ interval: Duration) -> Duration { interval * (lease / production.lease) }
        self.lease = lease
        margin = scaled(production.margin)
        renewal = scaled(production.renewal)
        takeOver = scaled(production.takeOver)
        retry = scaled(production.retry)
        quotaWait = scaled(production.quotaWait)
        stall = scaled(production.stall)
    }
}
