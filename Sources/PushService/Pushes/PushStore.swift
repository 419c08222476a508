internal import FoundationEssentials
internal import JSON
internal import KakaoAPI
internal import Postgres

/// The pushes in PostgreSQL, as they are asked for, controlled and shown.
struct PushStore: Sendable {
    let pool: PostgresPool

    // MARK: Creating

    /// A request that is to be carried out once, however often it comes: the header `Idempotency-Key`.
    struct Idempotency: Sendable {
        let key: String
        /// Whose key it is: see ``Authenticator/operatorKeyID(of:)``. Different operators may use the same key.
        let operatorKeyID: [UInt8]
        /// Of everything that was asked for: the same key with another digest is a mistake.
        let digest: [UInt8]
    }

    enum Creation: Sendable {
        case created
        /// The request had come before, and was answered with this.
        case repeated(pushID: UUID, answer: [UInt8])
        /// The key had come before with another request.
        case keyInUse
        case noSuchAudience
    }

    /// Stores a push to be prepared and sent. Returns when it is committed.
    ///
    /// One that is a single batch and is sent at once needs no preparing: its batch is stored with it.
    ///
    /// - Parameters:
    ///   - answer: What the request is answered, and answered again when it is repeated.
    ///   - now: When it was asked for.
    func create(_ push: NewPush, idempotency: Idempotency?, answer: [UInt8], now: Date) async throws -> Creation {
        var userIDs: [Int64]?
        var audienceName: String?
        switch push.audience {
        case .users(let ids): userIDs = Set(ids).sorted()
        case .stored(let name): audienceName = name.text
        case .tagsAny, .tagsAll, .everyone: break
        }
        let created = try await pool.write(
            """
            WITH stored_audience AS (
                SELECT parts_id
                FROM audiences
                WHERE name = $8
                FOR SHARE
            ),
            audience AS (
                SELECT parts_id
                FROM stored_audience
                UNION ALL
                SELECT NULL
                WHERE $8::text IS NULL
            ),
            key AS (
                INSERT INTO idempotency_keys (operator_key, key, sha256, push_id, answer)
                SELECT $21, $15, $16, $1, $17
                FROM audience
                WHERE $15::text IS NOT NULL
                ON CONFLICT (operator_key, key) DO NOTHING
                RETURNING key
            ),
            own AS MATERIALIZED (
                SELECT COALESCE(array_agg(item.user_id ORDER BY item.user_id), '{}') AS user_ids
                FROM unnest($9) AS item (user_id)
                WHERE $20
                    AND \(PushAudience.Source.hasPhone("$10"))
            ),
            push AS (
                INSERT INTO pushes (
                    id, name, state, audience, message, message_version, bypass, user_ids, audience_parts_id, platforms,
                    batch_users, delivery, users_per_second, send_at, expires_at, created_at, started_at, prepared_at, users,
                    users_skipped, next_number
                )
                SELECT $1, $2, CASE WHEN $20 THEN 'sending' ELSE $3 END, $4, $5, $6, $7, $9, audience.parts_id, $10, $11, $12,
                    $13, $14, $18, $19, CASE WHEN $20 THEN $19 END, CASE WHEN $20 THEN $19 END,
                    CASE WHEN $20 THEN cardinality($9) ELSE 0 END,
                    CASE WHEN $20 THEN cardinality($9) - cardinality(own.user_ids) ELSE 0 END,
                    CASE WHEN cardinality(own.user_ids) > 0 THEN 2 ELSE 1 END
                FROM audience
                CROSS JOIN own
                WHERE $15::text IS NULL
                    OR EXISTS (SELECT 1 FROM key)
                RETURNING id
            ),
            batch AS (
                INSERT INTO push_batches (push_id, number, user_ids, users, state)
                SELECT push.id, 1, own.user_ids, cardinality(own.user_ids), 'waiting'
                FROM push
                CROSS JOIN own
                WHERE cardinality(own.user_ids) > 0
            )
            SELECT id
            FROM push
            """,
            [
                .uuid(push.id), .text(push.name), .text(push.initialState.rawValue),
                .jsonb(push.audience.json.bytes()), .text(push.message.text), .text(push.message.version.rawValue),
                .bool(push.bypass), .text(audienceName), .int64s(userIDs), .texts(push.platforms),
                .int32(push.batchUsers), .text(push.delivery.rawValue), .int32(push.usersPerSecond),
                .timestamp(push.sendAt), .text(idempotency?.key), .bytes(idempotency?.digest), .bytes(answer),
                .timestamp(push.expiresAt), .timestamp(now), .bool(push.isOneBatch),
                .bytes(idempotency?.operatorKeyID),
            ]
        )
        guard created.isEmpty else { return .created }
        guard let idempotency else { return .noSuchAudience }
        return try await repetition(of: idempotency) ?? .noSuchAudience
    }

    private func repetition(of idempotency: Idempotency) async throws -> Creation? {
        let rows = try await pool.read(
            """
            SELECT push_id, answer, sha256 = $3
            FROM idempotency_keys
            WHERE (operator_key, key) = ($1, $2)
            """,
            [.bytes(idempotency.operatorKeyID), .text(idempotency.key), .bytes(idempotency.digest)]
        )
        guard let row = rows.first else { return nil }
        let (pushID, answer, isSame) = try row.decode(UUID.self, [UInt8].self, Bool.self)
        return isSame ? .repeated(pushID: pushID, answer: answer) : .keyInUse
    }

    // MARK: Controlling

    /// What an operator does with a push.
    enum Control: String, CaseIterable, Sendable {
        /// Nothing more of it is sent until it is resumed.
        case pause
        /// A paused or halted push goes on.
        case resume
        /// Nothing more of it is ever sent.
        case cancel
        /// The failed batches of a finished push are sent again, unless it has expired.
        case retry

        /// The states in which it changes something.
        var from: [PushState] {
            switch self {
            case .pause: [.scheduled, .preparing, .sending]
            case .resume: [.paused, .halted]
            case .cancel: [.scheduled, .preparing, .sending, .paused, .halted]
            case .retry: [.done]
            }
        }

        /// The states that it would lead to: in these it has nothing to do.
        var to: [PushState] {
            switch self {
            case .pause: [.paused]
            case .resume: [.scheduled, .preparing, .sending]
            case .cancel: [.canceled]
            case .retry: [.preparing, .sending]
            }
        }
    }

    /// Controls a push. Returns whether it was in a state that allows it.
    ///
    /// - Parameter retriesUncertain: Whether a retry includes uncertain batches, whose users may be reached twice.
    func control(_ id: UUID, _ control: Control, retriesUncertain: Bool = false) async throws -> Bool {
        let rows =
            switch control {
            case .pause:
                try await pool.write(
                    """
                    UPDATE pushes
                    SET state = 'paused',
                        reason = NULL
                    WHERE id = $1
                        AND state = ANY ($2)
                    RETURNING id
                    """,
                    parameters(id, control)
                )
            case .resume:
                try await pool.write(
                    """
                    UPDATE pushes
                    SET state = CASE
                            WHEN prepared_at IS NOT NULL THEN 'sending'
                            WHEN started_at IS NULL AND send_at > now() THEN 'scheduled'
                            ELSE 'preparing'
                        END,
                        reason = NULL,
                        probe = NULL
                    WHERE id = $1
                        AND state = ANY ($2)
                    RETURNING id
                    """,
                    parameters(id, control)
                )
            case .cancel:
                try await pool.write(
                    """
                    UPDATE pushes
                    SET state = 'canceled',
                        reason = NULL,
                        finished_at = now()
                    WHERE id = $1
                        AND state = ANY ($2)
                    RETURNING id
                    """,
                    parameters(id, control)
                )
            case .retry:
                // The preparer resets its batches, in steps.
                try await pool.write(
                    """
                    UPDATE pushes
                    SET state = 'sending',
                        finished_at = NULL,
                        retry_position = 0,
                        retry_end = next_number,
                        retry_uncertain = $3
                    WHERE id = $1
                        AND state = ANY ($2)
                        AND removed_at IS NULL
                        AND (expires_at IS NULL OR expires_at > now())
                    RETURNING id
                    """,
                    parameters(id, control) + [.bool(retriesUncertain)]
                )
            }
        return !rows.isEmpty
    }

    private func parameters(_ id: UUID, _ control: Control) -> [PostgresValue] {
        [.uuid(id), .texts(control.from.map(\.rawValue))]
    }
}

extension NewPush {
    /// Whether it is a single batch, to be sent at once.
    fileprivate var isOneBatch: Bool {
        guard case .users(let ids) = audience else { return false }
        return sendAt == nil && ids.count <= Int(batchUsers)
    }

    var initialState: PushState { sendAt == nil ? .preparing : .scheduled }

    /// As it is shown before anything has become of it.
    func summary(createdAt: Date) -> PushSummary {
        PushSummary(
            id: id,
            name: name,
            state: initialState,
            reason: nil,
            audience: audience.json.bytes(),
            delivery: delivery,
            usersPerSecond: usersPerSecond,
            sendAt: sendAt,
            expiresAt: expiresAt,
            createdAt: createdAt,
            startedAt: nil,
            finishedAt: nil,
            users: PushCounts(),
            batches: PushCounts()
        )
    }
}
