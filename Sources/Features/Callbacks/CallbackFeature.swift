package import Endpoints
import FoundationEssentials
import Identity
import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle
import Settings
package import Sharing

/// Calls from Kakao: shared messages, failed tokens, unlinked users, channels that were added or blocked, account events.
package struct CallbackFeature: Feature {
    package typealias Configuration = CallbackSettings

    package static let collections: [any RouteCollection.Type] = [
        LinkCallbackRoutes.self, EventRoutes.self, ChannelEventRoutes.self, FeedbackRoutes.self,
    ]

    /// The start of the path of Kakao's reports of failed tokens; a secret follows.
    package static let feedbackPath = FeedbackRoutes.path

    private let server: ServerContext
    private let settings: CallbackSettings
    private let sharing: SharingFeature
    private let counts: CallbackCounts
    private let malformedCalls: HourlyLimit
    private let unknownKeys: AddressLimit
    /// Kakao's addresses; `nil` while they are not known.
    private let addresses: LoopValue<FetchedAddresses?>
    private let addressFetcher: KakaoAddressFetcher

    package init(
        _ server: ServerContext,
        _ settings: CallbackSettings,
        sharing: SharingFeature
    ) {
        self.server = server
        self.settings = settings
        self.sharing = sharing
        counts = CallbackCounts(server.loops)
        malformedCalls = HourlyLimit(settings.maximumMalformedPerHour)
        unknownKeys = AddressLimit(perMinute: settings.eventsWithUnknownKeysPerMinute, logger: server.logger)
        addresses = LoopValue(nil, loops: server.loops.map(\.loop))
        addressFetcher = KakaoAddressFetcher(
            addresses,
            policy: { server.kakao.sourceAddresses },
            times: settings.addressTimes,
            on: server.background,
            logger: server.logger
        )
        server.lifecycle.register { loop in
            CallbackUserObserver(
                hasKakaoUserIDs: server.identity.hasKakaoUserIDs,
                pool: loop.pool,
                userIDArgument: settings.userIDArgument
            )
        }
        server.monitoring.register(CallbackMonitoring(counts: counts).report)
    }

    package var webhookData: [WebhookData] { CallbackWebhooks.data }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let intake = CallIntake(
            store: store(loop),
            journal: server.journal,
            unverifiedEvents: server.unverifiedEvents,
            gate: server.gate,
            loop: loop.loop,
            malformedCalls: malformedCalls,
            notices: counts.notices.on(loop.loop),
            logger: server.logger
        )
        let sources = SourceAddressCheck(
            addresses.on(loop.loop),
            policy: { [server] in server.kakao.sourceAddresses },
            maximumAge: settings.addressTimes.maximumAge,
            counts: counts.elsewhere.on(loop.loop),
            logger: server.logger
        )
        routes.add(
            LinkCallbackRoutes(
                pool: loop.pool,
                intake: intake,
                signer: sharing.signer,
                requiresSignature: settings.requiresSignature,
                signatures: counts.signatures.on(loop.loop)
            ),
            guarding: sources.guarding(.link)
        )
        routes.add(
            EventRoutes(
                appID: server.kakao.appID.map(String.init),
                verifier: server.identity.kakaoTokens,
                client: loop.client,
                pool: loop.pool,
                intake: intake,
                unknownKeys: unknownKeys,
                sources: sources
            ),
            guarding: sources.guarding(.unlink)
        )
        routes.add(ChannelEventRoutes(intake: intake), guarding: sources.guarding(.channel))
        routes.add(FeedbackRoutes(intake: intake), guarding: sources.guarding(.feedback))
    }

    package func apply(_ settings: CallbackSettings) {
        addressFetcher.settingsMayHaveChanged()
    }

    package func makeServices() -> [any Service] {
        [addressFetcher.worker()] + makeJournalServices()
    }

    /// Makes the work on calls that were not stored at once, or that PostgreSQL may lose.
    private func makeJournalServices() -> [any Service] {
        let background = server.background
        guard let journal = server.journal else { return [] }
        let restorer = server.recentCalls.map { recent in
            CallRestorer(
                recent: recent,
                store: store(background),
                userIDArgument: settings.userIDArgument,
                hasKakaoUserIDs: server.identity.hasKakaoUserIDs,
                background: background,
                commits: server.lostCommits,
                logger: server.logger
            )
        }
        if let restorer { server.lostCommits.register("callbacks") { try await restorer.restore($0) } }
        let deletion = [restorer?.worker()].compactMap(\.self)
        let replayer = JournalReplayer(
            journal: journal,
            store: store(background),
            loop: background.loop,
            logger: server.logger
        )
        guard let unverified = server.unverifiedEvents, let verifier = server.identity.kakaoTokens else {
            return [replayer.worker()] + deletion
        }
        let eventReplayer = UnverifiedEventReplayer(
            journal: unverified,
            verifier: verifier,
            client: background.client,
            store: store(background),
            loop: background.loop,
            logger: server.logger
        )
        return [replayer.worker(), eventReplayer.worker()] + deletion
    }

    package var retentions: [Retention] {
        [
            Retention(
                "remove-old-calls",
                .delete { DeleteOldLinkCallbacks(retentionDays: settings.retentionDays, limit: $0) },
                .delete { DeleteOldEvents(retentionDays: settings.eventRetentionDays, limit: $0) }
            )
        ]
    }

    private func store(_ loop: LoopServices) -> ReceivedCallStore {
        ReceivedCallStore(
            callbacks: LinkCallbackStore(
                pool: loop.pool,
                statisticsArgs: sharing.statisticsArgs,
                webhooks: server.webhooks
            ),
            events: EventStore(pool: loop.pool, webhooks: server.webhooks),
            observers: server.lifecycle.observers(loop),
            recent: server.recentCalls
        )
    }
}

/// The erasure of a user from the stored calls.
private struct CallbackUserObserver: UserObserver {
    /// Whether user ids are Kakao's. Events have Kakao's ids, which may be those of other users otherwise.
    let hasKakaoUserIDs: Bool
    let pool: PostgresPool
    /// The setting `callbacks.user_id_argument`.
    let userIDArgument: String?

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        if hasKakaoUserIDs { try await pool.write(DeleteEvents(userID: userID)) }
        if let userIDArgument {
            try await RemoveUserFromLinkCallbacks.erase(userID, fromArgument: userIDArgument, pool)
        }
        return true
    }
}
