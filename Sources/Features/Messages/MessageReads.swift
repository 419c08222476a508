import FoundationEssentials
import Postgres

/// Reads of messages and their receivers, to show them.
struct MessageReads: Sendable {
    let pool: PostgresPool

    /// Returns a message with the numbers of its receivers; `nil` if there is none.
    func summary(_ id: UUID) async throws -> MessageSummary? {
        try await pool.read(ReadMessage(id: id)).first
    }

    /// The messages to list.
    struct Filter: Sendable {
        var state: MessageState?
        var sender: Int64?
    }

    /// Returns up to `limit` messages that pass `filter`, the latest first.
    func list(_ filter: Filter, before cursor: UUID?, limit: Int) async throws -> [MessageSummary] {
        try await pool.read(ListMessages(filter: filter, before: cursor, limit: limit))
    }

    /// Returns up to `limit` receivers of a message in the order of the request.
    func receivers(
        of id: UUID,
        in state: ReceiverState?,
        after position: Int32,
        limit: Int
    ) async throws -> [ReceiverSummary] {
        try await pool.read(ListReceivers(messageID: id, state: state, after: position, limit: limit))
    }
}

// MARK: Statements

/// Reads a message with the number of its receivers in each state.
struct ReadMessage: PostgresStatement {
    static let sql: SQL = """
        SELECT id, sender, CASE WHEN state <> 'active' THEN state WHEN send_at > now() THEN 'scheduled' ELSE 'sending' END,
            delivery, when_over_quota, send_at, expires_at, created_at, created_by, finished_at, counts.states, counts.receivers
        FROM messages AS message
        CROSS JOIN LATERAL (
            SELECT COALESCE(array_agg(state), '{}') AS states, COALESCE(array_agg(receivers), '{}') AS receivers
            FROM (
                SELECT state, count(*) AS receivers
                FROM message_receivers
                WHERE message_id = message.id
                GROUP BY state
            ) AS counted
        ) AS counts
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> MessageSummary { try MessageSummary(row) }
}

/// Lists messages with the numbers of their receivers, the latest first.
struct ListMessages: PostgresStatement {
    static let sql: SQL = """
        SELECT id, sender, CASE WHEN state <> 'active' THEN state WHEN send_at > now() THEN 'scheduled' ELSE 'sending' END,
            delivery, when_over_quota, send_at, expires_at, created_at, created_by, finished_at, counts.states, counts.receivers
        FROM messages AS message
        CROSS JOIN LATERAL (
            SELECT COALESCE(array_agg(state), '{}') AS states, COALESCE(array_agg(receivers), '{}') AS receivers
            FROM (
                SELECT state, count(*) AS receivers
                FROM message_receivers
                WHERE message_id = message.id
                GROUP BY state
            ) AS counted
        ) AS counts
        WHERE ($1::uuid IS NULL OR id < $1)
            AND ($2::text IS NULL OR CASE $2
                WHEN 'scheduled' THEN state = 'active' AND send_at > now()
                WHEN 'sending' THEN state = 'active' AND (send_at IS NULL OR send_at <= now())
                ELSE state = $2
            END)
            AND ($3::bigint IS NULL OR sender = $3)
        ORDER BY id DESC
        LIMIT $4
        """

    let filter: MessageReads.Filter
    let cursor: UUID?
    let limit: Int

    init(filter: MessageReads.Filter, before cursor: UUID?, limit: Int) {
        self.filter = filter
        self.cursor = cursor
        self.limit = limit
    }

    var parameters: [PostgresValue] {
        [.uuid(cursor), .text(filter.state?.rawValue), .int64(filter.sender), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> MessageSummary { try MessageSummary(row) }
}

/// Lists receivers of a message in the order of the request.
struct ListReceivers: PostgresStatement {
    static let sql: SQL = """
        SELECT position, user_id, uuid, state, attempts, may_repeat, code, reason, kakao_message,
            COALESCE(scopes, '{}'), CASE WHEN state = 'waiting' THEN due_at END, finished_at
        FROM message_receivers
        WHERE message_id = $1
            AND position > $2
            AND ($3::text IS NULL OR state = $3)
        ORDER BY position
        LIMIT $4
        """

    let messageID: UUID
    let state: ReceiverState?
    let position: Int32
    let limit: Int

    init(messageID: UUID, state: ReceiverState?, after position: Int32, limit: Int) {
        self.messageID = messageID
        self.state = state
        self.position = position
        self.limit = limit
    }

    var parameters: [PostgresValue] {
        [.uuid(messageID), .int32(position), .text(state?.rawValue), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> ReceiverSummary { try ReceiverSummary(row) }
}
