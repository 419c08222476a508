import EventLoop
import Testing

@Suite("Work that waits", .timeLimit(.minutes(1)))
struct WaitingWorkTests {
    /// Pieces of work, each of which takes a whole tick.
    private final class Pieces: WaitingWork {
        private let loop: EventLoop
        private let run: () -> Void
        private var left: Int

        init(_ count: Int, on loop: EventLoop, _ run: @escaping () -> Void) {
            self.loop = loop
            self.run = run
            left = count
        }

        func runNext() -> Bool {
            left -= 1
            run()
            loop.runJobs()
            spin(until: EventLoop.milliseconds() + 5)
            return left > 0
        }
    }

    @Test("Events that arrive meanwhile are handled before the next piece; the loop does not sleep while work waits")
    func events() async throws {
        let sockets = try SocketPair()
        let (near, far) = (sockets.near.rawValue, sockets.far.rawValue)
        let journal = Journal<String>()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        try await withLoop { loop in
            try await loop.run {
                _ = try loop.register(near, interest: .read) { _ in
                    _ = receive(from: near)
                    journal.note("event")
                    if journal.entries.count == 9 { end.yield() }
                }
                let pieces = Pieces(3, on: loop) {
                    journal.note("piece")
                    Task(executorPreference: loop) { journal.note("job") }
                    try? send(1, to: far)
                }
                loop.add(pieces)
            }
            try await first(of: ends)
        }
        #expect(journal.entries == ["piece", "job", "event", "piece", "job", "event", "piece", "job", "event"])
    }

    @Test("The jobs that an event enqueues run before the next event is handled")
    func jobs() async throws {
        let sockets = try SocketPair()
        let others = try SocketPair()
        let near = [sockets.near.rawValue, others.near.rawValue]
        for far in [sockets.far.rawValue, others.far.rawValue] { try send(1, to: far) }
        let journal = Journal<String>()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        try await withLoop { loop in
            try await loop.run {
                for descriptor in near {
                    let registrations = Registrations()
                    registrations.append(
                        try loop.register(descriptor, interest: .read) { _ in
                            loop.deregister(registrations[0])
                            journal.note("event")
                            Task(executorPreference: loop) {
                                journal.note("job")
                                if journal.entries.count == 4 { end.yield() }
                            }
                        }
                    )
                }
            }
            try await first(of: ends)
        }
        #expect(journal.entries == ["event", "job", "event", "job"])
    }
}
