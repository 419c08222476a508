import Identity
import Postgres
import ServiceKit

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
