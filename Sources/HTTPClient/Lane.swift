/// The requests of one origin: how many are under way, and which wait for one of those to end, first come, first
/// served; and the connections that none of them needs now.
struct HostQueue {
    /// Requests that have a connection or are getting one.
    private(set) var activeCount = 0
    /// The one that was used last comes first: it is the least likely to have been closed.
    private var idle: [Connection] = []
    private var waiting: [Transfer] = []
    /// Where in `waiting` the next one stands. What is before it is done with.
    private var head = 0

    /// Nothing to remember.
    var isEmpty: Bool { activeCount == 0 && head == waiting.count && idle.isEmpty }

    /// Places taken in the line. A request that was cancelled or timed out keeps its place until its turn comes.
    var waitingCount: Int { waiting.count - head }

    /// Counts one more request under way, if there may be one more.
    mutating func enter(limit: Int) -> Bool {
        guard activeCount < limit else { return false }
        activeCount += 1
        return true
    }

    /// Puts a request at the end of the line.
    mutating func wait(_ transfer: Transfer) {
        waiting.append(transfer)
    }

    /// Counts one request less under way, and returns the request whose turn it is; that one is counted.
    mutating func leave() -> Transfer? {
        activeCount -= 1
        while head < waiting.count {
            let next = waiting[head]
            head += 1
            // Copying what is left only once it is the smaller part costs each request a constant.
            if head * 2 >= waiting.count {
                waiting.removeFirst(head)
                head = 0
            }
            if case .waiting = next.state {
                activeCount += 1
                return next
            }
        }
        return nil
    }

    /// Keeps a connection for the next request.
    mutating func keep(_ connection: Connection) {
        idle.append(connection)
    }

    /// A connection that was kept.
    mutating func takeIdle() -> Connection? {
        idle.popLast()
    }

    /// Forgets a connection that was kept.
    mutating func removeIdle(_ connection: Connection) {
        idle.removeAll { $0 === connection }
    }

    /// Empties the line and returns those who stood in it.
    mutating func removeWaiting() -> [Transfer] {
        defer { waiting.removeAll() }
        head = 0
        return waiting
    }
}
