internal import FoundationEssentials
internal import Postgres

// Rejected messages and users (Kakao's -2).
extension BatchStore {
    /// Splits a batch that Kakao rejects into two halves, each to be sent by itself.
    ///
    /// The message may be at fault, and not a user, if Kakao has not accepted it for any user yet, or has rejected several batches in a row. Then
    /// the push goes under probe: until Kakao accepts the message for a user, only parts of this batch are sent.
    ///
    /// - Parameter isMessageInDoubt: Kakao has rejected several batches in a row.
    func split(_ result: BatchResult, isMessageInDoubt: Bool) async throws {
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
                    AND claims = $8
                    AND users > 1
                FOR UPDATE
            ),
            push AS (
                UPDATE pushes AS push
                SET next_number = push.next_number + 1,
                    probe = CASE
                        WHEN \(Self.openProbe) IS NOT NULL THEN push.probe
                        WHEN $9 OR \(Self.usersSent) = 0 THEN refused.origin
                    END,
                    probe_sent = CASE WHEN \(Self.openProbe) IS NOT NULL THEN push.probe_sent ELSE \(Self.usersSent) END
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
                .text(result.message), .int64s(claim.userIDs), .int32(claim.claims), .bool(isMessageInDoubt),
            ]
        )
    }

    /// Ends the probe of a push: Kakao has accepted its message.
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

    /// Stores that Kakao rejected a batch of one user, and halts the push if the message is at fault. Returns whether it was halted.
    ///
    /// The message is at fault if the push is under probe and Kakao has rejected everyone in the batch that it rejected first. Without a probe,
    /// if no request is in flight and Kakao has not accepted the message for any user; but a push of which nothing is left to send is not
    /// halted: it has finished.
    ///
    /// Both happen in one transaction, so that no server claims batches in between, and under the push's lock, so that of two transactions
    /// that store the last two users the later sees both.
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
                    AND \(Self.usersSent) <= CASE WHEN push.probe IS NULL THEN 0 ELSE push.probe_sent END
                    AND NOT EXISTS (
                        SELECT 1
                        FROM push_batches
                        WHERE push_id = $1
                            AND (origin = push.probe AND state <> 'failed' OR push.probe IS NULL AND state = 'sending')
                    )
                    AND (
                        push.probe IS NOT NULL
                        OR NOT EXISTS (SELECT 1 FROM push_claims WHERE push_id = $1 AND lease IS NOT NULL)
                            AND (
                                push.state = 'preparing'
                                OR push.users - push.users_skipped
                                    > (SELECT COALESCE(sum(users), 0) FROM push_counts WHERE push_id = $1)
                            )
                    )
                """,
                [.uuid(id), .text(reason)]
            )
            return rows.affectedRows > 0
        }
    }
}
