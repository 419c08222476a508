/// The identifier of a scheduled timer, for ``TimerWheel/cancel(_:)``. Cancelling a timer that has fired or was
/// cancelled has no effect.
package struct TimerID: Equatable, Sendable {
    fileprivate let index: UInt32
    fileprivate let generation: UInt32
}

/// A hierarchical timing wheel: scheduling and cancelling cost the same for any number of timers.
///
/// The wheel has six levels of 64 slots each. A slot of level 0 is one tick wide, a slot of level n is 64^n ticks wide.
/// A timer waits in the level where its deadline first differs from the current tick, and moves to a finer level as its
/// deadline approaches. One bit per slot says whether the slot is occupied, so that the next deadline is found without
/// a search. (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987, scheme 7.)
///
/// The wheel has no clock: its owner defines the length of a tick. ``EventLoop`` counts milliseconds.
package struct TimerWheel<Payload> {
    private static var levels: Int { 6 }
    private static var none: UInt32 { .max }
    /// The farthest deadline from now, in ticks: 63 slots of the last level, or two years of milliseconds. A later
    /// deadline is clamped to it. With one more slot the deadline could fall into the current slot and would look due.
    private static var horizon: UInt64 { 63 << (6 * UInt64(levels - 1)) }

    private struct Entry {
        var deadline: UInt64 = 0
        var generation: UInt32 = 0
        var previous: UInt32 = .max
        var next: UInt32 = .max
        /// `level * 64 + slot`, or -1 if the entry is in no list.
        var list: Int16 = -1
        var payload: Payload?
    }

    private var entries: [Entry] = []
    private var free: [UInt32] = []
    private var heads = [UInt32](repeating: .max, count: 6 * 64)
    private var occupied = [UInt64](repeating: 0, count: 6)
    private var elapsed: UInt64

    /// The number of timers in the wheel, including due timers that the caller has not yet taken.
    package private(set) var count = 0

    /// Creates an empty wheel whose time is `start`.
    package init(start: UInt64 = 0) {
        elapsed = start
    }

    /// Schedules `payload` for `deadline`, in ticks. A deadline in the past is due at the next ``advance(to:)``.
    package mutating func schedule(at deadline: UInt64, _ payload: Payload) -> TimerID {
        let index: UInt32
        if let reused = free.popLast() {
            index = reused
        } else {
            index = UInt32(entries.count)
            entries.append(Entry())
        }
        entries[Int(index)].deadline = min(max(deadline, elapsed), elapsed + Self.horizon)
        entries[Int(index)].payload = payload
        count += 1
        link(index)
        return TimerID(index: index, generation: entries[Int(index)].generation)
    }

    /// Removes a timer and returns its payload, or `nil` if it has fired or was cancelled before.
    @discardableResult
    package mutating func cancel(_ id: TimerID) -> Payload? {
        guard Int(id.index) < entries.count, entries[Int(id.index)].generation == id.generation else { return nil }
        unlink(id.index)
        return release(id.index)
    }

    /// The next tick at which to call ``advance(to:)``, or `nil` without timers. It is never later than the earliest
    /// deadline, and later than now unless that deadline is due.
    package var nextDeadline: UInt64? {
        nextSlot()?.deadline
    }

    /// Advances the time to `now` and returns the timers that are due, earliest first.
    ///
    /// The timers stay cancellable until the caller takes each with ``cancel(_:)``, so that a timer that fires can
    /// still cancel the next one.
    package mutating func advance(to now: UInt64) -> [TimerID] {
        var due: [TimerID] = []
        while let (level, slot, deadline) = nextSlot(), deadline <= now {
            elapsed = max(elapsed, deadline)
            var index = heads[level * 64 + slot]
            while index != Self.none {
                let next = entries[Int(index)].next
                unlink(index)
                if entries[Int(index)].deadline <= elapsed {
                    due.append(TimerID(index: index, generation: entries[Int(index)].generation))
                } else {
                    link(index)
                }
                index = next
            }
        }
        elapsed = max(elapsed, now)
        return due
    }

    /// The next occupied slot, and the tick at which it begins.
    private func nextSlot() -> (level: Int, slot: Int, deadline: UInt64)? {
        for level in 0..<Self.levels where occupied[level] != 0 {
            let shift = UInt64(6 * level)
            let current = Int((elapsed >> shift) & 63)
            // Rotated so that bit 0 is the current slot. The lowest set bit is then the next slot in time.
            let rotated = occupied[level] >> UInt64(current) | occupied[level] << UInt64((64 - current) & 63)
            let distance = rotated.trailingZeroBitCount
            let slot = (current + distance) & 63
            let turn = (elapsed >> shift) + UInt64(distance)
            return (level, slot, max(turn << shift, elapsed))
        }
        return nil
    }

    private mutating func link(_ index: UInt32) {
        let deadline = entries[Int(index)].deadline
        let differing = (elapsed ^ deadline) | 63
        let level = min((63 - differing.leadingZeroBitCount) / 6, Self.levels - 1)
        let slot = Int((deadline >> UInt64(6 * level)) & 63)
        let list = level * 64 + slot
        let head = heads[list]
        entries[Int(index)].list = Int16(list)
        entries[Int(index)].previous = Self.none
        entries[Int(index)].next = head
        if head != Self.none { entries[Int(head)].previous = index }
        heads[list] = index
        occupied[level] |= 1 << UInt64(slot)
    }

    private mutating func unlink(_ index: UInt32) {
        let entry = entries[Int(index)]
        guard entry.list >= 0 else { return }
        let list = Int(entry.list)
        if entry.previous != Self.none {
            entries[Int(entry.previous)].next = entry.next
        } else {
            heads[list] = entry.next
            if entry.next == Self.none { occupied[list / 64] &= ~(1 << UInt64(list % 64)) }
        }
        if entry.next != Self.none { entries[Int(entry.next)].previous = entry.previous }
        entries[Int(index)].list = -1
    }

    private mutating func release(_ index: UInt32) -> Payload? {
        let payload = entries[Int(index)].payload
        entries[Int(index)].payload = nil
        entries[Int(index)].generation &+= 1
        free.append(index)
        count -= 1
        return payload
    }
}
