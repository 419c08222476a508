internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// A page of an audience: the users that one step of the preparation reads.
struct AudiencePage: Sendable {
    /// The position of the next page.
    private(set) var position: Int64
    /// Whether there is no page after this one.
    let isLast: Bool
    /// The source of the following pages, with the best way to read them.
    private(set) var audience: PushAudience.Source
    /// The phones that were found, each as its user's id, negative if the message does not address the phone.
    private let found: PostgresCell
    /// Arrays of the users of the audience, in ascending order over all of them; `nil` for everyone.
    private let members: [PostgresCell]?
    /// A user who may have more phones than were found. The next page has all of them.
    private var cutUser: Int64?

    /// Reads the page of an audience that begins at `start`.
    ///
    /// Uses a connection of its own, because reading 50,000 users would delay the statements of requests.
    ///
    /// - Parameter platforms: The push types of the phones that the message addresses; empty for all.
    static func read(
        _ audience: PushAudience.Source,
        from start: Int64,
        platforms: [String],
        _ pool: PostgresPool
    ) async throws -> AudiencePage? {
        // Without push types, no phones have to be looked up.
        var audience = platforms.isEmpty ? audience.probed : audience
        var limit = audience.limit(at: start)
        if case .parts(let id, .ranges) = audience {
            if let page = try await readRange(id, from: start, limit, platforms, pool) { return page }
            audience = audience.probed
        }
        while true {
            guard let row = try await audience.page(from: start, limit, platforms, pool) else { return nil }
            var page = AudiencePage(row, audience)
            if page.isLast || page.position > start { return page }
            // All phones that were found belong to one user. Only users from before the device limit have so many.
            if limit >= PushAudience.Source.maximumLimit {
                page.endWithCutUser()
                return page
            }
            limit = min(limit * 2, PushAudience.Source.maximumLimit)
        }
    }

    /// Ignores further phones of the user who was cut off, and continues after that user.
    private mutating func endWithCutUser() {
        position += 1
        cutUser = nil
    }

    private init(_ row: FoundPhones, _ audience: PushAudience.Source) {
        self.audience = audience
        found = row.phones
        members = row.members.map { [$0] }
        cutUser = row.cutUser
        position = row.end
        isLast = row.isLast
    }

    /// Creates a page of whole parts.
    private init(
        phones: PostgresCell,
        isLast: Bool,
        parts: [PostgresCell],
        end position: Int64,
        _ audience: PushAudience.Source
    ) {
        found = phones
        self.isLast = isLast
        members = parts
        self.position = position
        self.audience = audience
    }

    /// Reads parts of a stored audience, and all phones of users from the first to the last in these parts.
    ///
    /// - Returns: `nil` if there are so many phones that it is faster to look them up by user.
    private static func readRange(
        _ id: UUID,
        from start: Int64,
        _ limit: Int64,
        _ platforms: [String],
        _ pool: PostgresPool
    ) async throws -> AudiencePage? {
        let parts = try await pool.queryAlone(ListAudienceParts(partsID: id, after: start, limit: limit))
        guard let first = try parts.first?.decode([Int64].self).first,
            let last = try parts.last?.decode([Int64].self).last
        else { return nil }
        let range = ReadPhoneRange(
            partsID: id,
            end: start + limit,
            users: first...last,
            platforms: platforms,
            limit: PushAudience.Source.rangePhones * Int64(parts.count)
        )
        return try await pool.queryAlone(range).first.map {
            AudiencePage(phones: $0.phones, isLast: $0.isLast, parts: parts, end: start + limit, .parts(id, .ranges))
        }
    }

    /// The users of a page.
    struct Users: Sendable {
        /// The users to send to, each once, in ascending order.
        fileprivate(set) var ids: [Int64] = []
        /// The users of the audience, with or without a phone that the message addresses.
        fileprivate(set) var count: Int64 = 0
        /// The users who would have been sent to, but are left out. They do not count as users of the audience.
        fileprivate(set) var excluded: Int64 = 0
    }

    /// Returns the users of the page. This takes a while, in which the next page can be read.
    ///
    /// - Parameter exclusion: The users who are left out.
    func users(without exclusion: ExcludedUsers?, _ pool: PostgresPool) async throws -> Users {
        var users = try users()
        guard let exclusion else { return users }
        let remaining = try await exclusion.remaining(of: users.ids, pool)
        users.excluded = Int64(users.ids.count - remaining.count)
        users.count -= users.excluded
        users.ids = remaining
        return users
    }

    private func users() throws -> Users {
        var phones = try found.decode([Int64].self)[...]
        while let last = phones.last, let cutUser, last.magnitude == cutUser.magnitude { phones.removeLast() }
        let members = try members?.flatMap { try $0.decode([Int64].self) }
        var users = Users()
        users.add(phones, of: members)
        // Users without a phone count as well.
        if case .parts(_, .ranges) = audience, let members { users.count = Int64(members.count) }
        return users
    }
}

extension AudiencePage.Users {
    /// Adds the users of phones who belong to the audience.
    ///
    /// - Parameters:
    ///   - phones: A user id for each phone, grouped by user; negative for a phone that the message does not address.
    ///   - members: The users of the audience, in the same order; `nil` for everyone.
    fileprivate mutating func add(_ phones: ArraySlice<Int64>, of members: [Int64]?) {
        ids.reserveCapacity(phones.count)
        var members = members?[...]
        var (user, isAddressed) = (Int64(0), false)
        for phone in phones {
            let id = Int64(phone.magnitude)
            if id != user {
                (user, isAddressed) = (id, false)
                while let first = members?.first, first < id { members?.removeFirst() }
                guard members == nil || members?.first == id else { continue }
                count += 1
            } else if isAddressed || !(members == nil || members?.first == id) {
                continue
            }
            guard phone > 0 else { continue }
            isAddressed = true
            ids.append(id)
        }
    }
}

extension PushAudience {
    /// The source of an audience's users.
    enum Source: Sendable {
        /// These users, in ascending order.
        case users([Int64])
        /// The users that are stored with the push of this id.
        case own(UUID)
        /// The parts that are stored under this id.
        case parts(UUID, PhoneSearch = .ranges)
        case tagsAny([String])
        case tagsAll([String])
        case everyone
    }

    /// The way in which the phones of an audience's users are looked up.
    enum PhoneSearch: Sendable {
        /// Reads all phones between the first and the last user of a page. This is much faster per phone than a look-up
        /// by user, as long as most of the phones belong to the audience.
        case ranges
        /// Looks up the phones of each user.
        case probes
    }
}

extension PushAudience.Source {
    /// The number of users or phones of the first step, which is small so that sending begins soon, and of later steps.
    private static let firstStep: Int64 = 1000
    private static let laterSteps: Int64 = 50_000
    /// The maximum number of users or phones of a page.
    fileprivate static let maximumLimit = laterSteps
    /// The number of users in a part of a stored audience.
    private static let partUsers: Int64 = 1000
    /// The number of phones per part from which on a page looks up phones by user, which then takes about as long as
    /// reading the range.
    fileprivate static let rangePhones = 8 * partUsers

    /// The source with phones looked up by user.
    var probed: PushAudience.Source {
        if case .parts(let id, _) = self { .parts(id, .probes) } else { self }
    }

    /// Returns the number of users, phones or parts that the page at `position` reads.
    func limit(at position: Int64) -> Int64 {
        let users = position == 0 ? Self.firstStep : Self.laterSteps
        if case .parts = self { return users / Self.partUsers }
        return users
    }

    /// Reads the page that begins at `position`, on a connection of its own.
    fileprivate func page(
        from position: Int64,
        _ limit: Int64,
        _ platforms: [String],
        _ pool: PostgresPool
    ) async throws -> FoundPhones? {
        switch self {
        case .users(let ids):
            let read = ReadListedPhones(after: position, limit: limit, platforms: platforms, userIDs: ids, pushID: nil)
            return try await pool.queryAlone(read).first
        case .own(let id):
            let read = ReadListedPhones(after: position, limit: limit, platforms: platforms, userIDs: nil, pushID: id)
            return try await pool.queryAlone(read).first
        case .parts(let id, _):
            let read = ReadPartPhones(after: position, limit: limit, platforms: platforms, partsID: id)
            return try await pool.queryAlone(read).first
        case .tagsAny(let tags):
            let read = ReadTaggedPhones(after: position, limit: limit, platforms: platforms, tags: tags, isAll: false)
            return try await pool.queryAlone(read).first
        case .tagsAll(let tags):
            let read = ReadTaggedPhones(after: position, limit: limit, platforms: platforms, tags: tags, isAll: true)
            return try await pool.queryAlone(read).first
        case .everyone:
            return try await pool.queryAlone(ReadPhones(after: position, limit: limit, platforms: platforms)).first
        }
    }
}

// MARK: Statements

// A page begins at a key, not at an offset, so that the last page of millions of users costs as much as the first. It
// is bounded by the rows read, not by the rows found. The statements do not group phones by user, which would cost
// PostgreSQL twice as much as reading them.

/// A page of an audience, as the statements below return it.
struct FoundPhones: Sendable {
    /// An array of the users' ids, one for each phone, negative for a phone that the message does not address.
    let phones: PostgresCell
    /// An array of the users who belong to the audience; `nil` if all do.
    let members: PostgresCell?
    /// The last user, if the page may lack some of that user's phones.
    let cutUser: Int64?
    /// The position of the next page.
    let end: Int64
    let isLast: Bool

    fileprivate init(_ row: PostgresRow) throws {
        let (phones, members, cutUser, end, isLast) = try row.decode(
            PostgresCell.self,
            PostgresCell.self,
            Int64?.self,
            Int64.self,
            Bool.self
        )
        self.phones = phones
        self.members = members.isNull ? nil : members
        self.cutUser = cutUser
        self.end = end
        self.isLast = isLast
    }
}

/// Reads whether the users of a list have phones. The list is given, or stored with a push.
struct ReadListedPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            SELECT CASE
                    WHEN cardinality($3) = 0
                        OR EXISTS (
                            SELECT 1
                            FROM devices
                            WHERE devices.user_id = item.user_id
                                AND NOT withdrawn
                                AND push_type = ANY ($3)
                        )
                        THEN item.user_id
                    ELSE -item.user_id
                END
            FROM unnest(list.user_ids) WITH ORDINALITY AS item (user_id, place)
            WHERE item.place > $1
                AND item.place <= $1 + $2
        ),
        NULL::bigint[],
        NULL::bigint,
        $1 + $2,
        $1 + $2 >= cardinality(list.user_ids)
        FROM (SELECT COALESCE($4::bigint[], (SELECT user_ids FROM pushes WHERE id = $5)) AS user_ids OFFSET 0) AS list
        """

    let after: Int64
    let limit: Int64
    let platforms: [String]
    let userIDs: [Int64]?
    let pushID: UUID?

    var parameters: [PostgresValue] {
        [.int64(after), .int64(limit), .texts(platforms), .int64s(userIDs), .uuid(pushID)]
    }

    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}

/// Reads whether the users of parts of a stored audience have phones, user by user.
struct ReadPartPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            SELECT CASE
                    WHEN cardinality($3) = 0
                        OR EXISTS (
                            SELECT 1
                            FROM devices
                            WHERE devices.user_id = item.user_id
                                AND NOT withdrawn
                                AND push_type = ANY ($3)
                        )
                        THEN item.user_id
                    ELSE -item.user_id
                END
            FROM audience_parts AS part
            CROSS JOIN unnest(part.user_ids) AS item (user_id)
            WHERE part.parts_id = $4
                AND part.number > $1
                AND part.number <= $1 + $2
            ORDER BY part.number, item.user_id
        ),
        NULL::bigint[],
        NULL::bigint,
        $1 + $2,
        NOT EXISTS (
            SELECT 1
            FROM audience_parts
            WHERE parts_id = $4
                AND number > $1 + $2
        )
        """

    let after: Int64
    let limit: Int64
    let platforms: [String]
    let partsID: UUID

    var parameters: [PostgresValue] { [.int64(after), .int64(limit), .texts(platforms), .uuid(partsID)] }
    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}

/// Lists the users of parts of a stored audience, an array for each part.
struct ListAudienceParts: PostgresStatement {
    static let sql: SQL = """
        SELECT user_ids
        FROM audience_parts
        WHERE parts_id = $1
            AND number > $2
            AND number <= $2 + $3
        ORDER BY number
        """

    let partsID: UUID
    let after: Int64
    let limit: Int64

    var parameters: [PostgresValue] { [.uuid(partsID), .int64(after), .int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> PostgresCell { try row.decode(PostgresCell.self) }
}

/// Reads all phones of a range of users. Returns no row if there are `limit` or more.
struct ReadPhoneRange: PostgresStatement {
    static let sql: SQL = """
        SELECT found, NOT EXISTS (SELECT 1 FROM audience_parts WHERE parts_id = $1 AND number > $2)
        FROM (
            SELECT ARRAY(
                SELECT CASE WHEN push_type = ANY ($5) THEN user_id ELSE -user_id END
                FROM devices
                WHERE user_id BETWEEN $3 AND $4
                    AND NOT withdrawn
                ORDER BY user_id
                LIMIT $6
            ) AS found
            OFFSET 0
        ) AS phones
        WHERE cardinality(found) < $6
        """

    let partsID: UUID
    /// The last part of the page.
    let end: Int64
    let users: ClosedRange<Int64>
    let platforms: [String]
    let limit: Int64

    var parameters: [PostgresValue] {
        [
            .uuid(partsID), .int64(end), .int64(users.lowerBound), .int64(users.upperBound), .texts(platforms),
            .int64(limit),
        ]
    }

    /// Decodes the phones, and whether there are no further parts.
    static func decode(_ row: PostgresRow) throws -> (phones: PostgresCell, isLast: Bool) {
        try row.decode(PostgresCell.self, Bool.self)
    }
}

/// Reads the phones of all users after a given one. The subquery is not flattened, so that PostgreSQL reads the phones
/// once.
struct ReadPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT found, NULL::bigint[], CASE WHEN NOT is_last THEN last END, CASE WHEN is_last THEN last ELSE last - 1 END, is_last
        FROM (
            SELECT found, cardinality(found) < $2 AS is_last, COALESCE(abs(found[cardinality(found)]), $1) AS last
            FROM (
                SELECT ARRAY(
                    SELECT CASE
                            WHEN CASE push_type
                                WHEN 'apns' THEN (SELECT cardinality($3) = 0 OR 'apns' = ANY ($3))
                                WHEN 'fcm' THEN (SELECT cardinality($3) = 0 OR 'fcm' = ANY ($3))
                            END
                                THEN user_id
                            ELSE -user_id
                        END
                    FROM devices
                    WHERE user_id > $1
                        AND NOT withdrawn
                    ORDER BY user_id
                    LIMIT $2
                ) AS found
                OFFSET 0
            ) AS phone
        ) AS page
        """

    let after: Int64
    let limit: Int64
    let platforms: [String]

    var parameters: [PostgresValue] { [.int64(after), .int64(limit), .texts(platforms)] }
    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}

/// Reads the phones of all users after a given one, and which of these users have a phone with any or all of some tags.
struct ReadTaggedPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT found, members, CASE WHEN NOT is_last THEN last END, CASE WHEN is_last THEN last ELSE last - 1 END, is_last
        FROM (
            SELECT found, members, cardinality(found) < $2 AS is_last, COALESCE(abs(found[cardinality(found)]), $1) AS last
            FROM (
                SELECT ARRAY(
                        SELECT CASE
                                WHEN CASE push_type
                                    WHEN 'apns' THEN (SELECT cardinality($3) = 0 OR 'apns' = ANY ($3))
                                    WHEN 'fcm' THEN (SELECT cardinality($3) = 0 OR 'fcm' = ANY ($3))
                                END
                                    THEN user_id
                                ELSE -user_id
                            END
                        FROM devices
                        WHERE user_id > $1
                            AND NOT withdrawn
                        ORDER BY user_id
                        LIMIT $2
                    ) AS found,
                    ARRAY(
                        SELECT user_id
                        FROM (
                            SELECT user_id, tags
                            FROM devices
                            WHERE user_id > $1
                                AND NOT withdrawn
                            ORDER BY user_id
                            LIMIT $2
                        ) AS phone
                        WHERE CASE WHEN $5 THEN tags @> $4 ELSE tags && $4 END
                    ) AS members
                OFFSET 0
            ) AS phone
        ) AS page
        """

    let after: Int64
    let limit: Int64
    let platforms: [String]
    let tags: [String]
    /// Whether a phone needs all of the tags, not only one.
    let isAll: Bool

    var parameters: [PostgresValue] {
        [.int64(after), .int64(limit), .texts(platforms), .texts(tags), .bool(isAll)]
    }

    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}
