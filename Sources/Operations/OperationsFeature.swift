package import ServiceKit
package import ServiceLifecycle

/// Health, status, metrics, the switch of the sender, and the OpenAPI document.
package struct OperationsFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [
        StatusRoutes.self, SenderRoutes.self, MetricsRoutes.self, HealthRoutes.self, OpenAPIRoutes.self,
    ]

    /// The paths of frequent, unimportant requests.
    package static let quietPaths = HealthRoutes.paths
    /// The paths that do not need the database.
    package static let openPaths = HealthRoutes.paths + [MetricsRoutes.path, StatusRoutes.path, OpenAPIRoutes.path]

    private let server: ServerContext
    private let status: StatusRoutes
    private let document: OpenAPIRoutes

    package init(_ server: ServerContext, _ settings: NoSettings) {
        self.server = server
        status = StatusRoutes(server: server)
        document = OpenAPIRoutes(server.document)
        let sender = SenderMonitoring(availability: server.availability, control: server.senderControl)
        server.monitoring.register(sender.report)
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let readiness = Readiness(
            pool: loop.pool,
            migrator: server.migrator,
            gate: server.gate,
            journal: server.journal,
            availability: server.availability,
            control: server.senderControl
        )
        routes.add(document)
        routes.add(HealthRoutes(readiness: readiness))
        routes.add(MetricsRoutes(server))
        routes.add(status)
        routes.add(SenderRoutes(server: server))
    }

    package func makeServices() -> [any Service] {
        [KakaoCallCount(availability: server.availability).worker(on: server.background, logger: server.logger)]
    }
}
