package import Endpoints
import Identity
package import Runtime
package import ServiceKit

/// The page on which operators send, watch and stop, without `curl`, and the sessions of those who have signed in. The page is a client of
/// the API.
package struct OperatorPageFeature: Feature {
    package typealias Configuration = OperatorPageSettings

    package static let collections: [any RouteCollection.Type] = [SessionRoutes.self, PageRoutes.self]

    private let identity: ServerIdentity
    private let app: ShownApp
    private let settings: OperatorPageSettings
    private let sandboxURL: String?

    /// - Parameter sandboxURL: The sandbox of a development server, to which the page gets access; `nil` for a server of a service.
    package init(_ server: ServerContext, _ settings: OperatorPageSettings, sandboxURL: String?) {
        identity = server.identity
        app = ShownApp(server.kakao)
        self.settings = settings
        self.sandboxURL = sandboxURL
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(
            SessionRoutes(
                isEnabled: settings.isEnabled,
                app: app,
                signIn: identity.signIn(loop),
                store: OperatorSessionStore(pool: loop.pool)
            )
        )
        routes.add(PageRoutes(isEnabled: settings.isEnabled, files: .embedded, hasSandbox: sandboxURL != nil))
        if let sandboxURL { routes.add(SandboxRoutes(url: sandboxURL, client: loop.client)) }
    }

    package var retentions: [Retention] {
        [Retention("remove-old-sessions", .delete { DeleteOldSessions(limit: $0) })]
    }
}
