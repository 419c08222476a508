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
    /// The limit of concurrent uploads with the app's own keys, so that strangers do not take the places of operators.
    private let appUploads = ConcurrencyLimit(2)

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
                kakaoForApps: loop.kakao(.appKeys),
                audit: loop.audit,
                images: sharing.imageSettings,
                uploads: sharing.imageUploads,
                appUploads: appUploads,
                tokens: accounts.tokens(loop),
                reservations: messages.reservations(loop),
                consentURL: accounts.consentURL,
                publicURL: { [server] in server.publicURL.withLock { $0 } }
            )
        )
    }
}
