import FoundationEssentials
import Postgres
import ServiceKit

/// The erasure of a user from messages.
///
/// Receivers that a request named by uuid stay: the uuid is Kakao's, and says nothing without Kakao.
struct MessageUserObserver: UserObserver {
    let pool: PostgresPool

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        try await pool.write(DeleteMessagesOfSender(userID: userID))
        try await pool.write(DeleteReceiversOfUser(userID: userID))
        return true
    }
}

// MARK: Statements

/// Deletes the messages of a sender with their receivers. What is being sent is not recorded any more.
struct DeleteMessagesOfSender: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM messages
        WHERE sender = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Deletes a user from the receivers of all messages.
struct DeleteReceiversOfUser: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM message_receivers
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}
