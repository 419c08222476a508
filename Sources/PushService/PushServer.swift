internal import Dispatch
internal import EventLoop
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI
internal import Locking
package import Logging
internal import Postgres
internal import ServiceLifecycle

/// The whole server, wired: what each loop has, what runs in the background, and the order in which it all begins and ends.
package final class PushServer: Service {
    /// The longest that the start waits until the server hears what others say.
    private static let listeningTime = Duration.seconds(2)
    // On `SIGTERM` the server is gone within 10 s.
    /// So much of it is Kakao's, to answer what it was asked. A call that is given up then is noted as not answered.
    private static let kakaoTime = Duration.seconds(5)
    /// So much is for requests that are in hand, and for noting down what became of the sends.
    private static let drainTime = Duration.seconds(7)
    /// And so much for statements that are under way then.
    private static let databaseTime = Duration.seconds(2)

    /// What each loop has of its own, so that a request never leaves it.
    private struct LoopServices {
        let loop: EventLoop
        let pool: PostgresPool
        let client: HTTPClient
        let push: KakaoPushAPI
        let user: KakaoUserAPI
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
    /// Signalled when ``listener`` listens.
    private let listening: Signal
    private let events = PushEvents()
    private let syncWorker: PendingDeviceWorker
    private let renewer: DeviceRenewer
    private let keyUseWriter: KeyUseWriter
    private let importPacer: ImportedDevicePacer
    private let databaseSettings: PostgresSettings
    private let onListening: @Sendable (PushServer) throws -> Void

    /// Makes everything and binds the port; nothing is served before ``run()``.
    ///
    /// - Parameters:
    ///   - migrations: The folder of the SQL files.
    ///   - loopCount: How many loops it runs on, each with connections of its own.
    ///   - senderIntervals: The intervals by which pushes are delivered.
    ///   - onListening: Called once, when the server can do its work.
    /// - Throws: ``SettingsError`` for files that cannot be used; ``SystemError`` when the address cannot be listened on.
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
            let client = try HTTPClient(
                settings: HTTPClientSettings(
                    maximumConnections: settings.kakao.maximumConcurrentRequests,
                    caCertificateFile: settings.kakao.caCertificateFile
                ),
                loop: loop
            )
            let kakao = KakaoClient(settings: settings.kakao.api, client: client) {
                metrics.count($0)
                availability.record($0)
            }
            return LoopServices(
                loop: loop,
                pool: PostgresPool(settings: databaseSettings, loop: loop, logger: logger),
                client: client,
                push: kakao.push,
                user: kakao.user
            )
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
        // Where it listens is known once it does.
        let returnURL = Locked<String?>(nil)
        let mask = SecretMask(
            secrets: settings.feedbackSecret.map { [$0.revealed] } ?? [],
            prefixes: [FeedbackRoutes.path, DeviceRoutes.path]
        )
        let dryRuns = UploadLimit(PushRoutes.maximumDryRuns)
        let uploads = UploadLimit(AudienceRoutes.maximumUploads)
        let imports = UploadLimit(DeviceTransferRoutes.maximumImports)
        let importSignal = Signal(loop: last.loop)
        let readers = ReaderAccess(
            authenticator: Self.authenticator(settings, operators, users, limits, first),
            loop: first.pool.loop
        )
        let queue = QueueDepth(pool: first.pool)
        let metricsRoutes = MetricsRoutes(
            access: readers,
            metrics: metrics,
            availability: availability,
            progress: progress,
            pools: services.map(\.pool),
            queue: queue,
            journal: calls.journal
        )
        let statusRoutes = StatusRoutes(
            access: readers,
            availability: availability,
            queue: queue,
            journal: calls.journal
        )
        server = try HTTPServer(settings: settings.httpServer(), loops: loops, logger: logger) {
            [services, migrator, gate, events, notices, journal = calls.journal] loop in
            guard let own = services.first(where: { $0.loop === loop }) else {
                preconditionFailure("each loop has services")
            }
            let authenticator = Self.authenticator(settings, operators, users, limits, own)
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
                push: own.push,
                renewal: renewal,
                signal: registrationSignal
            )
            let pushes = PushStore(pool: own.pool)
            var router = ServiceRouter(authenticator)
            HealthRoutes(readiness: readiness).add(to: &router)
            metricsRoutes.add(to: &router)
            statusRoutes.add(to: &router)
            KakaoDeviceRoutes(registrar: registrar).add(to: &router)
            DeviceRoutes(registrar: registrar).add(to: &router)
            DeviceTransferRoutes(
                imports: DeviceImportStore(pool: own.pool, renewal: renewal),
                exports: DeviceExportStore(pool: own.pool),
                uploads: imports,
                importSignal: importSignal
            ).add(to: &router)
            PushRoutes(
                authenticator: authenticator,
                store: pushes,
                preparations: PreparationStore(pool: own.pool),
                kakao: own.push,
                version: settings.kakao.pushVersion,
                returnURL: { returnURL.withLock { $0 } },
                mask: mask,
                dryRuns: dryRuns,
                notices: notices,
                events: events
            ).add(to: &router)
            AudienceRoutes(store: AudienceStore(pool: own.pool), uploads: uploads)
                .add(to: &router)
            LinkCallbackRoutes(store: callStore.callbacks, intake: intake).add(to: &router)
            EventRoutes(
                appID: settings.kakao.appID.map(String.init),
                verifier: users.kakao,
                client: own.client,
                store: callStore.events,
                intake: intake
            ).add(to: &router)
            UserRoutes(
                registrar: registrar,
                events: callStore.events,
                callbacks: callStore.callbacks,
                userIDArgument: settings.userIDArgument
            ).add(to: &router)
            FeedbackRoutes(secret: settings.feedbackSecret, intake: intake).add(to: &router)
            let accessLog = AccessLog(
                logger: logger,
                quietPaths: HealthRoutes.quietPaths,
                mask: mask
            )
            return Application(router: router.router, middleware: [accessLog, gate], logger: logger)
        }
        returnURL.withLock { [settings, server] in $0 = settings.returnURL(port: server.port) }
        sender = BatchSender(
            loop: first.loop,
            store: BatchStore(pool: first.pool, intervals: senderIntervals),
            kakao: first.push,
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
        // What another server was asked or told is noticed at once. On (re)connection too: what was said before may be lost.
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
            push: last.push,
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

    /// The most connections to PostgreSQL that a server opens: those of each loop, and the listener's.
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
        _ own: LoopServices
    ) -> Authenticator {
        Authenticator(
            operatorKey: settings.operatorKey,
            adminKey: settings.kakao.adminKey,
            operators: operators,
            keys: OperatorKeyStore(pool: own.pool),
            users: users,
            limits: limits,
            kakao: own.user,
            client: own.client
        )
    }

    /// The port it listens on.
    package var port: Int { server.port }

    /// Reads the files of certificate and key again, for the connections that come from now on. If they cannot be used, the log says
    /// why and the old ones stay.
    package func reloadCertificate() async {
        do {
            let context = try await withCheckedThrowingContinuation { continuation in
                EventLoop.blocking.async { [settings] in
                    continuation.resume(with: Result { try settings.tlsContext() })
                }
            }
            guard let context else { return logger.notice("There is no certificate to read again") }
            server.use(context)
            logger.notice("The certificate was read again")
        } catch {
            logger.error("The certificate was read again and cannot be used", metadata: ["error": "\(error)"])
        }
    }

    /// Serves until the process is told to end, then finishes what is in hand.
    ///
    /// A database that does not answer is waited for, however long that takes; meanwhile requests are answered with 503.
    ///
    /// - Throws: ``PostgresError`` when the migrations and the database do not agree; ``SettingsError`` when migrations are pending
    ///   that it is not to apply.
    package func run() async throws {
        for service in services { service.pool.start() }
        server.start()
        logger.notice("Listening", metadata: ["address": "\(settings.http.host):\(port)"])
        if calls.journal == nil {
            logger.warning(
                "No journal: calls from Kakao are lost while PostgreSQL does not answer",
                metadata: ["setting": "\(SettingKey.journalDirectory.rawValue)"]
            )
        }
        do {
            try await cancelWhenGracefulShutdown {
                try await self.prepareDatabase()
                self.listener.start()
                // Nothing that it is told from now on is missed. Without it, it would only notice later.
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

    /// Brings the database up to date, or sees that it is.
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
                    message: "\(pending.count) migrations have not run; run push-server migrate first."
                )
            }
            return
        }
        _ = try await migrator.migrate(settings: databaseSettings, loop: loops.loops[0], logger: logger)
    }

    /// - Parameter background: What sends and settles; `nil` before there was any of it.
    private func shutdown(_ background: Task<Void, Never>?) async {
        logger.notice("Shutting down")
        gate.beginShutdown()
        // Nothing new is claimed from now on, whatever the requests in hand may take.
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
        // Of the last requests too.
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
    /// Where Kakao reports tokens that failed, if it can reach us.
    fileprivate func returnURL(port: Int) -> String? {
        guard let publicURL, let feedbackSecret else { return nil }
        let base: String =
            switch publicURL {
            case .given(let url): url
            case .own: "\(http.tls == nil && certificateFile == nil ? "http" : "https")://\(http.host):\(port)"
            }
        return base + FeedbackRoutes.path + feedbackSecret.revealed
    }

    /// The server's settings with the certificate read.
    fileprivate func httpServer() throws -> HTTPServerSettings {
        var http = http
        http.tls = try tlsContext()
        return http
    }

    /// Certificate and key as their files have them now; `nil` for plain HTTP.
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
