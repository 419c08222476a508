import FoundationEssentials
import Locking

/// The part of the service that operators see: each feature registers a source, and the feature `Status` shows what
/// the sources report.
package final class Monitoring: Sendable {
    /// The state of a feature, or of all features.
    package struct Report: Sendable {
        /// The metrics, without those that come from the database while it is unavailable.
        package var metrics: [Metric.Reading]
        /// The work that waits to be done; `nil` if the feature has no queue, or while the database is unavailable.
        package var backlog: Backlog?
        /// Reads the pushes that have not ended; `nil` if the feature has none, or while the database is unavailable.
        package var pushes: UnfinishedWork.Source?
        /// The KakaoTalk messages that have not ended, likewise.
        package var messages: UnfinishedWork.Source?
        /// The endpoints of webhooks; none if the feature has none, or while the database is unavailable.
        package var webhookEndpoints: [WebhookEndpointHealth] = []
        /// Whether the database has responded to the queries for this report, and commits.
        package var isDatabaseUp: Bool

        package init(metrics: [Metric.Reading], backlog: Backlog? = nil, isDatabaseUp: Bool = true) {
            self.metrics = metrics
            self.backlog = backlog
            self.isDatabaseUp = isDatabaseUp
        }
    }

    package typealias Source = @Sendable () async -> Report

    private let sources = Locked<[Source]>([])

    package init() {}

    /// Adds a source. A feature calls it when it is made.
    package func register(_ source: @escaping Source) {
        sources.withLock { $0.append(source) }
    }

    /// Returns the reports of all sources, which are read at the same time, since each may wait for the database.
    package func report() async -> Report {
        let reports = await withTaskGroup(of: (Int, Report).self) { group in
            for (index, source) in sources.withLock({ $0 }).enumerated() {
                group.addTask { (index, await source()) }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        var total = Report(metrics: [])
        for (_, report) in reports.sorted(by: { $0.key < $1.key }) {
            total.metrics += report.metrics
            total.isDatabaseUp = total.isDatabaseUp && report.isDatabaseUp
            total.pushes = total.pushes ?? report.pushes
            total.messages = total.messages ?? report.messages
            total.webhookEndpoints += report.webhookEndpoints
            if let backlog = report.backlog { total.backlog = (total.backlog ?? Backlog()) + backlog }
        }
        return total
    }
}

/// The work of all servers that waits to be done.
package struct Backlog: Sendable {
    /// The number at which counting stops. An operator would not act differently on a higher one, and the limit bounds
    /// the index entries that the database reads.
    package static let limit: Int64 = 100_000

    /// The waiting batches; ``limit`` means at least that many.
    package let batches: Int64
    /// The seconds for which the oldest due batch has been due; 0 if none is due.
    package let oldestSeconds: Double

    package init(batches: Int64 = 0, oldestSeconds: Double = 0) {
        self.batches = min(batches, Self.limit)
        self.oldestSeconds = oldestSeconds
    }

    static func + (left: Backlog, right: Backlog) -> Backlog {
        Backlog(batches: left.batches + right.batches, oldestSeconds: max(left.oldestSeconds, right.oldestSeconds))
    }
}

/// Whether an endpoint accepts webhooks, as the status shows it.
package struct WebhookEndpointHealth: Sendable {
    package let name: String
    /// `delivering`, `failing` or `gone`.
    package let state: String
    /// Since when it is in this state.
    package let since: Date
    package let lastError: String?
    /// The seconds for which its oldest webhook has been due; 0 if none is due.
    package let lagSeconds: Double

    package init(name: String, state: String, since: Date, lastError: String?, lagSeconds: Double) {
        self.name = name
        self.state = state
        self.since = since
        self.lastError = lastError
        self.lagSeconds = lagSeconds
    }
}
