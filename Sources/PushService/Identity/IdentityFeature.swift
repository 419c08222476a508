internal import Postgres
internal import ServiceKit

/// The verification of users' tokens, which forgets those that were revoked.
struct IdentityFeature: Feature {
    static let collections: [any RouteCollection.Type] = []

    private let users: UserCredentials

    init(_ server: ServerContext) {
        users = server.identity.users
        server.lifecycle.register { _ in TokenUsers() }
    }

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {}

    var channels: [String] { [KakaoAccessTokens.channel] }

    func receive(_ event: PostgresListener.Event) { users.receive(event) }
}
