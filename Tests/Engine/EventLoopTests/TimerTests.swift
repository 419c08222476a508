import Dispatch
import EventLoop
import Testing

@Suite("Timers, sleep and hooks", .timeLimit(.minutes(1)))
struct TimerTests {
    @Test("Timers fire on the loop, once each, earliest first")
    func order() async throws {
        try await withLoop { loop in
            let journal = Journal<Int>()
            let (ends, end) = AsyncStream.makeStream(of: Bool.self)
            try await loop.run {
                // Delays count from the call that schedules them: all calls have to be in the same millisecond.
                var (start, timers) = (UInt64(0), [TimerID]())
                repeat {
                    for timer in timers { loop.cancel(timer) }
                    start = EventLoop.milliseconds()
                    timers = [30, 1, 20, 0, 10].map { delay in
                        loop.schedule(after: .milliseconds(delay)) { journal.note(delay) }
                    }
                } while EventLoop.milliseconds() != start
                loop.schedule(after: .milliseconds(50)) { end.yield(loop.isOnLoop) }
            }
            #expect(try await first(of: ends))
            #expect(journal.entries == [0, 1, 10, 20, 30])
        }
    }

    @Test("A cancelled timer does not fire, even if it is due in the same tick as the timer that cancels it")
    func cancel() async throws {
        try await withLoop { loop in
            let journal = Journal<String>()
            let (ends, end) = AsyncStream.makeStream(of: Void.self)
            try await loop.run {
                let early = loop.schedule(after: .milliseconds(1)) { journal.note("cancelled early") }
                loop.cancel(early)
                loop.cancel(early)
                let pair = TimerPair()
                // Either of them may be first.
                for mine in 0...1 {
                    pair.timers.append(
                        loop.schedule(after: .milliseconds(2)) {
                            journal.note("one of two")
                            loop.cancel(pair.timers[1 - mine])
                        }
                    )
                }
                loop.schedule(after: .milliseconds(3)) { end.yield() }
            }
            try await first(of: ends)
            #expect(journal.entries == ["one of two"])
        }
    }

    @Test("A timer that keeps rescheduling itself for now does not starve the loop")
    func again() async throws {
        try await withLoop { loop in
            let repeating = Repeating(loop: loop)
            try await loop.run { repeating.fire() }
            // Each of these needs its own tick.
            for _ in 0..<100 { try await loop.run {} }
            let count = try await loop.run {
                repeating.isOver = true
                return repeating.count
            }
            #expect(count > 0)
        }
    }

    @Test("A sleep is never shorter than its delay, however often the loop checks its timers")
    func sleepIsLongEnough() async throws {
        try await withLoop { loop in
            let repeating = Repeating(loop: loop)
            try await loop.run { repeating.fire() }
            let clock = SuspendingClock()
            for milliseconds in 0..<40 {
                let delay = Duration.milliseconds(milliseconds % 4)
                let slept = try await clock.measure { try await loop.sleep(for: delay) }
                #expect(slept >= delay)
            }
            try await loop.run { repeating.isOver = true }
        }
    }

    @Test("A timer with the longest possible delay does not block the loop")
    func never() async throws {
        try await withLoop { loop in
            try await loop.run { _ = loop.schedule(after: .seconds(Int64.max)) {} }
            try await loop.turn()
        }
    }

    @Test("A delay counts from the call, not from the start of a long tick")
    func delayInALongTick() async throws {
        try await withLoop { loop in
            let clock = SuspendingClock()
            let delay = Duration.milliseconds(20)
            let (waits, wait) = AsyncStream.makeStream(of: Duration.self)
            try await loop.run {
                let begin = clock.now
                while begin.duration(to: clock.now) < delay {}
                let asked = clock.now
                loop.schedule(after: delay) { wait.yield(asked.duration(to: clock.now)) }
            }
            #expect(try await first(of: waits) >= delay)
        }
    }

    @Test("A cancelled sleep ends at once with CancellationError, whether it has started or not")
    func sleepCancelled() async throws {
        try await withLoop { loop in
            let asleep = (0..<50).map { index in
                Task(executorPreference: index.isMultiple(of: 2) ? loop : nil) {
                    // One hour: within the test, only cancellation ends the sleep.
                    try await loop.sleep(for: .seconds(3600))
                }
            }
            for (index, task) in asleep.enumerated() {
                if index.isMultiple(of: 5) { try await loop.turn() }
                task.cancel()
            }
            for task in asleep {
                await #expect(throws: CancellationError.self) { try await task.outcome }
            }
            for executor in [nil, loop] {
                let never = Task(executorPreference: executor) {
                    withUnsafeCurrentTask { $0?.cancel() }
                    try await loop.sleep(for: .seconds(3600))
                }
                await #expect(throws: CancellationError.self) { try await never.outcome }
            }
            let late = Task { try await loop.sleep(for: .zero) }
            try await late.outcome
            late.cancel()
            try await loop.turn()
        }
    }

    @Test("A tick runs events first, then jobs, then what was left for its end")
    func tick() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        try send(1, to: sockets.far.rawValue)
        try await withLoop { loop in
            let journal = Journal<String>()
            try await loop.run {
                _ = try loop.register(near, interest: .read) { _ in
                    guard receive(from: near) != nil else { return }
                    loop.atEndOfTick { journal.note("end") }
                    Task(executorPreference: loop) { journal.note("job") }
                    journal.note("event")
                }
            }
            try await loop.turn()
            let entries = journal.entries
            let event = try #require(entries.firstIndex(of: "event"))
            #expect(entries[event...].prefix(3) == ["event", "job", "end"])
        }
    }

    @Test("What is left for the end of a tick runs once, in order; what the end leaves runs in the next tick")
    func endOfTick() async throws {
        try await withLoop { loop in
            let journal = Journal<String>()
            try await loop.run {
                loop.atEndOfTick {
                    journal.note("a")
                    loop.atEndOfTick { journal.note("c") }
                    Task(executorPreference: loop) { journal.note("next tick") }
                }
                loop.atEndOfTick { journal.note("b") }
            }
            for _ in 0..<3 { try await loop.turn() }
            #expect(journal.entries == ["a", "b", "next tick", "c"])
        }
    }

    @Test("What a timer leaves for the end of a tick runs even if nothing else wakes the loop")
    func endOfTickAfterTimers() async throws {
        try await withLoop { loop in
            let (flushes, flush) = AsyncStream.makeStream(of: Bool.self)
            _ = try await loop.run {
                loop.schedule(after: .milliseconds(5)) {
                    loop.atEndOfTick { flush.yield(true) }
                    // Nothing else happens on this loop, so what is skipped now would never run.
                    EventLoop.blocking.asyncAfter(deadline: .now() + 5) { flush.yield(false) }
                }
            }
            #expect(try await first(of: flushes))
        }
    }

    @Test("A delay is rounded up to whole milliseconds, and a negative delay is 0")
    func wholeMilliseconds() {
        #expect(Duration.zero.wholeMilliseconds == 0)
        #expect(Duration.nanoseconds(1).wholeMilliseconds == 1)
        #expect(Duration.milliseconds(1).wholeMilliseconds == 1)
        #expect(Duration.microseconds(1001).wholeMilliseconds == 2)
        #expect(Duration.seconds(3).wholeMilliseconds == 3000)
        #expect(Duration.milliseconds(-1).wholeMilliseconds == 0)
        #expect(Duration.seconds(-5).wholeMilliseconds == 0)
        #expect((Duration.seconds(1) - .nanoseconds(1)).wholeMilliseconds == 1000)
        // Even the longest delay can be added to the time without overflow.
        #expect(Duration.seconds(Int64.max).wholeMilliseconds > 1 << 40)
        #expect(Duration.seconds(Int64.max).wholeMilliseconds < 1 << 62)
    }
}

// Accessed on the loop of their test only.

private final class TimerPair {
    var timers: [TimerID] = []
}

private final class Repeating: @unchecked Sendable {
    private let loop: EventLoop
    private(set) var count = 0
    var isOver = false

    init(loop: EventLoop) {
        self.loop = loop
    }

    func fire() {
        guard !isOver else { return }
        count += 1
        loop.schedule(after: .zero) { self.fire() }
    }
}
