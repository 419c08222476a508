import FoundationEssentials
import Postgres

/// Ends the claims of deleted leases. Kakao may have reached these receivers, so that their reservations stay. Returns
/// their number.
struct ReclaimReceivers: PostgresStatement {
    static let sql: SQL = """
        WITH reclaimed AS (
            UPDATE message_receivers AS receiver
            SET state = CASE
                    WHEN message.delivery = 'at_most_once' THEN 'uncertain'
                    WHEN message.state = 'active' THEN 'pending'
                    ELSE 'skipped'
                END,
                due_at = CASE WHEN message.delivery = 'at_least_once' AND message.state = 'active' THEN now() END,
                may_repeat = receiver.may_repeat OR message.delivery = 'at_least_once',
                lease = NULL,
                code = NULL,
                reason = 'server_stopped',
                kakao_message = NULL,
                finished_at = CASE WHEN message.delivery = 'at_most_once' OR message.state <> 'active' THEN now() END
            FROM messages AS message
            WHERE receiver.lease = ANY ($1)
                AND receiver.state = 'sending'
                AND message.id = receiver.message_id
            RETURNING 1
        )
        SELECT count(*)
        FROM reclaimed
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
