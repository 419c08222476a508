internal import Locking

/// What the features show to operators. Each feature registers its part, and the feature `Operations` shows it.
package final class Monitoring: Sendable {
    private struct Sources: Sendable {
        var metrics: [@Sendable () async -> [Metric.Reading]] = []
        var backlogs: [@Sendable () async -> Backlog?] = []
    }

    private let sources = Locked(Sources())

    /// Registers metrics of a feature. Called before the server starts.
    ///
    /// - Parameter read: Reads them; without those that are unknown while the database is unavailable.
    package func register(metrics read: @escaping @Sendable () async -> [Metric.Reading]) {
        sources.withLock { $0.metrics.append(read) }
    }

    /// Registers what a feature has to send. Called before the server starts.
    ///
    /// - Parameter read: Reads it; `nil` while the database is unavailable.
    package func register(backlog read: @escaping @Sendable () async -> Backlog?) {
        sources.withLock { $0.backlogs.append(read) }
    }

    /// Reads the metrics of all features.
    package func metrics() async -> [Metric.Reading] {
        var readings: [Metric.Reading] = []
        for read in sources.withLock({ $0.metrics }) { readings += await read() }
        return readings
    }

    /// Reads what waits to be sent; `nil` while the database is unavailable.
    package func backlog() async -> Backlog? {
        var total = Backlog()
        for read in sources.withLock({ $0.backlogs }) {
            guard let backlog = await read() else { return nil }
            total.batches += backlog.batches
            total.oldestSeconds = max(total.oldestSeconds, backlog.oldestSeconds)
        }
        return total
    }
}

/// What waits to be sent, of all servers together.
package struct Backlog: Sendable {
    /// The number at which counting stops. An operator would not act differently on a higher one, and the limit bounds
    /// the index entries that the database reads.
    package static let limit = 100_000

    /// The waiting batches; ``limit`` means at least that many.
    package var batches: Int64 = 0
    /// The seconds for which the oldest due batch has been due; 0 if none is due.
    package var oldestSeconds: Double = 0

    package init() {}

    package init(batches: Int64, oldestSeconds: Double) {
        self.batches = batches
        self.oldestSeconds = oldestSeconds
    }
}
