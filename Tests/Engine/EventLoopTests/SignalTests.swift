import Dispatch
import EventLoop
import Locking
import Testing

@Suite("Signal", .timeLimit(.minutes(1)))
struct SignalTests {
    /// A limit so long that only a signal ends the wait.
    private let anHour = Duration.seconds(3600)

    @Test("A signal ends the wait of the waiting task")
    func signal() async throws {
        try await withLoop { loop in
            let signal = Signal(loop: loop)
            let waiter = Task(executorPreference: loop) { await signal.wait(atMost: anHour) }
            try await loop.turn()
            signal.send()
            try await waiter.outcome
        }
    }

    @Test("Signals sent while no task waits are kept for the next wait, as one signal")
    func kept() async throws {
        try await withLoop { loop in
            let signal = Signal(loop: loop)
            let journal = Journal<String>()
            for _ in 0..<3 { signal.send() }
            let waiter = Task(executorPreference: loop) {
                await signal.wait(atMost: anHour)
                journal.note("first")
                await signal.wait(atMost: anHour)
                journal.note("second")
            }
            for _ in 0..<5 { try await loop.turn() }
            #expect(journal.entries == ["first"])
            signal.send()
            try await waiter.outcome
            #expect(journal.entries == ["first", "second"])
        }
    }

    @Test("A wait without a signal ends at its limit, and a signal can be scheduled")
    func limits() async throws {
        try await withLoop { loop in
            let signal = Signal(loop: loop)
            for _ in 0..<3 { await signal.wait(atMost: .milliseconds(1)) }
            signal.send(after: .milliseconds(2))
            await signal.wait(atMost: anHour)
        }
    }

    @Test("A wait ends when its task is cancelled, before or during the wait")
    func cancelled() async throws {
        try await withLoop { loop in
            let signal = Signal(loop: loop)
            let early = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                await signal.wait(atMost: anHour)
            }
            try await early.outcome
            let late = Task { await signal.wait(atMost: anHour) }
            try await loop.turn()
            late.cancel()
            try await late.outcome
        }
    }

    @Test("No work from four threads is lost, whether the task is waiting or checking")
    func noneLost() async throws {
        try await withLoop { loop in
            let signal = Signal(loop: loop)
            let work = Work()
            let worker = Task(executorPreference: loop) {
                var found = 0
                while found < 4 * 2000 {
                    await signal.wait(atMost: anHour)
                    found += work.take()
                }
                return found
            }
            EventLoop.blocking.async {
                DispatchQueue.concurrentPerform(iterations: 4) { _ in
                    for _ in 0..<2000 {
                        work.leave()
                        signal.send()
                    }
                }
            }
            let found = try await worker.outcome
            #expect(found == 4 * 2000)
        }
    }
}

/// The number of pending units of work.
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
