internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// Some users of an audience, from a place in it on: what one step of preparing looks at.
struct AudiencePage: Sendable {
    /// Where the next page begins.
    private(set) var position: Int64
    /// Whether there is no page after this one.
    let isLast: Bool
    /// How the pages after it are best read.
    private(set) var audience: PushAudience.Source
    /// The phones that were found, as ``PushAudience/Source/page(_:_:_:_:)`` has them.
    private let found: PostgresCell
    /// Arrays of the users that the audience has here, in ascending order over all of them; `nil` when it is everyone.
    private let members: [PostgresCell]?
    /// A user who may have more phones than were found; the next page has them all.
    private var cutUser: Int64?

    /// Reads the page of an audience that begins at `start`.
    ///
    /// On a connection of its own: fifty thousand users would hold up the statements of requests.
    ///
    /// - Parameter platforms: The phones that the message speaks to; empty for all.
    static func read(
        _ audience: PushAudience.Source,
        from start: Int64,
        platforms: [String],
        _ pool: PostgresPool
    ) async throws -> AudiencePage? {
        // Nobody's phones have to be looked up.
        var audience = platforms.isEmpty ? audience.probed : audience
        var limit = audience.limit(at: start)
        if case .parts(let id, .ranges) = audience {
            if let page = try await readRange(id, from: start, limit, platforms, pool) { return page }
            audience = audience.probed
        }
        while true {
            let rows = try await pool.queryAlone(
                audience.page("$1", "$2", "$3", "$4"),
                [.int64(start), .int64(limit), audience.parameter, .texts(platforms)]
            )
            guard let row = rows.first else { return nil }
            var page = try AudiencePage(row, audience)
            if page.isLast || page.position > start { return page }
            // All that was found is of one user, who has more phones than that: from the time before a user's devices were limited.
            if limit >= PushAudience.Source.maximumLimit {
                page.endWithCutUser()
                return page
            }
            limit = min(limit * 2, PushAudience.Source.maximumLimit)
        }
    }

    /// Takes what was found of the user who was cut off for all that there is, and goes on after that user.
    private mutating func endWithCutUser() {
        position += 1
        cutUser = nil
    }

    private init(_ row: PostgresRow, _ audience: PushAudience.Source) throws {
        self.audience = audience
        let members: PostgresCell
        (found, members, cutUser, position, isLast) = try row.decode(
            PostgresCell.self,
            PostgresCell.self,
            Int64?.self,
            Int64.self,
            Bool.self
        )
        self.members = members.isNull ? nil : [members]
    }

    /// A page of whole parts.
    private init(
        _ row: PostgresRow,
        parts: [PostgresCell],
        end position: Int64,
        _ audience: PushAudience.Source
    ) throws {
        (found, isLast) = try row.decode(PostgresCell.self, Bool.self)
        members = parts
        self.position = position
        self.audience = audience
    }

    /// Reads parts of a stored audience, and all phones between their first user and their last.
    ///
    /// - Returns: `nil` when there are so many phones that it is faster to look them up by their users.
    private static func readRange(
        _ id: UUID,
        from start: Int64,
        _ limit: Int64,
        _ platforms: [String],
        _ pool: PostgresPool
    ) async throws -> AudiencePage? {
        let parts = try await pool.queryAlone(
            """
            SELECT user_ids
            FROM audience_parts
            WHERE parts_id = $1
                AND number > $2
                AND number <= $2 + $3
            ORDER BY number
            """,
            [.uuid(id), .int64(start), .int64(limit)]
        ).map { try $0.decode(PostgresCell.self) }
        guard let first = try parts.first?.decode([Int64].self).first,
            let last = try parts.last?.decode([Int64].self).last
        else { return nil }
        let maximum = PushAudience.Source.rangePhones * Int64(parts.count)
        let rows = try await pool.queryAlone(
            """
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
            """,
            [.uuid(id), .int64(start + limit), .int64(first), .int64(last), .texts(platforms), .int64(maximum)]
        )
        return try rows.first.map { try AudiencePage($0, parts: parts, end: start + limit, .parts(id, .ranges)) }
    }

    /// Who is on the page.
    struct Users: Sendable {
        /// Whom the message is to be sent, each once.
        fileprivate(set) var ids: [Int64] = []
        /// How many of the audience were looked at, whether or not they have a phone that the message addresses.
        fileprivate(set) var count: Int64 = 0
    }

    /// Who is on the page. Takes a while: the next page can be asked for before.
    func users() throws -> Users {
        var phones = try found.decode([Int64].self)[...]
        while let last = phones.last, let cutUser, last.magnitude == cutUser.magnitude { phones.removeLast() }
        let members = try members?.flatMap { try $0.decode([Int64].self) }
        var users = Users()
        users.add(phones, of: members)
        // Those without a phone count as well.
        if case .parts(_, .ranges) = audience, let members { users.count = Int64(members.count) }
        return users
    }
}

extension AudiencePage.Users {
    /// - Parameters:
    ///   - phones: The users' ids, those of one user next to each other; negative for a phone that the message does not address.
    ///   - members: Who is of the audience, in the same order; `nil` for everyone.
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
    /// Where the users of an audience are found.
    enum Source: Sendable {
        /// These, in ascending order.
        case users([Int64])
        /// Those that the push of this id holds itself.
        case own(UUID)
        /// In the parts that are stored under this id.
        case parts(UUID, PhoneSearch = .ranges)
        case tagsAny([String])
        case tagsAll([String])
        case everyone
    }

    /// How the phones of an audience's users are looked up.
    enum PhoneSearch: Sendable {
        /// All phones between the first user of a page and the last one: much faster for each than to look it up by its user, as long as most of
        /// them are of the audience.
        case ranges
        /// Those of each user.
        case probes
    }
}

extension PushAudience.Source {
    /// Users or phones of the first step, which is to end soon, so that sending begins; and of those after it.
    private static let firstStep: Int64 = 1000
    private static let laterSteps: Int64 = 50_000
    /// The most that any page looks at.
    fileprivate static let maximumLimit = laterSteps
    /// Users in a part of a stored audience.
    private static let partUsers: Int64 = 1000
    /// With more phones for each part in the range of a page these are looked up by their users, which takes about as long then.
    fileprivate static let rangePhones = 8 * partUsers

    /// The same with phones looked up by their users.
    var probed: PushAudience.Source {
        if case .parts(let id, _) = self { .parts(id, .probes) } else { self }
    }

    /// How many users, phones, or parts of users the page that begins at `position` looks at.
    func limit(at position: Int64) -> Int64 {
        let users = position == 0 ? Self.firstStep : Self.laterSteps
        if case .parts = self { return users / Self.partUsers }
        return users
    }

    /// What ``page(_:_:_:_:)`` takes the users from.
    var parameter: PostgresValue {
        switch self {
        case .users(let ids): .int64s(ids)
        case .own(let id), .parts(let id, _): .uuid(id)
        case .tagsAny(let tags), .tagsAll(let tags): .texts(tags)
        case .everyone: .texts([])
        }
    }

    /// The query of a page, for ``AudiencePage``: the phones that were found, each as its user's id, negative if the message does not address
    /// it; which of the users are of the audience, NULL for all; a user whose phones may not all be there; where the next page begins; and
    /// whether there is none.
    ///
    /// By a key range, and not by an offset, so that the last page of millions costs what the first does; and bounded by what is looked
    /// at, not by what is found. PostgreSQL only reads: to group the phones of each user costs it twice what reading them does.
    ///
    /// - Parameters: the placeholders of the position, the limit, ``parameter``, and the platforms.
    func page(_ position: String, _ limit: String, _ source: String, _ platforms: String) -> String {
        switch self {
        case .users, .own:
            """
            SELECT ARRAY(
                SELECT CASE WHEN \(Self.hasPhone(platforms)) THEN item.user_id ELSE -item.user_id END
                FROM unnest(\(list(source))) WITH ORDINALITY AS item (user_id, place)
                WHERE item.place > \(position)
                    AND item.place <= \(position) + \(limit)
            ),
            NULL::bigint[],
            NULL::bigint,
            \(position) + \(limit),
            \(position) + \(limit) >= cardinality(\(list(source)))
            """
        case .parts:
            """
            SELECT ARRAY(
                SELECT CASE WHEN \(Self.hasPhone(platforms)) THEN item.user_id ELSE -item.user_id END
                FROM audience_parts AS part
                CROSS JOIN unnest(part.user_ids) AS item (user_id)
                WHERE part.parts_id = \(source)
                    AND part.number > \(position)
                    AND part.number <= \(position) + \(limit)
                ORDER BY part.number
            ),
            NULL::bigint[],
            NULL::bigint,
            \(position) + \(limit),
            NOT EXISTS (
                SELECT 1 FROM audience_parts WHERE parts_id = \(source) AND number > \(position) + \(limit)
            )
            """
        case .tagsAny, .tagsAll, .everyone:
            // The fence keeps PostgreSQL from reading the phones again for every column that is made of them.
            """
            SELECT found, members, CASE WHEN NOT is_last THEN last END, CASE WHEN is_last THEN last ELSE last - 1 END, is_last
            FROM (
                SELECT found, members, cardinality(found) < \(limit) AS is_last,
                    COALESCE(abs(found[cardinality(found)]), \(position)) AS last
                FROM (
                    SELECT ARRAY(
                            SELECT CASE WHEN \(Self.isAddressed(platforms)) THEN user_id ELSE -user_id END
                            FROM devices
                            WHERE user_id > \(position)
                                AND NOT withdrawn
                            ORDER BY user_id
                            LIMIT \(limit)
                        ) AS found,
                        \(members(position, limit, source)) AS members
                    OFFSET 0
                ) AS phone
            ) AS page
            """
        }
    }

    private func list(_ source: String) -> String {
        if case .own = self { return "(SELECT user_ids FROM pushes WHERE id = \(source))" }
        return source
    }

    /// Those of the page's phones' users who have a phone with the tags.
    private func members(_ position: String, _ limit: String, _ source: String) -> String {
        let condition: String
        switch self {
        case .tagsAny: condition = "tags && \(source)"
        case .tagsAll: condition = "tags @> \(source)"
        case .users, .own, .parts, .everyone: return "NULL::bigint[]"
        }
        return """
            ARRAY(
                SELECT user_id
                FROM (
                    SELECT user_id, tags
                    FROM devices
                    WHERE user_id > \(position)
                        AND NOT withdrawn
                    ORDER BY user_id
                    LIMIT \(limit)
                ) AS phone
                WHERE \(condition)
            )
            """
    }

    /// Whether the message addresses a phone of this `push_type`: asked once for each type, and not of every phone.
    private static func isAddressed(_ platforms: String) -> String {
        let cases = PushType.allCases.map { type in
            let name = type.name(in: .v2)
            return "WHEN '\(name)' THEN (SELECT cardinality(\(platforms)) = 0 OR '\(name)' = ANY (\(platforms)))"
        }
        return "CASE push_type \(cases.joined(separator: " ")) END"
    }

    /// Whether the user `item.user_id` has a phone that the message addresses.
    static func hasPhone(_ platforms: String) -> String {
        """
        (
            cardinality(\(platforms)) = 0
            OR EXISTS (
                SELECT 1
                FROM devices
                WHERE devices.user_id = item.user_id
                    AND NOT withdrawn
                    AND push_type = ANY (\(platforms))
            )
        )
        """
    }
}
