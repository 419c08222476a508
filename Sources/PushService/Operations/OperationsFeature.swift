internal import ServiceKit

/// Health, status, metrics and the OpenAPI document.
struct OperationsFeature: Feature {
    static let collections: [any RouteCollection.Type] = [
        StatusRoutes.self, MetricsRoutes.self, HealthRoutes.self, OpenAPIRoutes.self,
    ]

    private let server: ServerContext
    private let metrics: MetricsRoutes
    private let status: StatusRoutes
    private let document = OpenAPIRoutes(.service)

    init(_ server: ServerContext) {
        self.server = server
        let queue = QueueDepth(pool: server.sending.pool)
        metrics = MetricsRoutes(
            metrics: server.metrics,
            availability: server.availability,
            progress: server.progress,
            pools: server.loops.map(\.pool),
            queue: queue,
            journal: server.journal
        )
        status = StatusRoutes(availability: server.availability, queue: queue, journal: server.journal)
    }

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let readiness = Readiness(
            pool: loop.pool,
            migrator: server.migrator,
            gate: server.gate,
            journal: server.journal,
            availability: server.availability
        )
        routes.add(document)
        routes.add(HealthRoutes(readiness: readiness))
        routes.add(metrics)
        routes.add(status)
    }
}
