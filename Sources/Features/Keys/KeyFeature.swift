package import Endpoints
import Identity
package import Postgres
package import Runtime
package import ServiceKit

/// The keys of operators, and the invalidation of cached users' tokens that were revoked.
package struct KeyFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [KeyRoutes.self]

    private let identity: ServerIdentity

    package init(_ server: ServerContext) {
        identity = server.identity
        server.lifecycle.register { _ in TokenUserObserver() }
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(KeyRoutes(store: OperatorKeyStore(pool: loop.pool)))
    }

    package var channels: [String] { [KakaoAccessTokens.channel] }

    package func receive(_ event: PostgresListener.Event) { identity.users.receive(event) }
}

/// Notifies all servers of users whose tokens were revoked, so that they verify the tokens again.
struct TokenUserObserver: UserObserver {
    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)? {
        _ = try await transaction.query(NotifyOfRevokedTokens(userIDs: events.map(\.userID)))
        return nil
    }
}

/// Notifies all servers of users whose tokens were revoked, at the commit.
struct NotifyOfRevokedTokens: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_notify($1, user_id::text)
        FROM unnest($2::bigint[]) AS user_id
        """

    let userIDs: [Int64]

    var parameters: [PostgresValue] { [.text(KakaoAccessTokens.channel), .int64s(userIDs)] }
}
