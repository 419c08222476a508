/// A session that holds, or waits before this one for, a lock that a migration needs.
struct MigrationBlocker: Sendable, Equatable, CustomStringConvertible {
    /// 0 for a prepared transaction.
    let pid: Int32
    /// `nil` if the role may not see it, as all of these.
    var application: String?
    var user: String?
    /// The start of its transaction, in RFC 3339.
    var since: String?
    /// `active`, `idle in transaction`, …
    var state: String?
    /// The first word of its latest statement.
    var command: String?

    var description: String {
        guard pid != 0 else { return "a prepared transaction" }
        var parts: [String] = []
        if let application, !application.isEmpty { parts.append(application) }
        if let user { parts.append("user \(user)") }
        if let since { parts.append("since \(since)") }
        if let command { parts.append(command) }
        if let state, state != "active" { parts.append(state) }
        return parts.isEmpty ? "pid \(pid)" : "pid \(pid) (\(parts.joined(separator: ", ")))"
    }
}

// MARK: Statements

/// Lists the sessions that block a session. Without the rights to see other sessions, PostgreSQL hides their statements and times.
struct ListMigrationBlockers: PostgresStatement {
    static let sql: SQL = """
        SELECT blocker.pid,
            activity.application_name,
            activity.usename::text,
            to_char(activity.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            activity.state,
            upper(substring(activity.query FROM '^\\s*([A-Za-z]+)'))
        FROM (SELECT DISTINCT unnest(pg_blocking_pids($1)) AS pid) AS blocker
        LEFT JOIN pg_stat_activity AS activity USING (pid)
        ORDER BY blocker.pid
        """

    let pid: Int32

    var parameters: [PostgresValue] { [.int32(pid)] }

    static func decode(_ row: PostgresRow) throws -> MigrationBlocker {
        try row.decode { column in
            try MigrationBlocker(
                pid: column.next(),
                application: column.next(),
                user: column.next(),
                since: column.next(),
                state: column.next(),
                command: column.next()
            )
        }
    }
}

/// Lists the processes that block a session.
struct ListBlockingProcesses: PostgresStatement {
    static let sql: SQL = """
        SELECT DISTINCT unnest(pg_blocking_pids($1))
        """

    let pid: Int32

    var parameters: [PostgresValue] { [.int32(pid)] }

    static func decode(_ row: PostgresRow) throws -> MigrationBlocker {
        MigrationBlocker(pid: try row.decode(Int32.self))
    }
}
