internal import FoundationEssentials
internal import Postgres

/// Makes batches of audiences, step by step.
///
/// A step reads the users that come next; one statement then stores them as a part of the push and moves the push's cursor, if nobody else
/// has. So it happens as a whole or not at all, holds no more than its own users in memory, and any server goes on where another one
/// stopped.
struct PreparationStore: Sendable {
    /// Batches of which a dry run shows the request.
    private static let previewBatches = 3

    let pool: PostgresPool

    /// A push of which not everything has become batches.
    struct Preparation: Sendable {
        let pushID: UUID
        private(set) var audience: PushAudience.Source
        let platforms: [String]
        /// Its batches exist; those that are to be retried have yet to be reset.
        let isRetry: Bool
        /// The cursor: where the last step ended.
        private(set) var position: Int64

        /// What is to be prepared after a page.
        func moved(past page: AudiencePage) -> Preparation {
            var moved = self
            moved.position = page.position
            moved.audience = page.audience
            return moved
        }
    }

    /// The pushes that are to be prepared now, the oldest first.
    func due(limit: Int) async throws -> [Preparation] {
        let rows = try await pool.read(
            """
            SELECT id, user_ids IS NOT NULL, audience_parts_id, ARRAY(SELECT jsonb_array_elements_text(audience -> 'tags_any')),
                ARRAY(SELECT jsonb_array_elements_text(audience -> 'tags_all')), platforms, prepared_up_to, retry_position IS NOT NULL
            FROM pushes
            WHERE state IN ('scheduled', 'preparing', 'sending')
                AND (
                    prepared_at IS NULL AND (state = 'preparing' OR state = 'scheduled' AND send_at <= now())
                    OR state = 'sending' AND retry_position IS NOT NULL
                )
            ORDER BY id
            LIMIT $1
            """,
            [.int64(Int64(limit))]
        )
        return try rows.map { row in
            let (id, isOwn, partsID, tagsAny, tagsAll, platforms, position, isRetry) = try row.decode(
                UUID.self,
                Bool.self,
                UUID?.self,
                [String].self,
                [String].self,
                [String].self,
                Int64.self,
                Bool.self
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
                isRetry: isRetry,
                position: position
            )
        }
    }

    /// Reads the users of the next step.
    func page(_ preparation: Preparation) async throws -> AudiencePage? {
        try await AudiencePage.read(
            preparation.audience,
            from: preparation.position,
            platforms: preparation.platforms,
            pool
        )
    }

    /// Takes a step: stores its users as a part of the push, and moves the push's cursor.
    ///
    /// - Returns: Whether it was taken; otherwise another server has been at it since the push was looked up, or it is to be prepared no
    ///   more.
    func store(_ page: AudiencePage, of preparation: Preparation) async throws -> Bool {
        let users = try page.users()
        let ids = UserIDBytes(users.ids)
        let rows = try await pool.queryAlone(
            """
            WITH push AS (
                UPDATE pushes
                SET prepared_up_to = $3,
                    prepared_at = CASE WHEN $4 THEN now() END,
                    state = CASE WHEN $4 THEN 'sending' ELSE 'preparing' END,
                    started_at = COALESCE(started_at, now()),
                    users = users + $5,
                    users_skipped = users_skipped + $5 - $6,
                    next_number = next_number + ($6 + batch_users - 1) / batch_users
                WHERE id = $1
                    AND prepared_up_to = $2
                    AND prepared_at IS NULL
                    AND (state = 'preparing' OR state = 'scheduled' AND send_at <= now())
                RETURNING batch_users, next_number
            ),
            part AS (
                INSERT INTO push_parts (push_id, number, batch_users, batches, ids, id_bytes)
                SELECT $1, next_number - batches, batch_users, batches, $7, $8
                FROM push
                CROSS JOIN LATERAL (SELECT ($6 + batch_users - 1) / batch_users AS batches) AS part
                WHERE batches > 0
            )
            SELECT FROM push
            """,
            [
                .uuid(preparation.pushID), .int64(preparation.position), .int64(page.position),
                .bool(page.isLast), .int64(users.count), .int32(Int32(clamping: ids.count)),
                .bytes(ids.bytes), .int32(Int32(ids.width)),
            ]
        )
        return !rows.isEmpty
    }

    // MARK: Retries

    /// Batches that one statement resets: it holds the push's row for some tens of milliseconds.
    private static let retriedBatches: Int32 = 2000

    /// Resets the next failed batches of a push that is retried, and its uncertain ones if asked to. Returns whether these were the last.
    ///
    /// Only batches that existed when the retry was requested: what fails again is not retried again.
    func resetRetriedBatches(of id: UUID) async throws -> Bool {
        let rows = try await pool.write(
            """
            WITH push AS MATERIALIZED (
                SELECT id, retry_position, retry_end, retry_uncertain
                FROM pushes
                WHERE id = $1
                    AND state = 'sending'
                    AND retry_position IS NOT NULL
                FOR UPDATE
            ),
            chosen AS MATERIALIZED (
                SELECT batch.number, batch.state
                FROM push
                -- By its key, and no further than the limit.
                CROSS JOIN LATERAL (
                    SELECT number, state
                    FROM push_batches
                    WHERE push_id = push.id
                        AND number > push.retry_position
                        AND number < push.retry_end
                        AND (state = 'failed' OR state = 'uncertain' AND push.retry_uncertain)
                    ORDER BY push_id, number
                    LIMIT $2
                ) AS batch
            ),
            reset AS (
                UPDATE push_batches AS batch
                SET state = 'waiting',
                    attempts = 0,
                    next_attempt_at = now(),
                    finished_at = NULL,
                    may_repeat = batch.may_repeat OR chosen.state = 'uncertain'
                FROM chosen
                WHERE batch.push_id = $1
                    AND batch.number = chosen.number
                RETURNING chosen.state, batch.users
            ),
            counted AS (
                INSERT INTO push_counts AS counts (push_id, slot, state, users, batches)
                SELECT $1, -1, state, -sum(users), -count(*)
                FROM reset
                GROUP BY state
                ORDER BY state
                ON CONFLICT (push_id, slot, state) DO UPDATE
                SET users = counts.users + excluded.users,
                    batches = counts.batches + excluded.batches
            ),
            step AS (
                SELECT CASE WHEN count(*) = $2 THEN max(number) END AS position
                FROM chosen
            )
            UPDATE pushes
            SET retry_position = step.position,
                retry_end = CASE WHEN step.position IS NOT NULL THEN pushes.retry_end END
            FROM push
            CROSS JOIN step
            WHERE pushes.id = push.id
            RETURNING step.position IS NULL
            """,
            [.uuid(id), .int32(Self.retriedBatches)]
        )
        return try rows.first?.decode(Bool.self) ?? true
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

    /// Goes through an audience in the steps in which it would be prepared, and stores nothing. On a connection of its own, as
    /// ``page(_:)``.
    func preview(_ audience: PushAudience.Source, platforms: [String], batchUsers: Int32) async throws -> Preview {
        var preview = Preview()
        var audience = audience
        var position: Int64 = 0
        var isLast = false
        while !isLast {
            let page = try await AudiencePage.read(audience, from: position, platforms: platforms, pool)
            guard let page else { break }
            let found = try page.users()
            let users = found.ids
            preview.users += found.count
            preview.skipped += found.count - Int64(users.count)
            preview.batches += (Int64(users.count) + Int64(batchUsers) - 1) / Int64(batchUsers)
            for start in stride(from: 0, to: users.count, by: Int(batchUsers))
            where preview.first.count < Self.previewBatches {
                preview.first.append(Array(users[start..<min(start + Int(batchUsers), users.count)]))
            }
            (audience, position, isLast) = (page.audience, page.position, page.isLast)
        }
        return preview
    }
}
