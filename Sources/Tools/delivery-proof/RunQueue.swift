import Locking

/// The pending runs. A worker prefers runs with the number of servers that it has running.
final class RunQueue: Sendable {
    private let runs: Locked<[Int: [Run]]>
    private let deadline: ContinuousClock.Instant?

    /// - Parameter deadline: The time after which no run begins.
    init(_ runs: [Run], deadline: ContinuousClock.Instant? = nil) {
        // Reversed, because runs are taken from the end.
        self.runs = Locked(Dictionary(grouping: runs.reversed(), by: \.servers))
        self.deadline = deadline
    }

    /// The number of pending runs.
    var count: Int { runs.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    /// Removes and returns the next run, or `nil` if none is left or the deadline has passed.
    ///
    /// - Parameter servers: The number of servers that the worker has running.
    func next(servers: Int) -> Run? {
        if let deadline, ContinuousClock.now > deadline { return nil }
        return runs.withLock { runs in
            if let run = runs[servers]?.popLast() { return run }
            for key in runs.keys.sorted() {
                if let run = runs[key]?.popLast() { return run }
            }
            return nil
        }
    }
}
