internal import EventLoop
internal import HTTPClient
internal import HTTPServer
internal import KakaoAPI
internal import Locking
internal import Logging
internal import Postgres
internal import ServiceKit

/// What the features of a server share.
struct ServerContext: Sendable {
    let settings: Settings
    let logger: Logger
    let senderIntervals: SenderIntervals
    let migrator: Migrator
    let database: PostgresSettings
    /// The services of each event loop.
    let loops: [LoopServices]
    let identity: ServerIdentity
    let metrics: ServerMetrics
    let availability: KakaoAvailability
    let progress = SenderProgress()
    let journal: CallJournal
    let gate: StartupGate
    let pace = PollPace()
    /// Wakes the worker that calls Kakao about devices.
    let registrationSignal: Signal
    /// The URL at which Kakao reports failed tokens. It is set once the server listens, since the port is unknown before.
    let returnURL = Locked<String?>(nil)
    /// The secrets that no log line may show.
    let mask: SecretMask

    init(
        settings: Settings,
        senderIntervals: SenderIntervals,
        migrator: Migrator,
        database: PostgresSettings,
        loops: [EventLoop],
        logger: Logger
    ) throws {
        self.settings = settings
        self.senderIntervals = senderIntervals
        self.migrator = migrator
        self.database = database
        self.logger = logger
        let (metrics, availability) = (ServerMetrics(), KakaoAvailability(logger: logger))
        self.metrics = metrics
        self.availability = availability
        self.loops = try loops.map { loop in
            try LoopServices(settings, database, loop: loop, logger: logger) {
                metrics.count($0)
                availability.record($0)
            }
        }
        guard let last = self.loops.last else { preconditionFailure("there is a loop") }
        identity = try ServerIdentity(settings, logger: logger)
        registrationSignal = Signal(loop: last.loop)
        mask = SecretMask(
            secrets: settings.feedbackSecret.map { [$0.revealed] } ?? [],
            prefixes: [FeedbackRoutes.path, DeviceRoutes.path]
        )
        let store = ReceivedCallStore(last, settings, registrationSignal, logger: logger)
        journal = try CallJournal(settings.journal, store: store, loop: last.loop, logger: logger)
        gate = StartupGate(passesKakao: journal.journal != nil)
    }

    /// The services of the loop that sends pushes.
    var sending: LoopServices { loops[0] }

    /// The services of the loop of other work in the background.
    var background: LoopServices { loops[loops.count - 1] }

    /// When Kakao's registration of a device is renewed.
    var renewal: RenewalTime { RenewalTime(daysBeforeExpiry: settings.renewDaysBeforeExpiry) }

    /// Returns the registrar of devices of a loop.
    func registrar(_ loop: LoopServices, _ budget: KakaoBudget) -> DeviceRegistrar {
        DeviceRegistrar(
            store: DeviceStore(pool: loop.pool),
            kakao: loop.kakao(budget),
            renewal: renewal,
            signal: registrationSignal
        )
    }

    /// Returns the store of calls from Kakao of a loop.
    func callStore(_ loop: LoopServices) -> ReceivedCallStore {
        ReceivedCallStore(loop, settings, registrationSignal, logger: logger)
    }

    /// Returns the intake of calls from Kakao of a loop.
    func intake(_ loop: LoopServices) -> CallIntake {
        CallIntake(store: callStore(loop), journal: journal.journal, gate: gate, loop: loop.loop, logger: logger)
    }
}

/// The services that each event loop has of its own, so that a request never leaves its event loop.
struct LoopServices: Sendable {
    let loop: EventLoop
    let pool: PostgresPool
    let client: HTTPClient
    private let kakaoSettings: KakaoAPISettings
    private let onCall: @Sendable (KakaoCallReport) -> Void

    init(
        _ settings: Settings,
        _ database: PostgresSettings,
        loop: EventLoop,
        logger: Logger,
        onCall: @escaping @Sendable (KakaoCallReport) -> Void
    ) throws {
        self.loop = loop
        kakaoSettings = settings.kakao.api
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
        KakaoClient(settings: kakaoSettings, client: client, budget: budget, onCall: onCall)
    }
}

extension ReceivedCallStore {
    fileprivate init(_ loop: LoopServices, _ settings: Settings, _ signal: Signal, logger: Logger) {
        self.init(
            callbacks: LinkCallbackStore(pool: loop.pool),
            events: EventStore(pool: loop.pool),
            devices: DeviceStore(pool: loop.pool),
            pruneAfterFailures: settings.pruneAfterFailures,
            registrationSignal: signal,
            logger: logger
        )
    }
}
