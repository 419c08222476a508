internal import KakaoAPI
internal import Locking
package import ServiceKit
package import ServiceLifecycle
internal import Templates

/// Sharing with KakaoTalk: templates of messages, shares, and what shares lead to.
package struct SharingFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [
        TemplateRoutes.self, ShareRoutes.self, LandingRoutes.self, StatisticsRoutes.self,
    ]

    private let server: ServerContext
    private let linter: TemplateLinter
    private let domains: RegisteredDomains
    private let cache = ShareCache()
    private let landingCounts = LandingCounts()

    package init(_ server: ServerContext, _ settings: SharingSettings) {
        self.server = server
        linter = TemplateLinter(domains: settings.domains)
        domains = RegisteredDomains(settings.domains)
        server.lifecycle.register { loop in
            ShareUsers(store: Self.store(loop, server), userIDArgument: server.shares.userIDArgument)
        }
        server.monitoring.register { [landingCounts] in landingCounts.report() }
    }

    private static func store(_ loop: LoopServices, _ server: ServerContext) -> ShareStore {
        ShareStore(pool: loop.pool, statisticsArgs: server.shares.statisticsArgs)
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let store = Self.store(loop, server)
        routes.add(TemplateRoutes(linter: linter))
        routes.add(
            ShareRoutes(
                store: store,
                cache: cache,
                signer: server.shares.signer,
                linter: linter,
                domains: domains,
                app: ShareApp(server.kakao),
                kakao: server.kakao.makesAppKeyCalls ? loop.kakao(.requests) : nil,
                publicURL: { [server] in server.publicURL.withLock { $0 } }
            )
        )
        routes.add(
            LandingRoutes(
                store: store,
                cache: cache,
                signer: server.shares.signer,
                domains: domains,
                counts: landingCounts
            )
        )
        routes.add(
            StatisticsRoutes(store: StatisticsStore(pool: loop.pool), args: server.shares.statisticsArgs)
        )
    }

    package func makeServices() -> [any Service] {
        let background = server.background
        let housekeeper = ShareHousekeeper(
            shares: Self.store(background, server),
            statistics: StatisticsStore(pool: background.pool),
            logger: server.logger
        )
        return [housekeeper.worker(on: background.loop, pace: server.pace)]
    }
}
