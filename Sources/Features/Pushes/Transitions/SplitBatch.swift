import FoundationEssentials
import Postgres

extension BatchStore {
    /// Splits a batch that Kakao rejects (-2) into two halves, which are sent on their own.
    ///
    /// If Kakao has not accepted the message for any user yet, or has rejected several batches in a row, the message
    /// may be invalid, not a user. Then the push goes under probe: until Kakao accepts the message for a user, only
    /// parts of this batch are sent.
    ///
    /// The transaction locks the push first, so that the later one of two concurrent splits sees the probe of the
    /// earlier one and keeps it.
    ///
    /// - Parameter isRejectedRepeatedly: Whether Kakao has rejected several batches in a row.
    func split(_ claim: BatchClaim, _ result: BatchResult, isRejectedRepeatedly: Bool) async throws {
        let split = SplitBatch(claim: claim, result: result, isRejectedRepeatedly: isRejectedRepeatedly)
        try await pool.withTransaction { transaction in
            try await transaction.query(LockPush(id: claim.pushID))
            try await transaction.query(split)
        }
    }

    /// Ends the probe of a push, since Kakao has accepted its message.
    func endProbe(_ id: UUID) async throws {
        try await pool.write(EndProbe(pushID: id))
    }
}

/// Splits a claimed batch into two waiting halves, and puts its push under probe if the message may be invalid.
struct SplitBatch: PostgresStatement {
    static let sql: SQL = """
        WITH refused AS (
            SELECT push_id, number, users, users / 2 AS half, COALESCE(origin, number) AS origin, may_repeat
            FROM push_batches
            WHERE push_id = $1
                AND number = $2
                AND state = 'sending'
                AND lease = $3
                AND claims = $8
                AND users > 1
            FOR UPDATE
        ),
        push AS (
            UPDATE pushes AS push
            SET next_number = push.next_number + 1,
                probe = CASE
                    WHEN push_open_probe(push.id, push.probe, push.probe_sent) IS NOT NULL THEN push.probe
                    WHEN $9 OR push_users_sent(push.id) = 0 THEN refused.origin
                END,
                probe_sent = CASE
                    WHEN push_open_probe(push.id, push.probe, push.probe_sent) IS NOT NULL THEN push.probe_sent
                    ELSE push_users_sent(push.id)
                END
            FROM refused
            WHERE push.id = refused.push_id
            RETURNING push.next_number - 1 AS number
        ),
        second AS (
            INSERT INTO push_batches (push_id, number, user_ids, users, state, origin, may_repeat)
            SELECT refused.push_id, push.number, ($7::bigint[])[half + 1:], refused.users - half, 'waiting',
                refused.origin, refused.may_repeat
            FROM refused
            CROSS JOIN push
        )
        UPDATE push_batches AS batch
        SET user_ids = ($7::bigint[])[:refused.half],
            users = refused.half,
            state = 'waiting',
            attempts = 0,
            next_attempt_at = now(),
            lease = NULL,
            origin = refused.origin,
            kakao_status = $4,
            kakao_code = $5,
            kakao_message = $6
        FROM refused
        WHERE batch.push_id = refused.push_id
            AND batch.number = refused.number
        """

    let claim: BatchClaim
    let result: BatchResult
    let isRejectedRepeatedly: Bool

    var parameters: [PostgresValue] {
        [
            .uuid(claim.pushID), .int32(claim.number), .uuid(claim.lease),
            .int32(result.status.map(Int32.init(clamping:))), .int32(result.code.map(Int32.init(clamping:))),
            .text(result.message), .int64s(claim.userIDs), .int32(claim.claims), .bool(isRejectedRepeatedly),
        ]
    }
}

/// Ends the probe of a push.
struct EndProbe: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET probe = NULL
        WHERE id = $1
            AND probe IS NOT NULL
        """

    let pushID: UUID

    var parameters: [PostgresValue] { [.uuid(pushID)] }
}
