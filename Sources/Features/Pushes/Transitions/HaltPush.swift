import FoundationEssentials
import Postgres

extension BatchStore {
    /// Halts a push until an operator resumes it, because of Kakao's response to a batch. Returns the push's name, which may be empty, if
    /// it was being sent.
    func halt(_ claim: BatchClaim, reason: String) async throws -> String? {
        try await pool.write(HaltPush(claim: claim, reason: reason)).first
    }

    /// Stores that Kakao rejected a batch of one user, and halts the push if the message is invalid. Returns the push's name, which may
    /// be empty, if it was halted.
    ///
    /// Both happen in one transaction, so that no server claims batches in between. The transaction locks the push, so
    /// that the later one of two transactions that store the last two users sees both.
    func recordRejection(_ result: BatchResult, of claim: BatchClaim, reason: String) async throws -> String? {
        let record = RecordBatchResults(items: [RecordBatchResults.Item(claim: claim, result: result)], slot: slot)
        return try await pool.withTransaction { transaction in
            try await transaction.query(LockPush(id: claim.pushID))
            try await transaction.query(record)
            return try await transaction.query(HaltRejectedPush(id: claim.pushID, reason: reason)).first
        }
    }
}

/// Halts a push because of a claimed batch. Has no effect once the batch's result is stored, so that it can be repeated
/// after a lost response.
struct HaltPush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'halted',
            reason = $5
        WHERE id = $1
            AND state = ANY ($6)
            AND EXISTS (
                SELECT 1
                FROM push_batches
                WHERE push_id = $1
                    AND number = $2
                    AND lease = $3
                    AND claims = $4
            )
        RETURNING COALESCE(name, '')
        """

    let claim: BatchClaim
    let reason: String

    var parameters: [PostgresValue] {
        [
            .uuid(claim.pushID), .int32(claim.number), .uuid(claim.lease), .int32(claim.claims), .text(reason),
            .states(before: .halt),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

/// Halts a push that cannot be prepared.
struct HaltPreparation: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'halted',
            reason = $2
        WHERE id = $1
            AND prepared_at IS NULL
            AND state = ANY ($3)
        """

    let pushID: UUID
    let reason: String

    var parameters: [PostgresValue] { [.uuid(pushID), .text(reason), .states(before: .halt)] }
}

/// Locks a push until the end of the transaction.
struct LockPush: PostgresStatement {
    static let sql: SQL = """
        SELECT 1
        FROM pushes
        WHERE id = $1
        FOR UPDATE
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

/// Halts a push whose message Kakao rejects for every user.
///
/// A push under probe is halted if Kakao has rejected all users of the batch that it rejected first. A push without a
/// probe is halted if no request is in flight and Kakao has not accepted the message for any user. A push with nothing
/// left to send has finished and is not halted.
struct HaltRejectedPush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes AS push
        SET state = 'halted',
            reason = $2,
            probe = NULL
        WHERE push.id = $1
            AND push.state = ANY ($3)
            AND push_users_sent(push.id) <= CASE WHEN push.probe IS NULL THEN 0 ELSE push.probe_sent END
            AND NOT EXISTS (
                SELECT 1
                FROM push_batches
                WHERE push_id = $1
                    AND (origin = push.probe AND state <> 'failed' OR push.probe IS NULL AND state = 'sending')
            )
            AND (
                push.probe IS NOT NULL
                OR NOT EXISTS (SELECT 1 FROM push_claims WHERE push_id = $1 AND lease IS NOT NULL)
                    AND (
                        push.state = 'preparing'
                        OR push.users - push.users_skipped
                            > (SELECT COALESCE(sum(users), 0) FROM push_counts WHERE push_id = $1)
                    )
            )
        RETURNING COALESCE(name, '')
        """

    let id: UUID
    let reason: String

    var parameters: [PostgresValue] { [.uuid(id), .text(reason), .states(before: .halt)] }
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}
