extension EventLoop {
    /// Runs `body` in a new task on this loop and returns its result, or `nil` if the task has not ended after `limit`.
    ///
    /// At the limit the task is cancelled, and this function returns without waiting for it.
    ///
    /// Cancelling the caller has no effect. The limit is a timer of the loop and costs next to nothing.
    ///
    /// - Throws: Any error that `body` throws within the limit.
    package func run<Value: Sendable>(
        within limit: Duration,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        try await Promise<Value?>.uninterruptedValue(on: self) { promise in
            let task = Task(executorPreference: self) {
                let result: Result<Value?, any Error>
                do {
                    result = .success(try await body())
                } catch {
                    result = .failure(error)
                }
                self.execute { promise.complete(result) }
            }
            promise.after(limit) {
                task.cancel()
                promise.complete(.success(nil))
            }
        }
    }
}
