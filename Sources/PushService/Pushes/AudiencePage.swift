internal import FoundationEssentials
internal import Postgres

/// Some users of an audience, from a place in it on: what one step of preparing looks at.
struct AudiencePage: Sendable {
    /// Whom the message is to be sent, each once.
    private(set) var userIDs: [Int64] = []
    /// How many of the audience were looked at, whether or not they have a phone that the message addresses.
    private(set) var users: Int64 = 0
    /// Where the next page begins.
    private(set) var position: Int64
    /// Whether there is no page after this one.
    let isLast: Bool

    /// Reads the page of an audience that begins at `start`.
    ///
    /// - Parameter query: Asks for the columns of ``PushAudience/Source/page(_:_:_:_:)`` with this limit.
    static func read(
        _ audience: PushAudience.Source,
        from start: Int64,
        _ query: (_ limit: Int64) async throws -> PostgresRows
    ) async throws -> AudiencePage {
        var limit = audience.limit(at: start)
        while true {
            let page = try AudiencePage(try await query(limit), from: start, limit: limit)
            if page.isLast || page.position > start { return page }
            // All that was found is of one user, who has more phones than that.
            limit *= 2
        }
    }

    private init(_ rows: PostgresRows, from start: Int64, limit: Int64) throws {
        // There is one row.
        let (found, members, end, isLast) =
            try rows.first?.decode([Int64].self, [Int64]?.self, Int64?.self, Bool?.self) ?? ([], nil, start, true)
        self.isLast = isLast ?? (found.count < limit)
        position = end ?? start
        var phones = found[...]
        if end == nil, !self.isLast, let last = phones.last {
            // This user may have more phones than are here; the next page has them all.
            let end = phones.lastIndex { $0.magnitude != last.magnitude } ?? -1
            phones = phones[...end]
        }
        add(phones, of: members)
        if end == nil, let last = phones.last { position = Int64(last.magnitude) }
    }

    /// - Parameters:
    ///   - phones: The users' ids, those of one user next to each other; negative for a phone that the message does not address.
    ///   - members: Who is of the audience, in the same order; `nil` for everyone.
    private mutating func add(_ phones: ArraySlice<Int64>, of members: [Int64]?) {
        userIDs.reserveCapacity(phones.count)
        var members = members?[...]
        var (user, isAddressed) = (Int64(0), false)
        for phone in phones {
            let id = Int64(phone.magnitude)
            if id != user {
                (user, isAddressed) = (id, false)
                while let first = members?.first, first < id { members?.removeFirst() }
                guard members == nil || members?.first == id else { continue }
                users += 1
            } else if isAddressed || !(members == nil || members?.first == id) {
                continue
            }
            guard phone > 0 else { continue }
            isAddressed = true
            userIDs.append(id)
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
        case parts(UUID)
        case tagsAny([String])
        case tagsAll([String])
        case everyone
    }
}

extension PushAudience.Source {
    /// Users or phones of the first step, which is to end soon, so that sending begins; and of those after it.
    private static let firstStep: Int64 = 1000
    private static let laterSteps: Int64 = 50_000
    /// Users in a part of a stored audience.
    private static let partUsers: Int64 = 1000

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
        case .own(let id), .parts(let id): .uuid(id)
        case .tagsAny(let tags), .tagsAll(let tags): .texts(tags)
        case .everyone: .texts([])
        }
    }

    /// The columns of a page, for ``AudiencePage/read(_:from:_:)``.
    ///
    /// By a key range, and not by an offset, so that the last page of millions costs what the first does; and bounded by what is looked
    /// at, not by what is found. PostgreSQL only reads: to group the phones of each user costs it twice what reading them does.
    ///
    /// - Parameters: the placeholders of the position, the limit, ``parameter``, and the platforms.
    func page(_ position: String, _ limit: String, _ source: String, _ platforms: String) -> String {
        switch self {
        case .users, .own:
            """
            ARRAY(
                SELECT CASE WHEN \(Self.hasPhone(platforms)) THEN item.user_id ELSE -item.user_id END
                FROM unnest(\(list(source))) WITH ORDINALITY AS item (user_id, place)
                WHERE item.place > \(position)
                    AND item.place <= \(position) + \(limit)
            ),
            NULL::bigint[],
            \(position) + \(limit),
            \(position) + \(limit) >= cardinality(\(list(source)))
            """
        case .parts:
            """
            ARRAY(
                SELECT CASE WHEN \(Self.hasPhone(platforms)) THEN item.user_id ELSE -item.user_id END
                FROM audience_parts AS part
                CROSS JOIN unnest(part.user_ids) AS item (user_id)
                WHERE part.parts_id = \(source)
                    AND part.number > \(position)
                    AND part.number <= \(position) + \(limit)
            ),
            NULL::bigint[],
            \(position) + \(limit),
            NOT EXISTS (
                SELECT 1 FROM audience_parts WHERE parts_id = \(source) AND number > \(position) + \(limit)
            )
            """
        case .tagsAny, .tagsAll, .everyone:
            """
            ARRAY(
                SELECT CASE
                        WHEN cardinality(\(platforms)) = 0 OR push_type = ANY (\(platforms)) THEN user_id
                        ELSE -user_id
                    END
                FROM devices
                WHERE user_id > \(position)
                    AND NOT withdrawn
                ORDER BY user_id
                LIMIT \(limit)
            ),
            \(members(position, limit, source)),
            NULL::bigint,
            NULL::boolean
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
