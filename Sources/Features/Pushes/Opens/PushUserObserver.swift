import FoundationEssentials
import Postgres
import ServiceKit

/// The erasure of a user from pushes: of what the user has opened.
///
/// The packed users of a push stay until retention deletes the push.
struct PushUserObserver: UserObserver {
    let pool: PostgresPool

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        try await pool.write(DeleteOpensOfUser(userID: userID, until: erasedAt))
        return true
    }
}
