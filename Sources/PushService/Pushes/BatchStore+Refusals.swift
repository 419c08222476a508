internal import FoundationEssentials
internal import Postgres

// What is done about a message, or a user, that Kakao calls wrong.
extension BatchStore {
    /// Splits a batch that Kakao calls wrong in two, to be tried each.
    ///
    /// If nobody has been sent this message yet, the push is put under probe: until somebody in this batch has been, nobody outside of
    /// it is tried, since it may be the message that is wrong.
    func split(_ result: BatchResult) async throws {
        let claim = result.claim
        _ = try await pool.write(
            """
            WITH refused AS (
                SELECT push_id, number, users, users / 2 AS half, COALESCE(origin, number) AS origin, may_repeat
                FROM push_batches
                WHERE push_id = $1
                    AND number = $2
                    AND state = 'sending'
                    AND lease = $3
                    AND users > 1
                FOR UPDATE
            ),
            push AS (
                UPDATE pushes AS push
                SET next_number = push.next_number + 1,
                    probe = CASE
                        WHEN EXISTS (SELECT 1 FROM push_counts WHERE push_id = $1 AND state = 'sent') THEN NULL
                        ELSE COALESCE(\(Self.probeInForce), refused.origin)
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
            """,
            [
                .uuid(claim.pushID), .int32(claim.number), .uuid(claim.lease),
                .int32(result.status.map(Int32.init(clamping:))), .int32(result.code.map(Int32.init(clamping:))),
                .text(result.message), .int64s(claim.userIDs),
            ]
        )
    }

    /// Somebody has been sent the message: it is not what is wrong.
    func endProbe(_ id: UUID) async throws {
        _ = try await pool.write(
            """
            UPDATE pushes
            SET probe = NULL
            WHERE id = $1
                AND probe IS NOT NULL
            """,
            [.uuid(id)]
        )
    }

    /// Writes that a user stands refused, and halts the push if it is under probe and Kakao has refused everybody in the batch that it
    /// refused first. Returns whether that is so.
    ///
    /// In one transaction, lest somebody claims batches between the one and the other; and under the push's lock, so that of two that
    /// write of the last two users the later sees both.
    ///
    /// A batch of one user is no probe. While others are under way it is not known whether that user is at fault or the message; if it is
    /// the message, the last of them tells.
    func finishRefused(_ result: BatchResult, reason: String) async throws -> Bool {
        let id = result.claim.pushID
        return try await pool.withTransaction { transaction in
            try await transaction.query("SELECT 1 FROM pushes WHERE id = $1 FOR UPDATE", [.uuid(id)])
            try await transaction.query(Self.finishStatement, Self.finishParameters([result], slot: self.slot))
            let rows = try await transaction.query(
                """
                UPDATE pushes AS push
                SET state = 'halted',
                    reason = $2,
                    probe = NULL
                WHERE push.id = $1
                    AND push.state IN ('preparing', 'sending')
                    AND NOT EXISTS (SELECT 1 FROM push_counts WHERE push_id = $1 AND state = 'sent')
                    AND NOT EXISTS (
                        SELECT 1
                        FROM push_batches
                        WHERE push_id = $1
                            AND (origin = push.probe AND state <> 'failed' OR push.probe IS NULL AND state = 'sending')
                    )
                    AND (
                        push.probe IS NOT NULL
                        OR NOT EXISTS (SELECT 1 FROM push_claims WHERE push_id = $1 AND lease IS NOT NULL)
                    )
                """,
                [.uuid(id), .text(reason)]
            )
            return rows.affectedRows > 0
        }
    }
}
