internal import KakaoAPI
internal import Locking
internal import Postgres
internal import ServiceKit
internal import ServiceLifecycle

/// Pushes and the audiences that they are sent to.
struct PushFeature: Feature {
    static let collections: [any RouteCollection.Type] = [PushRoutes.self, AudienceRoutes.self]

    private let server: ServerContext
    private let notices: PushNotices
    private let events = PushEvents()
    private let dryRuns = UploadLimit(PushRoutes.maximumDryRuns)
    private let uploads = UploadLimit(AudienceRoutes.maximumUploads)

    init(_ server: ServerContext) {
        self.server = server
        notices = PushNotices(
            sending: server.sending.loop,
            preparing: server.background.loop,
            pool: server.sending.pool
        )
    }

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(
            PushRoutes(
                store: PushStore(pool: loop.pool),
                preparations: PreparationStore(pool: loop.pool),
                kakao: loop.kakao(.requests),
                version: server.settings.kakao.pushVersion,
                returnURL: { [server] in server.returnURL.withLock { $0 } },
                mask: server.mask,
                dryRuns: dryRuns,
                notices: notices,
                events: events
            )
        )
        routes.add(AudienceRoutes(store: AudienceStore(pool: loop.pool), uploads: uploads))
    }

    func makeServices() -> [any Service] {
        let (sending, background, settings) = (server.sending, server.background, server.settings)
        let sender = BatchSender(
            loop: sending.loop,
            store: BatchStore(pool: sending.pool, intervals: server.senderIntervals),
            kakao: sending.kakao(.pushes),
            version: settings.kakao.pushVersion,
            availability: server.availability,
            returnURL: server.returnURL.withLock { $0 },
            limit: settings.kakao.maximumConcurrentRequests,
            requestsPerSecond: settings.kakao.requestsPerSecond,
            intervals: server.senderIntervals,
            notices: notices,
            progress: server.progress,
            logger: server.logger
        )
        let preparer = PushPreparer(
            store: PreparationStore(pool: background.pool),
            notices: notices,
            logger: server.logger
        )
        let housekeeper = PushHousekeeper(
            store: HousekeepingStore(pool: background.pool),
            audiences: AudienceStore(pool: background.pool),
            retentionDays: settings.pushes.retentionDays,
            logger: server.logger
        )
        return [
            sender, preparer.worker(on: background.loop), housekeeper.worker(on: background.loop, pace: server.pace),
            notices.worker(logger: server.logger), events,
        ]
    }

    var channels: [String] { [PushNotices.channel] }

    func receive(_ event: PostgresListener.Event) { notices.receive(event) }
}
