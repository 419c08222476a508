import Crypto
import Endpoints
import EventLoop
import HTTPClient
import HTTPServer
import Logging
import Postgres
import Runtime
import ServiceKit
import ServiceLifecycle
import Settings

/// The HTTP servers and the work in the background: they begin when the database is ready, and stop together.
struct ServingService: Service {
    /// The SQLSTATE of a connection beyond the limit of PostgreSQL, the role or the database.
    private static let tooManyConnections = "53300"
    /// How long startup waits at most for the connection that receives notifications of other servers.
    private static let listeningTime = Duration.seconds(2)
    /// How long connections wait at the start, at most. A server that is not ready by then answers that it is not, and journals calls from
    /// Kakao, which waits for three seconds.
    private static let quietTime = Duration.seconds(1)
    /// The time in which a service manager lets the server end after `http.drain_seconds`: the times below, those of the last
    /// statements, and some for a busy machine.
    private static let stopTime = Duration.seconds(15)
    /// The time that Kakao then has to answer calls in flight. A call that is cancelled then is recorded as unanswered.
    private static let kakaoTime = Duration.seconds(5)
    /// The time for requests in flight and for storing the results of sends.
    private static let lastTime = Duration.seconds(7)
    /// The time for requests that arrived while the results of sends were stored.
    private static let shortestRequestTime = Duration.seconds(1)

    let context: ServerContext
    let settings: Settings
    let database: PostgresSettings
    let features: [any Feature]
    let http: HTTPServers
    let serviceManager: ServiceManager
    /// Whether the sender is stopped before anything is sent.
    let startsStopped: Bool
    /// Called once, when the server is ready.
    let onReady: @Sendable () throws -> Void

    private var logger: Logger { context.logger }

    /// - Throws: ``PostgresError`` or ``SettingsError`` for a database that cannot be used as it is.
    func run() async throws {
        let listening = Signal(loop: context.sending.loop)
        let listener = listener(listening)
        let quiet = Task(executorPreference: context.sending.loop) {
            try await context.sending.loop.sleep(for: Self.quietTime)
            accept()
        }
        defer { quiet.cancel() }
        if let problem = KakaoSettings.problem(ofKey: settings.kakao.adminKey.revealed) {
            logger.warning(
                "Admin key does not look like one of Kakao",
                metadata: ["setting": "kakao.admin_key", "problem": "\(problem)"]
            )
        }
        if context.journal == nil {
            logger.warning(
                "No journal configured: calls from Kakao are lost while PostgreSQL is unavailable",
                metadata: ["setting": "journal.directory"]
            )
        }
        var background: Task<Void, Never>?
        var failure: (any Error)?
        do {
            try await cancelWhenGracefulShutdown {
                try await self.prepareDatabase()
                listener.start()
                // Once the listener is connected, no notification is missed. The server also works without it, but
                // notices changes later.
                await listening.wait(atMost: Self.listeningTime)
            }
            context.gate.open()
            accept()
            logger.notice("Ready")
            serviceManager.send(.ready("Serving"))
            try onReady()
            background = Task(executorPreference: context.sending.loop) { await work() }
            try? await gracefulShutdown()
        } catch is CancellationError {
            // The server is asked to shut down while it waits for the database.
        } catch {
            failure = error
        }
        let drainTime = failure == nil ? settings.drainTime : .zero
        serviceManager.send(.stopping(within: drainTime + Self.stopTime))
        await stop(listener, background, after: drainTime)
        if let failure { throw failure }
    }

    /// Accepts connections, unless that has begun. Until then they wait in the kernel's queue.
    private func accept() {
        guard http.start() else { return }
        func address(_ host: String, _ port: Int) -> Logger.MetadataValue {
            "\(serviceManager.addresses(at: port) ?? "\(host):\(port)")"
        }
        var addresses: Logger.Metadata = ["address": address(settings.http.host, http.main.port)]
        if let operators = http.operators {
            addresses["operator_address"] = address(settings.operatorHost ?? settings.http.host, operators.port)
        }
        if let secure = http.secure { addresses["https_address"] = "\(settings.http.host):\(secure.port)" }
        if !serviceManager.sockets.isEmpty { addresses["sockets"] = "of the service manager" }
        logger.notice("Listening", metadata: addresses)
    }

    /// Returns the connection that receives the notifications of other servers. A (re)connection counts as a
    /// notification, since earlier ones may be lost.
    private func listener(_ listening: Signal) -> PostgresListener {
        PostgresListener(
            settings: database,
            channels: features.flatMap(\.channels),
            loop: context.sending.loop,
            logger: logger
        ) { [features] event in
            for feature in features { feature.receive(event) }
            if event == .listening { listening.send() }
        }
    }

    /// Runs the work in the background, which ends when the server shuts down.
    private func work() async {
        await withDiscardingTaskGroup { group in
            let services = features.flatMap { feature in
                feature.makeServices()
                    + feature.retentions.map {
                        $0.worker(on: context.background, pace: context.pace, logger: context.logger)
                    }
            }
            for service in services {
                group.addTask { try? await service.run() }
            }
        }
    }

    /// - Parameters:
    ///   - background: The task of the work in the background; `nil` if it was not started.
    ///   - drainTime: The time for which the server goes on serving, so that balancers notice.
    private func stop(
        _ listener: PostgresListener,
        _ background: Task<Void, Never>?,
        after drainTime: Duration
    ) async {
        logger.notice("Shutting down", metadata: ["serving_for": "\(drainTime)"])
        // The work ends by itself in a graceful shutdown, but not if only this task is cancelled.
        if Task.isCancelled { background?.cancel() }
        context.gate.beginShutdown()
        http.drain()
        let loop = context.sending.loop
        try? await loop.sleep(for: drainTime)
        let start = EventLoop.milliseconds()
        let patience = Task(executorPreference: loop) { [context] in
            try await loop.sleep(for: Self.kakaoTime)
            for loop in context.loops { await loop.client.shutdown() }
            try await loop.sleep(for: Self.lastTime - Self.kakaoTime)
            background?.cancel()
        }
        // Requests are accepted until then: the next process begins when this one has ended, and Kakao waits for three seconds.
        await background?.value
        await listener.shutdown()
        let left = Self.lastTime - .milliseconds(EventLoop.milliseconds() - start)
        await http.shutdown(within: max(left, Self.shortestRequestTime))
        patience.cancel()
    }

    // MARK: The database

    /// Applies pending migrations or checks that none is pending. Retries while the database is unavailable.
    ///
    /// - Throws: ``PostgresError`` for a database that waiting does not change.
    private func prepareDatabase() async throws {
        var isFirst = true
        while true {
            do {
                try await applyMigrations()
                for feature in features { try await feature.prepare() }
                if startsStopped { try await stopSender() }
                try await compareConnectionLimit()
                return
            } catch let error as PostgresError where error.isTransient && mayWait(after: error) {
                context.lostCommits.health.recordFailure(error)
                var metadata: Logger.Metadata = ["error": "\(String(reflecting: error))"]
                if isFirst, context.journal != nil {
                    metadata["until_then"] = "not ready; calls from Kakao are written to the journal"
                }
                accept()
                // Its start is over: a service manager would end a server that does not get there.
                serviceManager.send(.ready("Waiting for the database: \(error.words)"))
                isFirst = false
                if error.sqlState == Self.tooManyConnections {
                    metadata["needed"] = "\(connections.held), and up to \(connections.total)"
                    metadata["setting"] = "database.max_connections"
                }
                logger.warning("Waiting for the database", metadata: metadata)
                try await context.sending.loop.sleep(for: .seconds(1))
            }
        }
    }

    /// Whether the server waits for its database after an error.
    private func mayWait(after error: PostgresError) -> Bool {
        switch error.code {
        case .unsuitable: false
        // A standby may be promoted. Meanwhile the journal keeps Kakao's calls. Without one the server does not seem to
        // run.
        case .standby: context.journal != nil || database.hasSeveralHosts
        default: true
        }
    }

    /// The connections of this server.
    private var connections: ConnectionPlan { settings.connectionPlan(loopCount: context.loops.count) }

    /// Warns if PostgreSQL or the pooler before it allows fewer connections than this server may open.
    private func compareConnectionLimit() async throws {
        let pool = context.sending.pool
        var metadata: Logger.Metadata = [
            "setting": "database.max_connections", "connections": "\(connections.total)",
        ]
        guard let (allowed, free) = try await pool.read(ReadConnectionLimit()).first else { return }
        guard connections.total <= allowed else {
            metadata["allowed"] = "\(allowed)"
            metadata["free"] = "\(free)"
            logger.warning(
                "PostgreSQL allows fewer connections than this server may open: lower the setting, or raise max_connections or the limit of the role or the database",
                metadata: metadata
            )
            return
        }
        guard let given = await pool.connectionsThroughPooler(upTo: connections.total), given < connections.total else {
            return
        }
        metadata["given"] = "\(given)"
        logger.warning(
            "The pooler gives fewer connections than this server may open: lower the setting, or raise default_pool_size",
            metadata: metadata
        )
    }

    private func stopSender() async throws {
        try await context.senderControl.stop(
            reason: "The server was started with --stopped.",
            by: "serve --stopped",
            recording: AuditRecord(ofCommandLike: "stopSender")
        )
        logger.notice("Sender stopped by --stopped. To start it: push-server sender start")
    }

    private func applyMigrations() async throws {
        guard settings.migratesOnStart else {
            let pending = try await context.migrator.pending(context.sending.pool)
            guard pending.isEmpty else {
                throw SettingsError(
                    place: "database.migrate",
                    message: """
                        \(pending.count) migrations are pending, from \(pending.fileNames[0]) on. Run push-server migrate \
                        first.
                        """
                )
            }
            pending.warnIfNewer(logger)
            return
        }
        _ = try await context.migrator.migrate(settings: database, loop: context.sending.loop, logger: logger)
    }
}
