import FoundationEssentials
import Postgres

/// Whether a receiver of `message` is still to be sent or is being sent.
private let hasOpenReceiver: SQL = """
    EXISTS (
        SELECT 1
        FROM message_receivers
        WHERE message_id = message.id
            AND state IN ('pending', 'sending', 'waiting')
    )
    """

/// Ends messages without open receivers. Returns their ids.
///
/// Called after the results are committed: if two servers store the last two results, the later one sees both.
struct FinishMessages: PostgresStatement {
    static let sql: SQL = """
        UPDATE messages AS message
        SET state = 'done',
            finished_at = now()
        WHERE message.id = ANY ($1)
            AND message.state = 'active'
            AND NOT \(hasOpenReceiver)
        RETURNING message.id
        """

    let ids: [UUID]

    var parameters: [PostgresValue] { [.uuids(ids)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Finds active messages without open receivers: their server stopped after it had stored the last result, or the last
/// open receiver was erased.
struct FindFinishedMessages: PostgresStatement {
    static let sql: SQL = """
        SELECT id
        FROM messages AS message
        WHERE state = 'active'
            AND NOT \(hasOpenReceiver)
        LIMIT $1
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Ends a message by the request of an operator. What is not being sent is skipped. Returns whether it was active.
struct CancelMessage: PostgresStatement {
    static let sql: SQL = """
        WITH message AS (
            UPDATE messages
            SET state = 'canceled',
                finished_at = now(),
                resolve_at = NULL
            WHERE id = $1
                AND state = 'active'
            RETURNING id
        ),
        skipped AS (
            UPDATE message_receivers AS receiver
            SET state = 'skipped',
                due_at = NULL,
                reason = 'canceled',
                finished_at = now()
            FROM message
            WHERE receiver.message_id = message.id
                AND receiver.state IN ('pending', 'waiting')
        )
        SELECT true
        FROM message
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Ends messages after their `expires_at`. What is not being sent is skipped. Returns their number.
struct ExpireMessages: PostgresStatement {
    static let sql: SQL = """
        WITH message AS (
            UPDATE messages
            SET state = 'expired',
                finished_at = now(),
                resolve_at = NULL
            WHERE id IN (
                SELECT id
                FROM messages
                WHERE state = 'active'
                    AND expires_at <= now()
                ORDER BY expires_at
                LIMIT $1
                FOR UPDATE SKIP LOCKED
            )
            RETURNING id
        ),
        skipped AS (
            UPDATE message_receivers AS receiver
            SET state = 'skipped',
                due_at = NULL,
                reason = 'expired',
                finished_at = now()
            FROM message
            WHERE receiver.message_id = message.id
                AND receiver.state IN ('pending', 'waiting')
        )
        SELECT count(*)
        FROM message
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
