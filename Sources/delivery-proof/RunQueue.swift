internal import Locking

/// The runs that are still to be done. A worker prefers those with as many servers as it has running.
final class RunQueue: Sendable {
    private let runs: Locked<[Int: [Run]]>
    private let deadline: ContinuousClock.Instant?

    /// - Parameter deadline: After which no run begins.
    init(_ runs: [Run], deadline: ContinuousClock.Instant? = nil) {
        // Taken from the end.
        self.runs = Locked(Dictionary(grouping: runs.reversed(), by: \.servers))
        self.deadline = deadline
    }

    /// The runs that no worker has taken.
    var count: Int { runs.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    /// The next run, or `nil` when there is none left.
    ///
    /// - Parameter servers: How many servers the worker has running.
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
