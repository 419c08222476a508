internal import FoundationEssentials
internal import Postgres

/// Makes batches of audiences, in PostgreSQL, step by step.
///
/// A step is one statement: it reads the users that come next, stores their batches, and moves the push's cursor. So it happens as a
/// whole or not at all, holds no more than its own users in memory, and any server goes on where another one stopped.
struct PreparationStore: Sendable {
    /// Batches of which a dry run shows the request.
    private static let previewBatches: Int32 = 3

    let pool: PostgresPool

    /// A push of which not everything has become batches.
    struct Preparation: Sendable {
        let pushID: UUID
        let audience: PushAudience.Source
        let platforms: [String]
        let batchUsers: Int32
        /// The cursor: where the last step ended.
        let position: Int64
    }

    /// What a step did.
    struct Step: Sendable {
        let isLast: Bool
    }

    /// The pushes that are to be prepared now, the oldest first.
    func due(limit: Int) async throws -> [Preparation] {
        let rows = try await pool.read(
            """
            SELECT id, user_ids IS NOT NULL, audience_parts_id, ARRAY(SELECT jsonb_array_elements_text(audience -> 'tags_any')),
                ARRAY(SELECT jsonb_array_elements_text(audience -> 'tags_all')), platforms, batch_users, prepared_up_to
            FROM pushes
            WHERE state IN ('scheduled', 'preparing', 'sending')
                AND (state = 'preparing' OR state = 'scheduled' AND send_at <= now())
                AND prepared_at IS NULL
            ORDER BY id
            LIMIT $1
            """,
            [.int64(Int64(limit))]
        )
        return try rows.map { row in
            let (id, isOwn, partsID, tagsAny, tagsAll, platforms, batchUsers, position) = try row.decode(
                UUID.self,
                Bool.self,
                UUID?.self,
                [String].self,
                [String].self,
                [String].self,
                Int32.self,
                Int64.self
            )
            let audience: PushAudience.Source =
                if isOwn {
                    .own(id)
                } else if let partsID {
                    .parts(partsID)
                } else if !tagsAny.isEmpty {
                    .tagsAny(tagsAny)
                } else if !tagsAll.isEmpty {
                    .tagsAll(tagsAll)
                } else {
                    .everyone
                }
            return Preparation(
                pushID: id,
                audience: audience,
                platforms: platforms,
                batchUsers: batchUsers,
                position: position
            )
        }
    }

    /// Takes one step.
    ///
    /// - Returns: What it did; `nil` if another server is at it, or has been since the push was looked up, or it is to be prepared no
    ///   more.
    func step(_ preparation: Preparation) async throws -> Step? {
        let audience = preparation.audience
        let parameters: [PostgresValue] = [
            .uuid(preparation.pushID), .int64(preparation.position), .int64(audience.limit(at: preparation.position)),
            audience.parameter, .texts(preparation.platforms), .int32(preparation.batchUsers),
        ]
        let statement = Self.statement(audience)
        let rows =
            if preparation.position == 0 {
                try await pool.write(statement, parameters)
            } else {
                // A connection of its own: twenty thousand users would hold up the writes of requests.
                try await pool.withTransaction { try await $0.query(statement, parameters) }
            }
        guard let row = rows.first else { return nil }
        return Step(isLast: try row.decode(Bool.self))
    }

    // MARK: Dry runs

    /// What a push would come to.
    struct Preview: Sendable {
        var users: Int64 = 0
        var skipped: Int64 = 0
        var batches: Int64 = 0
        /// The users of the first batches.
        var first: [[Int64]] = []
    }

    /// The parts of an audience that was stored under a name, or `nil`.
    func parts(ofAudience name: AudienceName) async throws -> UUID? {
        try await pool.read("SELECT parts_id FROM audiences WHERE name = $1", [.text(name.text)]).first?.decode(
            UUID.self
        )
    }

    /// Goes through an audience in the steps in which it would be prepared, and stores nothing.
    func preview(_ audience: PushAudience.Source, platforms: [String], batchUsers: Int32) async throws -> Preview {
        var preview = Preview()
        var position: Int64 = 0
        var isLast = false
        while !isLast {
            let rows = try await pool.read(
                """
                SELECT COALESCE(max(position), $1), \(audience.isLast("$1", "$2", "$3")),
                    count(*) FILTER (WHERE matches), count(*) FILTER (WHERE matches AND addressed),
                    COALESCE((array_agg(user_id ORDER BY user_id) FILTER (WHERE matches AND addressed))[:$5], '{}')
                FROM (
                    \(audience.page("$1", "$2", "$3", "$4"))
                ) AS page
                """,
                [
                    .int64(position), .int64(audience.limit(at: position)), audience.parameter, .texts(platforms),
                    .int32(Self.previewBatches * batchUsers),
                ]
            )
            guard let row = rows.first else { break }
            let (next, last, users, addressed, first) = try row.decode(
                Int64.self,
                Bool.self,
                Int64.self,
                Int64.self,
                [Int64].self
            )
            preview.users += users
            preview.skipped += users - addressed
            preview.batches += (addressed + Int64(batchUsers) - 1) / Int64(batchUsers)
            for start in stride(from: 0, to: first.count, by: Int(batchUsers))
            where preview.first.count < Int(Self.previewBatches) {
                preview.first.append(Array(first[start..<min(start + Int(batchUsers), first.count)]))
            }
            (position, isLast) = (next, last)
        }
        return preview
    }

    // MARK: SQL

    private static func statement(_ audience: PushAudience.Source) -> String {
        """
        WITH push AS MATERIALIZED (
            SELECT id, next_number
            FROM pushes
            WHERE id = $1
                AND prepared_up_to = $2
                AND prepared_at IS NULL
                AND (state = 'preparing' OR state = 'scheduled' AND send_at <= now())
            FOR UPDATE SKIP LOCKED
        ),
        step AS MATERIALIZED (
            SELECT COALESCE(array_agg(user_id) FILTER (WHERE matches AND addressed), '{}') AS user_ids,
                count(*) FILTER (WHERE matches) AS users, COALESCE(max(position), $2) AS position,
                \(audience.isLast("$2", "$3", "$4")) AS is_last
            FROM (
                \(audience.page("$2", "$3", "$4", "$5"))
            ) AS page
        ),
        stored AS (
            INSERT INTO push_batches (push_id, number, user_ids, users, state)
            SELECT push.id, push.next_number + place, user_ids[place * $6 + 1:place * $6 + $6],
                LEAST($6, cardinality(user_ids) - place * $6), 'waiting'
            FROM push
            CROSS JOIN step
            CROSS JOIN generate_series(0, (cardinality(user_ids) - 1) / $6) AS place
            WHERE cardinality(user_ids) > 0
        )
        UPDATE pushes
        SET prepared_up_to = step.position,
            prepared_at = CASE WHEN step.is_last THEN now() END,
            state = CASE WHEN step.is_last THEN 'sending' ELSE 'preparing' END,
            started_at = COALESCE(started_at, now()),
            users = pushes.users + step.users,
            users_skipped = pushes.users_skipped + step.users - cardinality(step.user_ids),
            next_number = pushes.next_number + (cardinality(step.user_ids) + $6 - 1) / $6
        FROM push
        CROSS JOIN step
        WHERE pushes.id = push.id
        RETURNING prepared_at IS NOT NULL
        """
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
    /// Users of the first step, which is to end soon, so that sending begins; and of those after it.
    private static let firstStep: Int64 = 1000
    private static let laterSteps: Int64 = 20_000
    /// Users in a part of a stored audience.
    private static let partUsers: Int64 = 1000

    /// How many users, or parts of users, the step that begins at `position` looks at.
    fileprivate func limit(at position: Int64) -> Int64 {
        let users = position == 0 ? Self.firstStep : Self.laterSteps
        if case .parts = self { return users / Self.partUsers }
        return users
    }

    /// What ``page(_:_:_:_:)`` takes the users from.
    fileprivate var parameter: PostgresValue {
        switch self {
        case .users(let ids): .int64s(ids)
        case .own(let id), .parts(let id): .uuid(id)
        case .tagsAny(let tags), .tagsAll(let tags): .texts(tags)
        case .everyone: .texts([])
        }
    }

    /// The query of the users that a step looks at: where each stands, whether it is of the audience, and whether it has a phone that
    /// the message addresses.
    ///
    /// By a key range, and not by an offset, so that the last step of millions costs what the first does; and bounded by what is looked
    /// at, not by what is found.
    ///
    /// - Parameters: the placeholders of the cursor, the limit, ``parameter``, and the platforms.
    fileprivate func page(_ position: String, _ limit: String, _ source: String, _ platforms: String) -> String {
        switch self {
        case .users, .own:
            """
            SELECT item.place AS position, item.user_id, true AS matches, \(Self.hasPhone(platforms)) AS addressed
            FROM unnest(\(list(source))) WITH ORDINALITY AS item (user_id, place)
            WHERE item.place > \(position)
                AND item.place <= \(position) + \(limit)
            """
        case .parts:
            """
            SELECT part.number::bigint AS position, item.user_id, true AS matches, \(Self.hasPhone(platforms)) AS addressed
            FROM audience_parts AS part
            CROSS JOIN unnest(part.user_ids) AS item (user_id)
            WHERE part.parts_id = \(source)
                AND part.number > \(position)
                AND part.number <= \(position) + \(limit)
            """
        case .tagsAny, .tagsAll, .everyone:
            """
            SELECT user_id AS position, user_id, \(matches(source)) AS matches,
                cardinality(\(platforms)) = 0 OR bool_or(push_type = ANY (\(platforms))) AS addressed
            FROM devices
            WHERE user_id > \(position)
                AND NOT withdrawn
            GROUP BY user_id
            ORDER BY user_id
            LIMIT \(limit)
            """
        }
    }

    private func list(_ source: String) -> String {
        if case .own = self { return "(SELECT user_ids FROM pushes WHERE id = \(source))" }
        return source
    }

    private func matches(_ tags: String) -> String {
        switch self {
        case .tagsAny: "bool_or(tags && \(tags))"
        case .tagsAll: "bool_or(tags @> \(tags))"
        case .users, .own, .parts, .everyone: "cardinality(\(tags)) = 0"
        }
    }

    /// Whether a step over `page` is the last one.
    fileprivate func isLast(_ position: String, _ limit: String, _ source: String) -> String {
        switch self {
        case .users, .own: "\(position) + \(limit) >= cardinality(\(list(source)))"
        case .parts:
            """
            NOT EXISTS (
                SELECT 1 FROM audience_parts WHERE parts_id = \(source) AND number > \(position) + \(limit)
            )
            """
        case .tagsAny, .tagsAll, .everyone: "count(*) < \(limit)"
        }
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
