import Endpoints
import FoundationEssentials
import Postgres
import Runtime

// Messages for operators.
extension MessageStore {
    enum Creation: Sendable {
        case created
        /// A repetition of an earlier request, with its response.
        case repeated(id: UUID, response: [UInt8])
        /// Another request has used the key.
        case keyInUse
    }

    /// Stores a message. Returns after it is committed.
    ///
    /// - Parameters:
    ///   - response: The response to the request and to its repetitions.
    ///   - now: The time of the request.
    func create(
        _ message: NewMessage,
        _ idempotency: Idempotency?,
        response: [UInt8],
        now: Date
    ) async throws -> Creation {
        let create = CreateMessage(message: message, idempotency: idempotency, response: response, now: now)
        guard try await (pool.write(create) as [Bool]).isEmpty else { return .created }
        guard let idempotency else { throw PostgresError(.decoding, detail: "a message without a key was not stored") }
        return try await pool.write(FindIdempotentMessage(idempotency: idempotency)).first ?? .keyInUse
    }

    /// Ends a message. Returns whether it was active.
    ///
    /// - Parameter record: The record for the audit log.
    func cancel(_ id: UUID, recording record: AuditRecord?) async throws -> Bool {
        try await (pool.write(CancelMessage(id: id), recording: record) as [Bool]).first ?? false
    }

    /// Returns a message; `nil` if there is none.
    func message(_ id: UUID) async throws -> MessageSummary? {
        try await pool.read(ReadMessage(id: id)).first
    }

    /// Returns messages, the latest first.
    func messages(_ filter: MessageFilter, before cursor: UUID?, limit: Int) async throws -> [MessageSummary] {
        try await pool.read(ListMessages(filter: filter, before: cursor, limit: limit))
    }

    /// Returns receivers of a message in the order of the request.
    func receivers(
        of id: UUID,
        in state: ReceiverState?,
        after position: Int32,
        limit: Int
    ) async throws -> [ReceiverSummary] {
        try await pool.read(ListReceivers(messageID: id, state: state, after: position, limit: limit))
    }
}

/// The messages of a list.
struct MessageFilter: Sendable {
    var state: MessageState?
    var sender: Int64?
}

// MARK: Statements

/// Finds an earlier request with an idempotency key.
struct FindIdempotentMessage: PostgresStatement {
    static let sql: SQL = """
        SELECT id, response, request_sha256 = $3
        FROM messages
        WHERE (operator_key, idempotency_key) = ($1, $2)
        """

    let idempotency: Idempotency

    var parameters: [PostgresValue] {
        [.bytes(idempotency.operatorKey), .text(idempotency.key), .bytes(idempotency.digest)]
    }

    static func decode(_ row: PostgresRow) throws -> MessageStore.Creation {
        let (id, response, isSame) = try row.decode(UUID.self, [UInt8].self, Bool.self)
        return isSame ? .repeated(id: id, response: response) : .keyInUse
    }
}

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

    let filter: MessageFilter
    let cursor: UUID?
    let limit: Int

    init(filter: MessageFilter, before cursor: UUID?, limit: Int) {
        self.filter = filter
        self.cursor = cursor
        self.limit = limit
    }

    var parameters: [PostgresValue] {
        [.uuid(cursor), .text(filter.state?.rawValue), .int64(filter.sender), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> MessageSummary { try MessageSummary(row) }
}

extension MessageSummary {
    fileprivate init(_ row: PostgresRow) throws {
        self = try row.decode { column in
            try MessageSummary(
                id: column.next(),
                sender: column.next(),
                state: MessageState(rawValue: column.next()) ?? .sending,
                delivery: Delivery(rawValue: column.next()) ?? .atMostOnce,
                whenOverQuota: OverQuota(rawValue: column.next()) ?? .wait,
                sendAt: column.next(),
                expiresAt: column.next(),
                createdAt: column.next(),
                createdBy: column.next(),
                finishedAt: column.next(),
                receivers: zip(column.next([String].self), column.next([Int64].self)).reduce(into: [:]) {
                    if let state = ReceiverState(rawValue: $1.0) { $0[state] = $1.1 }
                }
            )
        }
    }
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

    static func decode(_ row: PostgresRow) throws -> ReceiverSummary {
        try row.decode { column in
            try ReceiverSummary(
                position: column.next(),
                userID: column.next(),
                uuid: column.next(),
                state: ReceiverState(rawValue: column.next()) ?? .pending,
                attempts: column.next(),
                mayRepeat: column.next(),
                code: column.next(),
                reason: column.next(String?.self).flatMap(Reason.init(rawValue:)),
                kakaoMessage: column.next(),
                scopes: column.next(),
                retryAt: column.next(),
                finishedAt: column.next()
            )
        }
    }
}
