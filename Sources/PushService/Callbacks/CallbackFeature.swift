internal import ServiceKit
internal import ServiceLifecycle

/// Calls from Kakao: shared messages, failed tokens, unlinked users, account events.
struct CallbackFeature: Feature {
    static let collections: [any RouteCollection.Type] = [
        LinkCallbackRoutes.self, EventRoutes.self, FeedbackRoutes.self,
    ]

    private let server: ServerContext

    init(_ server: ServerContext) {
        self.server = server
        server.lifecycle.register { loop in
            CallbackUsers(
                hasKakaoUserIDs: server.settings.devices.userIDs == .kakao,
                events: EventStore(pool: loop.pool),
                callbacks: LinkCallbackStore(pool: loop.pool),
                userIDArgument: server.settings.callbacks.userIDArgument
            )
        }
    }

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
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
                appID: server.settings.kakao.appID.map(String.init),
                verifier: server.identity.users.kakao,
                client: loop.client,
                store: store.events,
                intake: intake
            )
        )
        routes.add(FeedbackRoutes(isOffered: server.settings.callbacks.feedbackSecret != nil, intake: intake))
    }

    func makeServices() -> [any Service] {
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
