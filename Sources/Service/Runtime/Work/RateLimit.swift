/// A limit on the number of requests that begin per second: a token bucket that gets the time from its caller.
package struct RateLimit {
    /// The number of requests per second.
    package let perSecond: Int
    private var tokens: Double
    /// The time of the last refill, in milliseconds.
    private var last: UInt64

    /// - Parameter perSecond: The number of requests per second. A burst is up to a tenth of it, and at least one
    ///   request.
    package init(perSecond: Int, now: UInt64) {
        self.perSecond = perSecond
        tokens = max(1, Double(perSecond) / 10)
        last = now
    }

    /// Returns the number of requests that may begin at `now`, a monotonic time in milliseconds.
    package mutating func available(at now: UInt64) -> Int {
        let perSecond = Double(perSecond)
        tokens = min(tokens + Double(now - min(last, now)) / 1000 * perSecond, max(1, perSecond / 10))
        last = max(last, now)
        return Int(tokens)
    }

    /// Records that `count` requests have begun.
    package mutating func take(_ count: Int) {
        tokens -= Double(count)
    }

    /// The time until another request may begin.
    package var wait: Duration {
        .milliseconds(Int(max(1, ((1 - tokens) / Double(perSecond) * 1000).rounded(.up))))
    }
}
