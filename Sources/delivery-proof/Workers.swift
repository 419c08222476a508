/// Performs runs in parallel, each worker with a rig of its own.
struct Workers {
    /// How often a run is performed until its point is reached: how often a statement is executed differs from one run to the next.
    private static let attempts = 6

    let testbed: Testbed
    let logsFolder: String
    let report: Report

    /// Performs runs with a short lease, as many as begin before the deadline.
    func perform(
        _ runs: [Run],
        workers count: Int,
        until deadline: ContinuousClock.Instant? = nil
    ) async throws -> [RunResult] {
        let queue = RunQueue(runs, deadline: deadline)
        let results = try await withThrowingTaskGroup(of: [RunResult].self) { group in
            for number in 0..<min(count, runs.count) {
                group.addTask { try await self.work(on: queue, servers: number % 2 + 1) }
            }
            return try await group.reduce(into: [RunResult]()) { $0 += $1 }
        }
        report.leaveOut(queue.count)
        return results
    }

    /// Performs runs with the intervals of production, all at once: nearly all of their time, they wait.
    func performInRealTime(_ runs: [Run]) async throws -> [RunResult] {
        try await withThrowingTaskGroup(of: [RunResult].self) { group in
            for run in runs { group.addTask { try await self.work(on: RunQueue([run]), servers: run.servers) } }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    private func work(on queue: RunQueue, servers: Int) async throws -> [RunResult] {
        var results: [RunResult] = []
        var servers = servers
        var rig: Rig?
        while let run = queue.next(servers: servers) {
            servers = run.servers
            let current: Rig
            if let rig {
                current = rig
            } else {
                current = try await Rig(
                    testbed: testbed,
                    lease: run.isRealTime ? nil : run.lease,
                    logsFolder: logsFolder
                )
            }
            var result = try await current.perform(run)
            for _ in 1..<Self.attempts where result.missed && result.violations.isEmpty {
                report.addMissed()
                result = try await current.perform(run)
            }
            report.add(result)
            results.append(result)
            // Leftovers of a violation must not spoil the next run.
            rig = result.violations.isEmpty ? current : nil
            if rig == nil { await current.close() }
        }
        await rig?.close()
        return results
    }
}
