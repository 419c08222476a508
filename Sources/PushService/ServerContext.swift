internal import EventLoop
internal import HTTPClient
internal import HTTPServer
internal import Journal
internal import KakaoAPI
internal import Locking
internal import Logging
internal import Postgres
internal import ServiceKit

/// The parts of a server that its features share.
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
    /// The journal of calls from Kakao; `nil` if none is configured.
    let journal: Journal?
    let gate: StartupGate
    let pace = PollPace()
    /// The features' reactions to events of users. Features register them.
    let lifecycle = UserLifecycle()
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
            try LoopServices(
                loop: loop,
                pool: PostgresPool(settings: database, loop: loop, logger: logger),
                client: HTTPClient(
                    settings: HTTPClientSettings(
                        connectionLimits: KakaoBudget.connectionLimits(settings.kakao.maximumConcurrentRequests),
                        caCertificateFile: settings.kakao.caCertificateFile
                    ),
                    loop: loop
                ),
                kakao: settings.kakao.api
            ) {
                metrics.count($0)
                availability.record($0)
            }
        }
        identity = try ServerIdentity(settings, logger: logger)
        mask = SecretMask(
            secrets: settings.callbacks.feedbackSecret.map { [$0.revealed] } ?? [],
            prefixes: [FeedbackRoutes.path, DeviceRoutes.path]
        )
        journal = try Journal(settings.journal, logger: logger)
        gate = StartupGate(passesKakao: journal != nil)
    }

    /// The services of the loop that sends pushes.
    var sending: LoopServices { loops[0] }

    /// The services of the loop of other work in the background.
    var background: LoopServices { loops[loops.count - 1] }
}
