package import Endpoints
package import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle

/// Health, status, metrics, the switch of the sender, the audit log, and the OpenAPI document.
package struct StatusFeature: Feature {
    package typealias Configuration = AuditSettings

    package static let collections: [any RouteCollection.Type] = [
        StatusRoutes.self, SenderRoutes.self, AuditRoutes.self, MetricsRoutes.self, HealthRoutes.self,
        OpenAPIRoutes.self, RootRoutes.self,
    ]

    /// The paths of frequent, unimportant requests.
    package static let quietPaths = HealthRoutes.paths
    /// The paths that do not need the database.
    package static let openPaths =
        HealthRoutes.paths + [MetricsRoutes.path, StatusRoutes.path, OpenAPIRoutes.path, RootRoutes.path]

    private let server: ServerContext
    private let settings: AuditSettings
    private let hasPage: Bool
    private let status: StatusRoutes
    private let document: OpenAPIRoutes

    /// - Parameter hasPage: Whether operators find the page at the port that Kakao and apps call.
    package init(_ server: ServerContext, _ settings: AuditSettings, hasPage: Bool) {
        self.server = server
        self.settings = settings
        self.hasPage = hasPage
        status = StatusRoutes(server: server)
        document = OpenAPIRoutes(server.document)
        let sender = SenderMonitoring(availability: server.availability, control: server.senderControl)
        server.monitoring.register(sender.report)
    }

    package var webhookData: [WebhookData] { SenderWebhooks.data }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let readiness = Readiness(
            pool: loop.pool,
            migrator: server.migrator,
            gate: server.gate,
            health: server.lostCommits.health,
            journal: server.journal,
            unverifiedEvents: server.unverifiedEvents,
            availability: server.availability,
            control: server.senderControl
        )
        routes.add(document)
        routes.add(RootRoutes(hasPage: hasPage))
        routes.add(HealthRoutes(readiness: readiness))
        routes.add(MetricsRoutes(server))
        routes.add(status)
        routes.add(SenderRoutes(server: server))
        routes.add(AuditRoutes(pool: loop.pool, recordedOperations: server.document.recordedOperations))
    }

    package func makeServices() -> [any Service] {
        let background = server.background
        return [
            server.availability.callCounter(on: background, logger: server.logger),
            server.senderControl.haltRecorder(server.availability, on: background.loop, logger: server.logger),
            server.lostCommits.worker(),
        ] + [server.replica?.worker(on: background.pool)].compactMap(\.self)
    }

    /// A new connection of the listener may be one to a PostgreSQL that has lost commits.
    package func receive(_ event: PostgresListener.Event) {
        if case .listening = event { server.lostCommits.checkNow() }
    }

    package var retentions: [Retention] {
        [
            Retention(
                "remove-old-audit-records",
                .delete { DeleteOldAuditRecords(retentionDays: settings.retentionDays, limit: $0) }
            )
        ]
    }
}

// MARK: Statements

/// Deletes up to `limit` records that were stored more than `retentionDays` ago, the oldest first. Skips rows that another
/// server is deleting.
struct DeleteOldAuditRecords: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM audit_records
        WHERE id IN (
            SELECT id
            FROM audit_records
            WHERE id < uuid_v7_floor(now() - make_interval(days => $1))
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
