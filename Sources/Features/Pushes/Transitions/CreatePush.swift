import Endpoints
import FoundationEssentials
import JSON
import KakaoAPI
import Postgres
import Runtime

/// Stores a push, unless its idempotency key is in use, its times are past, or an audience or a push that it names does not
/// exist. If it is stored, returns whether a warning about devices was added to it: ``NewPush/checksDevices``.
///
/// A push of a single batch that is sent at once needs no preparation: its batch is stored with it.
struct CreatePush: PostgresStatement {
    static let sql: SQL = """
        WITH stored_audience AS (
            SELECT parts_id
            FROM audiences
            WHERE name = $8
            FOR SHARE
        ),
        excluded_audience AS (
            SELECT parts_id
            FROM audiences
            WHERE name = $24
            FOR SHARE
        ),
        -- The pushes whose users can be left out, as in `pushes_are_excludable`. Locked, so that retention takes none of
        -- them before this push is stored.
        excluded_push AS (
            SELECT id
            FROM pushes
            WHERE id = ANY ($25)
                AND removed_at IS NULL
                AND (state NOT IN ('proposed', 'scheduled') OR COALESCE(send_at <= COALESCE($14, $19), true))
            FOR SHARE
        ),
        audience AS (
            SELECT stored_audience.parts_id, excluded_audience.parts_id AS excluded_parts_id
            FROM (SELECT 1) AS push
            LEFT JOIN stored_audience ON true
            LEFT JOIN excluded_audience ON true
            WHERE ($8::text IS NULL OR stored_audience.parts_id IS NOT NULL)
                AND ($24::text IS NULL OR excluded_audience.parts_id IS NOT NULL)
                AND COALESCE($14 >= now() - \(SendingTimes.tolerance), true)
                AND COALESCE($18 > now(), true)
                AND NOT EXISTS (
                    SELECT 1
                    FROM unnest($25) AS given (id)
                    WHERE given.id NOT IN (SELECT id FROM excluded_push)
                )
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
                AND (
                    cardinality($10) = 0
                    OR EXISTS (
                        SELECT 1
                        FROM devices
                        WHERE devices.user_id = item.user_id
                            AND NOT withdrawn
                            AND push_type = ANY ($10)
                    )
                )
        ),
        pending AS MATERIALIZED (
            SELECT $33::jsonb AS warnings
            WHERE $33 IS NOT NULL
                AND EXISTS (
                    SELECT 1
                    FROM unnest($9) AS item (user_id)
                    WHERE EXISTS (\(FindPendingDevices.ofItem))
                )
        ),
        push AS (
            INSERT INTO pushes (
                id, name, state, audience, message, message_version, bypass, user_ids, audience_parts_id, platforms,
                batch_users, delivery, users_per_second, send_at, expires_at, created_at, started_at, prepared_at, users,
                users_skipped, next_number, created_by, exclusion, excluded_parts_id, excluded_pushes,
                kind, created_by_key, counted_users, allowed_users, to_testers, first_words, warnings
            )
            SELECT $1, $2, $3, $4, $5, $6, $7, $9, audience.parts_id, $10, $11, $12,
                $13, $14, $18, $19, CASE WHEN $20 THEN $19 END, CASE WHEN $20 THEN $19 END,
                CASE WHEN $20 THEN cardinality($9) ELSE 0 END,
                CASE WHEN $20 THEN cardinality($9) - cardinality(own.user_ids) ELSE 0 END,
                CASE WHEN cardinality(own.user_ids) > 0 THEN 2 ELSE 1 END, $22, $23,
                audience.excluded_parts_id, NULLIF($25, '{}'), $26, $27, $28, $29, $30, $31,
                $32 || COALESCE((SELECT warnings FROM pending), '[]')
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
        SELECT EXISTS (SELECT 1 FROM pending)
        FROM push
        """

    let push: NewPush
    let idempotency: Idempotency?
    /// The response to the request and to its repetitions.
    let response: [UInt8]
    let now: Date

    var parameters: [PostgresValue] {
        var userIDs: [Int64]?
        if case .users(let ids) = push.audience { userIDs = Set(ids).sorted() }
        let state = push.isOneBatch ? .sending : push.initialState
        return [
            .uuid(push.id), .text(push.name), .text(state.rawValue),
            .jsonb(push.audience.json.bytes()), .text(push.message.text), .text(push.message.version.rawValue),
            .bool(push.bypass), .text(push.audience.storedName?.text), .int64s(userIDs), .texts(push.platforms),
            .int32(push.batchUsers), .text(push.delivery.rawValue), .int32(push.usersPerSecond),
            .timestamp(push.times.sendAt), .text(idempotency?.key), .bytes(idempotency?.digest), .bytes(response),
            .timestamp(push.times.expiresAt), .timestamp(now), .bool(push.isOneBatch),
            .bytes(idempotency?.operatorKey), .text(push.createdBy?.name), .jsonb(push.exclusion?.json.bytes()),
            .text(push.exclusion?.audience?.text), .uuids(push.exclusion?.pushes ?? []), .text(push.kind?.rawValue),
            .uuid(push.createdBy?.id), .int64(push.counted?.number), .int64(push.counted?.allowed),
            .bool(push.toTesters), .text(push.preview.firstWords), .jsonb(push.preview.warnings.json),
            .jsonb(push.checksDevices ? [PushWarning.pendingDevices].json : nil),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

extension NewPush {
    /// Whether it is a single batch that is sent at once. Advertising may wait for its hours, and goes to users whose consent is
    /// looked at then.
    fileprivate var isOneBatch: Bool {
        guard case .users(let ids) = audience, exclusion == nil, kind != .advertising, counted == nil else {
            return false
        }
        return times.sendAt == nil && ids.count <= Int(batchUsers)
    }

    var initialState: PushState {
        if needsApproval { return .proposed }
        return times.sendAt == nil ? .preparing : .scheduled
    }
}
