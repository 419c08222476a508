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
    }

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let store = server.callStore(loop)
        let intake = server.intake(loop)
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
        routes.add(FeedbackRoutes(isOffered: server.settings.feedbackSecret != nil, intake: intake))
    }

    var services: [any Service] { server.journal.worker.map { [$0] } ?? [] }
}
