/// How many requests may begin now, so that there are no more than so many in any second: a token bucket without a clock.
struct RateLimit {
    private let perSecond: Double
    private var tokens: Double
    /// In milliseconds.
    private var last: UInt64

    /// - Parameter perSecond: Requests in a second; a burst is as large as a tenth of that, and at least one.
    init(perSecond: Int, now: UInt64) {
        self.perSecond = Double(perSecond)
        tokens = max(1, Double(perSecond) / 10)
        last = now
    }

    /// The requests that may begin at `now`, a monotonic time in milliseconds.
    mutating func available(at now: UInt64) -> Int {
        tokens = min(tokens + Double(now - min(last, now)) / 1000 * perSecond, max(1, perSecond / 10))
        last = max(last, now)
        return Int(tokens)
    }

    /// So many have begun.
    mutating func take(_ count: Int) {
        tokens -= Double(count)
    }

    /// The time until another request may begin.
    var wait: Duration {
        .milliseconds(Int(max(1, ((1 - tokens) / perSecond * 1000).rounded(.up))))
    }
}
