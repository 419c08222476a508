package import EventLoop
package import Logging

extension BackgroundWorker {
    /// Returns a worker that deletes old rows, in steps that are too small to delay other work.
    ///
    /// The first cleanup is soon after the start, so that a server that is restarted often cleans up too.
    ///
    /// - Parameter body: Deletes all rows that are due, with ``delete(inStepsOf:_:)``.
    package static func cleanup(
        _ name: String,
        on loop: EventLoop,
        every interval: Duration = .seconds(600),
        pace: PollPace,
        logger: Logger,
        _ body: @escaping @Sendable (BackgroundWorker) async throws -> Void
    ) -> BackgroundWorker {
        BackgroundWorker(
            name,
            on: loop,
            every: interval,
            firstAfter: min(.seconds(30), interval),
            pace: pace,
            failure: "Cleanup failed",
            logger: logger
        ) { worker in
            try await body(worker)
            return nil
        }
    }

    /// Repeats a step until it deletes fewer than `rows` rows, or the server stops. A pause follows each full step.
    ///
    /// - Parameter step: Deletes up to `rows` rows, and returns their number.
    package func delete(inStepsOf rows: Int, _ step: () async throws -> Int) async throws {
        while !isStopping, try await step() == rows { try await loop.sleep(for: .milliseconds(100)) }
    }
}
