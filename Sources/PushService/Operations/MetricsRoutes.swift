internal import HTTPServer
internal import HTTPTypes
internal import Journal
internal import Postgres
internal import PrometheusMetrics

/// `/metrics` for Prometheus, with a key that has the scope `read`.
///
/// One instance serves all event loops of a server: requests are rare, and the metrics are those of the whole server.
final class MetricsRoutes: Sendable {
    static let path = "/metrics"
    private static let headerFields: HTTPFields = [.contentType: ExpositionText.contentType]

    private let access: ReaderAccess
    private let metrics: ServerMetrics
    private let availability: KakaoAvailability
    private let progress: SenderProgress
    private let pools: [PostgresPool]
    private let queue: QueueDepth
    private let journal: Journal?

    /// - Parameter pools: The pools of all event loops.
    init(
        access: ReaderAccess,
        metrics: ServerMetrics,
        availability: KakaoAvailability,
        progress: SenderProgress,
        pools: [PostgresPool],
        queue: QueueDepth,
        journal: Journal?
    ) {
        self.access = access
        self.metrics = metrics
        self.availability = availability
        self.progress = progress
        self.pools = pools
        self.queue = queue
        self.journal = journal
    }

    func add(to router: inout ServiceRouter) {
        router.on(.get, Self.path, .operator(.read), checkedBy: access.check, show)
    }

    private func show(_ request: Request) async throws -> Response {
        async let process = ProcessStatistics.read()
        let snapshot = await ServerMetrics.Snapshot(
            sender: availability.senderState,
            senderFailing: progress.failingFor,
            queue: queue.counts(),
            databaseStatements: pools.reduce(0) { $0 + $1.statementCount },
            journal: journal?.status,
            process: process
        )
        return Response(.ok, headerFields: Self.headerFields, body: metrics.text(snapshot))
    }
}
