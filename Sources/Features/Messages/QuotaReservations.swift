package import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
package import KakaoAPI
import Postgres

/// A message that counts against the quotas of a day, to the receivers whose quotas have room for it.
package struct MessageReservation: Sendable {
    package let sender: Int64
    /// The day, as PostgreSQL writes it: `2026-11-23`.
    package let day: String
    /// The receivers whose messages count, in the order of the call; `nil` stands for the sender.
    package let uuids: [String?]
    /// The receivers for whom a quota is used up, by Kakao's code, as in Kakao's `failure_info`.
    package let failures: [FriendMessageAnswer.Failure]
}

/// The counts of messages against Kakao's quotas of a day, for messages that are sent without the queue.
package struct QuotaReservations: Sendable {
    let pool: PostgresPool
    let quotas: MessageQuotaSettings

    /// Reserves a message before it is sent. Receivers for whom a quota is used up are not counted.
    ///
    /// - Parameter uuids: The receivers, by Kakao's ids; `nil` for a message to the sender.
    /// - Throws: ``Problem`` 400, with nothing counted, if no receiver is left.
    package func reserve(_ uuids: [String]?, from sender: Int64) async throws -> MessageReservation {
        let uuids: [String?] = uuids ?? [nil]
        return try await pool.withTransaction { transaction in
            try await transaction.query(LockMessageQuotas(timeZone: quotas.timeZone))
            let used = try await transaction.query(
                ReadMessageQuotas(keys: Self.keys(of: uuids, sender), quotas: quotas)
            )
            guard var remaining = RemainingQuotas(used, quotas) else {
                throw PostgresError(.decoding, detail: "no quota was returned")
            }
            let charges = remaining.charge(from: sender, to: uuids)
            guard !charges.counted.isEmpty else {
                throw Problem.quotasUsedUp(charges.refused, until: remaining.nextDay)
            }
            try await transaction.query(
                CountMessages(change: 1, sender: sender, uuids: charges.counted, day: remaining.day)
            )
            return MessageReservation(
                sender: sender,
                day: remaining.day,
                uuids: charges.counted,
                failures: charges.refused.failures
            )
        }
    }

    /// Releases what Kakao did not count.
    ///
    /// - Parameter uuids: The receivers that were not reached; `nil` stands for the sender.
    package func release(_ uuids: [String?], of reservation: MessageReservation) async throws {
        guard !uuids.isEmpty else { return }
        let _: Int = try await pool.write(
            CountMessages(change: -1, sender: reservation.sender, uuids: uuids, day: reservation.day)
        )
    }

    /// Returns how many messages may still be sent today, for receivers of a message that is not sent.
    func remainingQuotas(for uuids: [String?], from sender: Int64) async throws -> RemainingQuotas {
        let used = try await pool.read(ReadMessageQuotas(keys: Self.keys(of: uuids, sender), quotas: quotas))
        return RemainingQuotas(used, quotas) ?? RemainingQuotas(day: "", nextDay: Date())
    }

    private static func keys(of uuids: [String?], _ sender: Int64) -> [MessageQuotaKey] {
        let keys = uuids.flatMap { uuid in
            MessageQuota.allCases.map { MessageQuotaKey($0, sender: sender, uuid: uuid) }
        }
        return Array(Set(keys))
    }
}

extension ProblemKind {
    package static let messageQuotaUsedUp = ProblemKind(
        .badRequest,
        "message-quota-used-up",
        "A quota of messages a day is used up for each receiver: `quota` says which, `failure_info` for whom."
    )
}

extension Problem {
    /// Returns the problem of a message that no receiver is left for, as Kakao answers it. If the causes differ, it has
    /// the code of the quota that counts most users: the receivers of the others are in `failure_info`.
    fileprivate static func quotasUsedUp(_ refused: [RefusedReceiver], until nextDay: Date) -> Problem {
        let quota = MessageQuota.allCases.first { quota in refused.contains { $0.quota == quota } } ?? .app
        let seconds = Int64(max(1, nextDay.timeIntervalSinceNow.rounded(.up)))
        let failures = refused.failures
        var problem = Problem(
            of: .messageQuotaUsedUp,
            quota.reason.remedy,
            members: ["quota": .string(quota.rawValue)],
            headerFields: [.retryAfter: String(seconds)]
        )
        problem.code = quota.code.rawValue
        if !failures.isEmpty { problem.members["failure_info"] = .array(failures.map(\.json)) }
        return problem
    }
}

// MARK: Statements

/// Counts messages from a sender to some receivers against the quotas of a day, or no longer. A transaction that counts
/// more messages has locked the quotas before.
struct CountMessages: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO message_quotas AS quota (day, quota, sender, receiver, used)
        SELECT $3::text::date, item.quota, item.sender, item.receiver, $4::int * count(*)
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

    /// 1 to count messages, -1 to count them no longer.
    let change: Int32
    let sender: Int64
    /// `nil` stands for the sender.
    let uuids: [String?]
    let day: String

    var parameters: [PostgresValue] { [.int64(sender), .texts(uuids), .text(day), .int32(change)] }
}

/// Reads how much of some quotas is used today.
struct ReadMessageQuotas: PostgresStatement {
    static let sql: SQL = """
        SELECT item.quota, item.sender, item.receiver, COALESCE(quota.used, 0), (now() AT TIME ZONE $1)::date::text,
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

    /// How much of a quota is used.
    struct Usage: Sendable {
        let key: MessageQuotaKey
        let used: Int32
        /// The day, as PostgreSQL writes it.
        let day: String
        /// When the next day begins.
        let nextDay: Date
    }

    static func decode(_ row: PostgresRow) throws -> Usage {
        try row.decode { column in
            let quota = try MessageQuota(rawValue: column.next()) ?? .app
            let key = try MessageQuotaKey(quota, sender: column.next(), uuid: column.next(String.self))
            return try Usage(key: key, used: column.next(), day: column.next(), nextDay: column.next())
        }
    }
}
