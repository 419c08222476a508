import Endpoints
import HTTPServer
import HTTPTypes
import Journal
import Postgres
import Runtime
import ServiceKit

/// `/metrics` for Prometheus, with a key that has the scope `read`.
struct MetricsRoutes: RouteCollection {
    static let path = "/metrics"

    static let title = "Metrics"
    static let operations = [
        Operation(
            "getMetrics",
            .get,
            path,
            .monitoring,
            "Returns the metrics of this server for Prometheus.",
            answers: [.media(.ok, ["text/plain"], "The text format of Prometheus.")],
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
        let report = await server.monitoring.report()
        for reading in report.metrics { text.write(reading) }
        for reading in await OperationsMetrics.database(isUp: report.isDatabaseUp, server.pools) {
            text.write(reading)
        }
        text.write(await OperationsMetrics.loops(server.loops.map(\.loop)))
        text.write(OperationsMetrics.build())
        if let lines = server.droppedLogLines() { text.write(OperationsMetrics.log(droppedLines: lines)) }
        if let journal = server.journal?.status {
            for reading in OperationsMetrics.journal(journal, unverified: server.unverifiedEvents?.status) {
                text.write(reading)
            }
        }
        if let process = await process {
            for reading in OperationsMetrics.process(process) { text.write(reading) }
        }
        return Response(.ok, headerFields: Self.headerFields, body: text.bytes)
    }
}
