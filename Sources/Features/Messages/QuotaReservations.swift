package import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres

/// A message that counts against the quotas of a day.
package struct MessageReservation: Sendable {
    package let sender: Int64
    /// The day, as PostgreSQL writes it: `2026-11-23`.
    package let day: String
}

/// The counts of messages against Kakao's quotas of a day, for messages that are sent without the queue.
package struct QuotaReservations: Sendable {
    let pool: PostgresPool
    let quotas: MessageQuotaSettings

    /// Reserves a message before it is sent.
    ///
    /// - Parameter uuids: The receivers, by Kakao's ids; `nil` for a message to the sender.
    /// - Throws: ``Problem`` 429 if a quota is used up.
    package func reserve(_ uuids: [String]?, from sender: Int64) async throws -> MessageReservation {
        let result = try await pool.withTransaction { transaction in
            try await transaction.query(LockMessageQuotas(timeZone: quotas.timeZone))
            return try await transaction.query(
                ReserveMessages(sender: sender, uuids: uuids ?? [nil], quotas: quotas)
            )
            .first
        }
        guard let result else { throw PostgresError(.decoding, detail: "no day was returned") }
        if let quota = result.usedUp { throw Problem.quotaUsedUp(quota, until: result.nextDay) }
        return MessageReservation(sender: sender, day: result.day)
    }

    /// Releases what Kakao did not count.
    ///
    /// - Parameter uuids: The receivers that were not reached; `nil` stands for the sender.
    package func release(_ uuids: [String?], of reservation: MessageReservation) async throws {
        guard !uuids.isEmpty else { return }
        let _: Int = try await pool.write(
            ReleaseMessages(sender: reservation.sender, uuids: uuids, day: reservation.day)
        )
    }

    /// Returns how many messages may still be sent today, for receivers of a message that is not sent.
    func remainingQuotas(for uuids: [String?], from sender: Int64) async throws -> RemainingQuotas {
        let keys = Set(
            uuids.flatMap { uuid in MessageQuota.allCases.map { MessageQuotaKey($0, sender: sender, uuid: uuid) } }
        )
        let rows = try await pool.read(ReadMessageQuotas(keys: Array(keys), quotas: quotas))
        var remaining = RemainingQuotas(nextDay: rows.first?.nextDay ?? Date())
        for row in rows { remaining.messages[row.key] = quotas.limit(of: row.key) - Int(row.used) }
        return remaining
    }
}

/// The messages that may still be sent today.
struct RemainingQuotas {
    /// When the quotas begin anew.
    let nextDay: Date
    /// The number of messages for each quota.
    var messages: [MessageQuotaKey: Int] = [:]

    /// Counts one more message against its quotas. If one of them is used up, returns it and counts nothing.
    mutating func charge(from sender: Int64, to uuid: String?) -> MessageQuota? {
        let keys = MessageQuota.allCases.filter { $0 != .receiver || uuid != nil }
            .map { MessageQuotaKey($0, sender: sender, uuid: uuid) }
        if let full = keys.first(where: { messages[$0, default: 0] <= 0 }) { return full.quota }
        for key in keys { messages[key, default: 0] -= 1 }
        return nil
    }
}

extension MessageQuota {
    /// The reason of a receiver whose quota is used up.
    var reason: Reason {
        switch self {
        case .app: .appQuota
        case .sender: .senderQuota
        case .receiver: .receiverQuota
        case .pair: .pairQuota
        }
    }
}

extension ProblemKind {
    package static let messageQuotaUsedUp = ProblemKind(
        .tooManyRequests,
        "message-quota-used-up",
        "A quota of messages a day is used up; `quota` says which."
    )
}

extension Problem {
    fileprivate static func quotaUsedUp(_ quota: MessageQuota, until nextDay: Date) -> Problem {
        let seconds = Int64(max(1, nextDay.timeIntervalSinceNow.rounded(.up)))
        return Problem(
            of: .messageQuotaUsedUp,
            quota.reason.remedy,
            members: ["quota": .string(quota.rawValue)],
            headerFields: [.retryAfter: String(seconds)]
        )
    }
}

// MARK: Statements

/// Reserves messages from a sender to some receivers, all or none. The transaction has locked the quotas before.
struct ReserveMessages: PostgresStatement {
    static let sql: SQL = """
        WITH today AS (
            SELECT (now() AT TIME ZONE $3)::date AS day,
                (((now() AT TIME ZONE $3)::date + 1)::timestamp AT TIME ZONE $3) AS next_start
        ),
        item AS (
            SELECT today.day, item.rank, item.quota, item.sender, item.receiver, min(item.maximum) AS maximum,
                count(*) AS wanted
            FROM today
            CROSS JOIN unnest($2::text[]) AS given (uuid)
            CROSS JOIN LATERAL (
                VALUES (1, 'app', 0, '', $4), (2, 'sender', $1, '', $5), (3, 'receiver', 0, uuid, $6),
                    (4, 'pair', $1, COALESCE(uuid, ''), CASE WHEN uuid IS NULL THEN $8 ELSE $7 END)
            ) AS item (rank, quota, sender, receiver, maximum)
            WHERE item.receiver IS NOT NULL
            GROUP BY today.day, item.rank, item.quota, item.sender, item.receiver
        ),
        over AS (
            SELECT item.quota
            FROM item
            LEFT JOIN message_quotas AS quota
                ON (quota.day, quota.quota, quota.sender, quota.receiver)
                    = (item.day, item.quota, item.sender, item.receiver)
            WHERE COALESCE(quota.used, 0) + item.wanted > item.maximum
            ORDER BY item.rank
            LIMIT 1
        ),
        reserved AS (
            INSERT INTO message_quotas AS quota (day, quota, sender, receiver, used)
            SELECT day, item.quota, sender, receiver, wanted
            FROM item
            WHERE NOT EXISTS (SELECT 1 FROM over)
            ORDER BY rank, sender, receiver
            ON CONFLICT (day, quota, sender, receiver) DO UPDATE
            SET used = quota.used + excluded.used
        )
        SELECT day::text, (SELECT over.quota FROM over), next_start
        FROM today
        """

    let sender: Int64
    /// `nil` stands for the sender.
    let uuids: [String?]
    let quotas: MessageQuotaSettings

    var parameters: [PostgresValue] {
        [.int64(sender), .texts(uuids), .text(quotas.timeZone)] + quotas.limits
    }

    static func decode(_ row: PostgresRow) throws -> (day: String, usedUp: MessageQuota?, nextDay: Date) {
        let (day, usedUp, nextDay) = try row.decode(String.self, String?.self, Date.self)
        return (day, usedUp.flatMap(MessageQuota.init(rawValue:)), nextDay)
    }
}

/// Releases reservations of a day.
struct ReleaseMessages: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO message_quotas AS quota (day, quota, sender, receiver, used)
        SELECT $3::text::date, item.quota, item.sender, item.receiver, -count(*)
        FROM unnest($2::text[]) AS given (uuid)
        CROSS JOIN LATERAL (
            VALUES (1, 'app', 0, ''), (2, 'sender', $1, ''), (3, 'receiver', 0, uuid), (4, 'pair', $1, COALESCE(uuid, ''))
        ) AS item (rank, quota, sender, receiver)
        WHERE item.receiver IS NOT NULL
        GROUP BY item.rank, item.quota, item.sender, item.receiver
        ORDER BY item.rank, item.sender, item.receiver
        ON CONFLICT (day, quota, sender, receiver) DO UPDATE
        SET used = GREATEST(quota.used + excluded.used, 0)
        """

    let sender: Int64
    let uuids: [String?]
    let day: String

    var parameters: [PostgresValue] { [.int64(sender), .texts(uuids), .text(day)] }
}

/// Reads how much of some quotas is used today.
struct ReadMessageQuotas: PostgresStatement {
    static let sql: SQL = """
        SELECT item.quota, item.sender, item.receiver, COALESCE(quota.used, 0),
            (((now() AT TIME ZONE $1)::date + 1)::timestamp AT TIME ZONE $1)
        FROM unnest($2::text[], $3::bigint[], $4::text[]) AS item (quota, sender, receiver)
        LEFT JOIN message_quotas AS quota
            ON quota.day = (now() AT TIME ZONE $1)::date
            AND (quota.quota, quota.sender, quota.receiver) = (item.quota, item.sender, item.receiver)
        """

    let keys: [MessageQuotaKey]
    let quotas: MessageQuotaSettings

    var parameters: [PostgresValue] {
        [
            .text(quotas.timeZone), .texts(keys.map(\.quota.rawValue)), .int64s(keys.map(\.sender)),
            .texts(keys.map(\.receiver)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> (key: MessageQuotaKey, used: Int32, nextDay: Date) {
        try row.decode { column in
            let quota = try MessageQuota(rawValue: column.next()) ?? .app
            let key = try MessageQuotaKey(quota, sender: column.next(), uuid: column.next(String.self))
            return try (key, column.next(), column.next())
        }
    }
}
