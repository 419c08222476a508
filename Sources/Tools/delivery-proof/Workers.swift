/// The workers that perform runs in parallel, each with its own rig.
struct Workers {
    /// The maximum number of attempts to reach the point of a run. The number of executions of a statement varies from
    /// run to run.
    private static let attempts = 6

    let testbed: Testbed
    let logsFolder: String
    let report: Report

    /// Performs the runs that can begin before the deadline, with a short lease.
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
        report.addOmitted(queue.count)
        return results
    }

    /// Performs runs with the intervals of production, all at once, because they wait most of the time.
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
            // A violation may leave state behind that would affect the next run.
            rig = result.violations.isEmpty ? current : nil
            if rig == nil { await current.close() }
        }
        await rig?.close()
        return results
    }
}
