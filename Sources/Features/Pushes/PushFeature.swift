package import Endpoints
import Identity
import KakaoAPI
import Locking
package import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle
import Settings

/// Pushes and the audiences that they are sent to.
package struct PushFeature: Feature {
    package typealias Configuration = PushSettings

    package static let collections: [any RouteCollection.Type] = [
        PushRoutes.self, PushUserRoutes.self, AppPushRoutes.self, AudienceRoutes.self, TimeZoneRoutes.self,
    ]

    private let server: ServerContext
    /// The settings at the start.
    private let settings: PushSettings
    /// The settings of requests and of the preparation, and the hours for advertising. ``apply(_:)`` replaces them.
    private let present: Locked<PushSettings>
    private let notices: PushNotices
    private let events = PushEvents()
    private let users: LoopCounts<BatchState>
    private let opens: LoopCounts<OpenOutcome>
    private let opensPerHour: RequestLimit<Int64>
    private let inboxPagesPerMinute: RequestLimit<Int64>
    private let inboxContents: LoopValue<PushInbox.Contents>
    private let progress = WorkProgress()
    private let dryRuns = ConcurrencyLimit(DryRuns.maxConcurrentRuns)
    private let timeZone: TimeZoneRoutes

    package init(_ server: ServerContext, _ settings: PushSettings) {
        self.server = server
        self.settings = settings
        present = Locked(settings)
        notices = PushNotices(
            sending: server.sending.loop,
            preparing: server.background.loop,
            pool: server.sending.pool,
            webhooks: server.webhooks
        )
        users = LoopCounts([server.sending])
        opens = LoopCounts(server.loops)
        opensPerHour = RequestLimit(perHour: settings.opensPerHourPerUser)
        inboxPagesPerMinute = RequestLimit(perMinute: settings.inboxPerMinutePerUser)
        inboxContents = LoopValue(
            PushInbox.Contents(limit: PushInbox.maxContents),
            loops: server.loops.map(\.loop)
        )
        timeZone = TimeZoneRoutes(name: settings.timeZone, pool: server.background.pool)
        let monitoring = PushMonitoring(
            users: users,
            opens: opens,
            progress: progress,
            queue: CachedQuery(server.sending.pool) { [present] pool in
                try await PushQueue.read(pool, present.hours)
            },
            unfinished: CachedQuery(server.sending.pool, lifetime: .zero) { [present] pool in
                try await PushQueue.unfinished(pool, present.hours)
            }
        )
        server.monitoring.register(monitoring.report)
        server.senderControl.onChange(notices.pushChanged)
        server.lifecycle.register { [hasKakaoUserIDs = server.identity.hasKakaoUserIDs] in
            PushUserObserver(hasKakaoUserIDs: hasKakaoUserIDs, pool: $0.pool)
        }
    }

    package var webhookData: [WebhookData] { PushWebhooks.data }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let pushes = PushReads(pool: loop.pool, settings: present)
        routes.add(
            PushRoutes(
                store: PushStore(pool: loop.pool),
                pushes: pushes,
                dryRuns: DryRuns(
                    server: server,
                    pushes: pushes,
                    preparations: PreparationStore(pool: loop.pool, settings: present),
                    kakao: loop.kakao(.requests),
                    concurrency: dryRuns
                ),
                settings: { [present] in present.withLock { $0 } },
                kakaoVersion: server.kakao.pushVersion,
                notices: notices,
                events: events,
                recheckReading: routes.recheck(.operator(.read))
            )
        )
        routes.add(
            PushUserRoutes(
                store: PushUserStore(pool: loop.pool),
                exports: ExportedUserStore(pool: loop.pool, hasKakaoUserIDs: server.identity.hasKakaoUserIDs)
            )
        )
        routes.add(
            AppPushRoutes(
                opens: PushOpenStore(pool: loop.pool),
                inbox: settings.inboxDays.map { days in
                    PushInbox(
                        pool: loop.pool,
                        days: days,
                        kakaoVersion: server.kakao.pushVersion,
                        contents: inboxContents.on(loop.loop)
                    )
                },
                opensPerHour: opensPerHour,
                pagesPerMinute: inboxPagesPerMinute,
                counts: opens.on(loop.loop)
            )
        )
        routes.add(AudienceRoutes(store: AudienceStore(pool: loop.pool), uploads: server.userUploads))
        routes.add(timeZone)
    }

    package func makeServices() -> [any Service] {
        let (sending, background) = (server.sending, server.background)
        let batches = BatchStore(pool: sending.pool, present)
        let sender = QueueRunner(
            PushWork(
                batches: batches,
                kakao: sending.kakao(.pushes),
                version: server.kakao.pushVersion,
                availability: server.availability,
                returnURL: { [server] in server.returnURL.withLock { $0 } },
                requestsPerSecond: { [server] in server.kakao.requestsPerSecond },
                intervals: settings.intervals,
                notices: notices,
                users: users.on(sending.loop),
                logger: server.logger
            ),
            PushSchedule(
                maxRequestsInFlight: server.kakao.maximumConcurrentRequests,
                intervals: settings.intervals
            ),
            store: batches,
            signal: notices.sending,
            commits: server.lostCommits,
            stateDirectory: server.stateDirectory,
            intervals: settings.intervals,
            progress: progress,
            logger: server.logger
        )
        server.lostCommits.register("batches") { try await sender.restore($0) }
        let preparer = PushPreparer(
            store: PreparationStore(pool: background.pool, settings: present),
            notices: notices,
            logger: server.logger
        )
        return [
            QueueService { await sender.run() }, preparer.worker(on: background.loop),
            notices.servers.worker(logger: server.logger), events,
        ]
    }

    package var retentions: [Retention] {
        [
            Retention(
                "remove-old-pushes",
                .run { _, pool in
                    if try await PushStore(pool: pool).expireProposals() > 0 { notices.webhooks.send() }
                },
                .run { worker, pool in
                    let store = HousekeepingStore(pool: pool)
                    try await store.removeExpiredPushes(retentionDays: settings.retentionDays, worker)
                },
                // Each with up to 1,000 users.
                .delete(100) { DeleteUnusedAudienceParts(limit: $0) },
                .delete { DeleteOrphanedOpens(retentionDays: settings.retentionDays, limit: $0) },
                .delete { DeleteOrphanedOpenCounts(retentionDays: settings.retentionDays, limit: $0) },
                .delete { DeleteOpensOfErasedUsers(limit: $0) }
            )
        ]
    }

    package func apply(_ settings: PushSettings) {
        let hasOtherHours = present.withLock { present in
            defer { present = settings }
            return present.advertisingHours != settings.advertisingHours
        }
        if hasOtherHours { notices.wakeWorkers() }
        opensPerHour.apply(perHour: settings.opensPerHourPerUser)
        inboxPagesPerMinute.apply(perMinute: settings.inboxPerMinutePerUser)
    }

    package var channels: [String] { [notices.servers.channel] }

    package func receive(_ event: PostgresListener.Event) { notices.servers.receive(event) }
}
