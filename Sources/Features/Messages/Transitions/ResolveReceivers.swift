import Endpoints
import FoundationEssentials
import Postgres

/// Claims messages whose receivers have no uuid yet, for a minute: the server that claims them reads the sender's friends.
struct ClaimResolutions: PostgresStatement {
    static let sql: SQL = """
        UPDATE messages
        SET resolve_at = now() + interval '1 minute'
        WHERE id IN (
            SELECT id
            FROM messages
            WHERE state = 'active'
                AND resolve_at <= now()
            ORDER BY resolve_at
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
        RETURNING id, sender
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }

    static func decode(_ row: PostgresRow) throws -> UnresolvedMessage {
        let (id, sender) = try row.decode(UUID.self, Int64.self)
        return UnresolvedMessage(id: id, sender: sender)
    }
}

/// Reads the users of a message whose uuids are unknown.
struct ReadUnresolvedUsers: PostgresStatement {
    static let sql: SQL = """
        SELECT position, user_id
        FROM message_receivers
        WHERE message_id = $1
            AND state = 'pending'
            AND uuid IS NULL
            AND user_id IS NOT NULL
        """

    let messageID: UUID

    var parameters: [PostgresValue] { [.uuid(messageID)] }

    static func decode(_ row: PostgresRow) throws -> (position: Int32, id: Int64) {
        try row.decode(Int32.self, Int64.self)
    }
}

/// Stores the uuids of users, so that they can be claimed. A user without one is not among the sender's friends, and fails.
/// Returns for each receiver whether it has a uuid.
///
/// The given receivers are materialized with their whole key, by which the others are found. Otherwise PostgreSQL may
/// compare each receiver of the message with each given one.
struct ResolveReceivers: PostgresStatement {
    static let sql: SQL = """
        WITH message AS (
            UPDATE messages
            SET resolve_at = NULL
            WHERE id = $1
            RETURNING id, state
        ),
        given AS MATERIALIZED (
            SELECT message.id, item.position, item.uuid
            FROM message
            CROSS JOIN unnest($2::int[], $3::text[]) AS item (position, uuid)
            WHERE message.state = 'active'
        )
        UPDATE message_receivers AS receiver
        SET uuid = given.uuid,
            state = CASE WHEN given.uuid IS NULL THEN 'failed' ELSE 'pending' END,
            due_at = CASE WHEN given.uuid IS NOT NULL THEN now() END,
            reason = CASE WHEN given.uuid IS NULL THEN 'not_in_friends_list' END,
            finished_at = CASE WHEN given.uuid IS NULL THEN now() END
        FROM given
        WHERE receiver.message_id = given.id
            AND receiver.position = given.position
            AND receiver.uuid IS NULL
            AND receiver.state = 'pending'
        RETURNING receiver.uuid IS NOT NULL
        """

    let messageID: UUID
    let uuids: [(position: Int32, uuid: String?)]

    var parameters: [PostgresValue] {
        [.uuid(messageID), .int32s(uuids.map(\.position)), .texts(uuids.map(\.uuid))]
    }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Reads the sender's friends later.
struct PostponeResolution: PostgresStatement {
    static let sql: SQL = """
        UPDATE messages
        SET resolve_at = now() + make_interval(secs => $2)
        WHERE id = $1
            AND resolve_at IS NOT NULL
        """

    let messageID: UUID
    let delay: Duration

    var parameters: [PostgresValue] { [.uuid(messageID), .float64(delay.inSeconds)] }
}

/// Ends all receivers of a message that have not been sent, because nothing can be sent in the sender's name.
struct FailReceivers: PostgresStatement {
    static let sql: SQL = """
        WITH message AS (
            UPDATE messages
            SET resolve_at = NULL
            WHERE id = $1
            RETURNING id
        )
        UPDATE message_receivers AS receiver
        SET state = 'failed',
            due_at = NULL,
            code = $2,
            reason = $3,
            kakao_message = $4,
            scopes = $5,
            finished_at = now()
        FROM message
        WHERE receiver.message_id = message.id
            AND receiver.state IN ('pending', 'waiting')
        """

    let messageID: UUID
    let refusal: Refusal

    var parameters: [PostgresValue] {
        [
            .uuid(messageID), .int32(refusal.code.map(Int32.init(clamping:))), .text(refusal.reason.rawValue),
            .text(refusal.kakaoMessage), .texts(refusal.scopes),
        ]
    }
}
