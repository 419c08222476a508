import EventLoop
import Locking
import Logging
import ServiceTesting
import TestSupport
import Testing

@testable import Runtime

/// Repeated work in the background.
@Suite(.timeLimit(.minutes(5))) struct BackgroundWorkerTests {
    @Test("However often a worker is woken, it keeps at most one slot, and others look for work in their turn")
    func slots() {
        let pace = PollPace()
        var busy: UInt64?
        for _ in 0..<1000 { _ = pace.reserve(after: .seconds(3), in: &busy) }
        var other: UInt64?
        #expect(pace.reserve(after: .seconds(3), in: &other) <= .seconds(9))
        #expect(busy != other)
        var third: UInt64?
        _ = pace.reserve(after: .seconds(3), in: &third)
        #expect(Set([busy, other, third]).count == 3)
    }

    @Test("A step repeats at once, after a signal and after a failure, and once more after the stop")
    func steps() async throws {
        struct Failure: Error {}
        let loop = try Shared.loop
        let (signal, steps) = (Signal(loop: loop), Locked(0))
        let worker = BackgroundWorker(
            "test",
            on: loop,
            every: .seconds(3600),
            signal: signal,
            retryAfter: .milliseconds(10),
            stepsAfterStop: true,
            pace: nil,
            failure: "Failed",
            logger: quietLogger
        ) { _ in
            switch steps.withLock({
                $0 += 1; return $0
            }) {
            case 1: return .zero
            case 2: throw Failure()
            default: return nil
            }
        }
        async let running: Void = worker.run()
        try await eventually("the failed step is repeated") { steps.withLock { $0 } == 3 }
        signal.send()
        try await eventually("the signal wakes the worker") { steps.withLock { $0 } == 4 }
        worker.stop()
        await running
        #expect(steps.withLock { $0 } == 5)
    }

    @Test("A last step that hangs is given up after a second")
    func hangingStep() async throws {
        let loop = try Shared.loop
        let worker = BackgroundWorker(
            "test",
            on: loop,
            every: .seconds(3600),
            firstAfter: .seconds(3600),
            stepsAfterStop: true,
            pace: nil,
            failure: "Failed",
            logger: quietLogger
        ) { _ in
            try await Task.sleep(for: .seconds(3600))
            return nil
        }
        worker.stop()
        await worker.run()
    }
}
