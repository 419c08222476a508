import Endpoints
import FoundationEssentials
import Postgres

/// Stores the results of claimed receivers, and releases the reservations of those whom Kakao did not count. If Kakao says
/// that a quota is used up, its count for the day of the reservation becomes a billion, so that later releases cannot bring
/// it below the limit.
///
/// A result counts only for the claim that it belongs to, under the lease of that claim.
struct RecordReceivers: CoalescedStatement {
    struct Item: Sendable {
        let claim: ReceiverClaim
        let result: ReceiverResult
    }

    static let sql: SQL = """
        WITH given AS (
            SELECT *
            FROM unnest(
                $1::uuid[], $2::int[], $3::uuid[], $4::int[], $5::text[], $6::float8[], $7::bool[], $8::bool[], $9::bool[],
                $10::bool[], $11::int[], $12::text[], $13::text[], $14::text[]
            ) AS item (
                message_id, position, lease, claims, state, delay, counts_attempt, is_counted, is_alone, may_repeat, code,
                reason, kakao_message, scopes
            )
        ),
        recorded AS (
            UPDATE message_receivers AS receiver
            SET state = CASE WHEN result.is_open AND result.has_ended THEN 'skipped' ELSE result.state END,
                due_at = CASE
                    WHEN result.is_open AND NOT result.has_ended THEN COALESCE(
                        now() + make_interval(secs => result.delay),
                        ((receiver.quota_day + 1)::timestamp AT TIME ZONE $15)
                            + random() * make_interval(secs => $16)
                    )
                END,
                attempts = receiver.attempts - CASE WHEN result.counts_attempt THEN 0 ELSE 1 END,
                lease = NULL,
                is_alone = receiver.is_alone OR result.is_alone,
                may_repeat = receiver.may_repeat OR result.may_repeat,
                code = result.code,
                reason = CASE WHEN result.is_open AND result.has_ended THEN result.message_state ELSE result.reason END,
                kakao_message = result.kakao_message,
                scopes = result.scopes::text[],
                finished_at = CASE WHEN result.is_open AND NOT result.has_ended THEN NULL ELSE now() END
            FROM (
                SELECT given.*, given.state IN ('pending', 'waiting') AS is_open, message.state <> 'active' AS has_ended,
                    message.state AS message_state, message.sender
                FROM given
                JOIN messages AS message ON message.id = given.message_id
            ) AS result
            WHERE receiver.message_id = result.message_id
                AND receiver.position = result.position
                AND receiver.lease = result.lease
                AND receiver.claims = result.claims
            RETURNING receiver.quota_day, receiver.uuid, result.sender, result.is_counted, result.reason
        )
        INSERT INTO message_quotas AS quota (day, quota, sender, receiver, used)
        SELECT quota_day, item.quota, item.sender, item.receiver,
            CASE WHEN bool_or(item.quota || '_quota' = recorded.reason) THEN 1000000000 ELSE -count(*) END
        FROM recorded
        CROSS JOIN LATERAL (
            VALUES (1, 'app', 0, ''), (2, 'sender', sender, ''), (3, 'receiver', 0, uuid),
                (4, 'pair', sender, COALESCE(uuid, ''))
        ) AS item (rank, quota, sender, receiver)
        WHERE NOT is_counted
            AND quota_day IS NOT NULL
            AND item.receiver IS NOT NULL
        GROUP BY quota_day, item.rank, item.quota, item.sender, item.receiver
        ORDER BY quota_day, item.rank, item.sender, item.receiver
        ON CONFLICT (day, quota, sender, receiver) DO UPDATE
        SET used = LEAST(GREATEST(quota.used + excluded.used, 0), 1000000000)
        """

    let items: [Item]
    let quotas: MessageQuotaSettings

    var parameters: [PostgresValue] {
        let results = items.map(\.result)
        return [
            .uuids(items.map(\.claim.messageID)),
            .int32s(items.map(\.claim.position)),
            .uuids(items.map(\.claim.lease)),
            .int32s(items.map(\.claim.claims)),
            .texts(results.map(\.state.rawValue)),
            .float64s(results.map(\.secondsUntilDue)),
            .bools(results.map(\.countsAttempt)),
            .bools(results.map(\.isCounted)),
            .bools(results.map(\.isAlone)),
            .bools(results.map(\.mayRepeat)),
            .int32s(results.map { $0.code.map(Int32.init(clamping:)) }),
            .texts(results.map { $0.reason?.rawValue }),
            .texts(results.map(\.kakaoMessage)),
            .textArrayLiterals(results.map(\.scopes)),
            .text(quotas.timeZone),
            .float64(quotas.spread.inSeconds),
        ]
    }
}
