import Testing

@testable import Postgres

/// Sequences of results that libpq may report in pipeline mode.
@Suite struct AnswerQueueTests {
    private typealias Queue = AnswerQueue<String, Int>
    private let error = PostgresError(.server, sqlState: "22012")

    private func over(_ answers: (String, Outcome<Int>)...) -> Queue.Action {
        .deliver(answers.map { Queue.Answer(command: $0.0, outcome: $0.1) })
    }

    @Test("A command has its result at the terminating NULL, and is finished and committed at the sync of its group")
    func oneCommand() {
        var queue = Queue()
        queue.sent("a", at: 0)
        queue.sentSync(at: 0)
        #expect(queue.received(.rows(1), at: 1) == .wait)
        #expect(queue.receivedEnd(at: 1) == .wait)
        #expect(!queue.isEmpty)
        #expect(queue.commandCount == 1)
        #expect(queue.receivedSync(at: 1) == over(("a", .rows(1))))
        #expect(queue.commandCount == 0)
        #expect(queue.isEmpty)
    }

    @Test("Commands after a failed one are aborted up to the sync, and those after the sync are not")
    func abortedGroup() {
        var queue = Queue()
        for command in ["a", "b"] { queue.sent(command, at: 0) }
        queue.sentSync(at: 0)
        queue.sent("c", at: 0)
        queue.sentSync(at: 0)
        #expect(queue.received(.failed(error), at: 1) == .wait)
        #expect(queue.receivedEnd(at: 1) == .wait)
        #expect(queue.received(.aborted, at: 1) == .wait)
        #expect(queue.receivedEnd(at: 1) == .wait)
        #expect(queue.receivedSync(at: 1) == over(("a", .failed(error)), ("b", .aborted)))
        #expect(queue.received(.rows(3), at: 1) == .wait)
        #expect(queue.receivedEnd(at: 1) == .wait)
        #expect(queue.receivedSync(at: 1) == over(("c", .rows(3))))
        #expect(queue.isEmpty)
    }

    @Test("A failed commit fails what has succeeded in its group, and nothing after it")
    func failedCommit() {
        var queue = Queue()
        for command in ["a", "b"] { queue.sent(command, at: 0) }
        queue.sentSync(at: 0)
        queue.sent("c", at: 0)
        queue.sentSync(at: 0)
        for row in 1...2 {
            #expect(queue.received(.rows(row), at: 1) == .wait)
            #expect(queue.receivedEnd(at: 1) == .wait)
        }
        #expect(queue.received(.failed(error), at: 1) == .wait)
        #expect(queue.receivedEnd(at: 1) == .wait)
        #expect(queue.receivedSync(at: 1) == over(("a", .failed(error)), ("b", .failed(error))))
        #expect(queue.received(.rows(3), at: 1) == .wait)
        #expect(queue.receivedEnd(at: 1) == .wait)
        #expect(queue.receivedSync(at: 1) == over(("c", .rows(3))))
        #expect(queue.isEmpty)
    }

    @Test("A connection that is lost before the sync, or in place of it, is reported as lost, with the server's reason")
    func lost() {
        for reason in [nil, PostgresError(.connectionLost, sqlState: "57P01")] {
            var queue = Queue()
            queue.sent("a", at: 0)
            queue.sentSync(at: 0)
            _ = queue.received(.rows(1), at: 1)
            _ = queue.receivedEnd(at: 1)
            if let reason {
                #expect(queue.received(.failed(reason), at: 1) == .wait)
                #expect(queue.receivedEnd(at: 1) == .wait)
            }
            let ofLibpq = PostgresError(.connectionLost, detail: "server closed the connection unexpectedly")
            #expect(queue.received(.failed(ofLibpq), at: 1) == .lost(reason ?? ofLibpq))
            #expect(queue.drain() == ["a"])
        }
    }

    @Test("A script's outcome is its first failure, or else its last result")
    func scripts() {
        var queue = Queue()
        queue.sent("a", at: 0)
        #expect(queue.received(.rows(1), at: 1) == .wait)
        #expect(queue.received(.rows(2), at: 1) == .wait)
        #expect(queue.receivedEnd(at: 1) == over(("a", .rows(2))))
        queue.sent("b", at: 2)
        #expect(queue.received(.rows(1), at: 3) == .wait)
        #expect(queue.received(.failed(error), at: 3) == .wait)
        #expect(queue.received(.rows(9), at: 3) == .wait)
        #expect(queue.receivedEnd(at: 3) == over(("b", .failed(error))))
    }

    @Test("An unexpected or out-of-order result is reported as desynchronized")
    func outOfOrder() {
        var queue = Queue()
        #expect(queue.received(.rows(1), at: 0) == .desynchronized)
        #expect(queue.receivedEnd(at: 0) == .desynchronized)
        #expect(queue.receivedSync(at: 0) == .desynchronized)
        queue.sent("a", at: 0)
        queue.sentSync(at: 0)
        #expect(queue.receivedSync(at: 0) == .desynchronized)
        #expect(queue.receivedEnd(at: 0) == .desynchronized)
    }

    @Test("The waiting time starts at a command's turn, not when it was sent")
    func waitingSince() {
        var queue = Queue()
        queue.sent("a", at: 10)
        queue.sent("b", at: 20)
        #expect(queue.waitingSince == 10)
        _ = queue.received(.rows(1), at: 50)
        _ = queue.receivedEnd(at: 50)
        #expect(queue.waitingSince == 50)
        #expect(queue.first == "b")
    }

    @Test("A lost connection returns its unfinished commands, oldest first")
    func drain() {
        var queue = Queue()
        queue.sent("a", at: 0)
        queue.sentSync(at: 0)
        queue.sent("b", at: 0)
        _ = queue.received(.rows(1), at: 1)
        _ = queue.receivedEnd(at: 1)
        // `a` has its result, but may not be committed.
        #expect(queue.drain() == ["a", "b"])
        #expect(queue.isEmpty)
        #expect(queue.commandCount == 0)
    }
}
