package import Endpoints
import KakaoAPI
import Locking
package import Runtime
package import ServiceKit
package import ServiceLifecycle
import Settings
import Templates

/// Sharing with KakaoTalk: templates of messages and their images, shares, and what shares lead to.
package struct SharingFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [
        TemplateRoutes.self, ImageRoutes.self, ShareRoutes.self, LandingRoutes.self, StatisticsRoutes.self,
    ]

    private let server: ServerContext
    private let linter: TemplateLinter
    private let domains: RegisteredDomains
    private let imageUploads = ConcurrencyLimit(4)
    private let cache = ShareCache()
    private let landingCounts = LandingCounts()

    package init(_ server: ServerContext, _ settings: SharingSettings) {
        self.server = server
        linter = TemplateLinter(domains: settings.domains)
        domains = RegisteredDomains(settings.domains)
        server.imageReferences.register { [self] in images($0) }
        server.lifecycle.register { [self] in
            ShareUserObserver(store: shares($0), userIDArgument: server.shares.userIDArgument)
        }
        server.monitoring.register { [landingCounts] in landingCounts.report() }
    }

    private func images(_ loop: LoopServices) -> ImageLibrary {
        ImageLibrary(
            store: ImageStore(pool: loop.pool),
            kakao: loop.kakao(.requests),
            loop: loop.loop,
            maximumTotalBytes: server.images.maximumTotalBytes,
            uploads: imageUploads,
            logger: server.logger
        )
    }

    private func shares(_ loop: LoopServices) -> ShareStore {
        ShareStore(pool: loop.pool, statisticsArgs: server.shares.statisticsArgs)
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let (store, shareSettings) = (shares(loop), server.shares)
        routes.add(TemplateRoutes(linter: linter))
        routes.add(ImageRoutes(library: images(loop), settings: server.images, uploads: server.imageUploads))
        routes.add(
            ShareRoutes(
                store: store,
                cache: cache,
                audit: loop.audit,
                signer: shareSettings.signer,
                linter: linter,
                domains: domains,
                images: server.imageReferences.resolver(loop),
                app: ShareApp(server.kakao),
                kakao: server.kakao.makesAppKeyCalls ? loop.kakao(.requests) : nil,
                publicURL: { [server] in server.publicURL.withLock { $0 } }
            )
        )
        routes.add(
            LandingRoutes(
                store: store,
                cache: cache,
                signer: shareSettings.signer,
                domains: domains,
                counts: landingCounts
            )
        )
        routes.add(
            StatisticsRoutes(store: StatisticsStore(pool: loop.pool), args: shareSettings.statisticsArgs)
        )
    }

    package func makeServices() -> [any Service] {
        let background = server.background
        let counter = ShareEventCounter(
            statistics: StatisticsStore(pool: background.pool),
            shares: shares(background),
            logger: server.logger
        )
        return [
            counter.worker(on: background.loop, pace: server.pace),
            counter.visitCleaner(on: background.loop, pace: server.pace),
        ]
    }
}
