internal import EventLoop
internal import Logging
internal import ServiceKit

/// Merges the counters of past hours and deletes old visits in the background, in steps that are too small to delay
/// other work.
struct ShareHousekeeper: Sendable {
    private static let interval = Duration.seconds(300)
    /// The delay after the start. It is short, so that a server that is restarted often cleans up too.
    private static let firstInterval = Duration.seconds(30)
    /// The number of rows that one statement changes. A pause follows each statement.
    private static let rows = 1000
    private static let pause = Duration.milliseconds(50)

    let shares: ShareStore
    let statistics: StatisticsStore
    let logger: Logger

    func worker(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        BackgroundWorker(
            "tidy-share-counters",
            on: loop,
            every: Self.interval,
            firstAfter: Self.firstInterval,
            retryAfter: Self.interval,
            pace: pace,
            failure: "Cleanup failed",
            logger: logger
        ) { worker in
            try await repeatStep(worker) { try await shares.removeOldVisits(limit: Self.rows) }
            try await repeatStep(worker) { try await statistics.mergeSlots(limit: Self.rows) }
            return nil
        }
    }

    private func repeatStep(_ worker: BackgroundWorker, _ step: () async throws -> Int) async throws {
        while !worker.isStopping, try await step() == Self.rows { try await worker.loop.sleep(for: Self.pause) }
    }
}
