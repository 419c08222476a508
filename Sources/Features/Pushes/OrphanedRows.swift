import Postgres

/// Returns a statement that deletes up to `$1` rows of a table whose push does not exist: a report was being stored while its push was
/// deleted.
///
/// Visits each push once, by its first row, of those that are older than the retention of `$2` days. No younger one is deleted.
private func deleteOrphans(in table: SQL) -> SQL {
    """
    WITH RECURSIVE known AS (
        (SELECT push_id FROM \(table) WHERE push_id < uuid_v7_floor(now() - make_interval(days => $2)) ORDER BY push_id LIMIT 1)
        UNION ALL
        SELECT (
            SELECT next.push_id
            FROM \(table) AS next
            WHERE next.push_id > known.push_id
                AND next.push_id < uuid_v7_floor(now() - make_interval(days => $2))
            ORDER BY next.push_id
            LIMIT 1
        )
        FROM known
        WHERE known.push_id IS NOT NULL
    )
    DELETE FROM \(table)
    WHERE ctid = ANY (
        ARRAY(
            SELECT orphan.ctid
            FROM known
            JOIN \(table) AS orphan ON orphan.push_id = known.push_id
            WHERE NOT EXISTS (SELECT 1 FROM pushes WHERE id = known.push_id)
            LIMIT $1
            FOR UPDATE OF orphan SKIP LOCKED
        )
    )
    """
}

/// Deletes up to `limit` of the users who have opened pushes that do not exist.
struct DeleteOrphanedOpens: PostgresStatement {
    static let sql = deleteOrphans(in: "push_opens")

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit)), .int32(Int32(clamping: retentionDays))] }
}

/// Deletes up to `limit` counts of users who have opened pushes that do not exist.
struct DeleteOrphanedOpenCounts: PostgresStatement {
    static let sql = deleteOrphans(in: "push_open_counts")

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit)), .int32(Int32(clamping: retentionDays))] }
}

/// Deletes up to `limit` opens of users who have been erased since: a report was being stored meanwhile.
struct DeleteOpensOfErasedUsers: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM push_opens
        WHERE ctid = ANY (
            ARRAY(
                SELECT opens.ctid
                FROM erased_users AS erased
                JOIN push_opens AS opens USING (user_id)
                WHERE opens.opened_at <= erased.erased_at
                LIMIT $1
                FOR UPDATE OF opens SKIP LOCKED
            )
        )
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
