package import Accounts
package import Endpoints
import KakaoAPI
import Locking
package import Messages
package import Runtime
package import ServiceKit
package import Sharing

/// Kakao's calls on behalf of users.
package struct RelayFeature: Feature {
    package typealias Configuration = RelaySettings

    package static let collections: [any RouteCollection.Type] = [KakaoRelayRoutes.self]

    private let server: ServerContext
    private let settings: RelaySettings
    private let accounts: AccountFeature
    private let messages: MessageFeature
    private let sharing: SharingFeature

    package init(
        _ server: ServerContext,
        _ settings: RelaySettings,
        accounts: AccountFeature,
        messages: MessageFeature,
        sharing: SharingFeature
    ) {
        self.server = server
        self.settings = settings
        self.accounts = accounts
        self.messages = messages
        self.sharing = sharing
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(
            KakaoRelayRoutes(
                settings: settings,
                kakao: loop.kakao(.requests),
                audit: loop.audit,
                images: sharing.imageSettings,
                uploads: sharing.imageUploads,
                tokens: accounts.tokens(loop),
                reservations: messages.reservations(loop),
                consentURL: accounts.consentURL,
                publicURL: { [server] in server.publicURL.withLock { $0 } }
            )
        )
    }
}
