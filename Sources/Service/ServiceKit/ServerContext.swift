import Crypto
package import Endpoints
package import EventLoop
import HTTPClient
package import HTTPServer
package import Identity
package import Journal
import KakaoAPI
package import Locking
package import Logging
import Net
package import Postgres
package import Runtime
package import Settings

/// The parts of a server that its features share.
package struct ServerContext: Sendable {
    package let logger: Logger
    /// The Admin key of all calls to Kakao.
    private let adminKey: KakaoKey
    /// The settings of the app at Kakao. ``apply(_:_:)`` replaces them.
    private let currentKakao: Locked<KakaoSettings>
    package let identity: ServerIdentity
    /// The document of all operations.
    package let document: OpenAPIDocument
    package let migrator: Migrator
    /// The services of each event loop.
    package let loops: [LoopServices]
    /// The connections to PostgreSQL, which event loops share if there are few.
    package let pools: [PostgresPool]
    /// How far the replica for reads is behind; `nil` if there is none.
    package let replica: ReplicaHealth?
    package let availability: KakaoAvailability
    package let monitoring = Monitoring()
    /// The switch that stops all that is sent. Features register their senders.
    package let senderControl: SenderControl
    /// Tells the delivery of webhooks that there may be new ones.
    package let webhooks = WebhookNotice()
    /// Finds out whether PostgreSQL has lost commits. Features register what they know of theirs.
    package let lostCommits: LostCommits
    /// The journal of calls from Kakao; `nil` if none is configured.
    package let journal: Journal?
    /// The directory for what is to outlive the process: that of the journal. `nil` if none is configured.
    package var stateDirectory: String? { journal?.path }
    /// The journal of account events that could not be verified yet; `nil` without a journal.
    package let unverifiedEvents: Journal?
    /// The calls from Kakao that were stored in the last minutes; `nil` if none are kept.
    package let recentCalls: RecentRecords?
    package let gate: StartupGate
    package let pace = PollPace()
    /// The limit of uploads of users, for an audience or a customer file. Each holds a connection to PostgreSQL while it reads its body.
    package let userUploads = ConcurrencyLimit(2)
    /// The features' reactions to events of users. Features register them.
    package let lifecycle = UserLifecycle()
    /// The URL at which Kakao and phones reach the server; `nil` if none is set. It is set once the server listens.
    package let publicURL = Locked<String?>(nil)
    /// The URL at which Kakao reports failed tokens. It is set once the server listens, since the port is unknown before.
    package let returnURL = Locked<String?>(nil)
    /// The secrets that no log line may show.
    package let mask: SecretMask
    /// Returns the number of log lines that were dropped; `nil` if the log's output does not count them.
    package let droppedLogLines: @Sendable () -> Int?

    /// - Parameters:
    ///   - journal: Opens the journal, once the file of `identity.jwt.keys_file` was read.
    ///   - unverifiedEvents: Opens the journal of account events that could not be verified yet.
    ///   - recentCalls: Opens the files of the calls that were stored in the last minutes.
    ///   - secretPaths: The paths that end with a secret.
    ///   - replica: The replica for reads that decide nothing; `nil` if there is none.
    ///   - maximumReplicaLag: The lag from which on the replica is not read.
    ///   - connections: How the loops share the connections to PostgreSQL; `nil` for the default number.
    ///   - openPaths: The paths that are served before the database is ready.
    ///   - droppedLogLines: Returns the number of log lines that were dropped; `nil` if the output does not count them.
    /// - Throws: ``SettingsError`` for unusable files.
    package init(
        kakao: KakaoSettings,
        identity: IdentitySettings,
        document: OpenAPIDocument,
        migrator: Migrator,
        database: PostgresSettings,
        replica: PostgresSettings? = nil,
        maximumReplicaLag: Duration = ReplicaHealth.defaultMaximumLag,
        connections: ConnectionPlan? = nil,
        journal: @autoclosure () throws -> Journal?,
        unverifiedEvents: @autoclosure () throws -> Journal? = nil,
        recentCalls: @autoclosure () throws -> RecentRecords? = nil,
        loops: [EventLoop],
        secretPaths: [String],
        openPaths: [String],
        logger: Logger,
        droppedLogLines: @escaping @Sendable () -> Int? = { nil }
    ) throws {
        self.logger = logger
        self.droppedLogLines = droppedLogLines
        let api = kakao.api
        adminKey = api.adminKey
        currentKakao = Locked(kakao)
        self.identity = try ServerIdentity(identity, kakao, loops: loops, logger: logger)
        self.document = document
        self.migrator = migrator
        let journal = try journal()
        self.journal = journal
        self.unverifiedEvents = try unverifiedEvents()
        self.recentCalls = try recentCalls()
        let availability = KakaoAvailability(logger: logger)
        self.availability = availability
        let clientSettings = HTTPClientSettings(
            totalTimeout: kakao.callTimeout,
            connectionLimits: KakaoBudget.connectionLimits(kakao.maximumConcurrentRequests),
            trust: try .reading(kakao.caCertificateFile),
            proxy: kakao.proxy
        )
        let metrics = KakaoMetrics()
        monitoring.register(metrics.report)
        let connections = connections ?? ConnectionPlan(loops: loops.count)
        var database = database
        database.writeConnections = connections.writeConnections
        let places = ExclusivePlaces(connections.exclusiveConnections)
        let replicaPlaces = ExclusivePlaces(ConnectionPlan.exclusiveReplicaConnections)
        let pools = loops.prefix(connections.pools).map { [database] loop in
            PostgresPool(
                settings: database,
                loop: loop,
                places: places,
                replica: replica.map { PostgresPool(settings: $0, loop: loop, places: replicaPlaces, logger: logger) },
                logger: logger
            )
        }
        self.pools = pools
        self.loops = loops.enumerated().map { index, loop in
            LoopServices(
                loop: loop,
                pool: pools[index % pools.count],
                client: HTTPClient(settings: clientSettings, loop: loop),
                kakao: api,
                logger: logger
            ) {
                metrics.count($0)
                availability.record($0)
            }
        }
        senderControl = SenderControl(pool: self.loops[0].pool, webhooks: webhooks)
        lostCommits = LostCommits(
            pool: self.loops[0].pool,
            control: senderControl,
            monitoring: monitoring,
            logger: logger
        )
        self.replica = replica.map { [lostCommits] _ in
            ReplicaHealth(pools: pools, commits: lostCommits, maximumLag: maximumReplicaLag, logger: logger)
        }
        if let health = self.replica { monitoring.register(health.monitoring) }
        lostCommits.register("erasures") { [lifecycle, loop = self.loops[0]] in
            try await lifecycle.restoreErasures(on: loop, $0)
        }
        mask = SecretMask(
            secrets: Self.secrets(identity, kakao),
            prefixes: secretPaths,
            beginnings: [OperatorKeyStore.prefix]
        )
        gate = StartupGate(openPaths: openPaths, passesKakao: journal != nil)
    }

    /// The app at Kakao as the settings describe it at present. A reload may replace its secrets: read them when they are
    /// used.
    package var kakao: KakaoSettings { currentKakao.withLock { $0 } }

    /// Applies the secrets and the limits of reloaded settings.
    package func apply(_ kakao: KakaoSettings, _ identity: IdentitySettings) async {
        for secret in Self.secrets(identity, kakao) { mask.add(secret) }
        currentKakao.withLock { $0 = kakao }
        if adminKey.unmasked != kakao.adminKey.revealed {
            adminKey.replace(by: kakao.adminKey.revealed)
            availability.closeCircuits()
        }
        await self.identity.apply(identity, kakao)
    }

    /// The secrets that a caller may put into a path: the one that belongs there, and keys by mistake.
    private static func secrets(_ identity: IdentitySettings, _ kakao: KakaoSettings) -> [String] {
        [identity.feedbackSecret, identity.operatorKey, kakao.adminKey, kakao.nextAdminKey].compactMap { $0?.revealed }
    }

    /// The services of the loop that sends pushes.
    package var sending: LoopServices { loops[0] }

    /// The services of the loop of other work in the background.
    package var background: LoopServices { loops[loops.count - 1] }
}
