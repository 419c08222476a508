import Dispatch
import EventLoop
import Glibc
import Testing

@Suite("Life cycle of a loop", .timeLimit(.minutes(1)))
struct LifeTests {
    @Test("A stopped loop ends, whether it sleeps, is busy or has not yet started")
    func stop() async throws {
        let asleep = try EventLoop(label: "asleep")
        asleep.start()
        try await asleep.run {}
        await asleep.end()

        let busy = try EventLoop(label: "busy")
        busy.start()
        let task = Task(executorPreference: busy) {
            while !Task.isCancelled { await Task.yield() }
        }
        try await busy.run { task.cancel() }
        try await task.outcome
        await busy.end()

        let early = try EventLoop(label: "early")
        early.stop()
        early.start()
        await early.end()
    }

    @Test("Closures posted before a loop is stopped still run")
    func postedBeforeStop() async throws {
        for _ in 0..<200 {
            let loop = try EventLoop(label: "short")
            let journal = Journal<Int>()
            for number in 0..<3 { loop.execute { journal.note(number) } }
            loop.start()
            loop.execute { journal.note(3) }
            await loop.end()
            #expect(journal.entries == [0, 1, 2, 3])
        }
    }

    @Test("A loop that stops itself in the middle of a tick finishes that tick")
    func stopItself() async throws {
        let loop = try EventLoop(label: "self")
        let journal = Journal<String>()
        loop.start()
        try await loop.run {
            loop.atEndOfTick { journal.note("end") }
            loop.stop()
            journal.note("stopped")
        }
        await loop.end()
        #expect(journal.entries.prefix(2) == ["stopped", "end"])
    }

    @Test("A loop that has ended is on no thread, and is freed with everything that it retained")
    func freed() async throws {
        weak var weakHeld: Journal<Int>?
        weak var weakLoop: EventLoop?
        do {
            let loop = try EventLoop(label: "freed")
            let inner = Journal<Int>()
            weakLoop = loop
            weakHeld = inner
            loop.start()
            try await loop.run {
                loop.schedule(after: .seconds(3600)) { inner.note(1) }
                loop.atEndOfEachTick { _ = inner.entries }
            }
            await loop.end()
            #expect(!loop.isOnLoop)
        }
        // The block that ran the loop releases it shortly after the loop has ended.
        while weakLoop != nil, !Task.isCancelled { await Task.yield() }
        #expect(weakLoop == nil)
        #expect(weakHeld == nil)
    }

    @Test("A group's loops run on separate threads and end together")
    func group() async throws {
        let group = try EventLoopGroup(count: 3)
        var threads: Set<UInt> = []
        for loop in group.loops { threads.insert(try await loop.run { UInt(pthread_self()) }) }
        #expect(threads.count == 3)
        await withCheckedContinuation { ended in
            EventLoop.blocking.async {
                group.shutdown()
                ended.resume()
            }
        }
        #expect(group.loops.allSatisfy { !$0.isOnLoop })
        #expect(EventLoopGroup.coreCount >= 1)
    }

    @Test("A write to a closed peer fails with an error and does not end the process")
    func brokenPipe() async throws {
        _ = try EventLoopGroup(count: 0)
        let near = try orphan()
        let error = #expect(throws: SystemError.self) { try send(1, to: near.rawValue) }
        #expect(error?.code == EPIPE)
        #expect(error?.description == "write: Broken pipe (errno \(EPIPE))")
    }

    @Test("A descriptor stays open until its owner releases it, and is then closed")
    func fileDescriptor() throws {
        let sockets = try SocketPair()
        let owner = FileDescriptor(owning: dup(sockets.near.rawValue))
        letGo(sockets.near)
        var byte: UInt8 = 0
        #expect(read(sockets.far.rawValue, &byte, 1) == -1)
        #expect(errno == EAGAIN)
        letGo(owner)
        #expect(read(sockets.far.rawValue, &byte, 1) == 0)
    }

    private func letGo(_ descriptor: consuming FileDescriptor) {}
}
