package import Accounts
package import Endpoints
import KakaoAPI
package import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle
package import Sharing

/// KakaoTalk messages in the name of users.
package struct MessageFeature: Feature {
    package typealias Configuration = MessageSettings

    package static let collections: [any RouteCollection.Type] = [MessageRoutes.self]

    private let server: ServerContext
    private let accounts: AccountFeature
    private let sharing: SharingFeature
    private let settings: MessageSettings
    private let notices: MessageNotices
    private let receivers: LoopCounts<ReceiverState>
    private let progress = WorkProgress()

    package init(
        _ server: ServerContext,
        _ settings: MessageSettings,
        accounts: AccountFeature,
        sharing: SharingFeature
    ) {
        self.server = server
        self.accounts = accounts
        self.sharing = sharing
        self.settings = settings
        notices = MessageNotices(pool: server.background.pool, webhooks: server.webhooks)
        receivers = LoopCounts([server.background])
        server.monitoring.register(MessageMonitoring(pool: server.background.pool, receivers: receivers).report)
        server.senderControl.onChange(notices.servers.send)
        server.lifecycle.register { MessageUserObserver(pool: $0.pool) }
    }

    /// Returns the counts against Kakao's quotas, for messages that an event loop sends without the queue.
    package func reservations(_ loop: LoopServices) -> QuotaReservations {
        QuotaReservations(pool: loop.pool, quotas: settings.quotas)
    }

    package var webhookData: [WebhookData] { MessageWebhooks.data }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let kakao = loop.kakao(.requests)
        let tokens = accounts.tokens(loop)
        routes.add(
            MessageRoutes(
                store: MessageStore(pool: loop.pool, quotas: settings.quotas),
                previewer: MessagePreviewer(
                    kakao: kakao,
                    tokens: tokens,
                    friends: FriendsLists(pool: loop.pool, kakao: kakao, tokens: tokens),
                    reservations: reservations(loop)
                ),
                keepsAccounts: accounts.keepsTokens,
                images: sharing.imageReferences(loop),
                notices: notices,
                consentURL: accounts.consentURL
            )
        )
    }

    package func makeServices() -> [any Service] {
        let loop = server.background
        let kakao = loop.kakao(.background)
        let tokens = accounts.tokens(loop)
        let messages = MessageStore(pool: loop.pool, quotas: settings.quotas)
        let sender = QueueRunner(
            MessageWork(
                messages: messages,
                courier: MessageCourier(kakao: kakao, tokens: tokens, images: sharing.imageReferences(loop)),
                availability: server.availability,
                notices: notices,
                receivers: receivers.on(loop.loop)
            ),
            MessageSchedule(requestsPerSecond: settings.requestsPerSecond),
            store: messages,
            signal: notices.signal,
            commits: server.lostCommits,
            stateDirectory: server.stateDirectory,
            intervals: settings.intervals,
            progress: progress,
            logger: server.logger
        )
        server.lostCommits.register("receivers") { try await sender.restore($0) }
        let resolver = MessageResolver(
            pool: loop.pool,
            friends: FriendsLists(pool: loop.pool, kakao: kakao, tokens: tokens),
            notices: notices,
            receivers: receivers.on(loop.loop),
            logger: server.logger
        )
        return [QueueService { await sender.run() }, resolver, notices.servers.worker(logger: server.logger)]
    }

    package var retentions: [Retention] {
        let store = MessageStore(pool: server.background.pool, quotas: settings.quotas)
        return [store.retention(days: settings.retentionDays)]
    }

    package var channels: [String] { [notices.servers.channel] }

    package func receive(_ event: PostgresListener.Event) { notices.servers.receive(event) }
}
