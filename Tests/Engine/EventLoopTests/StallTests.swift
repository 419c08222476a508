import EventLoop
import Glibc
import Synchronization
import Testing

/// The order after a stall: first events from before a timer's deadline, then the timer.
@Suite("Stalls", .timeLimit(.minutes(1)))
struct StallTests {
    @Test("Events of 600 descriptors that are ready before a timer's deadline are handled before the timer fires")
    func moreEventsThanOnePoll() async throws {
        let sockets = try SocketPair()
        try send(1, to: sockets.far.rawValue)
        let readable = Descriptors(copying: sockets.near.rawValue, count: 600)
        let journal = Journal<String>()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        try await withLoop { loop in
            try await loop.run {
                for descriptor in readable.all {
                    let registrations = Registrations()
                    registrations.append(
                        try loop.register(descriptor, interest: .read) { _ in
                            loop.deregister(registrations[0])
                            journal.note("event")
                        }
                    )
                }
                loop.schedule(after: .milliseconds(1)) {
                    journal.note("timer")
                    end.yield()
                }
                spin(until: EventLoop.milliseconds() + 5)
            }
            try await first(of: ends)
        }
        #expect(journal.entries.count == 601)
        #expect(journal.entries.last == "timer")
    }

    @Test(
        "600 tasks that events resume before a deadline all cancel their timeouts in time"
    )
    func moreJobsThanOneTick() async throws {
        let sockets = try SocketPair()
        try send(1, to: sockets.far.rawValue)
        let readable = Descriptors(copying: sockets.near.rawValue, count: 600)
        let journal = Journal<String>()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        try await withLoop { loop in
            try await loop.run {
                for descriptor in readable.all {
                    let registrations = Registrations()
                    let timeOut = TimeOut(loop, after: .milliseconds(1)) { journal.note("time-out") }
                    registrations.append(
                        try loop.register(descriptor, interest: .read) { _ in
                            loop.deregister(registrations[0])
                            Task(executorPreference: loop) {
                                for _ in 0..<4 { await hop(on: loop) }
                                timeOut.cancel()
                            }
                        }
                    )
                }
                loop.schedule(after: .milliseconds(1)) { end.yield() }
                spin(until: EventLoop.milliseconds() + 5)
            }
            try await first(of: ends)
        }
        #expect(journal.entries == [])
    }

    @Test("A task that keeps enqueuing jobs does not keep timers from firing")
    func endlessJobs() async throws {
        try await withLoop { loop in
            let endless = Task(executorPreference: loop) {
                while !Task.isCancelled { await hop(on: loop) }
            }
            for _ in 0..<3 { try await loop.sleep(for: .milliseconds(1)) }
            endless.cancel()
            try await endless.outcome
        }
    }

    @Test("An event that happens when a signal ends the loop's wait is handled before a timer that is already due")
    func interruptedWait() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in Interruption.current.stall() }
        var before = sigaction()
        try #require(sigaction(SIGUSR2, &action, &before) == 0)
        defer { sigaction(SIGUSR2, &before, nil) }

        try await withLoop { loop in
            let loopThread = try await loop.run { LoopThread(receiving: SIGUSR2) }
            // The first attempt succeeds unless the machine is too busy to deliver a signal within half a second.
            for _ in 0..<20 {
                let journal = Journal<String>()
                let (ends, end) = AsyncStream.makeStream(of: Void.self)
                let registration = try await loop.run {
                    let registration = try loop.register(near, interest: .read) { _ in
                        if receive(from: near) != nil { journal.note("event") }
                    }
                    Interruption.current.prepare(socket: sockets.far.rawValue, deadline: EventLoop.milliseconds() + 500)
                    loop.schedule(after: .milliseconds(500)) {
                        journal.note("timer")
                        end.yield()
                    }
                    return registration
                }
                while !loopThread.isAsleep { await Task.yield() }
                pthread_kill(loopThread.thread, SIGUSR2)
                try await first(of: ends)
                let wasInTime = Interruption.current.wasInTime
                try await loop.turn()
                try await loop.run { loop.deregister(registration) }
                guard wasInTime else { continue }
                #expect(journal.entries == ["event", "timer"])
                return
            }
            Issue.record("No signal reached the loop in time")
        }
    }
}

/// Keeps the thread busy until the loop's clock reaches `time`.
/// Blocks the thread.
func spin(until time: UInt64) {
    while EventLoop.milliseconds() < time {}
}

/// Suspends until another task of the loop resumes this one. (`Task.yield` would leave the loop.)
private func hop(on loop: EventLoop) async {
    await withCheckedContinuation { continuation in
        _ = Task(executorPreference: loop) { continuation.resume() }
    }
}

/// Copies of one descriptor, which are closed with this object.
private final class Descriptors: Sendable {
    let all: [Int32]

    init(copying descriptor: Int32, count: Int) {
        all = (0..<count).map { _ in dup(descriptor) }
    }

    deinit {
        for descriptor in all { close(descriptor) }
    }
}

/// A timeout that a task cancels.
private final class TimeOut: @unchecked Sendable {
    // Accessed on the loop only.
    private let loop: EventLoop
    private let timer: TimerID

    init(_ loop: EventLoop, after delay: Duration, _ handler: @escaping () -> Void) {
        self.loop = loop
        timer = loop.schedule(after: delay, handler)
    }

    func cancel() {
        loop.cancel(timer)
    }
}

/// The work of a signal handler that runs on the loop's thread after the kernel has ended the wait without events. As
/// when a process is stopped and continued, the socket becomes readable and the timer's deadline passes before the loop
/// reads the clock.
private final class Interruption: Sendable {
    static let current = Interruption()

    private let socket = Atomic<Int32>(-1)
    private let deadline = Atomic<UInt64>(0)
    private let happened = Atomic<Bool>(false)

    /// Whether the signal arrived before the deadline.
    var wasInTime: Bool { happened.load(ordering: .acquiring) }

    func prepare(socket: Int32, deadline: UInt64) {
        self.socket.store(socket, ordering: .relaxed)
        self.deadline.store(deadline, ordering: .relaxed)
        happened.store(false, ordering: .releasing)
    }

    /// Makes the socket readable and waits until the deadline has passed. Calls only what a signal handler may call.
    func stall() {
        let deadline = deadline.load(ordering: .relaxed)
        guard EventLoop.milliseconds() < deadline else { return }
        var byte: UInt8 = 1
        write(socket.load(ordering: .relaxed), &byte, 1)
        spin(until: deadline + 5)
        happened.store(true, ordering: .releasing)
    }
}

/// The thread of a loop. Created on that thread.
private struct LoopThread: @unchecked Sendable {
    // `pthread_t` is an address or a number, depending on the platform. Both may be passed to other threads.
    let thread = pthread_self()
    private let path: String

    /// - Parameter signal: The signal to unblock on this thread. Dispatch blocks it on its threads.
    init(receiving signal: Int32) {
        var signals = sigset_t()
        sigaddset(&signals, signal)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        var target = [CChar](repeating: 0, count: 128)
        let length = readlink("/proc/thread-self", &target, target.count)
        path =
            "/proc/" + String(decoding: target.prefix(max(0, length)).map(UInt8.init(bitPattern:)), as: UTF8.self)
            + "/stat"
    }

    /// Whether the thread is waiting in the kernel.
    var isAsleep: Bool {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return false }
        defer { close(file) }
        var text = [UInt8](repeating: 0, count: 256)
        let length = read(file, &text, text.count)
        // "TID (name) S …"
        guard let name = text.prefix(max(0, length)).lastIndex(of: UInt8(ascii: ")")), name + 2 < text.count else {
            return false
        }
        return text[name + 2] == UInt8(ascii: "S")
    }
}
