import Endpoints
import FoundationEssentials
import Postgres

extension PushStore {
    /// The answer of an operator to a push that waits for an approval.
    enum Decision: Sendable {
        case approve
        /// With a reason for the operators; `nil` for none.
        case reject(reason: String?)
    }

    /// Approves or rejects a push that an unrelated key has created. Returns whether the push waited for that. Of concurrent
    /// decisions, one changes the push.
    ///
    /// - Parameters:
    ///   - hours: The hours for advertising.
    ///   - record: The record for the audit log.
    func decide(
        _ id: UUID,
        _ decision: Decision,
        by key: KeyIdentity,
        hours: PostgresValue,
        recording record: AuditRecord?
    ) async throws -> Bool {
        let changed =
            switch decision {
            case .approve: try await pool.write(ApprovePush(id: id, key: key), recording: record) as Int
            case .reject(let reason):
                try await pool.write(RejectPush(id: id, key: key, reason: reason, hours: hours), recording: record)
                    as Int
            }
        return changed > 0
    }

    /// Returns whether a key is the creator of a push, or one of them was created with the other, directly or through further
    /// keys.
    func isRelated(_ key: KeyIdentity, to creator: UUID?) async throws -> Bool {
        guard let creator else { return false }
        return try await pool.read(OperatorKeysAreRelated(key: key.id, creator: creator)).first ?? false
    }

    /// Ends the pushes that were not approved in time. Returns their number.
    @discardableResult func expireProposals() async throws -> Int {
        try await pool.write(ExpireProposals())
    }
}

/// Returns whether two operator keys are the same, or one of them was created with the other.
struct OperatorKeysAreRelated: PostgresStatement {
    static let sql: SQL = "SELECT operator_keys_are_related($1, $2)"

    let key: UUID
    let creator: UUID

    var parameters: [PostgresValue] { [.uuid(key), .uuid(creator)] }

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Approves a push, which then begins, or goes on if its audience had grown. From then on it may have as many users as it has
/// then, if they are known.
struct ApprovePush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = CASE
                WHEN prepared_at IS NOT NULL THEN 'sending'
                WHEN send_at > now() THEN 'scheduled'
                ELSE 'preparing'
            END,
            reason = NULL,
            allowed_users = CASE WHEN prepared_at IS NULL THEN allowed_users ELSE users - users_skipped END,
            approved_at = now(),
            approved_by = $3,
            approved_by_key = $2
        WHERE id = $1
            AND state = ANY ($4)
            AND NOT operator_keys_are_related(created_by_key, $2)
            AND push_awaits_approval(state, created_at, expires_at, prepared_at, users - users_skipped, allowed_users)
        """

    let id: UUID
    let key: KeyIdentity

    var parameters: [PostgresValue] {
        [.uuid(id), .uuid(key.id), .text(key.name), .states(before: .approve)]
    }
}

/// Rejects a push, which ends.
struct RejectPush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'canceled',
            reason = 'Rejected' || COALESCE(': ' || $5, '.'),
            stopped_by = $3,
            finished_at = now(),
            ended_at_night = NOT \(AdvertisingHours.admit(hours: "$6", at: "now()"))
        WHERE id = $1
            AND state = ANY ($4)
            AND NOT operator_keys_are_related(created_by_key, $2)
            AND push_awaits_approval(state, created_at, expires_at, prepared_at, users - users_skipped, allowed_users)
        """

    let id: UUID
    let key: KeyIdentity
    let reason: String?
    /// The hours for advertising: ``AdvertisingHours/parameter(in:)``.
    let hours: PostgresValue

    var parameters: [PostgresValue] {
        [.uuid(id), .uuid(key.id), .text(key.name), .states(before: .reject), .text(reason), hours]
    }
}

/// Ends the pushes that were not approved in time.
struct ExpireProposals: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'expired',
            reason = 'It was not approved in time.',
            finished_at = now()
        WHERE state = 'proposed'
            AND state = ANY ($1)
            AND NOT push_awaits_approval(state, created_at, expires_at, prepared_at, users - users_skipped, allowed_users)
        """

    var parameters: [PostgresValue] { [.states(before: .expireProposal)] }
}
