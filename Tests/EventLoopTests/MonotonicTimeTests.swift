import EventLoop
import Testing

@Suite("Points in time")
struct MonotonicTimeTests {
    @Test("Time goes on, and a duration leads from one point to the other")
    func difference() {
        let start = MonotonicTime.now
        let later = start + .milliseconds(1500)
        #expect(start < later)
        #expect(later - start == .milliseconds(1500))
        #expect(start - later == .milliseconds(-1500))
        #expect(start.seconds(to: later) == 1.5)
        #expect(start + .nanoseconds(1) + .nanoseconds(-1) == start)
        while MonotonicTime.now == start {}
        #expect(MonotonicTime.now > start)
    }

    @Test("What lies too far away is as far as can be", arguments: [Int64.max, 9_223_372_036])
    func saturation(seconds: Int64) {
        let distance = Duration.seconds(seconds)
        let now = MonotonicTime.now
        #expect(now + distance + distance == now + .seconds(Int64.max))
        #expect(now + distance - (now + distance) == .zero)
        #expect(now + (.zero - distance) < now)
        #expect((now + (.zero - distance)).milliseconds == 0)
        #expect(now + (.zero - distance) + (.zero - distance) == now + .seconds(Int64.min))
    }

    @Test("Its milliseconds are those of the loops")
    func milliseconds() {
        let before = EventLoop.milliseconds()
        let between = MonotonicTime.now.milliseconds
        #expect((before...EventLoop.milliseconds()).contains(between))
    }
}
