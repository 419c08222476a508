import EventLoop
import Logging
import Runtime

/// Counts the events of shares in the background, in steps that are too small to delay other work.
struct ShareEventCounter: Sendable {
    /// The time for which an event may wait. Readers add the waiting events themselves.
    private static let interval = Duration.seconds(5)
    /// The number of events of one statement.
    private static let eventsPerStatement = 5000

    let statistics: StatisticsStore
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
            while !worker.isStopping,
                try await statistics.mergeEvents(limit: Self.eventsPerStatement) == Self.eventsPerStatement
            {}
            return nil
        }
    }
}
