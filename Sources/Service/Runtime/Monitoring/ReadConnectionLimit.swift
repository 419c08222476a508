import Postgres

/// Reads how many connections the current role may open to the current database, and how many of them are free now.
///
/// `max_connections` without those that are reserved for administrators, and the `CONNECTION LIMIT` of the role and of the
/// database, for which -1 is none.
package struct ReadConnectionLimit: PostgresStatement {
    package static let sql: SQL = """
        WITH session AS MATERIALIZED (
            SELECT usename = current_user AS is_of_role, datname = current_database() AS is_of_database
            FROM pg_stat_activity
            WHERE usename IS NOT NULL
                AND datname IS NOT NULL
        ), place AS (
            SELECT current_setting('max_connections')::integer
                    - current_setting('superuser_reserved_connections')::integer
                    - coalesce(current_setting('reserved_connections', true)::integer, 0) AS allowed,
                (SELECT count(*) FROM session) AS used
            UNION ALL
            SELECT rolconnlimit, (SELECT count(*) FROM session WHERE is_of_role)
            FROM pg_roles
            WHERE rolname = current_user
                AND rolconnlimit >= 0
            UNION ALL
            SELECT datconnlimit, (SELECT count(*) FROM session WHERE is_of_database)
            FROM pg_database
            WHERE datname = current_database()
                AND datconnlimit >= 0
        )
        SELECT min(allowed), greatest(0, min(allowed - used))
        FROM place
        """

    package init() {}

    package static func decode(_ row: PostgresRow) throws -> (allowed: Int32, free: Int64) {
        try row.decode(Int32.self, Int64.self)
    }
}
