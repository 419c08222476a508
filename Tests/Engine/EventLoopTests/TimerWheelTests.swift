import EventLoop
import TestSupport
import Testing

@Suite("Timer wheel")
struct TimerWheelTests {
    /// Advances the time to `now` and takes the payloads of the due timers.
    private func fire(_ wheel: inout TimerWheel<Int>, at now: UInt64) -> [Int] {
        wheel.advance(to: now).compactMap { wheel.cancel($0) }
    }

    @Test("An empty wheel has no deadline, and no timer becomes due")
    func empty() {
        var wheel = TimerWheel<Int>(start: 5)
        #expect(wheel.nextDeadline == nil)
        #expect(fire(&wheel, at: 1_000_000).isEmpty)
        #expect(wheel.count == 0)
    }

    @Test(
        "A timer becomes due at its deadline, not one tick earlier",
        arguments: [0, 1, 62, 63, 64, 1000, 4095, 4096, 123_456_789]
    )
    func deadline(start: UInt64) {
        for delay in [0, 1, 2, 62, 63, 64, 65, 127, 128, 4095, 4096, 4097, 262_143, 262_144, 16_777_216] as [UInt64] {
            var wheel = TimerWheel<Int>(start: start)
            _ = wheel.schedule(at: start + delay, 7)
            if delay > 0 { #expect(fire(&wheel, at: start + delay - 1).isEmpty) }
            #expect(wheel.count == 1)
            #expect(fire(&wheel, at: start + delay) == [7])
            #expect(wheel.count == 0)
            #expect(wheel.nextDeadline == nil)
        }
    }

    @Test("A deadline in the past is due at once")
    func past() {
        var wheel = TimerWheel<Int>(start: 500)
        _ = wheel.schedule(at: 3, 1)
        #expect(wheel.nextDeadline == 500)
        #expect(fire(&wheel, at: 500) == [1])
    }

    @Test("Timers become due earliest first, in whatever order they were scheduled")
    func order() {
        var random = SplitMix64(seed: 1987)
        var wheel = TimerWheel<Int>(start: 77)
        // Unique deadlines, because timers with equal deadlines have no order.
        for deadline in [78, 79, 100, 127, 128, 140, 200, 4095, 4096, 5000, 300_000].shuffled(using: &random) {
            _ = wheel.schedule(at: UInt64(deadline), deadline)
        }
        #expect(fire(&wheel, at: 1_000_000) == [78, 79, 100, 127, 128, 140, 200, 4095, 4096, 5000, 300_000])
    }

    @Test("Cancelling returns the payload; the timer never fires, and cancelling it again has no effect")
    func cancel() {
        var wheel = TimerWheel<Int>()
        let timers = [5, 5, 70, 5000].map { wheel.schedule(at: UInt64($0), $0) }
        #expect(wheel.cancel(timers[1]) == 5)
        #expect(wheel.cancel(timers[1]) == nil)
        #expect(wheel.cancel(timers[2]) == 70)
        #expect(wheel.count == 2)
        #expect(fire(&wheel, at: 100) == [5])
        #expect(wheel.cancel(timers[0]) == nil)
        #expect(wheel.cancel(timers[3]) == 5000)
        #expect(wheel.count == 0)
        #expect(wheel.nextDeadline == nil)
    }

    @Test("The identifier of a cancelled timer does not affect the timer that reuses its entry")
    func staleName() {
        var wheel = TimerWheel<Int>()
        let gone = wheel.schedule(at: 10, 1)
        #expect(wheel.cancel(gone) == 1)
        let present = wheel.schedule(at: 10, 2)
        #expect(wheel.cancel(gone) == nil)
        #expect(fire(&wheel, at: 10) == [2])
        #expect(wheel.cancel(present) == nil)
    }

    @Test("A timer that fires can still cancel another that is due at the same time")
    func cancelAnotherDue() {
        var wheel = TimerWheel<Int>()
        _ = wheel.schedule(at: 10, 10)
        let second = wheel.schedule(at: 20, 20)
        let third = wheel.schedule(at: 30, 30)
        let due = wheel.advance(to: 50)
        #expect(due.count == 3)
        #expect(wheel.nextDeadline == nil)
        #expect(wheel.cancel(due[0]) == 10)
        #expect(wheel.cancel(second) == 20)
        #expect(wheel.cancel(due[1]) == nil)
        // A timer that reuses the entry of the cancelled one is not mistaken for it.
        _ = wheel.schedule(at: 60, 60)
        #expect(wheel.cancel(due[1]) == nil)
        #expect(wheel.cancel(third) == 30)
        #expect(fire(&wheel, at: 60) == [60])
    }

    @Test("A timer that a firing timer schedules for now is due at the next advance, not at this one")
    func scheduleForNow() {
        var wheel = TimerWheel<Int>()
        _ = wheel.schedule(at: 64, 1)
        #expect(fire(&wheel, at: 64) == [1])
        _ = wheel.schedule(at: 64, 2)
        #expect(wheel.nextDeadline == 64)
        #expect(fire(&wheel, at: 64) == [2])
    }

    @Test(
        "From any start, a deadline on any level is reached exactly, in at most six steps of nextDeadline",
        arguments: [
            0, 1, 63, 64, 0xFFF, 0x1000, 0x3FFFF, 0xABCDEF, 0x3FFF_FFFF, 0x4000_0000, 0xF_FFFF_FFFF, 0x10_0000_0000,
            0x1F_FFFF_FFF0,
        ]
    )
    func everyLevel(start: UInt64) throws {
        var delays: [UInt64] = []
        for level in 0...5 as ClosedRange<UInt64> {
            let width: UInt64 = 1 << (6 * level)
            delays += [width, width + 1, width * 2 - 1, width * 31, width * 62 + width / 2]
            if level > 0 { delays.append(width - 1) }
        }
        for delay in delays {
            var wheel = TimerWheel<Int>(start: start)
            _ = wheel.schedule(at: start + delay, 1)
            var now = start
            var fired: [Int] = []
            for _ in 0..<6 where fired.isEmpty {
                let next = try #require(wheel.nextDeadline)
                try #require(next > now && next <= start + delay, "from \(start) by \(delay)")
                now = next
                fired = fire(&wheel, at: now)
            }
            #expect(fired == [1] && now == start + delay, "from \(start) by \(delay)")
        }
    }

    @Test(
        "A deadline beyond the horizon is clamped, stays in the future and becomes due once",
        arguments: [0, 1, 12_345, 0x3FFF_FFFF, 0x4000_0001, 0xF_FFFF_FFFF, 0x123_4567_89AB]
    )
    func horizon(start: UInt64) throws {
        for delay in [(1 << 36) - (1 << 30), (1 << 36) - 2, (1 << 36) - 1, 1 << 36, 1 << 40, 1 << 60] as [UInt64] {
            var wheel = TimerWheel<Int>(start: start)
            _ = wheel.schedule(at: start + delay, 1)
            let half = start + (1 << 34)
            try #require(wheel.nextDeadline.map { $0 > start } == true, "from \(start) by \(delay)")
            #expect(fire(&wheel, at: half).isEmpty)
            var now = half
            while let next = wheel.nextDeadline {
                try #require(next > now, "from \(start) by \(delay)")
                now = next
                if !fire(&wheel, at: now).isEmpty { break }
            }
            #expect(wheel.count == 0)
            // More than 2^35 milliseconds: over a year.
            #expect(now - start > 1 << 35)
        }
    }

    @Test("A slot holds timers of the current turn only, wherever the turn begins", arguments: 0..<64)
    func wrapAround(offset: UInt64) {
        var wheel = TimerWheel<Int>(start: offset)
        for delay in 1...200 as ClosedRange<UInt64> { _ = wheel.schedule(at: offset + delay, Int(delay)) }
        for delay in 1...200 as ClosedRange<UInt64> {
            #expect(wheel.nextDeadline.map { $0 > offset + delay - 1 && $0 <= offset + delay } == true)
            #expect(fire(&wheel, at: offset + delay) == [Int(delay)])
        }
        #expect(wheel.count == 0)
    }

    @Test("The wheel behaves like a sorted list", arguments: 0..<24)
    func comparedWithAList(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var now = UInt64.random(in: 0...(1 << 40), using: &random)
        var wheel = TimerWheel<Int>(start: now)
        var list: [(deadline: UInt64, id: TimerID, payload: Int)] = []
        var gone: [TimerID] = []
        for step in 0..<2000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let delay = UInt64.random(in: 0...(1 << UInt64.random(in: 0...35, using: &random)), using: &random)
                list.append((now + delay, wheel.schedule(at: now + delay, step), step))
            case 5..<7:
                guard let index = list.indices.randomElement(using: &random) else { continue }
                let timer = list.remove(at: index)
                #expect(wheel.cancel(timer.id) == timer.payload)
                gone.append(timer.id)
            case 7:
                if let id = gone.randomElement(using: &random) { #expect(wheel.cancel(id) == nil) }
            default:
                let isNear = Bool.random(using: &random)
                let hop = UInt64.random(in: 0...(1 << UInt64.random(in: 0...34, using: &random)), using: &random)
                now = isNear ? max(now, wheel.nextDeadline ?? now) : now + hop
                let due = list.filter { $0.deadline <= now }.sorted {
                    ($0.deadline, $0.payload) < ($1.deadline, $1.payload)
                }
                list.removeAll { $0.deadline <= now }
                let fired = wheel.advance(to: now).compactMap { wheel.cancel($0) }
                let deadlines = Dictionary(uniqueKeysWithValues: due.map { ($0.payload, $0.deadline) })
                #expect(fired.sorted() == due.map(\.payload).sorted())
                #expect(fired.compactMap { deadlines[$0] } == due.map(\.deadline))
                gone += due.map(\.id)
            }
            #expect(wheel.count == list.count)
            let earliest = list.map(\.deadline).min()
            let next = wheel.nextDeadline
            try #require((next == nil) == (earliest == nil))
            if let next, let earliest {
                // Never too late, and in the future unless a timer is due, so that a loop that waits for it does not
                // spin.
                try #require(next <= earliest && (next > now || earliest <= now))
            }
        }
    }
}
