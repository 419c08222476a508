import FoundationEssentials
import Postgres
import Runtime
import ServiceKit

/// Ends accounts when their users log out, leave the app or are erased.
struct AccountUserObserver: UserObserver {
    let pool: PostgresPool
    let webhooks: WebhookNotice

    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)? {
        guard try await !(transaction.query(EndAccounts(events: events)) as [Int64]).isEmpty else { return nil }
        return webhooks.send
    }

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        try await pool.write(DeleteAccount(userID: userID, linkedUntil: erasedAt))
        return true
    }
}
