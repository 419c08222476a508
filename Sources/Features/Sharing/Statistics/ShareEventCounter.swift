import EventLoop
import Logging
import Runtime

/// Counts the events of shares in the background, in steps that are too small to delay other work, and deletes old visits.
struct ShareEventCounter: Sendable {
    /// The time for which an event may wait. Readers add the waiting events themselves.
    private static let interval = Duration.seconds(5)
    /// The number of events or visits of one statement.
    private static let rows = 5000

    let statistics: StatisticsStore
    let shares: ShareStore
    let logger: Logger

    func worker(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        BackgroundWorker(
            "count-share-events",
            on: loop,
            every: Self.interval,
            pace: pace,
            failure: "Share events not counted",
            logger: logger
        ) { worker in
            while !worker.isStopping, try await statistics.mergeEvents(limit: Self.rows) == Self.rows {}
            return nil
        }
    }

    /// Deletes visits that no longer matter.
    func visitCleaner(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        .cleanup("remove-old-visits", on: loop, every: .seconds(300), pace: pace, logger: logger) { worker in
            try await worker.delete(inStepsOf: Self.rows) { try await shares.removeOldVisits(limit: Self.rows) }
        }
    }
}
