internal import HTTPServer
internal import HTTPTypes
internal import Journal
internal import Postgres
internal import PrometheusMetrics
internal import ServiceKit

/// `/metrics` for Prometheus, with a key that has the scope `read`.
///
/// One instance serves all event loops of a server: requests are rare, and the metrics are those of the whole server.
struct MetricsRoutes: RouteCollection {
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

    private let server: ServerContext

    init(_ server: ServerContext) {
        self.server = server
    }

    @Sendable private func show(_ call: Call) async throws -> Response {
        async let process = ProcessStatistics.read()
        var text = ExpositionText()
        server.metrics.write(to: &text)
        for reading in await server.monitoring.metrics() { text.write(reading) }
        for reading in OperationsMetrics.database(
            isUp: await server.monitoring.backlog() != nil,
            statements: server.loops.reduce(0) { $0 + $1.pool.statementCount }
        ) {
            text.write(reading)
        }
        if let journal = server.journal?.status {
            for reading in OperationsMetrics.journal(journal) { text.write(reading) }
        }
        if let process = await process {
            for reading in OperationsMetrics.process(process) { text.write(reading) }
        }
        return Response(.ok, headerFields: Self.headerFields, body: text.bytes)
    }
}
