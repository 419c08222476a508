import FoundationEssentials
import Postgres

/// Ends the claims of deleted leases. Kakao may have reached these receivers, so that their reservations stay. Returns
/// for each message the number of its receivers among them, and how many of these are uncertain.
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
            RETURNING receiver.message_id, receiver.state
        )
        SELECT message_id, count(*), count(*) FILTER (WHERE state = 'uncertain')
        FROM reclaimed
        GROUP BY message_id
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
    static func decode(_ row: PostgresRow) throws -> (ownerID: UUID, items: Int64, uncertain: Int64) {
        try row.decode(UUID.self, Int64.self, Int64.self)
    }
}
