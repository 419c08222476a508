internal import Postgres

extension PreparationStore {
    /// Stores the users of a page as a part of the push, and moves the push's cursor.
    ///
    /// - Returns: Whether it is stored. Otherwise another server has stored this step, or the push is no longer
    ///   prepared.
    func store(_ page: AudiencePage, of preparation: Preparation) async throws -> Bool {
        let users = try await page.users(without: preparation.exclusion, pool)
        let part = StorePushPart(preparation: preparation, page: page, users: users.count, ids: UserIDBytes(users.ids))
        return try await !pool.queryAlone(part).isEmpty
    }
}

/// Stores the users of a page as a part of a push, unless the push's cursor has moved. Returns a row if it is stored.
struct StorePushPart: PostgresStatement {
    static let sql: SQL = """
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
                AND state = ANY ($9)
                AND (state <> 'scheduled' OR send_at <= now())
            RETURNING batch_users, next_number
        ),
        part AS (
            INSERT INTO push_parts (push_id, number, batch_users, batches, ids, id_bytes)
            SELECT $1, next_number - batches, batch_users, batches, $7, $8
            FROM push
            CROSS JOIN LATERAL (SELECT ($6 + batch_users - 1) / batch_users AS batches) AS part
            WHERE batches > 0
        )
        SELECT next_number
        FROM push
        """

    let preparation: PreparationStore.Preparation
    let page: AudiencePage
    /// The users of the page, with or without a device that the message addresses.
    let users: Int64
    /// The users to send to.
    let ids: UserIDBytes

    var parameters: [PostgresValue] {
        [
            .uuid(preparation.pushID), .int64(preparation.position), .int64(page.position), .bool(page.isLast),
            .int64(users), .int32(Int32(clamping: ids.count)), .bytes(ids.bytes), .int32(Int32(ids.width)),
            .states(before: page.isLast ? .completePreparation : .prepare),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Int32 { try row.decode(Int32.self) }
}
