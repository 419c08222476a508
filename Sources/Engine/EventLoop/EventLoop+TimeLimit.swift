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
            let attempt = TimedAttempt()
            attempt.timer = self.schedule(after: limit) {
                attempt.task?.cancel()
                promise.complete(.success(nil))
            }
            attempt.task = Task(executorPreference: self) {
                let result: Result<Value?, any Error>
                do {
                    result = .success(try await body())
                } catch {
                    result = .failure(error)
                }
                self.execute {
                    if let timer = attempt.timer { self.cancel(timer) }
                    attempt.task = nil
                    promise.complete(result)
                }
            }
        }
    }
}

/// A task and the timer that ends it.
private final class TimedAttempt: @unchecked Sendable {
    // Accessed on its loop only: by the timer, by `execute`, and before either of them runs.
    var timer: TimerID?
    var task: Task<Void, Never>?
}
