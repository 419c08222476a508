package import Endpoints
import EventLoop
import HTTPClient
import Identity
import Logging
package import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle

/// Outgoing webhooks: the events of the other features, delivered to the endpoints of the settings.
package struct WebhookFeature: Feature {
    package typealias Configuration = WebhookSettings

    package static let collections: [any RouteCollection.Type] = [WebhookRoutes.self]

    /// The maximum number of connections to an endpoint: those of the delivery, and one for tests.
    static let connectionsPerEndpoint = WebhookSchedule.maxRequestsInFlight + 1
    /// The maximum number of connections to all endpoints.
    package static let maximumConnections = connectionsPerEndpoint * WebhookSettings.maximumEndpoints
    /// The time for which a server shows the same lags.
    private static let stateLifetime = Duration.seconds(60)
    /// The number of webhooks of a removed endpoint that are dropped at a time.
    private static let droppedPerStep = 10_000

    private let server: ServerContext
    private let settings: WebhookSettings
    private let data: [WebhookData]
    private let endpoints: WebhookEndpoints
    private let store: WebhookStore
    private let sender: WebhookSender
    private let notices: WebhookNotices
    private let replays: WebhookReplays
    private let outcomes: LoopCounts<WebhookOutcome>
    private let dropped: LoopCounts<DropCause>
    /// Wakes the worker that stores the endpoints.
    private let storing: Signal
    /// Begins the delivery, once there is an endpoint.
    private let starting: Signal

    /// - Parameter data: The data of the webhooks of all features.
    package init(_ server: ServerContext, _ settings: WebhookSettings, data: [WebhookData]) {
        self.server = server
        self.settings = settings
        self.data = data
        let background = server.background
        let store = WebhookStore(pool: background.pool)
        let endpoints = WebhookEndpoints(settings.all)
        self.store = store
        self.endpoints = endpoints
        sender = WebhookSender(
            client: HTTPClient(settings: WebhookSender.clientSettings, loop: background.loop),
            timeLimit: settings.intervals.request
        )
        notices = WebhookNotices(server.webhooks, pool: background.pool)
        replays = WebhookReplays(store: store, intervals: settings.intervals, notices: notices, logger: server.logger)
        outcomes = LoopCounts([background])
        dropped = LoopCounts([background])
        storing = Signal(loop: background.loop)
        starting = Signal(loop: background.loop)
        server.lifecycle.register { [hasKakaoUserIDs = server.identity.hasKakaoUserIDs] in
            WebhookUserObserver(pool: $0.pool, hasKakaoUserIDs: hasKakaoUserIDs)
        }
        let states = CachedQuery(background.pool, lifetime: Self.stateLifetime) { pool in
            endpoints.isEmpty ? [] : try await pool.read(ListEndpointStates())
        }
        server.monitoring.register(WebhookMonitoring(endpoints: states, outcomes: outcomes, dropped: dropped).report)
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(
            WebhookRoutes(
                endpoints: endpoints,
                store: WebhookStore(pool: loop.pool),
                sender: sender,
                notices: notices,
                replays: replays
            )
        )
    }

    /// Stores the endpoints before anything happens that they are to get.
    package func prepare() async throws { try await store.store(endpoints.all) }

    package func makeServices() -> [any Service] {
        let (background, logger) = (server.background, server.logger)
        let runner = QueueRunner(
            WebhookWork(
                webhooks: store,
                sender: sender,
                endpoints: endpoints,
                data: data,
                intervals: settings.intervals,
                notices: notices,
                outcomes: outcomes.on(background.loop),
                dropped: dropped.on(background.loop),
                logger: logger
            ),
            WebhookSchedule(endpoints: endpoints.all.map(\.name), retries: settings.intervals.retries),
            store: store,
            signal: notices.signal,
            commits: server.lostCommits,
            stateDirectory: nil,
            intervals: settings.intervals.work,
            progress: WorkProgress(),
            logger: logger
        )
        return [
            WebhookDelivery(runner: runner, endpoints: endpoints, starting: starting, client: sender.client),
            notices.servers.worker(logger: logger),
            replays.worker(server.pace),
            endpointKeeper(),
        ]
    }

    /// Returns the worker that confirms the endpoints of the settings, and removes those that no server has any more.
    private func endpointKeeper() -> BackgroundWorker {
        let background = server.background
        let interval = settings.intervals.cleanup
        let dropped = dropped.on(background.loop)
        return BackgroundWorker(
            "keep-webhook-endpoints",
            on: background.loop,
            every: interval,
            firstAfter: interval,
            signal: storing,
            retryAfter: settings.intervals.work.retry,
            pace: server.pace,
            failure: "Webhook endpoints not stored",
            logger: server.logger
        ) { [store, endpoints, notices, logger = server.logger] _ in
            try await store.store(endpoints.all)
            notices.endpointsChanged(endpoints.all.map(\.name))
            let limit = Self.droppedPerStep
            let count = try await store.removeEndpoints(unconfirmedFor: interval * 2, limit: limit)
            if count > 0 {
                dropped.add(count, to: .endpointRemoved)
                logger.notice("Webhooks of a removed endpoint dropped", metadata: ["webhooks": "\(count)"])
            }
            return count == limit ? .zero : nil
        }
    }

    package var retentions: [Retention] {
        let days = settings.retentionDays
        return [
            Retention(
                "remove-old-webhooks",
                every: settings.intervals.cleanup,
                .delete { DeleteOldWebhooks(retentionDays: days, limit: $0) }
            )
        ]
    }

    package func apply(_ settings: WebhookSettings) {
        guard settings.all != endpoints.all else { return }
        endpoints.replace(with: settings.all)
        storing.send()
        starting.send()
    }

    package var channels: [String] { [notices.servers.channel] }

    package func receive(_ event: PostgresListener.Event) { notices.servers.receive(event) }
}

/// The delivery of webhooks from the first endpoint on: without one, a server does not even renew a lease.
private struct WebhookDelivery: Service {
    let runner: QueueRunner<WebhookWork>
    let endpoints: WebhookEndpoints
    let starting: Signal
    let client: HTTPClient

    func run() async {
        while endpoints.isEmpty, !Task.isShuttingDownGracefully, !Task.isCancelled {
            await cancelWhenGracefulShutdown { await starting.wait(atMost: .seconds(3600)) }
        }
        if !Task.isShuttingDownGracefully { await runner.run() }
        // Its connections must be closed before the loop ends.
        await client.shutdown()
    }
}
