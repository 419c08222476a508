import Endpoints
import FoundationEssentials
import Postgres
import ServiceKit

/// A webhook that the endpoint has not accepted.
struct FailedWebhook: Sendable {
    enum State: String, CaseIterable, Sendable {
        /// It is tried again.
        case pending
        /// All attempts were used up.
        case failed
    }

    let id: UUID
    let message: WebhookMessage
    let state: State
    let attempts: Int32
    let nextAttemptAt: Date
    let lastStatus: Int32?
    let lastError: String?
}

// The webhooks that the endpoint has not accepted.
extension WebhookStore {
    /// Stores a webhook to be tried again after `wait`. An earlier failure of the same webhook is replaced.
    func setAside(_ message: WebhookMessage, after attempt: WebhookAttempt?, _ wait: Duration) async throws {
        try await pool.write(StoreFailedWebhook(message: message, attempt: attempt, wait: wait))
    }

    /// Returns up to `limit` webhooks that are due, those that have waited longest first.
    func dueWebhooks(limit: Int) async throws -> [FailedWebhook] {
        try await pool.read(ListDueWebhooks(limit: limit))
    }

    /// Deletes a failed webhook that was delivered at last.
    func delete(_ webhook: FailedWebhook) async throws {
        try await pool.write(DeleteFailedWebhook(id: webhook.id, attempts: webhook.attempts))
    }

    /// Stores another failed attempt.
    ///
    /// - Parameter wait: The time until the next attempt; `nil` if it was the last one.
    func postpone(_ webhook: FailedWebhook, after attempt: WebhookAttempt, _ wait: Duration?) async throws {
        try await pool.write(PostponeFailedWebhook(webhook: webhook, attempt: attempt, wait: wait))
    }

    /// Makes a webhook that was set aside due now, with all its attempts. Returns whether there is one with this id.
    func retry(webhookID: String) async throws -> Bool {
        try await pool.write(RetryFailedWebhook(webhookID: webhookID)) > 0
    }

    /// Returns up to `limit` webhooks that were set aside, the latest first.
    func failedWebhooks(before cursor: UUID?, limit: Int) async throws -> [FailedWebhook] {
        try await pool.read(ListFailedWebhooks(before: cursor, limit: limit))
    }
}

/// Deletes the webhooks about a user who is erased.
struct WebhookUserObserver: UserObserver {
    let pool: PostgresPool
    /// The custom argument of link callbacks that holds a user id; `nil` for none.
    let userIDArgument: String?

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        try await pool.write(DeleteFailedWebhooksOfUser(userID: userID, argument: userIDArgument))
        return true
    }
}

// MARK: Statements

/// Stores a webhook that is to be tried again.
struct StoreFailedWebhook: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO webhook_deliveries (
            id, webhook_id, type, happened_at, user_id, data, state, attempts, next_attempt_at, last_status, last_error
        )
        VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, now() + make_interval(secs => $8), $9, $10)
        ON CONFLICT (webhook_id) DO UPDATE
        SET state = excluded.state,
            attempts = excluded.attempts,
            next_attempt_at = excluded.next_attempt_at,
            last_status = excluded.last_status,
            last_error = excluded.last_error
        """

    let message: WebhookMessage
    /// The attempt that failed; `nil` if there was none yet.
    let attempt: WebhookAttempt?
    let wait: Duration

    var parameters: [PostgresValue] {
        [
            .uuid(.v7()), .text(message.id), .text(message.type), .timestamp(message.happenedAt),
            .int64(message.userID), .text(String(decoding: message.data, as: UTF8.self)),
            .int32(attempt == nil ? 0 : 1), .float64(wait.inSeconds),
            .int32(attempt?.status.map(Int32.init(clamping:))), .text(attempt?.error),
        ]
    }
}

/// Lists the webhooks that are due.
struct ListDueWebhooks: PostgresStatement {
    static let sql: SQL = """
        SELECT id, webhook_id, type, happened_at, user_id, data, state, attempts, next_attempt_at, last_status, last_error
        FROM webhook_deliveries
        WHERE state = 'pending'
            AND next_attempt_at <= now()
        ORDER BY next_attempt_at
        LIMIT $1
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> FailedWebhook { try FailedWebhook(row) }
}

/// Lists the webhooks that were set aside, the latest first.
struct ListFailedWebhooks: PostgresStatement {
    static let sql: SQL = """
        SELECT id, webhook_id, type, happened_at, user_id, data, state, attempts, next_attempt_at, last_status, last_error
        FROM webhook_deliveries
        WHERE id < COALESCE($1, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
        ORDER BY id DESC
        LIMIT $2
        """

    let cursor: UUID?
    let limit: Int

    init(before cursor: UUID?, limit: Int) {
        self.cursor = cursor
        self.limit = limit
    }

    var parameters: [PostgresValue] { [.uuid(cursor), .int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> FailedWebhook { try FailedWebhook(row) }
}

extension FailedWebhook {
    fileprivate init(_ row: PostgresRow) throws {
        self = try row.decode { column in
            try FailedWebhook(
                id: column.next(),
                message: WebhookMessage(
                    id: column.next(),
                    type: column.next(),
                    happenedAt: column.next(),
                    userID: column.next(),
                    data: Array(column.next(String.self).utf8)
                ),
                state: State(rawValue: column.next()) ?? .failed,
                attempts: column.next(),
                nextAttemptAt: column.next(),
                lastStatus: column.next(),
                lastError: column.next()
            )
        }
    }
}

/// Deletes a webhook that was delivered, unless it was set aside again since.
struct DeleteFailedWebhook: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_deliveries
        WHERE id = $1
            AND attempts = $2
        """

    let id: UUID
    let attempts: Int32

    var parameters: [PostgresValue] { [.uuid(id), .int32(attempts)] }
}

/// Stores a failed attempt, and when the next one is due, unless the webhook was set aside again since.
struct PostponeFailedWebhook: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_deliveries
        SET state = CASE WHEN $3::float8 IS NULL THEN 'failed' ELSE 'pending' END,
            attempts = attempts + 1,
            next_attempt_at = COALESCE(now() + make_interval(secs => $3), next_attempt_at),
            last_status = $4,
            last_error = $5
        WHERE id = $1
            AND attempts = $2
            AND state = 'pending'
        """

    let webhook: FailedWebhook
    let attempt: WebhookAttempt
    let wait: Duration?

    var parameters: [PostgresValue] {
        [
            .uuid(webhook.id), .int32(webhook.attempts), .float64(wait?.inSeconds),
            .int32(attempt.status.map(Int32.init(clamping:))), .text(attempt.error),
        ]
    }
}

/// Makes a webhook that was set aside due now.
struct RetryFailedWebhook: PostgresStatement {
    static let sql: SQL = """
        UPDATE webhook_deliveries
        SET state = 'pending',
            attempts = 0,
            next_attempt_at = now()
        WHERE webhook_id = $1
        """

    let webhookID: String

    var parameters: [PostgresValue] { [.text(webhookID)] }
}

/// Deletes the webhooks about a user, and those of link callbacks whose custom argument with this name is the user's id.
struct DeleteFailedWebhooksOfUser: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_deliveries
        WHERE user_id = $1
            OR type = 'link.callback.received' AND data::jsonb -> 'args' ->> $2 = $1::text
        """

    let userID: Int64
    /// `nil` for none.
    let argument: String?

    var parameters: [PostgresValue] { [.int64(userID), .text(argument)] }
}

/// Deletes up to `limit` webhooks that were set aside more than `retentionDays` ago.
struct DeleteOldFailedWebhooks: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM webhook_deliveries
        WHERE id IN (
            SELECT id
            FROM webhook_deliveries
            WHERE id < uuid_v7_floor(now() - make_interval(days => $1))
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
