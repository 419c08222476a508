import EventLoop
import Testing

@Suite("Monotonic time")
struct MonotonicTimeTests {
    @Test("Time advances, and times and durations can be added and subtracted")
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

    @Test("A time that is too far away saturates", arguments: [Int64.max, 9_223_372_036])
    func saturation(seconds: Int64) {
        let distance = Duration.seconds(seconds)
        let now = MonotonicTime.now
        #expect(now + distance + distance == now + .seconds(Int64.max))
        #expect(now + distance - (now + distance) == .zero)
        #expect(now + (.zero - distance) < now)
        #expect((now + (.zero - distance)).milliseconds == 0)
        #expect(now + (.zero - distance) + (.zero - distance) == now + .seconds(Int64.min))
    }

    @Test("Milliseconds match the clock of the loops")
    func milliseconds() {
        let before = EventLoop.milliseconds()
        let between = MonotonicTime.now.milliseconds
        #expect((before...EventLoop.milliseconds()).contains(between))
    }
}
