import Callbacks
import Crypto
import Devices
import Dispatch
import EventLoop
import HTTPServer
import Identity
import Journal
import Locking
package import LogOutput
package import Logging
import Postgres
import Runtime
import ServiceKit
import ServiceLifecycle
import Status
import UnixSignals

/// The complete server: the features, and the order of startup and shutdown.
package final class PushServer: Service {
    /// The settings in use, some of which a reload replaces.
    private let settings: Locked<Settings>
    private let database: PostgresSettings
    private let logger: Logger
    private let logSink: LogSink?
    private let loops: EventLoopGroup
    private let context: ServerContext
    private let features: [any Feature]
    private let http: HTTPServers
    private let startsStopped: Bool
    private let serviceManager: ServiceManager
    private let onReady: @Sendable (PushServer) throws -> Void

    /// Creates all services and binds the ports. No request is served before ``run()``.
    ///
    /// - Parameters:
    ///   - migrations: The folder of the SQL files, which are read once; `nil` for those of the program.
    ///   - logSink: The sink of `logger`, whose dropped lines are counted and whose level a reload sets; `nil` for a
    ///     logger without one.
    ///   - loopCount: The number of event loops; `nil` for that of the settings.
    ///   - startsStopped: Whether the sender is stopped before anything is sent.
    ///   - securePort: A further port, over HTTPS; `nil` for none.
    ///   - serviceManager: The service manager that started the process.
    ///   - sandboxURL: The sandbox of a development server, to which the page gets access; `nil` for a server of a service.
    ///   - onReady: Called once, when the server is ready.
    /// - Throws: ``SettingsError`` for unusable files and for addresses on which the server cannot listen; ``PostgresError`` for an
    ///   invalid `database.url` and for migrations that cannot be read.
    package init(
        settings: Settings,
        migrations: String?,
        logger: Logger,
        logSink: LogSink? = nil,
        loopCount: Int? = nil,
        startsStopped: Bool = false,
        securePort: SecurePort? = nil,
        serviceManager: ServiceManager = ServiceManager(environment: [:]),
        sandboxURL: String? = nil,
        onReady: @escaping @Sendable (PushServer) throws -> Void = { _ in }
    ) throws {
        // Before the journal is opened, which may be that of the server that has the port.
        try settings.checkPorts(serviceManager)
        let migrator = try Migrator(ofProgramOr: migrations)
        self.logger = logger
        self.startsStopped = startsStopped
        self.serviceManager = serviceManager
        self.logSink = logSink
        self.onReady = onReady
        loops = try EventLoopGroup(count: loopCount ?? settings.loopCount)
        let database = try settings.database()
        let context = try ServerContext(
            kakao: settings.kakao,
            identity: settings.identity,
            document: .service,
            migrator: migrator,
            database: database,
            replica: settings.replica(),
            maximumReplicaLag: settings.maximumReplicaLag,
            connections: settings.connectionPlan(loopCount: loops.loops.count),
            journal: Journal(settings.journal, logger: logger),
            unverifiedEvents: Journal(ofUnverifiedEvents: settings.journal, logger: logger),
            recentCalls: RecentRecords(settings.journal, minutes: settings.callbacks.replayMinutes, logger: logger),
            loops: loops.loops,
            secretPaths: [CallbackFeature.feedbackPath, DeviceFeature.devicePath],
            openPaths: StatusFeature.openPaths,
            logger: logger,
            droppedLogLines: { logSink?.droppedLines }
        )
        self.context = context
        self.settings = Locked(settings)
        self.database = database
        let features = makeFeatures(context, settings, sandboxURL: sandboxURL)
        self.features = features
        http = try HTTPServers(
            settings,
            context,
            features,
            securePort: securePort,
            serviceManager: serviceManager,
            loops: loops,
            logger: logger
        )
        // Weak, since the handlers of the HTTP servers refer to the monitoring.
        context.monitoring.register { [weak main = http.main, weak operators = http.operators] in
            guard let main else { return Monitoring.Report(metrics: []) }
            return await HTTPMonitoring([main] + [operators].compactMap(\.self)).report()
        }
        context.publicURL.withLock { [port] in $0 = settings.publicURL(port: port) }
        context.returnURL.withLock { [port] in $0 = settings.returnURL(port: port) }
    }

    /// The port that Kakao and apps call.
    package var port: Int { http.main.port }

    /// The port that operators call; `nil` if they call the other one.
    package var operatorPort: Int? { http.operators?.port }

    /// The further port for HTTPS; `nil` if there is none.
    package var securePort: Int? { http.secure?.port }

    /// Reads the settings and the certificate again, and uses what can change without a restart. The log names the changed
    /// settings. If anything is invalid, nothing changes, and the log says why.
    ///
    /// Called by one task at a time.
    ///
    /// - Parameter read: Reads the settings. It may block.
    package func reload(_ read: @escaping @Sendable () throws -> Settings) async {
        // A service manager that waits for the start would take the message after the reload for its end.
        let isServing = context.gate.isOpen && !context.gate.isShuttingDown
        if isServing { serviceManager.send(.reloading) }
        defer { if isServing { serviceManager.send(.ready("Serving")) } }
        let present = settings.withLock { $0 }
        let (next, changes, httpSettings): (Settings, Settings.Changes, HTTPServerSettings)
        do {
            (next, changes, httpSettings) = try await withCheckedThrowingContinuation { continuation in
                EventLoop.blocking.async {
                    continuation.resume(
                        with: Result {
                            var next = present
                            let changes = next.adopt(try read())
                            return (next, changes, try next.httpServer())
                        }
                    )
                }
            }
        } catch {
            logger.error("Settings not reloaded: nothing was changed", metadata: ["error": "\(error)"])
            return
        }
        settings.withLock { $0 = next }
        // The lines below appear if the old level or the new one allows them.
        if let logSink { logSink.level = min(logSink.level, next.logLevel) }
        defer { logSink?.level = next.logLevel }
        await http.apply(httpSettings, next, logger: logger)
        await context.apply(next.kakao, next.identity)
        for feature in features {
            for declaration in featureDeclarations { declaration.reload(feature, next) }
        }
        context.returnURL.withLock { [port] in $0 = next.returnURL(port: port) }
        var metadata: Logger.Metadata = [
            "changed": "\(changes.applied.isEmpty ? "none" : changes.applied.joined(separator: ", "))"
        ]
        if httpSettings.tls != nil { metadata["certificate"] = "reloaded" }
        logger.notice("Settings reloaded", metadata: metadata)
        guard !changes.pending.isEmpty else { return }
        logger.warning(
            "Changed settings need a restart",
            metadata: ["settings": "\(changes.pending.joined(separator: ", "))"]
        )
    }

    /// Runs until the process receives SIGTERM or SIGINT. On SIGHUP it reloads the settings.
    ///
    /// - Parameter read: Reads the settings. It may block.
    /// - Throws: The errors of ``run()``.
    package func runUntilSignal(reloading read: @escaping @Sendable () throws -> Settings) async throws {
        let group = ServiceGroup(
            services: [self, SettingsReload(server: self, read: read)],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: groupLogger
        )
        try await group.run()
    }

    /// The logger of service groups. Below warnings, their log lines only repeat the server's.
    private var groupLogger: Logger {
        var groupLogger = logger
        groupLogger.logLevel = max(.warning, logger.logLevel)
        return groupLogger
    }

    /// Serves until the process is asked to shut down, then finishes the requests in flight.
    ///
    /// Waits for an unavailable database without a limit. Meanwhile the response to requests is 503.
    ///
    /// - Throws: ``PostgresError`` when the migrations do not match the database; ``SettingsError`` when migrations are
    ///   pending that the server is not to apply.
    package func run() async throws {
        let keyUses = context.identity.keyUseWriter(context.background, logger: logger)
        let serving = ServingService(
            context: context,
            settings: settings.withLock { $0 },
            database: database,
            features: features,
            http: http,
            serviceManager: serviceManager,
            startsStopped: startsStopped
        ) { [self] in
            try onReady(self)
        }
        // They stop in the reverse order: each when the next one has ended.
        let phases: [any Service] = [ConnectionService(context: context), keyUses, serving]
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: phases.map {
                    ServiceGroupConfiguration.ServiceConfiguration(
                        service: $0,
                        successTerminationBehavior: .gracefullyShutdownGroup,
                        failureTerminationBehavior: .gracefullyShutdownGroup,
                        // By default it is the service's description, with all that it refers to.
                        serviceName: "\(type(of: $0))"
                    )
                },
                logger: groupLogger
            )
        )
        let watchdog = Task(executorPreference: loops.loops[0]) { [serviceManager, loops] in
            await serviceManager.feedWatchdog(loops.loops)
        }
        defer {
            watchdog.cancel()
            loops.shutdown()
            logger.notice("Stopped")
        }
        try await group.run()
    }
}

/// A service that reloads the settings on SIGHUP while the server runs.
private struct SettingsReload: Service {
    let server: PushServer
    let read: @Sendable () throws -> Settings

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            await server.reload(read)
        }
    }
}
