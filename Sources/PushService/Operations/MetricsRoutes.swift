internal import HTTPServer
internal import HTTPTypes
internal import Journal
internal import Postgres
internal import PrometheusMetrics
internal import ServiceKit

/// `/metrics` for Prometheus, with a key that has the scope `read`.
///
/// One instance serves all event loops of a server: requests are rare, and the metrics are those of the whole server.
final class MetricsRoutes: RouteCollection {
    static let path = "/metrics"

    static let title = "Metrics"
    static let operations = [
        Operation(
            OperationDeclaration(
                "getMetrics",
                .get,
                path,
                .monitoring,
                "Returns the metrics of this server for Prometheus.",
                answers: [.media(.ok, ["text/plain"], "The text format of Prometheus.")]
            ),
            handler: show
        )
    ]

    private static let headerFields: HTTPFields = [.contentType: ExpositionText.contentType]

    private let metrics: ServerMetrics
    private let availability: KakaoAvailability
    private let progress: SenderProgress
    private let pools: [PostgresPool]
    private let queue: QueueDepth
    private let journal: Journal?

    /// - Parameter pools: The pools of all event loops.
    init(
        metrics: ServerMetrics,
        availability: KakaoAvailability,
        progress: SenderProgress,
        pools: [PostgresPool],
        queue: QueueDepth,
        journal: Journal?
    ) {
        self.metrics = metrics
        self.availability = availability
        self.progress = progress
        self.pools = pools
        self.queue = queue
        self.journal = journal
    }

    @Sendable private func show(_ call: Call) async throws -> Response {
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
