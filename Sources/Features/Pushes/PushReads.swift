import FoundationEssentials
import KakaoAPI
import Locking
import Postgres
import Runtime

/// Reads of pushes and batches, to show them and to check new pushes against them.
struct PushReads: Sendable {
    let pool: PostgresPool
    var settings = Locked(PushSettings())

    /// Returns a push and its counts; `nil` if there is no such push.
    func summary(_ id: UUID) async throws -> PushSummary? {
        try await pool.read(ReadPush(id: id, hours: settings.hours)).first
    }

    /// Returns the request that created a push; `nil` if there is no such push.
    func request(of id: UUID) async throws -> StoredPushRequest? {
        try await pool.read(ReadPushRequest(id: id)).first
    }

    /// The pushes to list.
    struct Filter: Sendable {
        /// `nil` for all states. ``PushState/proposed`` includes those that wait for an approval since they have grown.
        var state: PushState?
        /// The beginning of the name.
        var name: String?
        /// The name of the operator key that created the push.
        var createdBy: String?
        var since: Date?
        var until: Date?
        /// Whether only pushes that have not ended are listed.
        var isUnfinished = false
        /// The last push of the previous page; `nil` for the first page.
        var before: UUID?
    }

    /// Returns up to `limit` pushes that pass `filter`, the latest first.
    func list(_ filter: Filter, limit: Int) async throws -> [PushSummary] {
        try await pool.read(ListPushes(filter: filter, limit: limit, hours: settings.hours), mayBeBehind: true)
    }

    /// Returns up to `limit` batches of a push in the order of their numbers; `nil` if there is no such push.
    ///
    /// - Parameters:
    ///   - state: The state of the batches; `nil` for all states.
    ///   - after: The number after which the returned batches begin.
    func batches(of id: UUID, state: String?, after: Int32, limit: Int) async throws -> [BatchSummary]? {
        let batches = try await pool.read(ListPushBatches(pushID: id, state: state, after: after, limit: limit))
        guard batches.isEmpty else { return batches }
        return try await pool.read(FindPush(id: id)).isEmpty ? nil : []
    }

    /// Returns when a message was last sent to a tester; `nil` if it was not.
    func lastTest(of message: PushMessage) async throws -> Date? {
        try await pool.read(FindLastTest(message: message)).first ?? nil
    }

    /// Returns when the hours for advertising begin that a push would wait for; `nil` if it would wait for none.
    func waitsUntil(_ push: NewPush) async throws -> Date? {
        guard push.kind == .advertising, !push.toTesters else { return nil }
        return try await pool.read(FindAdvertisingBegin(hours: settings.hours, sendAt: push.times.sendAt)).first ?? nil
    }

    /// Returns the object that a push refers to and that does not exist, or that it cannot leave out; `nil` if all are valid.
    func invalidObject(of push: NewPush) async throws -> NewPush.NamedObject? {
        try await pool.read(FindInvalidObject(push: push)).first ?? nil
    }
}

// MARK: Statements

/// Reads a push and its counts.
struct ReadPush: PostgresStatement {
    static let sql: SQL = """
        SELECT \(PushSummary.columns)
        FROM push_summaries AS push
        WHERE push.id = $2
        """

    let id: UUID
    let hours: PostgresValue

    var parameters: [PostgresValue] { [hours, .uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> PushSummary { try PushSummary(row) }
}

/// Finds out when a message was last sent to a tester.
struct FindLastTest: PostgresStatement {
    static let sql: SQL = """
        SELECT message_tested_before($1, $2, NULL)
        """

    let message: PushMessage

    var parameters: [PostgresValue] { [.text(message.text), .text(message.version.rawValue)] }
    static func decode(_ row: PostgresRow) throws -> Date? { try row.decode(Date?.self) }
}

/// Finds out when the hours for advertising begin that a push waits for, at its `send_at` or now.
struct FindAdvertisingBegin: PostgresStatement {
    static let sql: SQL = """
        SELECT advertising_begins($1, GREATEST(clock_timestamp(), $2))
        """

    let hours: PostgresValue
    let sendAt: Date?

    var parameters: [PostgresValue] { [hours, .timestamp(sendAt)] }
    static func decode(_ row: PostgresRow) throws -> Date? { try row.decode(Date?.self) }
}

/// Lists pushes and their counts, the latest first.
struct ListPushes: PostgresStatement {
    static let sql: SQL = """
        SELECT \(PushSummary.columns)
        FROM find_pushes($2, $3, $4, $5, $6, $7, $8, $9, $1) AS found (id)
        JOIN push_summaries AS push ON push.id = found.id
        ORDER BY push.id DESC
        """

    let filter: PushReads.Filter
    let limit: Int
    let hours: PostgresValue

    var parameters: [PostgresValue] {
        [
            hours, .text(filter.state?.rawValue), .text(filter.name), .text(filter.createdBy), .timestamp(filter.since),
            .timestamp(filter.until), .bool(filter.isUnfinished), .uuid(filter.before), .int64(Int64(limit)),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> PushSummary { try PushSummary(row) }
}

/// Lists the batches of a push in the order of their numbers.
struct ListPushBatches: PostgresStatement {
    static let sql: SQL = """
        SELECT number, state, COALESCE(user_ids, push_part_users($1, number)), attempts, may_repeat, kakao_status, kakao_code,
            kakao_message, CASE WHEN state = 'waiting' THEN next_attempt_at END, finished_at
        FROM (
            (
                SELECT number, state, user_ids, attempts, may_repeat, kakao_status, kakao_code, kakao_message, next_attempt_at,
                    finished_at
                FROM push_batches
                WHERE push_id = $1
                    AND ($2::text IS NULL OR state = $2)
                    AND number > $3
                ORDER BY number
                LIMIT $4
            )
            UNION ALL
            (
                -- Batches at their first attempt, and batches that were sent at it.
                SELECT number + place, given.state, NULL, 1, false, CASE given.state WHEN 'sent' THEN 200 END, NULL, NULL, NULL,
                    CASE given.state WHEN 'sent' THEN finished_at END
                FROM push_claims AS claim
                CROSS JOIN LATERAL generate_series(GREATEST(0, $3 + 1 - number), length(settled) - 1) AS place
                CROSS JOIN LATERAL (SELECT CASE get_bit(settled, place) WHEN 1 THEN 'sent' ELSE 'sending' END AS state) AS given
                WHERE push_id = $1
                    AND number > $3 - $5
                    AND ($2::text IS NULL OR given.state = $2)
                    AND NOT EXISTS (SELECT 1 FROM push_batches WHERE push_id = $1 AND push_batches.number = claim.number + place)
                ORDER BY number, place
                LIMIT $4
            )
            UNION ALL
            (
                -- Batches that are not claimed yet.
                SELECT batch.number, 'waiting', NULL, 0, false, NULL, NULL, NULL, created_at, NULL
                FROM push_parts AS part
                CROSS JOIN generate_series(GREATEST(number + claimed, $3 + 1), number + batches - 1) AS batch (number)
                WHERE push_id = $1
                    AND claimed < batches
                    AND ($2::text IS NULL OR $2 = 'waiting')
                    AND part.number + batches - 1 > $3
                ORDER BY part.number, batch.number
                LIMIT $4
            )
        ) AS batch
        ORDER BY number
        LIMIT $4
        """

    let pushID: UUID
    /// `nil` for all states.
    let state: String?
    /// The last number of the previous page.
    let after: Int32
    let limit: Int

    var parameters: [PostgresValue] {
        [.uuid(pushID), .text(state), .int32(after), .int64(Int64(limit)), .int32(ClaimBatches.sharing)]
    }

    static func decode(_ row: PostgresRow) throws -> BatchSummary {
        try row.decode { column in
            try BatchSummary(
                number: column.next(),
                state: column.next(),
                userIDs: column.next(),
                attempts: column.next(),
                mayRepeat: column.next(),
                kakaoStatus: column.next(),
                kakaoCode: column.next(),
                kakaoMessage: column.next(),
                nextAttemptAt: column.next(),
                finishedAt: column.next()
            )
        }
    }
}

/// Finds a push, and returns whether retention has begun to delete its batches.
struct FindPush: PostgresStatement {
    static let sql: SQL = """
        SELECT removed_at IS NOT NULL
        FROM pushes
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Finds the object that a push refers to and that does not exist, or that it cannot leave out.
struct FindInvalidObject: PostgresStatement {
    static let sql: SQL = """
        SELECT CASE
                WHEN $1::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audiences WHERE name = $1) THEN 'audience'
                WHEN $2::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audiences WHERE name = $2) THEN 'excludedAudience'
                WHEN NOT pushes_are_excludable($3, COALESCE($4, now())) THEN 'excludedPush'
            END
        """

    let push: NewPush

    var parameters: [PostgresValue] {
        [
            .text(push.audience.storedName?.text), .text(push.exclusion?.audience?.text),
            .uuids(push.exclusion?.pushes ?? []), .timestamp(push.times.sendAt),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> NewPush.NamedObject? {
        try row.decode(String?.self).flatMap(NewPush.NamedObject.init(rawValue:))
    }
}
