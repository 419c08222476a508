package import ServiceKit
package import ServiceLifecycle

/// Calls from Kakao: shared messages, failed tokens, unlinked users, account events.
package struct CallbackFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [
        LinkCallbackRoutes.self, EventRoutes.self, FeedbackRoutes.self,
    ]

    /// The start of the path of Kakao's reports of failed tokens; a secret follows.
    package static let feedbackPath = FeedbackRoutes.path

    private let server: ServerContext

    package init(_ server: ServerContext, _ settings: CallbackSettings) {
        self.server = server
        server.lifecycle.register { loop in
            CallbackUsers(
                hasKakaoUserIDs: server.identity.hasKakaoUserIDs,
                events: EventStore(pool: loop.pool),
                callbacks: LinkCallbackStore(pool: loop.pool),
                userIDArgument: settings.userIDArgument
            )
        }
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let store = store(loop)
        let intake = CallIntake(
            store: store,
            journal: server.journal,
            gate: server.gate,
            loop: loop.loop,
            logger: server.logger
        )
        routes.add(LinkCallbackRoutes(store: store.callbacks, intake: intake))
        routes.add(
            EventRoutes(
                appID: server.kakao.appID.map(String.init),
                verifier: server.identity.kakaoTokens,
                client: loop.client,
                store: store.events,
                intake: intake
            )
        )
        routes.add(FeedbackRoutes(isOffered: server.identity.hasFeedbackSecret, intake: intake))
    }

    package func makeServices() -> [any Service] {
        guard let journal = server.journal else { return [] }
        let replayer = JournalReplayer(
            journal: journal,
            store: store(server.background),
            loop: server.background.loop,
            logger: server.logger
        )
        return [replayer.worker()]
    }

    private func store(_ loop: LoopServices) -> ReceivedCallStore {
        ReceivedCallStore(loop, server.lifecycle.users(loop))
    }
}
