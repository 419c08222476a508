package import Endpoints
import FoundationEssentials
import KakaoAPI
import Locking
import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle
import Settings
import Templates

/// Sharing with KakaoTalk: templates of messages and their images, shares, and what shares lead to.
package struct SharingFeature: Feature {
    package typealias Configuration = SharingSettings

    package static let collections: [any RouteCollection.Type] = [
        TemplateRoutes.self, ImageRoutes.self, ShareRoutes.self, LandingRoutes.self, StatisticsRoutes.self,
    ]

    private let server: ServerContext
    private let settings: SharingSettings
    private let linter: TemplateLinter
    private let domains: RegisteredDomains
    /// The limit of concurrent uploads to Kakao.
    private let kakaoUploads = ConcurrencyLimit(4)
    /// The limit of concurrent requests with images, which are in memory.
    package let imageUploads = ConcurrencyLimit(4)
    private let cache = ShareCache()
    private let landingLimits: LandingLimits
    private let landingCounts = LandingCounts()

    /// - Parameter userIDArgument: The argument of shares that holds a user id; `nil` if none does.
    package init(_ server: ServerContext, _ settings: SharingSettings, userIDArgument: String?) {
        self.server = server
        self.settings = settings
        linter = TemplateLinter(domains: settings.domains)
        domains = RegisteredDomains(settings.domains)
        landingLimits = LandingLimits(settings, logger: server.logger)
        server.lifecycle.register { ShareUserObserver(pool: $0.pool, userIDArgument: userIDArgument) }
        server.monitoring.register { [landingCounts] in landingCounts.report() }
    }

    /// The limits of images in messages.
    package var imageSettings: ImageSettings { settings.images }
    /// The signer of shares; `nil` without a key.
    package var signer: ShareSigner? { settings.signer }
    /// The names of the arguments by which statistics can be grouped.
    package var statisticsArgs: [String] { settings.statisticsArgs }

    /// Returns the references to stored images, which an event loop replaces in templates.
    package func imageReferences(_ loop: LoopServices) -> ImageReferences { ImageReferences(images(loop)) }

    private func images(_ loop: LoopServices) -> ImageLibrary {
        ImageLibrary(
            store: ImageStore(pool: loop.pool),
            kakao: loop.kakao(.requests),
            loop: loop.loop,
            maximumTotalBytes: settings.images.maximumTotalBytes,
            uploads: kakaoUploads,
            logger: server.logger
        )
    }

    private func shares(_ loop: LoopServices) -> ShareStore {
        ShareStore(pool: loop.pool, statisticsArgs: settings.statisticsArgs)
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let store = shares(loop)
        routes.add(TemplateRoutes(linter: linter))
        routes.add(ImageRoutes(library: images(loop), settings: settings.images, uploads: imageUploads))
        routes.add(
            ShareRoutes(
                store: store,
                cache: cache,
                audit: loop.audit,
                signer: settings.signer,
                linter: linter,
                domains: domains,
                images: imageReferences(loop),
                app: ShareApp(server.kakao),
                kakao: server.kakao.makesAppKeyCalls ? loop.kakao(.requests) : nil,
                publicURL: { [server] in server.publicURL.withLock { $0 } }
            )
        )
        routes.add(
            LandingRoutes(
                store: store,
                cache: cache,
                signer: settings.signer,
                domains: domains,
                limits: landingLimits,
                counts: landingCounts
            )
        )
        routes.add(StatisticsRoutes(store: StatisticsStore(pool: loop.pool), args: settings.statisticsArgs))
    }

    package func apply(_ settings: SharingSettings) { landingLimits.apply(settings) }

    package func makeServices() -> [any Service] {
        let background = server.background
        let counter = ShareEventCounter(statistics: StatisticsStore(pool: background.pool), logger: server.logger)
        return [counter.worker(on: background.loop, pace: server.pace)]
    }

    package var retentions: [Retention] {
        [Retention("remove-old-visits", every: .seconds(300), .delete(5000) { DeleteOldVisits(limit: $0) })]
    }
}

/// The erasure of a user from shares.
private struct ShareUserObserver: UserObserver {
    let pool: PostgresPool
    /// The setting `callbacks.user_id_argument`.
    let userIDArgument: String?

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        try await pool.write(DeleteConversions(userID: userID))
        if let userIDArgument {
            try await RemoveUserFromShares.erase(userID, fromArgument: userIDArgument, pool)
        }
        return true
    }
}
