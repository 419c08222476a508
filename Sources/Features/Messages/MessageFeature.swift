package import Endpoints
import EventLoop
import KakaoAPI
import Locking
package import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle

/// KakaoTalk messages in the name of users.
package struct MessageFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [MessageRoutes.self]

    private let server: ServerContext
    private let settings: MessageSettings
    private let notices: MessageNotices
    private let receivers: LoopCounts<ReceiverState>
    private let progress = WorkProgress()

    package init(_ server: ServerContext, _ settings: MessageSettings) {
        self.server = server
        self.settings = settings
        notices = MessageNotices(pool: server.background.pool)
        receivers = LoopCounts([server.background])
        server.monitoring.register(MessageMonitoring(pool: server.background.pool, receivers: receivers).report)
        server.senderControl.onChange(notices.servers.send)
        server.webhooks.register(notices.webhooks)
        let quotas = settings.quotas
        server.lifecycle.register { MessageUserObserver(pool: $0.pool) }
        server.messageReservations.register { QuotaReservations(pool: $0.pool, quotas: quotas) }
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let kakao = loop.kakao(.requests)
        let tokens = server.userTokens.source(loop)
        routes.add(
            MessageRoutes(
                store: MessageStore(pool: loop.pool, quotas: settings.quotas),
                previewer: MessagePreviewer(
                    kakao: kakao,
                    tokens: tokens,
                    friends: FriendsLists(pool: loop.pool, kakao: kakao, tokens: tokens),
                    reservations: QuotaReservations(pool: loop.pool, quotas: settings.quotas)
                ),
                images: server.imageReferences.resolver(loop),
                notices: notices,
                consentURL: server.userTokens.consentURL
            )
        )
    }

    package func makeServices() -> [any Service] {
        let loop = server.background
        let kakao = loop.kakao(.background)
        let tokens = server.userTokens.source(loop)
        let store = MessageStore(pool: loop.pool, quotas: settings.quotas)
        let sender = MessageSender(
            store: store,
            courier: MessageCourier(kakao: kakao, tokens: tokens, images: server.imageReferences.resolver(loop)),
            friends: FriendsLists(pool: loop.pool, kakao: kakao, tokens: tokens),
            requestsPerSecond: settings.requestsPerSecond,
            intervals: settings.intervals,
            notices: notices,
            receivers: receivers.on(loop.loop),
            progress: progress,
            logger: server.logger
        )
        let housekeeper = MessageHousekeeper(
            pool: loop.pool,
            retentionDays: settings.retentionDays,
            logger: server.logger
        )
        return [
            sender, notices.servers.worker(logger: server.logger),
            housekeeper.worker(on: loop.loop, pace: server.pace),
        ]
    }

    package var channels: [String] { [notices.servers.channel] }

    package func receive(_ event: PostgresListener.Event) { notices.servers.receive(event) }
}
