import EventLoop
import Glibc
import Synchronization
import Testing

/// What happens first after a stall: events that were there before a timer's deadline, then the timer.
@Suite("Stalls", .timeLimit(.minutes(1)))
struct StallTests {
    @Test("Events of 600 descriptors that are ready before a timer's deadline are handled before it fires")
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
        "Tasks that an event resumes before a deadline get as far as cancelling their time-outs, however many they are"
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

    @Test("A task that always enqueues another job does not keep timers from firing")
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

    @Test("An event that happens while a signal ends the loop's wait is handled before a timer that is due by then")
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
            // Ends at the first attempt, unless the machine is too busy to send a signal within half a second.
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

/// Keeps the thread busy until the loop's clock says `time`.
private func spin(until time: UInt64) {
    while EventLoop.milliseconds() < time {}
}

/// Lets another task of the loop resume this one. (`Task.yield` would leave the loop.)
private func hop(on loop: EventLoop) async {
    await withCheckedContinuation { continuation in
        _ = Task(executorPreference: loop) { continuation.resume() }
    }
}

/// Copies of one descriptor, closed with this.
private final class Descriptors: Sendable {
    let all: [Int32]

    init(copying descriptor: Int32, count: Int) {
        all = (0..<count).map { _ in dup(descriptor) }
    }

    deinit {
        for descriptor in all { close(descriptor) }
    }
}

/// A timer that a task cancels.
private final class TimeOut: @unchecked Sendable {
    // Touched on the loop only.
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

/// What a signal handler does on the loop's thread when the kernel has already ended the wait without events: as in a stop and
/// a continuation of the process, the socket becomes readable and the timer's deadline passes before the loop reads the clock.
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

    /// Only what a signal handler may do.
    func stall() {
        let deadline = deadline.load(ordering: .relaxed)
        guard EventLoop.milliseconds() < deadline else { return }
        var byte: UInt8 = 1
        write(socket.load(ordering: .relaxed), &byte, 1)
        spin(until: deadline + 5)
        happened.store(true, ordering: .releasing)
    }
}

/// The thread of a loop, made on it.
private struct LoopThread: @unchecked Sendable {
    // `pthread_t` is an address or a number, by platform; either may be passed on.
    let thread = pthread_self()
    private let path: String

    /// - Parameter signal: Blocked on Dispatch's threads, and so by this one until now.
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

    /// Whether it waits in the kernel.
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
