import DequeModule

/// Where a request goes: the origin, the group of requests with which it shares the connections, and the way.
struct Destination: Hashable {
    let origin: Origin
    let connections: ConnectionGroup
    let avoidsProxy: Bool

    func hash(into hasher: inout Hasher) {
        hasher.combine(origin.text)
        hasher.combine(connections.number)
    }
}

/// The requests to one destination: the number in flight, the first-come, first-served queue for a connection, and the
/// idle connections.
struct HostQueue {
    /// The number of requests that have a connection or for which one is being established.
    private(set) var activeCount = 0
    /// The idle connections. The most recently used one is reused first: it is the least likely to have been closed.
    var idle: [Connection] = []
    private var waiting = Deque<Transfer>()

    /// Whether the queue has no requests and no connections.
    var isEmpty: Bool { activeCount == 0 && waiting.isEmpty && idle.isEmpty }

    /// The number of queued requests. A cancelled or timed-out request is counted until its turn comes.
    var waitingCount: Int { waiting.count }

    /// Counts one more request in flight, unless the limit is reached. Returns whether it was counted.
    mutating func enter(limit: Int) -> Bool {
        guard activeCount < limit else { return false }
        activeCount += 1
        return true
    }

    /// Appends a request to the queue.
    mutating func wait(_ transfer: Transfer) {
        waiting.append(transfer)
    }

    /// Counts one request less in flight. Returns the next waiting request, if any, and counts it as in flight.
    mutating func leave() -> Transfer? {
        activeCount -= 1
        while let next = waiting.popFirst() {
            if case .waiting = next.state {
                activeCount += 1
                return next
            }
        }
        return nil
    }

    /// Removes and returns the connections that must not be idle any longer.
    mutating func removeIdle(at now: UInt64) -> [Connection] {
        let expired = idle.filter { $0.idleUntil <= now }
        idle.removeAll { $0.idleUntil <= now }
        return expired
    }

    /// Empties the queue and returns the requests that were in it.
    mutating func removeWaiting() -> [Transfer] {
        defer { waiting = [] }
        return Array(waiting)
    }
}
