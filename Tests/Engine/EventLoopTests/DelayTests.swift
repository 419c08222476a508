import Testing

@testable import EventLoop

/// The counts of durations, and the delay of a loop.
@Suite("Delays", .timeLimit(.minutes(1)))
struct DelayTests {
    @Test("A duration belongs to the first bound that it does not exceed")
    func bounds() {
        var durations = DurationCounts()
        for milliseconds in [0, 5, 6, 25, 26, 100, 500, 501, 3000, 3001, 1_000_000] as [UInt64] {
            durations.record(milliseconds: milliseconds)
        }
        #expect(durations.counts == [2, 2, 2, 1, 2, 2])
        #expect(durations.sum == 1_007_164)
        var total = durations
        total += durations
        #expect(total.counts == durations.counts.map { 2 * $0 } && total.sum == 2 * durations.sum)
    }

    @Test("The longest delay is remembered for half a minute to a minute")
    func periods() {
        var delay = LoopDelay()
        delay.record(7, at: 1_000_000)
        delay.record(3, at: 1_000_001)
        #expect(delay.longest(at: 1_000_002) == 7)
        #expect(delay.longest(at: 1_029_999) == 7)
        delay.record(4, at: 1_030_000)
        #expect(delay.longest(at: 1_030_001) == 7)
        delay.record(1, at: 1_060_000)
        #expect(delay.longest(at: 1_060_001) == 4)
        #expect(delay.longest(at: 1_200_000) == 0)
    }

    @Test("A loop that a handler blocks has a delay, and one that sleeps has none")
    func blocked() async throws {
        try await withLoop { loop in
            try await loop.run { spin(until: EventLoop.milliseconds() + 50) }
            let delay = await loop.result { loop.longestDelay }
            #expect((50...10_000).contains(delay))
        }
        try await withLoop { loop in
            let start = EventLoop.milliseconds()
            try await loop.sleep(for: .milliseconds(100))
            #expect(await loop.result { loop.longestDelay } < EventLoop.milliseconds() - start)
        }
    }
}
