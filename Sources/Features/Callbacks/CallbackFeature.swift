package import Endpoints
import Identity
package import Runtime
package import ServiceKit
package import ServiceLifecycle
import Settings
package import Sharing

/// Calls from Kakao: shared messages, failed tokens, unlinked users, account events.
package struct CallbackFeature: Feature {
    package typealias Configuration = CallbackSettings

    package static let collections: [any RouteCollection.Type] = [
        LinkCallbackRoutes.self, EventRoutes.self, FeedbackRoutes.self,
    ]

    /// The start of the path of Kakao's reports of failed tokens; a secret follows.
    package static let feedbackPath = FeedbackRoutes.path

    private let server: ServerContext
    private let settings: CallbackSettings
    private let sharing: SharingFeature
    private let counts: CallbackCounts
    private let webhooks = CallbackWebhooks()

    package init(_ server: ServerContext, _ settings: CallbackSettings, sharing: SharingFeature) {
        self.server = server
        self.settings = settings
        self.sharing = sharing
        counts = CallbackCounts(server.loops)
        server.lifecycle.register { [self] loop in
            CallbackUserObserver(
                hasKakaoUserIDs: server.identity.hasKakaoUserIDs,
                events: events(loop),
                callbacks: callbacks(loop),
                userIDArgument: settings.userIDArgument
            )
        }
        server.monitoring.register(CallbackMonitoring(counts: counts).report)
    }

    package var webhookSources: [WebhookSource] { [webhooks.callbacks, webhooks.events] }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let store = store(loop)
        let intake = CallIntake(
            store: store,
            journal: server.journal,
            gate: server.gate,
            loop: loop.loop,
            notices: counts.notices.on(loop.loop),
            logger: server.logger
        )
        routes.add(
            LinkCallbackRoutes(
                store: store.callbacks,
                intake: intake,
                signer: sharing.signer,
                requiresSignature: settings.requiresSignature,
                signatures: counts.signatures.on(loop.loop)
            )
        )
        routes.add(
            EventRoutes(
                appID: server.kakao.appID.map(String.init),
                verifier: server.identity.kakaoTokens,
                client: loop.client,
                store: store.events,
                intake: intake
            )
        )
        routes.add(FeedbackRoutes(intake: intake))
    }

    package func makeServices() -> [any Service] {
        let background = server.background
        guard let journal = server.journal else { return [] }
        let replayer = JournalReplayer(
            journal: journal,
            store: store(background),
            loop: background.loop,
            logger: server.logger
        )
        return [replayer.worker()]
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
            callbacks: callbacks(loop),
            events: events(loop),
            observers: server.lifecycle.observers(loop)
        )
    }

    private func callbacks(_ loop: LoopServices) -> LinkCallbackStore {
        LinkCallbackStore(
            pool: loop.pool,
            statisticsArgs: sharing.statisticsArgs,
            webhooks: webhooks.callbacks
        )
    }

    private func events(_ loop: LoopServices) -> EventStore {
        EventStore(pool: loop.pool, webhooks: webhooks.events)
    }
}
