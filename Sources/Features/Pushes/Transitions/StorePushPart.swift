import Postgres

extension PreparationStore {
    /// Stores the users of a page as a part of the push, and moves the push's cursor.
    ///
    /// - Returns: `nil` if it is not stored, since another server has stored this step, or the push is no longer
    ///   prepared.
    func store(_ page: AudiencePage, of preparation: Preparation) async throws -> StoredPart? {
        let users = try await page.users(without: exclusion(of: preparation), pool)
        let part = StorePushPart(
            preparation: preparation,
            page: page,
            users: users.count,
            ids: UserIDBytes(users.ids),
            skipped: users.skipped
        )
        return try await pool.queryAlone(part).first
    }

    /// A part of a push that was stored.
    struct StoredPart: Sendable {
        /// Why the push is halted: it has more users than are allowed. `nil` if it is not.
        let haltReason: String?
    }
}

/// Stores the users of a page as a part of a push, and those whom it skips, unless the push's cursor has moved. Returns a row if it is
/// stored.
///
/// The last part halts the push if it has more users than are allowed. ``ClaimBatches`` claims nothing of such a push before.
///
/// If PostgreSQL has lost a part whose batches were sent (``PresumeBatches``), those of this part may have been sent, and get
/// rows of their own at once.
struct StorePushPart: PostgresStatement {
    static let sql: SQL = """
        WITH push AS (
            UPDATE pushes
            SET prepared_up_to = $3,
                prepared_at = CASE WHEN $4 THEN now() END,
                (state, reason) = (
                    SELECT CASE WHEN NOT $4 THEN 'preparing' WHEN has_grown THEN 'halted' ELSE 'sending' END,
                        CASE
                            WHEN has_grown
                                THEN format(
                                    'The push has %s users, and had %s when it was created. Approve it with another key than the one that created it, or cancel it.',
                                    sendable, pushes.counted_users
                                )
                        END
                    FROM (SELECT pushes.users - pushes.users_skipped + $6 AS sendable) AS growth
                    CROSS JOIN LATERAL (SELECT $4 AND COALESCE(sendable > pushes.allowed_users, false) AS has_grown) AS limits
                ),
                started_at = COALESCE(started_at, now()),
                users = users + $5,
                users_skipped = users_skipped + $5 - $6,
                users_excluded = users_excluded + $13,
                users_without_consent = users_without_consent + $14,
                users_no_device = users_no_device + $15,
                next_number = next_number + ($6 + batch_users - 1) / batch_users
            WHERE id = $1
                AND prepared_up_to = $2
                AND prepared_at IS NULL
                AND state = ANY ($9)
                AND (state <> 'scheduled' OR send_at <= now())
                AND commits_are_checked('pushes')
            RETURNING batch_users, next_number, reason, delivery, presumed_until
        ),
        part AS (
            INSERT INTO push_parts (push_id, number, batch_users, batches, ids, id_bytes, claimed)
            SELECT $1, next_number - batches, batch_users, batches, $7, $8,
                CASE WHEN next_number - batches < presumed_until THEN batches ELSE 0 END
            FROM push
            CROSS JOIN LATERAL (SELECT ($6 + batch_users - 1) / batch_users AS batches) AS part
            WHERE batches > 0
            RETURNING number, batches, claimed
        ),
        skipped AS (
            INSERT INTO push_skipped (push_id, cause, position, ids, id_bytes)
            SELECT $1, item.cause, $3, item.ids, item.id_bytes
            FROM push
            CROSS JOIN unnest($10::text[], $11::bytea[], $12::int[]) AS item (cause, ids, id_bytes)
        ),
        presumed AS (
            INSERT INTO push_batches (push_id, number, users, state, attempts, may_repeat, finished_at, kakao_message)
            SELECT $1, number + place, LEAST(batch_users, $6 - place * batch_users), kept.state, 1, kept.state = 'waiting',
                CASE WHEN kept.state = 'uncertain' THEN now() END, '\(RestoreBatches.lostRecord)'
            FROM push
            CROSS JOIN part
            CROSS JOIN LATERAL (SELECT CASE delivery WHEN 'at_least_once' THEN 'waiting' ELSE 'uncertain' END AS state) AS kept
            CROSS JOIN generate_series(0, claimed - 1) AS place
            RETURNING state, users
        ),
        counted AS (
            INSERT INTO push_counts AS counts (push_id, slot, state, users, batches)
            SELECT $1, -2, state, sum(users), count(*)
            FROM presumed
            WHERE state = 'uncertain'
            GROUP BY state
            ON CONFLICT (push_id, slot, state) DO UPDATE
            SET users = counts.users + excluded.users,
                batches = counts.batches + excluded.batches
        )
        SELECT reason
        FROM push
        """

    let preparation: PreparationStore.Preparation
    let page: AudiencePage
    /// The users of the page, with or without a device that the message addresses.
    let users: Int64
    /// The users to send to.
    let ids: UserIDBytes
    let skipped: SkippedUsers

    var parameters: [PostgresValue] {
        let rows = skipped.rows
        return [
            .uuid(preparation.pushID), .int64(preparation.position), .int64(page.position), .bool(page.isLast),
            .int64(users), .int32(Int32(clamping: ids.count)), .bytes(ids.bytes), .int32(Int32(ids.width)),
            .states(before: page.isLast ? .completePreparation : .prepare), .texts(rows.map(\.cause.rawValue)),
            .byteas(rows.map(\.ids.bytes)), .int32s(rows.map { Int32($0.ids.width) }),
            .int64(Int64(skipped.excluded.count)),
            .int64(Int64(skipped.withoutConsent.count)), .int64(Int64(skipped.noDevice.count)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> PreparationStore.StoredPart {
        PreparationStore.StoredPart(haltReason: try row.decode(String?.self))
    }
}
