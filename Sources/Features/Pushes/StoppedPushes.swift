import FoundationEssentials
import Postgres
import Runtime

/// Lists the oldest push of each state that waits for an operator: halted, proposed and paused. Reads one entry of an index for
/// each, however many there are.
struct ListStoppedPushes: PostgresStatement {
    static let sql: SQL = """
        SELECT push.id, push.name, push.state, push.reason, push.stopped_by, push.awaits_approval, push.created_at
        FROM unnest('{halted,proposed,paused}'::text[]) WITH ORDINALITY AS stopped (state, place)
        CROSS JOIN LATERAL (
            SELECT id, name, state, reason, stopped_by, created_at,
                push_awaits_approval(state, created_at, expires_at, prepared_at, users - users_skipped, allowed_users) AS awaits_approval
            FROM pushes
            WHERE pushes.state = stopped.state
                AND pushes.state IN ('proposed', 'paused', 'halted')
            ORDER BY id
            LIMIT 1
        ) AS push
        ORDER BY stopped.place
        """

    static func decode(_ row: PostgresRow) throws -> UnfinishedWork.Item {
        try row.decode { column in
            let id = try column.next(UUID.self)
            let name = try column.next(String?.self)
            let state = try column.next(String.self)
            let reason = try column.next(String?.self)
            let stoppedBy = try column.next(String?.self)
            let awaitsApproval = try column.next(Bool.self)
            let (cause, remedy) = explanation(state, reason, stoppedBy, awaitsApproval)
            return try UnfinishedWork.Item(
                id: id,
                name: name,
                state: state,
                reason: cause,
                remedy: remedy,
                createdAt: column.next()
            )
        }
    }

    /// Returns why a push is not sent, and what to do.
    private static func explanation(
        _ state: String,
        _ reason: String?,
        _ stoppedBy: String?,
        _ awaitsApproval: Bool
    ) -> (reason: String, remedy: String) {
        let approval = "Approve it with another key than its creator's, or reject it."
        switch PushState(rawValue: state) {
        case .proposed: return ("It waits for an approval.", approval)
        case .paused:
            return (stoppedBy.map { "Paused by \($0)." } ?? "It is paused.", "Resume it, or cancel it.")
        default:
            let resumption =
                "Once the cause is removed, resume the push. If Kakao rejects its message, cancel it, and send a corrected one."
            return (reason ?? "It is halted.", awaitsApproval ? approval : resumption)
        }
    }
}
