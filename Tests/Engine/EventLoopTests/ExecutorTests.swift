import Dispatch
import EventLoop
import Glibc
import Testing

@Suite("Tasks, actors and closures on a loop", .timeLimit(.minutes(1)))
struct ExecutorTests {
    @Test("A task that prefers the loop runs on its thread, before and after every suspension, like its child tasks")
    func taskPreference() async throws {
        try await withLoop { loop in
            #expect(!loop.isOnLoop)
            let task = Task(executorPreference: loop) {
                var places = [loop.isOnLoop]
                await Task.yield()
                places.append(loop.isOnLoop)
                try await loop.sleep(for: .milliseconds(1))
                places.append(loop.isOnLoop)
                async let child = loop.isOnLoop
                places.append(await child)
                let children = await withTaskGroup(of: Bool.self) { group in
                    for _ in 0..<4 { group.addTask { loop.isOnLoop } }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                places += children
                places.append(await resumedElsewhere { loop.isOnLoop })
                return places
            }
            let places = try await task.outcome
            #expect(places == Array(repeating: true, count: 9))
        }
    }

    @Test("An actor with the loop as its executor always runs on the loop, and can check that")
    func actorOnLoop() async throws {
        try await withLoop { loop in
            let counter = Counter(loop: loop)
            await withTaskGroup { group in
                for _ in 0..<4 {
                    group.addTask { for _ in 0..<100 { await counter.increment() } }
                    group.addTask(executorPreference: loop) { for _ in 0..<100 { await counter.increment() } }
                }
            }
            #expect(await counter.count == 800)
            #expect(await counter.strays == 0)
            // A callback of the loop can enter the actor synchronously.
            let count = try await loop.run { counter.assumeIsolated { $0.count } }
            #expect(count == 800)
        }
    }

    @Test("Two loops run on two threads, and a task can move between actors on both")
    func twoLoops() async throws {
        try await withLoop { here in
            try await withLoop { there in
                let near = Counter(loop: here)
                let far = Counter(loop: there)
                let task = Task(executorPreference: here) {
                    for _ in 0..<200 {
                        await near.increment()
                        await far.increment()
                    }
                    return here.isOnLoop && !there.isOnLoop
                }
                #expect(try await task.outcome)
                #expect(await near.strays == 0)
                #expect(await far.strays == 0)
                let threads = try await [here.run { UInt(pthread_self()) }, there.run { UInt(pthread_self()) }]
                #expect(threads[0] != threads[1])
            }
        }
    }

    @Test("A closure executed on the loop runs at once; closures from other threads run in the order posted")
    func order() async throws {
        try await withLoop { loop in
            let journal = Journal<Int>()
            try await loop.run {
                journal.note(1)
                loop.execute { journal.note(2) }
                journal.note(3)
            }
            #expect(journal.entries == [1, 2, 3])
            for number in 4..<5000 { loop.execute { journal.note(number) } }
            try await loop.run {}
            #expect(journal.entries == Array(1..<5000))
        }
    }

    @Test("No closure that four threads post concurrently is lost, and each thread's order is kept")
    func posts() async throws {
        let threads = 4
        let posts = 100_000
        try await withLoop { loop in
            let (ends, end) = AsyncStream.makeStream(of: [Int].self)
            let tally = Tally(count: threads)
            EventLoop.blocking.async {
                DispatchQueue.concurrentPerform(iterations: threads) { thread in
                    for number in 0..<posts {
                        loop.execute {
                            tally.take(number, from: thread)
                            if tally.sum == threads * posts { end.yield(tally.inOrder) }
                        }
                    }
                }
            }
            let inOrder = try await first(of: ends)
            #expect(inOrder == Array(repeating: posts, count: threads))
        }
    }

    @Test("Each post wakes a sleeping loop, while four threads each wait for a response before they post again")
    func wakeUps() async throws {
        try await withLoop { loop in
            let (answers, answer) = AsyncStream.makeStream(of: Int.self)
            for _ in 0..<4 {
                EventLoop.blocking.async {
                    let asked = DispatchSemaphore(value: 0)
                    var answered = 0
                    for _ in 0..<5000 {
                        loop.execute { asked.signal() }
                        guard asked.wait(timeout: .now() + 60) == .success else { break }
                        answered += 1
                    }
                    answer.yield(answered)
                }
            }
            var iterator = answers.makeAsyncIterator()
            for _ in 0..<4 { #expect(await iterator.next() == 5000) }
        }
    }

    @Test("All tasks that other threads start on the loop run")
    func tasks() async throws {
        try await withLoop { loop in
            let total = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        var sum = 0
                        for number in 0..<2000 {
                            sum += await Task(executorPreference: loop) { loop.isOnLoop ? number : -1 }.value
                        }
                        return sum
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(total == 4 * (0..<2000).reduce(0, +))
        }
    }

    @Test("Jobs that keep enqueuing jobs do not starve sockets and timers")
    func jobsDoNotStarve() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        let (happenings, happening) = AsyncStream.makeStream(of: String.self)
        try await withLoop { loop in
            let busy = Task(executorPreference: loop) {
                while !Task.isCancelled { await Task.yield() }
            }
            try await loop.run {
                _ = try loop.register(near, interest: .read) { _ in
                    if receive(from: near) != nil { happening.yield("socket") }
                }
                loop.schedule(after: .milliseconds(2)) { happening.yield("timer") }
            }
            try send(1, to: sockets.far.rawValue)
            var heard: Set<String> = []
            for await name in happenings {
                heard.insert(name)
                if heard.count == 2 { break }
            }
            #expect(heard == ["socket", "timer"])
            busy.cancel()
            try await busy.outcome
        }
    }

    /// Suspends until another thread resumes the task, then returns the result of `body`.
    private func resumedElsewhere(_ body: () -> Bool) async -> Bool {
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async { continuation.resume() }
        }
        return body()
    }
}

/// An actor that lives on a loop.
private actor Counter {
    private let loop: EventLoop
    private(set) var count = 0
    private(set) var strays = 0

    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    init(loop: EventLoop) {
        self.loop = loop
    }

    func increment() {
        count += 1
        if !loop.isOnLoop { strays += 1 }
    }
}

/// The number of values received in order from each thread. Accessed on the loop of its test only.
private final class Tally: @unchecked Sendable {
    private(set) var inOrder: [Int]
    private(set) var sum = 0

    init(count: Int) {
        inOrder = Array(repeating: 0, count: count)
    }

    func take(_ number: Int, from thread: Int) {
        if inOrder[thread] == number { inOrder[thread] += 1 }
        sum += 1
    }
}
