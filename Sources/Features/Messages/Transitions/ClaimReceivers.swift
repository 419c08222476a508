import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime
import Sharing

/// Locks the quotas of the current day until the transaction ends, so that reservations are made one after the other. Each
/// reservation begins with it.
struct LockMessageQuotas: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO message_quotas AS quota (day, quota, used)
        VALUES ((now() AT TIME ZONE $1)::date, 'app', 0)
        ON CONFLICT (day, quota, sender, receiver) DO UPDATE
        SET used = quota.used
        """

    let timeZone: String

    var parameters: [PostgresValue] { [.text(timeZone)] }
}

/// Returns a query of how much of a quota is used on the day of `today`.
///
/// - Parameter key: The quota, the sender and the receiver.
private func usedToday(_ key: SQL) -> SQL {
    """
    (
        SELECT COALESCE(sum(used), 0) AS used
        FROM message_quotas
        WHERE (day, quota, sender, receiver) = (today.day, \(key))
    )
    """
}

/// Claims receivers that are due, under a lease, and reserves their messages in the quotas of the day. A receiver whose
/// quota is used up waits for the next day, or fails.
///
/// The transaction has locked the quotas before (``LockMessageQuotas``), so that this statement sees all reservations. A
/// receiver waits or fails only if a quota was used up before this statement. If the receivers that are claimed here use it
/// up, the others stay due, as do those beyond the limit of requests: a receiver that is due can still be canceled.
///
/// Receivers are read in the order of their index, and all else by key (`LATERAL`) or `ctid`, so that the plan does not
/// depend on statistics, which are wrong for tables that fill within a second. A receiver that was changed since this
/// statement began has a new `ctid` and is not claimed now. Only claimed receivers are counted in the quotas.
struct ClaimReceivers: PostgresStatement {
    static let sql: SQL = """
        WITH lease AS (\(SQL.lockedLease("$1"))),
        -- Waits for a stop that is being committed, and until all servers know what a new run of PostgreSQL has lost.
        running AS MATERIALIZED (
            SELECT 1
            FROM sender
            WHERE stopped_at IS NULL
                AND commits_are_checked('messages')
            FOR SHARE
        ),
        today AS (
            SELECT (now() AT TIME ZONE $3)::date AS day,
                (((now() AT TIME ZONE $3)::date + 1)::timestamp AT TIME ZONE $3) AS next_start
        ),
        due AS MATERIALIZED (
            SELECT receiver.*, message.sender, message.when_over_quota, message.is_memo
            FROM lease
            CROSS JOIN running
            CROSS JOIN LATERAL (
                SELECT ctid AS place, message_id, position, COALESCE(uuid, '') AS uuid, is_alone
                FROM message_receivers
                WHERE due_at <= now()
                    AND (
                        SELECT state = 'active' AND (expires_at IS NULL OR expires_at > now())
                        FROM messages
                        WHERE id = message_id
                    )
                ORDER BY due_at, message_id, position
                LIMIT $2 * $10
                FOR UPDATE SKIP LOCKED
            ) AS receiver
            CROSS JOIN LATERAL (
                SELECT sender, when_over_quota, addressing = 'me' AS is_memo
                FROM messages
                WHERE id = receiver.message_id
                LIMIT 1
            ) AS message
        ),
        room AS (
            SELECT due.*, $4 - app.used AS app, $5 - sender.used AS sender_room,
                CASE WHEN is_memo THEN $8 ELSE $6 - receiver.used END AS receiver,
                CASE WHEN is_memo THEN $8 ELSE $7 END - pair.used AS pair
            FROM due
            CROSS JOIN today
            CROSS JOIN LATERAL \(usedToday("'app', 0, ''")) AS app
            CROSS JOIN LATERAL \(usedToday("'sender', due.sender, ''")) AS sender
            CROSS JOIN LATERAL \(usedToday("'receiver', 0, due.uuid")) AS receiver
            CROSS JOIN LATERAL \(usedToday("'pair', due.sender, due.uuid")) AS pair
        ),
        used_up AS MATERIALIZED (
            SELECT place, when_over_quota,
                CASE WHEN app <= 0 THEN 'app' WHEN sender_room <= 0 THEN 'sender' WHEN receiver <= 0 THEN 'receiver' ELSE 'pair' END
                    || '_quota' AS reason
            FROM room
            WHERE LEAST(app, sender_room, receiver, pair) <= 0
        ),
        ranked AS (
            SELECT place, message_id, position, uuid, sender, is_memo,
                is_alone OR row_number() OVER (PARTITION BY message_id, is_alone ORDER BY position) % $10 = 1 AS begins_request,
                row_number() OVER (ORDER BY message_id, position) <= app
                    AND row_number() OVER (PARTITION BY sender ORDER BY message_id, position) <= sender_room
                    AND row_number() OVER (PARTITION BY uuid, is_memo ORDER BY message_id, position) <= receiver
                    AND row_number() OVER (PARTITION BY sender, uuid ORDER BY message_id, position) <= pair AS fits
            FROM room
            WHERE LEAST(app, sender_room, receiver, pair) > 0
        ),
        counted AS (
            SELECT *,
                fits AND count(*) FILTER (WHERE begins_request) OVER (ORDER BY message_id, position) <= $2 AS is_chosen
            FROM ranked
        ),
        chosen AS MATERIALIZED (
            SELECT place, message_id, position, uuid, sender, is_memo
            FROM counted
            WHERE is_chosen
        ),
        claimed AS (
            UPDATE message_receivers
            SET state = 'sending',
                due_at = NULL,
                attempts = attempts + 1,
                claims = claims + 1,
                lease = $1,
                quota_day = (SELECT day FROM today)
            WHERE ctid = ANY (ARRAY(SELECT place FROM chosen))
            RETURNING \(ReceiverClaim.columns)
        ),
        reserved AS (
            INSERT INTO message_quotas AS quota (day, quota, sender, receiver, used)
            SELECT today.day, item.quota, item.sender, item.receiver, count(*)
            FROM chosen
            JOIN claimed USING (message_id, position)
            CROSS JOIN today
            CROSS JOIN LATERAL (
                VALUES (1, 'app', 0, ''), (2, 'sender', sender, ''),
                    (3, 'receiver', 0, CASE WHEN NOT is_memo THEN chosen.uuid END), (4, 'pair', sender, chosen.uuid)
            ) AS item (rank, quota, sender, receiver)
            WHERE item.receiver IS NOT NULL
            GROUP BY today.day, item.rank, item.quota, item.sender, item.receiver
            ORDER BY item.rank, item.sender, item.receiver
            ON CONFLICT (day, quota, sender, receiver) DO UPDATE
            SET used = quota.used + excluded.used
        ),
        over AS (
            UPDATE message_receivers AS receiver
            SET (state, due_at, reason, finished_at) = (
                    SELECT CASE WHEN waits THEN 'waiting' ELSE 'failed' END,
                        CASE WHEN waits THEN today.next_start + random() * make_interval(secs => $9) END,
                        used_up.reason,
                        CASE WHEN NOT waits THEN now() END
                    FROM used_up
                    CROSS JOIN today
                    CROSS JOIN LATERAL (SELECT when_over_quota = 'wait') AS item (waits)
                    WHERE used_up.place = receiver.ctid
                ),
                code = NULL,
                kakao_message = NULL
            WHERE receiver.ctid = ANY (ARRAY(SELECT place FROM used_up))
            RETURNING receiver.message_id, receiver.state
        )
        SELECT \(ReceiverClaim.columns), message.sender, addressing, delivery, when_over_quota,
            item.template_object, item.template_id, item.template_args, item.request_url, 0
        FROM claimed
        CROSS JOIN LATERAL (
            SELECT *
            FROM messages
            WHERE id = message_id
            LIMIT 1
        ) AS message
        LEFT JOIN LATERAL (
            SELECT template_object, template_id, template_args, request_url
            WHERE position = (SELECT min(first.position) FROM claimed AS first WHERE first.message_id = message.id)
        ) AS item ON true
        UNION ALL
        SELECT message_id, -1, 0, 0, $1, NULL, false, NULL::int, 0, 'me', 'at_most_once', 'wait', NULL, NULL::bigint, NULL, NULL,
            (count(*) FILTER (WHERE state = 'failed'))::int
        FROM over
        GROUP BY message_id
        ORDER BY 1, 2
        """

    let lease: UUID
    /// The maximum number of requests.
    let requests: Int
    let quotas: MessageQuotaSettings

    var parameters: [PostgresValue] {
        [
            .uuid(lease), .int64(Int64(requests)), .text(quotas.timeZone),
        ] + quotas.limits + [
            .float64(quotas.spread.inSeconds), .int64(Int64(FriendMessageAnswer.maximumReceivers)),
        ]
    }

    /// A claimed receiver.
    struct Receiver: Sendable {
        /// Position -1 stands for the receivers of the message that wait or have failed, because a quota is used up.
        let claim: ReceiverClaim
        /// The message, with the first claimed receiver of it.
        let message: SendingMessage?
        /// The number of receivers at position -1 that have failed.
        let failed: Int32
    }

    static func decode(_ row: PostgresRow) throws -> Receiver {
        try row.decode { column in
            let claim = try ReceiverClaim(&column)
            let sender = try column.next(Int64.self)
            let addressing = try Addressing(rawValue: column.next()) ?? .friends
            let delivery = try Delivery(rawValue: column.next()) ?? .atMostOnce
            let whenOverQuota = try OverQuota(rawValue: column.next()) ?? .wait
            let content = try MessageContent(
                template: column.next(),
                templateID: column.next(),
                arguments: column.next(),
                url: column.next()
            )
            let message = content.map { content in
                SendingMessage(
                    id: claim.messageID,
                    sender: sender,
                    addressing: addressing,
                    content: content,
                    delivery: delivery,
                    whenOverQuota: whenOverQuota
                )
            }
            return try Receiver(claim: claim, message: message, failed: column.next())
        }
    }
}
