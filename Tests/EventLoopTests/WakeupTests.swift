import Dispatch
import EventLoop
import Locking
import Testing

@Suite("Wake-up", .timeLimit(.minutes(1)))
struct WakeupTests {
    /// Only a signal, and no limit, ends a wait that is this long.
    private let anHour = Duration.seconds(3600)

    @Test("A signal ends the wait of whoever waits")
    func signal() async throws {
        try await withLoop { loop in
            let wakeup = Wakeup(loop: loop)
            let waiter = Task(executorPreference: loop) { await wakeup.wait(atMost: anHour) }
            try await loop.turn()
            wakeup.signal()
            try await waiter.outcome
        }
    }

    @Test("Signals that come while nobody waits are kept for the next wait, as one")
    func kept() async throws {
        try await withLoop { loop in
            let wakeup = Wakeup(loop: loop)
            let journal = Journal<String>()
            for _ in 0..<3 { wakeup.signal() }
            let waiter = Task(executorPreference: loop) {
                await wakeup.wait(atMost: anHour)
                journal.note("first")
                await wakeup.wait(atMost: anHour)
                journal.note("second")
            }
            for _ in 0..<5 { try await loop.turn() }
            #expect(journal.entries == ["first"])
            wakeup.signal()
            try await waiter.outcome
            #expect(journal.entries == ["first", "second"])
        }
    }

    @Test("A wait ends at its limit without a signal, and a signal may be asked for in advance")
    func limits() async throws {
        try await withLoop { loop in
            let wakeup = Wakeup(loop: loop)
            for _ in 0..<3 { await wakeup.wait(atMost: .milliseconds(1)) }
            wakeup.signal(after: .milliseconds(2))
            await wakeup.wait(atMost: anHour)
        }
    }

    @Test("A wait ends when its task is cancelled, before or while it waits")
    func cancelled() async throws {
        try await withLoop { loop in
            let wakeup = Wakeup(loop: loop)
            let early = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                await wakeup.wait(atMost: anHour)
            }
            try await early.outcome
            let late = Task { await wakeup.wait(atMost: anHour) }
            try await loop.turn()
            late.cancel()
            try await late.outcome
        }
    }

    @Test("Work that four threads leave while the task looks or waits is all found")
    func noneLost() async throws {
        try await withLoop { loop in
            let wakeup = Wakeup(loop: loop)
            let work = Work()
            let worker = Task(executorPreference: loop) {
                var found = 0
                while found < 4 * 2000 {
                    await wakeup.wait(atMost: anHour)
                    found += work.take()
                }
                return found
            }
            EventLoop.blocking.async {
                DispatchQueue.concurrentPerform(iterations: 4) { _ in
                    for _ in 0..<2000 {
                        work.leave()
                        wakeup.signal()
                    }
                }
            }
            let found = try await worker.outcome
            #expect(found == 4 * 2000)
        }
    }
}

/// What is left to be done, by number.
private final class Work: Sendable {
    private let left = Locked(0)

    func leave() {
        left.withLock { $0 += 1 }
    }

    func take() -> Int {
        left.withLock { left in
            defer { left = 0 }
            return left
        }
    }
}
