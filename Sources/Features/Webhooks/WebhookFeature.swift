package import Endpoints
import HTTPClient
import Locking
package import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle

/// Outgoing webhooks: the events of the other features, delivered to one endpoint.
package struct WebhookFeature: Feature {
    package typealias Configuration = WebhookSettings

    package static let collections: [any RouteCollection.Type] = [WebhookRoutes.self]

    /// The maximum number of connections to the endpoint.
    package static let maximumConnections = 16

    /// The time for which a server shows the same lags: a statement for each source is much for an idle server.
    private static let lagLifetime = Duration.seconds(60)

    private let server: ServerContext
    private let settings: WebhookSettings
    private let outcomes: LoopCounts<WebhookOutcome>
    /// `nil` without an endpoint.
    private let endpoint: Endpoint?

    /// The parts that need an endpoint.
    private struct Endpoint: Sendable {
        let url: WebhookURL
        let sources: [WebhookSource]
        let store: WebhookStore
        let sender: WebhookSender
        let notices: WebhookNotices
        let lags: CachedQuery<[SourceLag]>
        /// The secrets that sign. ``apply(_:)`` replaces them.
        let secrets: Locked<[WebhookSecret]>
    }

    /// - Parameters:
    ///   - sources: The tables of all features whose rows become webhooks.
    ///   - userIDArgument: The argument of Link callbacks that holds a user id; `nil` if none does.
    package init(
        _ server: ServerContext,
        _ settings: WebhookSettings,
        sources: [WebhookSource],
        userIDArgument: String?
    ) {
        self.server = server
        self.settings = settings
        outcomes = LoopCounts([server.background])
        endpoint = settings.url.map { Self.endpoint($0, server, settings, sources) }
        server.lifecycle.register { WebhookUserObserver(pool: $0.pool, userIDArgument: userIDArgument) }
        server.monitoring.register(WebhookMonitoring(lags: endpoint?.lags, outcomes: outcomes).report)
    }

    private static func endpoint(
        _ url: WebhookURL,
        _ server: ServerContext,
        _ settings: WebhookSettings,
        _ sources: [WebhookSource]
    ) -> Endpoint {
        let loop = server.background
        let client = HTTPClient(settings: WebhookSender.clientSettings, loop: loop.loop)
        let sources = sources.filter { $0.types.contains(where: settings.types.contains) }
        let store = WebhookStore(pool: loop.pool)
        let secrets = Locked(settings.secrets)
        return Endpoint(
            url: url,
            sources: sources,
            store: store,
            sender: WebhookSender(client: client, url: url, timeLimit: settings.intervals.request) {
                secrets.withLock { $0 }
            },
            notices: WebhookNotices(sources, store: store),
            lags: CachedQuery(loop.pool, lifetime: Self.lagLifetime) { try await SourceLag.read(sources, $0) },
            secrets: secrets
        )
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(
            WebhookRoutes(
                endpoint: endpoint.map { endpoint in
                    WebhookRoutes.Endpoint(
                        url: endpoint.url,
                        store: WebhookStore(pool: loop.pool),
                        sender: endpoint.sender,
                        sources: endpoint.sources,
                        types: settings.types
                    )
                }
            )
        )
    }

    /// Stores the endpoint before anything happens that it is to get.
    package func prepare() async throws {
        let store = WebhookStore(pool: server.background.pool)
        if let endpoint {
            try await store.prepare(endpoint.url, endpoint.sources)
        } else {
            try await store.removeEndpoint()
        }
    }

    package func makeServices() -> [any Service] {
        let (background, logger) = (server.background, server.logger)
        guard let endpoint else { return [] }
        let deliverer = WebhookDeliverer(
            store: endpoint.store,
            sender: endpoint.sender,
            sources: endpoint.sources,
            types: settings.types,
            commits: server.lostCommits,
            intervals: settings.intervals,
            notices: endpoint.notices,
            outcomes: outcomes.on(background.loop),
            logger: logger
        )
        server.lostCommits.onNewRun(deliverer.readPositionsAgain)
        return [deliverer, endpoint.notices.worker(logger: logger)] + deliverer.workers(pace: server.pace)
    }

    package var retentions: [Retention] {
        [
            Retention(
                "remove-old-webhooks",
                every: settings.intervals.cleanup,
                .run { _, pool in
                    // A server that was killed may have had the endpoint when this one started.
                    if endpoint == nil { try await WebhookStore(pool: pool).removeEndpoint() }
                },
                .delete { DeleteOldFailedWebhooks(retentionDays: WebhookSource.retentionDays, limit: $0) },
                .run { _, pool in try await pool.write(DeleteOldMarks()) }
            )
        ]
    }

    package func apply(_ settings: WebhookSettings) {
        // There are none if the endpoint was removed as well, which takes a restart. Until then webhooks are signed.
        guard !settings.secrets.isEmpty else { return }
        endpoint?.secrets.withLock { $0 = settings.secrets }
    }

    package var channels: [String] { endpoint == nil ? [] : [WebhookStore.channel] }

    package func receive(_ event: PostgresListener.Event) { endpoint?.notices.receive(event) }
}
