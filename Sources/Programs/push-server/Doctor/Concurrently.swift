/// Runs several operations concurrently and returns their results in the order of `work`.
func concurrently<Result: Sendable>(_ work: [@Sendable () async -> Result]) async -> [Result] {
    await withTaskGroup(of: (Int, Result).self) { tasks in
        for (index, step) in work.enumerated() { tasks.addTask { (index, await step()) } }
        var results = [Result?](repeating: nil, count: work.count)
        for await (index, result) in tasks { results[index] = result }
        return results.compactMap(\.self)
    }
}
