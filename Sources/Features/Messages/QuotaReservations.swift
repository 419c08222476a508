import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import ServiceKit

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
    func room(for uuids: [String?], from sender: Int64) async throws -> QuotaRoom {
        let keys = Set(
            uuids.flatMap { uuid in MessageQuota.allCases.map { MessageQuotaKey($0, sender: sender, uuid: uuid) } }
        )
        let rows = try await pool.read(ReadMessageQuotas(keys: Array(keys), quotas: quotas))
        var room = QuotaRoom(nextDay: rows.first?.nextDay ?? Date())
        for row in rows { room.left[row.key] = quotas.limit(of: row.key) - row.used }
        return room
    }
}

/// The messages that may still be sent today.
struct QuotaRoom {
    /// When the quotas begin anew.
    let nextDay: Date
    var left: [MessageQuotaKey: Int32] = [:]

    init(nextDay: Date) { self.nextDay = nextDay }

    /// Takes the room for one more message. Returns the quota that has none.
    mutating func take(from sender: Int64, to uuid: String?) -> MessageQuota? {
        let keys = MessageQuota.allCases.filter { $0 != .receiver || uuid != nil }
            .map { MessageQuotaKey($0, sender: sender, uuid: uuid) }
        if let full = keys.first(where: { left[$0, default: 0] <= 0 }) { return full.quota }
        for key in keys { left[key, default: 0] -= 1 }
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
        [
            .int64(sender), .texts(uuids), .text(quotas.timeZone), .int32(quotas.app), .int32(quotas.sender),
            .int32(quotas.receiver), .int32(quotas.pair), .int32(quotas.memo),
        ]
    }

    struct Row: Sendable {
        let day: String
        let usedUp: MessageQuota?
        let nextDay: Date
    }

    static func decode(_ row: PostgresRow) throws -> Row {
        let (day, usedUp, nextDay) = try row.decode(String.self, String?.self, Date.self)
        return Row(day: day, usedUp: usedUp.flatMap(MessageQuota.init(rawValue:)), nextDay: nextDay)
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

    struct Row: Sendable {
        let key: MessageQuotaKey
        let used: Int32
        let nextDay: Date
    }

    static func decode(_ row: PostgresRow) throws -> Row {
        let (quota, sender, receiver, used, nextDay) = try row.decode(
            String.self,
            Int64.self,
            String.self,
            Int32.self,
            Date.self
        )
        let key = MessageQuotaKey(MessageQuota(rawValue: quota) ?? .app, sender: sender, uuid: receiver)
        return Row(key: key, used: used, nextDay: nextDay)
    }
}
