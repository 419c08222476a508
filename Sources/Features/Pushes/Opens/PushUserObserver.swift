import FoundationEssentials
import Postgres
import ServiceKit

/// The deletion of what users have opened, when they leave the app or are erased.
///
/// The packed users of a push stay until retention deletes the push.
struct PushUserObserver: UserObserver {
    /// Whether user ids are Kakao's. Otherwise those of events are of other users.
    let hasKakaoUserIDs: Bool
    let pool: PostgresPool

    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)? {
        // In one order, so that concurrent transactions do not deadlock.
        let left = events.filter { $0.kind == .left }.sorted { $0.userID < $1.userID }
        if hasKakaoUserIDs, !left.isEmpty {
            _ = try await transaction.query(DeleteOpensOfUsers(users: left.map { ($0.userID, $0.happenedAt) }))
        }
        return nil
    }

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        try await pool.write(DeleteOpensOfUsers(users: [(userID, erasedAt)]))
        return true
    }
}
