import Glibc
import Logging
import Postgres
import TestSupport
import Testing

/// Migrations that others hold up, or interrupt.
@Suite struct MigrationLockTests {
    private let table = "CREATE TABLE a (n integer)"
    private let change = "SELECT 1;\nALTER TABLE a ADD COLUMN m integer"

    /// Short waits, in any number of attempts.
    private func patience(attempts: Int) -> Migrator.Patience {
        var patience = Migrator.Patience()
        // Meanwhile a second connection is opened, which asks who blocks the first.
        patience.lockTimeout = .seconds(1)
        patience.pause = .milliseconds(10)
        patience.attempts = attempts
        return patience
    }

    private func readers(_ pool: PostgresPool, _ body: (Int32) async throws -> Void) async throws {
        try await pool.withTransaction { transaction in
            try await transaction.query("SELECT FROM a", [])
            let pid = try #require(try await transaction.query("SELECT pg_backend_pid()", []).first).decode(Int32.self)
            try await body(pid)
        }
    }

    /// Returns the error of a migration that is blocked by others for too long, once it has also seen who they are. On a slow
    /// machine they may not have been asked for before the migration gives up.
    private func blockedError(_ migrate: () async throws -> Void) async throws -> PostgresError {
        var last: PostgresError?
        try await eventually("the migration sees who blocks it") {
            let error = try await postgresError(migrate)
            last = error
            return error.message.contains("Blocked by")
        }
        return try #require(last)
    }

    @Test("A migration that a transaction blocks says who blocks it, lets others go ahead, and is applied afterwards")
    func retries() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table])
            _ = try await folder.migrate(database)
            try folder.write(change, "0002_m.sql")
            let log = CollectedLog()
            let patience = patience(attempts: .max)
            try await withThrowingTaskGroup(of: [String].self) { group in
                try await readers(pool) { pid in
                    group.addTask { try await folder.migrate(database, patience: patience, log: log) }
                    let line = await log.line { $0.message == "Migration waits for a lock" }
                    #expect(line.level == .warning)
                    let text = try #require(line.metadata["blocked_by"])
                    let user = try await pool.value(String.self, "SELECT current_user::text")
                    #expect(text.hasPrefix("pid \(pid) (push-server, user \(user), since 20"), "\(text)")
                    #expect(text.hasSuffix("Z, SELECT, idle in transaction)"), "\(text)")
                    // Between two attempts, the migrator holds no lock: neither that of the table nor its own.
                    try await eventually("another transaction gets both locks") {
                        try await pool.withTransaction { transaction in
                            let lock = "hashtextextended('schema_migrations ' || current_schema(), 0)"
                            try await transaction.query("SET LOCAL lock_timeout = '1s'", [])
                            _ = try await transaction.query("SELECT count(*) FROM a", [])
                            let rows = try await transaction.query("SELECT pg_try_advisory_xact_lock(\(lock))", [])
                            return try #require(rows.first).decode(Bool.self)
                        }
                    }
                }
                #expect(try await group.next() == ["0002_m.sql"])
            }
            #expect(try await folder.pending(pool) == [])
        }
    }

    @Test("A migration that is blocked for too long fails with its line and the blocker, and changes nothing")
    func blocked() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table])
            _ = try await folder.migrate(database)
            try folder.write("CREATE TABLE b (n integer);" + change, "0002_m.sql")
            try await readers(pool) { pid in
                let error = try await blockedError {
                    _ = try await folder.migrate(database, patience: patience(attempts: 2))
                }
                #expect(error.code == .migration)
                #expect(error.sqlState == "55P03")
                #expect(
                    error.message.contains("Migration 0002_m.sql could not get a lock for line 2"),
                    "\(error.message)"
                )
                #expect(error.message.contains("Blocked by pid \(pid) (push-server, user"), "\(error.message)")
            }
            #expect(try await folder.pending(pool) == ["0002_m.sql"])
            #expect(try await pool.value(Bool.self, "SELECT to_regclass('b') IS NULL"))
            #expect(try await folder.migrate(database) == ["0002_m.sql"])
        }
    }

    @Test("A role that may not see other sessions gets the number of the process")
    func withoutRights() async throws {
        try await TestDatabase.withPool { pool, database in
            let role = "migrator_\(getpid())_\(database.lock)"
            let schema = try await pool.value(String.self, "SELECT current_schema()::text")
            try await pool.write("CREATE ROLE \(role)")
            try await pool.write("GRANT ALL ON SCHEMA \(schema) TO \(role)")
            let url = try await SharedPostgres.url
            let settings = try PostgresSettings(
                url: "\(url)\(url.contains("?") ? "&" : "?")options=-csearch_path%3D\(schema)%20-crole%3D\(role)"
            )
            let folder = try MigrationFolder(["0001_a.sql": table])
            _ = try await folder.migrate(database, settings)
            try folder.write(change, "0002_m.sql")
            try await readers(pool) { pid in
                let error = try await blockedError {
                    _ = try await folder.migrate(database, settings, patience: patience(attempts: 1))
                }
                #expect(error.message.contains("Blocked by pid \(pid)"), "\(error.message)")
                #expect(!error.message.contains("since"), "\(error.message)")
                #expect(!error.message.contains("SELECT"), "\(error.message)")
            }
            #expect(try await folder.migrate(database, settings) == ["0002_m.sql"])
            try await pool.write("DROP OWNED BY \(role)")
            try await pool.write("DROP ROLE \(role)")
        }
    }

    @Test("A migrator waits for another one, and says so")
    func otherMigrator() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table])
            try await pool.withTransaction { transaction in
                try await transaction.query(
                    "SELECT pg_advisory_xact_lock(hashtextextended('schema_migrations ' || current_schema(), 0))",
                    []
                )
                let error = try await postgresError {
                    _ = try await folder.migrate(database, patience: patience(attempts: 1))
                }
                #expect(error.message.contains("Another migrator has held the lock"), "\(error.message)")
                #expect(error.message.contains("Blocked by pid"), "\(error.message)")
            }
            #expect(try await folder.migrate(database) == ["0001_a.sql"])
        }
    }

    @Test("A migrator whose connection is lost has applied whole files, and the next one continues")
    func killed() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder([
                "0001_a.sql": table, "0002_m.sql": change + "; SELECT pg_sleep(60)",
                "functions/f.sql":
                    "CREATE OR REPLACE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM a'",
            ])
            let schema = try await pool.value(String.self, "SELECT current_schema()::text")
            async let migration = postgresError { _ = try await folder.migrate(database) }
            try await eventually("the second migration runs, and is ended") {
                try await pool.write(
                    """
                    SELECT pg_terminate_backend(pid)
                    FROM pg_stat_activity
                    WHERE query = 'SELECT pg_sleep(60)'
                        AND pid IN (SELECT pid FROM pg_locks WHERE relation = to_regclass('\(schema).a'))
                    """
                ).count == 1
            }
            let error = try await migration
            #expect(error.code == .connectionLost)
            #expect(error.message.contains("lost in line 2 of migration 0002_m.sql."), "\(error.message)")
            #expect(try await folder.pending(pool) == ["0002_m.sql", "functions/f.sql"])
            try folder.write(change, "0002_m.sql")
            #expect(try await folder.migrate(database) == ["0002_m.sql", "functions/f.sql"])
        }
    }

    @Test("A role without rights gets PostgreSQL's reason, and needs none if nothing is pending")
    func refusedRole() async throws {
        try await TestDatabase.withPool { pool, database in
            let role = "reader_\(getpid())_\(database.lock)"
            let schema = try await pool.value(String.self, "SELECT current_schema()::text")
            try await pool.write("CREATE ROLE \(role)")
            try await pool.write("GRANT USAGE ON SCHEMA \(schema) TO \(role)")
            let url = try await SharedPostgres.url
            let settings = try PostgresSettings(
                url: "\(url)\(url.contains("?") ? "&" : "?")options=-csearch_path%3D\(schema)%20-crole%3D\(role)"
            )
            let folder = try MigrationFolder(["0001_a.sql": table])
            let error = try await postgresError { _ = try await folder.migrate(database, settings) }
            #expect(error.message == "The schema cannot be migrated: permission denied for schema \(schema).")
            _ = try await folder.migrate(database)
            try await pool.write("GRANT SELECT ON ALL TABLES IN SCHEMA \(schema) TO \(role)")
            #expect(try await folder.migrate(database, settings) == [])
            try await pool.write("DROP OWNED BY \(role)")
            try await pool.write("DROP ROLE \(role)")
        }
    }
}
