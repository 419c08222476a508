import Postgres

/// What sessions of PostgreSQL wait for, by the name of `pg_stat_activity.wait_event`: `SyncRep` is a synchronous standby,
/// `transactionid` another transaction, `WALWrite` the disk.
package struct DatabaseWait: Sendable {
    package let event: String
    package let sessions: Int64
    /// For how long the oldest of their statements has run.
    package let seconds: Double

    /// The wait in words: "SyncRep (a synchronous standby) in 3 sessions, for up to 12 s".
    package var description: String {
        let meaning = Self.meanings[event].map { " (\($0))" } ?? ""
        let noun = sessions == 1 ? "session" : "sessions"
        return "\(event)\(meaning) in \(sessions) \(noun), for up to \(Int64(seconds)) s"
    }

    private static let meanings = [
        "SyncRep": "a synchronous standby", "transactionid": "another transaction", "tuple": "another transaction",
        "relation": "the lock of a table", "WALWrite": "the disk", "WALSync": "the disk",
    ]
}

/// Lists what the sessions of this role in this database wait for, if they have for a second or longer.
package struct ListDatabaseWaits: PostgresStatement {
    package static let sql: SQL = """
        SELECT wait_event, count(*), max(extract(epoch FROM clock_timestamp() - state_change))::float8 AS seconds
        FROM pg_stat_activity
        WHERE datname = current_database()
            AND usename = current_user
            AND state = 'active'
            AND wait_event_type NOT IN ('Activity', 'Client')
            AND clock_timestamp() - state_change >= interval '1 second'
        GROUP BY wait_event
        ORDER BY count(*) DESC, wait_event
        LIMIT 10
        """

    package init() {}

    package static func decode(_ row: PostgresRow) throws -> DatabaseWait {
        try row.decode { column in
            DatabaseWait(event: try column.next(), sessions: try column.next(), seconds: try column.next())
        }
    }
}
