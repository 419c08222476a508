package import Endpoints
import Identity
package import Postgres
package import Runtime
package import ServiceKit

/// The verification of users' tokens, which forgets those that were revoked.
package struct KeyFeature: Feature {
    package static let collections: [any RouteCollection.Type] = []

    private let users: UserCredentials

    package init(_ server: ServerContext) {
        users = server.identity.users
        server.lifecycle.register { _ in TokenUserObserver() }
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {}

    package var channels: [String] { [KakaoAccessTokens.channel] }

    package func receive(_ event: PostgresListener.Event) { users.receive(event) }
}
