internal import Dispatch
internal import EventLoop
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI
internal import Locking
package import Logging
internal import Postgres
internal import ServiceKit
internal import ServiceLifecycle

/// The complete server: the services of each event loop, the background workers, and the order of startup and shutdown.
package final class PushServer: Service {
    /// How long startup waits at most for the connection that receives notifications of other servers.
    private static let listeningTime = Duration.seconds(2)
    // On `SIGTERM` the server stops within 10 s.
    /// The time that Kakao has to answer calls in flight. A call that is cancelled then is recorded as unanswered.
    private static let kakaoTime = Duration.seconds(5)
    /// The time for requests in flight and for storing the results of sends.
    private static let drainTime = Duration.seconds(7)
    /// The time after that for statements in flight.
    private static let databaseTime = Duration.seconds(2)

    /// The services that each event loop has of its own, so that a request never leaves its event loop.
    private struct LoopServices {
        let loop: EventLoop
        let pool: PostgresPool
        let client: HTTPClient
        private let settings: KakaoAPISettings
        private let onCall: @Sendable (KakaoCallReport) -> Void

        init(
            _ settings: Settings,
            _ database: PostgresSettings,
            loop: EventLoop,
            logger: Logger,
            onCall: @escaping @Sendable (KakaoCallReport) -> Void
        ) throws {
            self.loop = loop
            self.settings = settings.kakao.api
            self.onCall = onCall
            pool = PostgresPool(settings: database, loop: loop, logger: logger)
            client = try HTTPClient(
                settings: HTTPClientSettings(
                    connectionLimits: KakaoBudget.connectionLimits(settings.kakao.maximumConcurrentRequests),
                    caCertificateFile: settings.kakao.caCertificateFile
                ),
                loop: loop
            )
        }

        /// Returns the client for calls of one purpose.
        func kakao(_ budget: KakaoBudget) -> KakaoClient {
            KakaoClient(settings: settings, client: client, budget: budget, onCall: onCall)
        }
    }

    private let settings: Settings
    private let logger: Logger
    private let migrator: Migrator
    private let loops: EventLoopGroup
    private let services: [LoopServices]
    private let server: HTTPServer
    private let gate: StartupGate
    private let calls: CallJournal
    private let notices: PushNotices
    private let sender: BatchSender
    private let preparer: PushPreparer
    private let housekeeper: PushHousekeeper
    private let listener: PostgresListener
    /// Signalled when ``listener`` has connected.
    private let listening: Signal
    private let events = PushEvents()
    private let syncWorker: PendingDeviceWorker
    private let renewer: DeviceRenewer
    private let keyUseWriter: KeyUseWriter
    private let importPacer: ImportedDevicePacer
    private let databaseSettings: PostgresSettings
    private let onListening: @Sendable (PushServer) throws -> Void

    /// Creates all services and binds the port. No request is served before ``run()``.
    ///
    /// - Parameters:
    ///   - migrations: The folder of the SQL files.
    ///   - loopCount: The number of event loops, each with connections of its own.
    ///   - senderIntervals: The intervals of the delivery of pushes.
    ///   - onListening: Called once, when the server is ready.
    /// - Throws: ``SettingsError`` for unusable files; ``SystemError`` when the server cannot listen on the address.
    package init(
        settings: Settings,
        migrations: String,
        logger: Logger,
        loopCount: Int = EventLoopGroup.coreCount,
        senderIntervals: SenderIntervals = SenderIntervals(),
        onListening: @escaping @Sendable (PushServer) throws -> Void = { _ in }
    ) throws {
        self.settings = settings
        self.onListening = onListening
        self.logger = logger
        migrator = Migrator(directory: migrations)
        databaseSettings = try PostgresSettings(url: settings.databaseURL.revealed)
        loops = try EventLoopGroup(count: loopCount)
        let metrics = ServerMetrics()
        let availability = KakaoAvailability(logger: logger)
        services = try loops.loops.map { [databaseSettings] loop in
            try LoopServices(settings, databaseSettings, loop: loop, logger: logger) {
                metrics.count($0)
                availability.record($0)
            }
        }
        let progress = SenderProgress()
        let users = try UserCredentials(settings, logger: logger)
        let operators = OperatorKeys()
        let limits = DeviceRequestLimits(
            perUser: settings.requestsPerMinutePerUser,
            perAddress: settings.requestsPerMinutePerAddress,
            logger: logger
        )
        guard let first = services.first, let last = services.last else { preconditionFailure("there is a loop") }
        notices = PushNotices(sending: first.loop, preparing: last.loop, pool: first.pool)
        let registrationSignal = Signal(loop: last.loop)
        let callStore = { @Sendable (pool: PostgresPool) in
            ReceivedCallStore(
                callbacks: LinkCallbackStore(pool: pool),
                events: EventStore(pool: pool),
                devices: DeviceStore(pool: pool),
                pruneAfterFailures: settings.pruneAfterFailures,
                registrationSignal: registrationSignal,
                logger: logger
            )
        }
        calls = try CallJournal(settings.journal, store: callStore(last.pool), loop: last.loop, logger: logger)
        gate = StartupGate(passesKakao: calls.journal != nil)
        let renewal = RenewalTime(daysBeforeExpiry: settings.renewDaysBeforeExpiry)
        // The port is known only once the server listens.
        let returnURL = Locked<String?>(nil)
        let mask = SecretMask(
            secrets: settings.feedbackSecret.map { [$0.revealed] } ?? [],
            prefixes: [FeedbackRoutes.path, DeviceRoutes.path]
        )
        let dryRuns = UploadLimit(PushRoutes.maximumDryRuns)
        let uploads = UploadLimit(AudienceRoutes.maximumUploads)
        let imports = UploadLimit(DeviceTransferRoutes.maximumImports)
        let importSignal = Signal(loop: last.loop)
        let monitoring = MonitoringAccess()
        let openAPI = OpenAPIRoutes(.service)
        let queue = QueueDepth(pool: first.pool)
        let metricsRoutes = MetricsRoutes(
            metrics: metrics,
            availability: availability,
            progress: progress,
            pools: services.map(\.pool),
            queue: queue,
            journal: calls.journal
        )
        let statusRoutes = StatusRoutes(
            availability: availability,
            queue: queue,
            journal: calls.journal
        )
        server = try HTTPServer(settings: settings.httpServer(), loops: loops, logger: logger) {
            [services, migrator, gate, events, notices, journal = calls.journal] loop in
            guard let own = services.first(where: { $0.loop === loop }) else {
                preconditionFailure("each loop has services")
            }
            let authenticator = Self.authenticator(settings, operators, users, limits, monitoring, own)
            let callStore = callStore(own.pool)
            let intake = CallIntake(store: callStore, journal: journal, gate: gate, loop: loop, logger: logger)
            let readiness = Readiness(
                pool: own.pool,
                migrator: migrator,
                gate: gate,
                journal: journal,
                availability: availability
            )
            let registrar = DeviceRegistrar(
                store: callStore.devices,
                kakao: own.kakao(.requests),
                renewal: renewal,
                signal: registrationSignal
            )
            let pushes = PushStore(pool: own.pool)
            var routes = Routes(authenticator)
            routes.add(openAPI)
            routes.add(HealthRoutes(readiness: readiness))
            routes.add(metricsRoutes)
            routes.add(statusRoutes)
            routes.add(KakaoDeviceRoutes(registrar: registrar))
            routes.add(DeviceRoutes(registrar: registrar))
            routes.add(
                DeviceTransferRoutes(
                    imports: DeviceImportStore(pool: own.pool, renewal: renewal),
                    exports: DeviceExportStore(pool: own.pool),
                    uploads: imports,
                    importSignal: importSignal
                )
            )
            routes.add(
                PushRoutes(
                    store: pushes,
                    preparations: PreparationStore(pool: own.pool),
                    kakao: own.kakao(.requests),
                    version: settings.kakao.pushVersion,
                    returnURL: { returnURL.withLock { $0 } },
                    mask: mask,
                    dryRuns: dryRuns,
                    notices: notices,
                    events: events
                )
            )
            routes.add(AudienceRoutes(store: AudienceStore(pool: own.pool), uploads: uploads))
            routes.add(KakaoRelayRoutes(kakao: own.kakao(.requests)))
            routes.add(LinkCallbackRoutes(store: callStore.callbacks, intake: intake))
            routes.add(
                EventRoutes(
                    appID: settings.kakao.appID.map(String.init),
                    verifier: users.kakao,
                    client: own.client,
                    store: callStore.events,
                    intake: intake
                )
            )
            routes.add(
                UserRoutes(
                    registrar: registrar,
                    events: callStore.events,
                    callbacks: callStore.callbacks,
                    userIDArgument: settings.userIDArgument
                )
            )
            routes.add(FeedbackRoutes(isOffered: settings.feedbackSecret != nil, intake: intake))
            let accessLog = AccessLog(
                logger: logger,
                quietPaths: HealthRoutes.quietPaths,
                mask: mask
            )
            return Application(router: routes.router, middleware: [accessLog, gate], logger: logger)
        }
        returnURL.withLock { [settings, server] in $0 = settings.returnURL(port: server.port) }
        sender = BatchSender(
            loop: first.loop,
            store: BatchStore(pool: first.pool, intervals: senderIntervals),
            kakao: first.kakao(.pushes),
            version: settings.kakao.pushVersion,
            availability: availability,
            returnURL: returnURL.withLock { $0 },
            limit: settings.kakao.maximumConcurrentRequests,
            requestsPerSecond: settings.kakao.requestsPerSecond,
            intervals: senderIntervals,
            notices: notices,
            progress: progress,
            logger: logger
        )
        // A notification informs this server at once of changes through other servers. A (re)connection counts as a
        // notification, since earlier ones may be lost.
        listening = Signal(loop: first.loop)
        listener = PostgresListener(
            settings: databaseSettings,
            channels: [PushNotices.channel, KakaoAccessTokens.channel],
            loop: first.loop,
            logger: logger
        ) { [notices, listening] event in
            notices.receive(event)
            users.receive(event)
            if event == .listening { listening.send() }
        }
        preparer = PushPreparer(
            loop: last.loop,
            store: PreparationStore(pool: last.pool),
            notices: notices,
            logger: logger
        )
        housekeeper = PushHousekeeper(
            loop: last.loop,
            store: HousekeepingStore(pool: last.pool),
            audiences: AudienceStore(pool: last.pool),
            retentionDays: settings.pushRetentionDays,
            logger: logger
        )
        let registrar = DeviceRegistrar(
            store: DeviceStore(pool: last.pool),
            kakao: last.kakao(.background),
            renewal: renewal,
            signal: registrationSignal
        )
        syncWorker = PendingDeviceWorker(loop: last.loop, registrar: registrar, logger: logger)
        renewer = DeviceRenewer(
            loop: last.loop,
            registrar: registrar,
            activeWithinDays: settings.activeWithinDays,
            logger: logger
        )
        keyUseWriter = KeyUseWriter(
            loop: last.loop,
            keys: operators,
            store: OperatorKeyStore(pool: last.pool),
            logger: logger
        )
        importPacer = ImportedDevicePacer(
            loop: last.loop,
            store: DeviceImportStore(pool: last.pool, renewal: renewal),
            signal: importSignal,
            registrationSignal: registrationSignal,
            logger: logger
        )
    }

    /// Returns the maximum number of connections to PostgreSQL that a server opens: those of each event loop, and the
    /// listener's.
    static func maximumDatabaseConnections(
        _ settings: PostgresSettings,
        loopCount: Int = EventLoopGroup.coreCount
    ) -> Int {
        loopCount * settings.maximumConnections + 1
    }

    private static func authenticator(
        _ settings: Settings,
        _ operators: OperatorKeys,
        _ users: UserCredentials,
        _ limits: DeviceRequestLimits,
        _ monitoring: MonitoringAccess,
        _ own: LoopServices
    ) -> Authenticator {
        Authenticator(
            operatorKey: settings.operatorKey,
            adminKey: settings.kakao.adminKey,
            feedbackSecret: settings.feedbackSecret,
            operators: operators,
            keys: OperatorKeyStore(pool: own.pool),
            users: users,
            limits: limits,
            monitoring: monitoring,
            kakao: own.kakao(.requests),
            client: own.client
        )
    }

    /// The port that the server listens on.
    package var port: Int { server.port }

    /// Reads certificate and key from their files again, for new connections. If they are unusable, the old ones remain
    /// in use, and the log says why.
    package func reloadCertificate() async {
        do {
            let context = try await withCheckedThrowingContinuation { continuation in
                EventLoop.blocking.async { [settings] in
                    continuation.resume(with: Result { try settings.tlsContext() })
                }
            }
            guard let context else { return logger.notice("Certificate reload skipped: no certificate is configured") }
            server.use(context)
            logger.notice("Certificate reloaded")
        } catch {
            logger.error("Certificate reload failed", metadata: ["error": "\(error)"])
        }
    }

    /// Serves until the process is asked to shut down, then finishes the requests in flight.
    ///
    /// Waits for an unavailable database without a limit. Meanwhile the response to requests is 503.
    ///
    /// - Throws: ``PostgresError`` when the migrations do not match the database; ``SettingsError`` when migrations are
    ///   pending that the server is not to apply.
    package func run() async throws {
        for service in services { service.pool.start() }
        server.start()
        logger.notice("Listening", metadata: ["address": "\(settings.http.host):\(port)"])
        if calls.journal == nil {
            logger.warning(
                "No journal configured: calls from Kakao are lost while PostgreSQL is unavailable",
                metadata: ["setting": "\(SettingKey.journalDirectory.rawValue)"]
            )
        }
        do {
            try await cancelWhenGracefulShutdown {
                try await self.prepareDatabase()
                self.listener.start()
                // Once the listener is connected, no notification is missed. The server also works without it, but
                // notices changes later.
                await self.listening.wait(atMost: Self.listeningTime)
            }
            gate.open()
            logger.notice("Ready")
            try onListening(self)
        } catch is CancellationError {
            return await shutdown(nil)
        } catch {
            await shutdown(nil)
            throw error
        }
        let background = Task(executorPreference: loops.loops[0]) {
            [sender, preparer, syncWorker, renewer, importPacer, housekeeper, keyUseWriter, notices, calls] in
            async let sending: Void = sender.run()
            async let preparing: Void = preparer.run()
            async let syncing: Void = syncWorker.run()
            async let renewing: Void = renewer.run()
            async let pacing: Void = importPacer.run()
            async let housekeeping: Void = housekeeper.run()
            async let writing: Void = keyUseWriter.run()
            async let telling: Void = notices.run()
            async let replaying: Void = calls.run()
            _ = await (sending, preparing, syncing, renewing, pacing, housekeeping, writing, telling, replaying)
        }
        try? await gracefulShutdown()
        await shutdown(background)
    }

    /// Applies pending migrations or checks that none is pending. Retries while the database is unavailable.
    private func prepareDatabase() async throws {
        while true {
            do {
                try await applyMigrations()
                return
            } catch let error as PostgresError where error.isTransient {
                logger.warning("Waiting for the database", metadata: ["error": "\(String(reflecting: error))"])
                try await loops.loops[0].sleep(for: .seconds(1))
            }
        }
    }

    private func applyMigrations() async throws {
        guard settings.migratesOnStart else {
            let pending = try await migrator.pending(services[0].pool)
            guard pending.isEmpty else {
                throw SettingsError(
                    place: SettingKey.databaseMigrate.rawValue,
                    message: "\(pending.count) migrations are pending. Run push-server migrate first."
                )
            }
            return
        }
        _ = try await migrator.migrate(settings: databaseSettings, loop: loops.loops[0], logger: logger)
    }

    /// - Parameter background: The task of the background workers; `nil` if it was not started.
    private func shutdown(_ background: Task<Void, Never>?) async {
        logger.notice("Shutting down")
        gate.beginShutdown()
        // No new work is claimed from now on, however long the requests in flight take.
        events.close()
        await listener.shutdown()
        await preparer.stop()
        notices.stop()
        await sender.stop()
        await renewer.stop()
        await importPacer.stop()
        await syncWorker.stop()
        await housekeeper.stop()
        await calls.stop()
        let patience = Task(executorPreference: loops.loops[0]) { [loops, services] in
            try await loops.loops[0].sleep(for: Self.kakaoTime)
            for service in services { await service.client.shutdown() }
            try await loops.loops[0].sleep(for: Self.drainTime - Self.kakaoTime)
            background?.cancel()
        }
        await server.shutdown(within: Self.drainTime)
        // Stopped after the last requests, so that their key uses are written too.
        await keyUseWriter.stop()
        await background?.value
        patience.cancel()
        await withDiscardingTaskGroup { group in
            for service in services {
                group.addTask {
                    await service.client.shutdown()
                    await service.pool.shutdown(within: Self.databaseTime)
                }
            }
        }
        await calls.close()
        loops.shutdown()
        logger.notice("Stopped")
    }
}

extension Settings {
    /// Returns the URL at which Kakao reports failed tokens; `nil` if Kakao cannot reach the server.
    fileprivate func returnURL(port: Int) -> String? {
        guard let publicURL, let feedbackSecret else { return nil }
        let base: String =
            switch publicURL {
            case .given(let url): url
            case .own: "\(http.tls == nil && certificateFile == nil ? "http" : "https")://\(http.host):\(port)"
            }
        return base + FeedbackRoutes.path + feedbackSecret.revealed
    }

    /// Returns the HTTP settings, with the certificate read.
    fileprivate func httpServer() throws -> HTTPServerSettings {
        var http = http
        http.tls = try tlsContext()
        return http
    }

    /// Reads certificate and key from their files. Returns `nil` for plain HTTP.
    func tlsContext() throws -> TLSContext? {
        guard let certificateFile, let privateKeyFile else { return nil }
        func contents(_ path: String, _ key: SettingKey) throws -> [UInt8] {
            guard let bytes = FileContents.read(path) else {
                throw SettingsError(place: key.rawValue, message: "The file \(path) cannot be read.")
            }
            return bytes
        }
        return try TLSContext(
            certificateChain: contents(certificateFile, .httpTLSCertificateFile),
            privateKey: contents(privateKeyFile, .httpTLSPrivateKeyFile)
        )
    }
}
