package import Endpoints
import KakaoAPI
import Locking
package import Runtime
package import ServiceKit

/// Kakao's calls on behalf of users.
package struct RelayFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [KakaoRelayRoutes.self]

    private let server: ServerContext
    private let settings: RelaySettings

    package init(_ server: ServerContext, _ settings: RelaySettings) {
        self.server = server
        self.settings = settings
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(
            KakaoRelayRoutes(
                settings: settings,
                kakao: loop.kakao(.requests),
                audit: loop.audit,
                images: server.images,
                uploads: server.imageUploads,
                tokens: server.userTokens.source(loop),
                reservations: server.messageReservations.source(loop),
                consentURL: server.userTokens.consentURL,
                publicURL: { [server] in server.publicURL.withLock { $0 } }
            )
        )
    }
}
