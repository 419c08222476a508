import Endpoints
import FoundationEssentials
import Locking
import Postgres

/// Finds out which users a push leaves out, page by page of its audience.
///
/// Users ascend in an audience and in a push, so only the parts that overlap with a page are read, and few of them at a
/// time.
struct ExcludedUsers: Sendable {
    /// The number of parts of an audience that are read at a time, of up to a thousand users each.
    private static let maxAudiencePartsPerRead = 50
    /// The number of parts of a push that are read at a time, of up to fifty thousand users each.
    private static let maxPushPartsPerRead = 4

    /// The tag that all of a user's devices need.
    struct Consent: Sendable {
        let tag: String
        /// The push types of the devices; empty for all.
        let platforms: [String]
    }

    var tags: [String] = []
    /// The parts of the stored audience.
    var partsID: UUID?
    var pushes: [UUID] = []
    /// Leaves out all users who have not consented; `nil` if no consent is needed.
    var consent: Consent?

    /// A push whose users cannot be left out, because retention has deleted them.
    struct PushRemoved: Error, CustomStringConvertible {
        let id: UUID

        var description: String {
            "The push \(id.lowercased), whose users are to be left out, has been deleted. Cancel this push, and create another one."
        }
    }

    /// Whether nobody is left out.
    var isEmpty: Bool { tags.isEmpty && partsID == nil && pushes.isEmpty && consent == nil }

    /// Users who are left out, in ascending order.
    struct LeftOut: Sendable {
        let excluded: [Int64]
        /// The others who have not consented.
        let withoutConsent: [Int64]
    }

    /// Returns the users of an ascending list who are left out.
    ///
    /// Uses a connection of its own, like the reading of the page.
    ///
    /// - Throws: ``PushRemoved``, ``PostgresError``.
    func leftOut(of users: [Int64], _ pool: PostgresPool) async throws -> LeftOut {
        var rest = users
        if !tags.isEmpty, !rest.isEmpty {
            let tagged = try await pool.queryAlone(FindTaggedUsers(userIDs: rest, tags: tags)).first ?? []
            rest.subtract(tagged)
        }
        if let partsID { try await subtractAudience(partsID, from: &rest, pool) }
        for push in pushes where !rest.isEmpty { try await subtractUsers(of: push, from: &rest, pool) }
        var excluded = users
        excluded.subtract(rest)
        var withoutConsent: [Int64] = []
        if let consent, !rest.isEmpty {
            withoutConsent = rest
            withoutConsent.subtract(
                try await pool.queryAlone(FindConsentingUsers(userIDs: rest, consent: consent)).first ?? []
            )
        }
        return LeftOut(excluded: excluded, withoutConsent: withoutConsent)
    }

    private func subtractAudience(_ partsID: UUID, from userIDs: inout [Int64], _ pool: PostgresPool) async throws {
        try await Self.subtractParts(from: &userIDs, atATime: Self.maxAudiencePartsPerRead) { users, number in
            try await pool.queryAlone(
                ListAudiencePartsBetween(
                    partsID: partsID,
                    users: users,
                    after: number,
                    limit: Self.maxAudiencePartsPerRead
                )
            )
        }
    }

    private func subtractUsers(of push: UUID, from userIDs: inout [Int64], _ pool: PostgresPool) async throws {
        userIDs.subtract(try await pool.queryAlone(ReadUsersReachedByBatch(pushID: push)).first ?? [])
        try await Self.subtractParts(from: &userIDs, atATime: Self.maxPushPartsPerRead) { users, number in
            try await pool.queryAlone(
                ListReachedParts(pushID: push, users: users, after: number, limit: Self.maxPushPartsPerRead)
            )
        }
        // Retention marks a push before it deletes any of it.
        guard try await pool.read(FindPush(id: push)).first == false else { throw PushRemoved(id: push) }
    }

    /// Removes the users of all parts that may have some of them.
    ///
    /// - Parameter list: Returns up to `limit` parts for a range of users, after the part with a number.
    private static func subtractParts(
        from userIDs: inout [Int64],
        atATime limit: Int,
        _ list: (ClosedRange<Int64>, Int32) async throws -> [ExcludedPart]
    ) async throws {
        guard let first = userIDs.first, let last = userIDs.last else { return }
        var number: Int32 = 0
        while true {
            let parts = try await list(first...last, number)
            for part in parts { userIDs.subtract(part.userIDs) }
            guard parts.count == limit, let end = parts.last?.number else { return }
            number = end
        }
    }
}

extension Locked<PushSettings> {
    /// Returns the consent that advertising needs at present; `nil` if it needs none.
    ///
    /// - Parameter platforms: The push types of the devices; empty for all.
    func consent(on platforms: [String]) -> ExcludedUsers.Consent? {
        withLock { $0.advertisingTag.map { ExcludedUsers.Consent(tag: $0, platforms: platforms) } }
    }
}

/// A part of an audience or of an earlier push, with those of its users whom a push leaves out.
struct ExcludedPart: Sendable {
    let number: Int32
    /// In ascending order.
    let userIDs: [Int64]
}

// MARK: Statements

/// Returns those of some users who have a device with any of some tags, in the given order.
struct FindTaggedUsers: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            SELECT item.user_id
            FROM unnest($1::bigint[]) AS item (user_id)
            WHERE EXISTS (
                SELECT 1
                FROM devices
                WHERE devices.user_id = item.user_id
                    AND NOT withdrawn
                    AND tags && $2
            )
        )
        """

    let userIDs: [Int64]
    let tags: [String]

    var parameters: [PostgresValue] { [.int64s(userIDs), .texts(tags)] }
    static func decode(_ row: PostgresRow) throws -> [Int64] { try row.decode([Int64].self) }
}

/// Returns those of some users who have a device, and consent on all of them that a push addresses, in the given order. A user without
/// such a device needs the consent on all others.
struct FindConsentingUsers: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            SELECT item.user_id
            FROM unnest($1::bigint[]) AS item (user_id)
            WHERE (
                SELECT COALESCE(
                    bool_and(tags @> ARRAY[$2]) FILTER (WHERE cardinality($3) = 0 OR push_type = ANY ($3)),
                    bool_and(tags @> ARRAY[$2])
                )
                FROM devices
                WHERE devices.user_id = item.user_id
                    AND NOT withdrawn
            )
        )
        """

    let userIDs: [Int64]
    let consent: ExcludedUsers.Consent

    var parameters: [PostgresValue] { [.int64s(userIDs), .text(consent.tag), .texts(consent.platforms)] }
    static func decode(_ row: PostgresRow) throws -> [Int64] { try row.decode([Int64].self) }
}

/// Lists the parts of an audience that may have users of a range, in ascending order.
struct ListAudiencePartsBetween: PostgresStatement {
    static let sql: SQL = """
        SELECT number, user_ids
        FROM audience_parts
        WHERE parts_id = $1
            AND user_ids[1] <= $3
            -- The part before the first user of the range ends within the range, perhaps.
            AND user_ids[1] >= COALESCE(
                (
                    SELECT user_ids[1]
                    FROM audience_parts
                    WHERE parts_id = $1
                        AND user_ids[1] <= $2
                    ORDER BY user_ids[1] DESC
                    LIMIT 1
                ),
                $2
            )
            AND number > $4
        ORDER BY user_ids[1]
        LIMIT $5
        """

    let partsID: UUID
    let users: ClosedRange<Int64>
    /// The last part of the previous step; 0 for the first step.
    let after: Int32
    let limit: Int

    var parameters: [PostgresValue] {
        [
            .uuid(partsID), .int64(users.lowerBound), .int64(users.upperBound), .int32(after),
            .int64(Int64(limit)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> ExcludedPart {
        let (number, userIDs) = try row.decode(Int32.self, [Int64].self)
        return ExcludedPart(number: number, userIDs: userIDs)
    }
}

/// Lists the parts of a push that may have users of a range, in ascending order, without the users whom the push has certainly
/// not reached and will not reach: their batch failed, or was not sent before the push ended.
///
/// A batch with `may_repeat` may have reached its users even if it failed: they count as reached.
struct ListReachedParts: PostgresStatement {
    static let sql: SQL = """
        SELECT part.number, part.id_bytes,
            substring(
                part.ids
                FOR part.id_bytes * part.batch_users * CASE WHEN has_ended THEN part.claimed ELSE part.batches END
            ),
            ARRAY(
                SELECT unnest(COALESCE(user_ids, push_part_users($1, number)))
                FROM (
                    SELECT number, user_ids, state, may_repeat
                    FROM push_batches
                    WHERE push_id = $1
                        AND origin IS NULL
                        AND number >= part.number
                        AND number < part.number + part.batches
                    UNION ALL
                    SELECT number, user_ids, state, may_repeat
                    FROM push_batches
                    WHERE push_id = $1
                        AND origin >= part.number
                        AND origin < part.number + part.batches
                ) AS batch
                WHERE CASE state
                        -- Except those that are to be sent again, by an operator's retry that is being prepared.
                        WHEN 'failed' THEN has_ended OR NOT COALESCE(number > retry_position AND number < retry_end, false)
                        WHEN 'waiting' THEN has_ended
                    END
                    AND NOT may_repeat
            )
        FROM pushes AS push
        CROSS JOIN LATERAL (
            SELECT finished_at IS NOT NULL OR COALESCE(expires_at <= now(), false) AS has_ended
        ) AS times
        JOIN push_parts AS part ON part.push_id = push.id
        WHERE push.id = $1
            -- The first user of the part, in eight bytes, which compare like the numbers.
            AND substring('\\x00000000000000'::bytea FOR 8 - part.id_bytes) || substring(part.ids FOR part.id_bytes) <= int8send($3)
            AND part.number >= COALESCE(
                (
                    SELECT number
                    FROM push_parts
                    WHERE push_id = $1
                        AND substring('\\x00000000000000'::bytea FOR 8 - id_bytes) || substring(ids FOR id_bytes) <= int8send($2)
                    ORDER BY number DESC
                    LIMIT 1
                ),
                0
            )
            AND part.number > $4
        ORDER BY part.number
        LIMIT $5
        """

    let pushID: UUID
    let users: ClosedRange<Int64>
    /// The last part of the previous step; 0 for the first step.
    let after: Int32
    let limit: Int

    var parameters: [PostgresValue] {
        [
            .uuid(pushID), .int64(users.lowerBound), .int64(users.upperBound), .int32(after),
            .int64(Int64(limit)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> ExcludedPart {
        let (number, width, bytes, unreached) = try row.decode(Int32.self, Int32.self, [UInt8].self, [Int64].self)
        let users = UserIDBytes(bytes: bytes, width: Int(width))
        var reached = users.ids(0..<users.count)
        reached.subtract(unreached.sorted())
        return ExcludedPart(number: number, userIDs: reached)
    }
}

/// Returns the users of a push that has only one batch, in ascending order, without those who were certainly not reached and
/// are not to be. Such a push has no parts; for a push with parts, no users are returned.
struct ReadUsersReachedByBatch: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            SELECT unnest(batch.user_ids) AS user_id
            FROM pushes AS push
            CROSS JOIN LATERAL (
                SELECT finished_at IS NOT NULL OR COALESCE(expires_at <= now(), false) AS has_ended
            ) AS times
            JOIN push_batches AS batch ON batch.push_id = push.id
            WHERE push.id = $1
                AND NOT EXISTS (SELECT 1 FROM push_parts WHERE push_id = $1)
                AND CASE batch.state
                    WHEN 'failed' THEN batch.may_repeat
                        OR NOT has_ended AND COALESCE(batch.number > retry_position AND batch.number < retry_end, false)
                    WHEN 'waiting' THEN batch.may_repeat OR NOT has_ended
                    ELSE true
                END
            ORDER BY user_id
        )
        """

    let pushID: UUID

    var parameters: [PostgresValue] { [.uuid(pushID)] }
    static func decode(_ row: PostgresRow) throws -> [Int64] { try row.decode([Int64].self) }
}
