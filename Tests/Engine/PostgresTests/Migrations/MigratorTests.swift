import FoundationEssentials
import Logging
import Postgres
import TestSupport
import Testing

@Suite struct MigratorTests {
    private func directory(_ files: [String: String]) throws -> String {
        try MigrationFolder(files).path
    }

    private func write(_ sql: String, _ name: String, _ directory: String) throws {
        try MigrationFolder(path: directory).write(sql, name)
    }

    private let first = "CREATE TABLE a (n integer); INSERT INTO a VALUES (1);"
    private let second = "-- 카카오\nCREATE FUNCTION f() RETURNS integer LANGUAGE sql AS $$ SELECT n FROM a; $$;\n"

    @Test("Migrations are applied once, in order, and recorded")
    func order() async throws {
        try await TestDatabase.withPool { pool, database in
            let directory = try directory(["0002_f.sql": second, "0001_a.sql": first, "README.md": "not SQL"])
            let migrator = try Migrator(directory: directory)
            #expect(try await migrator.pending(pool).fileNames == ["0001_a.sql", "0002_f.sql"])
            let applied = try await migrator.migrate(
                settings: database.settings,
                loop: database.loop,
                logger: quietLogger
            )
            #expect(applied.migrations.map(\.version) == [1, 2])
            #expect(try await pool.value(Int32.self, "SELECT f()") == 1)
            #expect(try await migrator.pending(pool).isEmpty)

            try write("CREATE TABLE c (n integer)", "0003_c.sql", directory)
            #expect(try await migrator.pending(pool).isEmpty, "it has read the files")
            let next = try Migrator(directory: directory)
            #expect(try await next.pending(pool).migrations.map(\.name) == ["c"])
            let more = try await next.migrate(settings: database.settings, loop: database.loop, logger: quietLogger)
            #expect(more.fileNames == ["0003_c.sql"])
            let none = try await next.migrate(settings: database.settings, loop: database.loop, logger: quietLogger)
            #expect(none.isEmpty)
        }
    }

    @Test("A folder without migrations or without functions is refused: it is not that of a version")
    func incomplete() async throws {
        try await TestDatabase.withPool { pool, _ in
            for (files, removed) in [([:], nil), (["0001_a.sql": first], "functions")] {
                let folder = try MigrationFolder(files)
                if let removed { try folder.remove(removed) }
                let error = try await postgresError { _ = try await folder.pending(pool) }
                #expect(error.code == .migration)
            }
        }
    }

    @Test("Concurrent migrators see each other's files, whatever the database's default isolation is")
    func isolation() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder([
                "0001_a.sql": first, "0002_f.sql": second, "0003_c.sql": "CREATE TABLE c (n integer)",
            ])
            let url = try await SharedPostgres.url
            let schema = try await pool.value(String.self, "SELECT current_schema()::text")
            let options = "-csearch_path%3D\(schema)%20-cdefault_transaction_isolation%3Drepeatable%5C%20read"
            let settings = try PostgresSettings(url: "\(url)\(url.contains("?") ? "&" : "?")options=\(options)")
            let applied = try await withThrowingTaskGroup(of: [String].self) { group in
                for _ in 0..<3 { group.addTask { try await folder.migrate(database, settings) } }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(applied.sorted() == ["0001_a.sql", "0002_f.sql", "0003_c.sql"])
        }
    }

    @Test("An applied migration must not be changed, removed or renamed")
    func changed() async throws {
        try await TestDatabase.withPool { pool, database in
            let original = try directory(["0001_a.sql": first, "0002_f.sql": second])
            _ = try await Migrator(directory: original).migrate(
                settings: database.settings,
                loop: database.loop,
                logger: quietLogger
            )
            let cases = [
                (["0001_a.sql": first + " ", "0002_f.sql": second], "0001_a.sql was changed"),
                (["0001_a.sql": first, "0002_g.sql": second], "0002_f.sql has been applied, but its file is missing"),
            ]
            for (files, message) in cases {
                let migrator = try Migrator(directory: directory(files))
                let pending = try await postgresError { _ = try await migrator.pending(pool) }
                let migrated = try await postgresError {
                    _ = try await migrator.migrate(
                        settings: database.settings,
                        loop: database.loop,
                        logger: quietLogger
                    )
                }
                for error in [pending, migrated] {
                    #expect(error.code == .migration)
                    #expect(error.message.contains(message))
                }
            }
        }
    }

    @Test(
        "Gaps, duplicate versions and invalid file names are rejected before the database is contacted",
        arguments: [
            (["0001_a.sql", "0003_c.sql"], "Migration 2 is missing before 0003_c.sql"),
            (["0001_a.sql", "0001_b.sql"], "0001_a.sql and 0001_b.sql have the same version"),
            (["0002_a.sql"], "Migration 1 is missing"),
            (["1_a.sql"], "Invalid migration file name: 1_a.sql"),
            (["0001-a.sql"], "Invalid migration file name: 0001-a.sql"),
            (["0001_A.sql"], "Invalid migration file name: 0001_A.sql"),
            (["+001_a.sql"], "Invalid migration file name: +001_a.sql"),
            (["0000_a.sql"], "Invalid migration file name: 0000_a.sql"),
        ]
    )
    func badDirectories(names: [String], message: String) async throws {
        let files = Dictionary(uniqueKeysWithValues: names.map { ($0, "SELECT 1") })
        let error = try await postgresError { _ = try Migrator(directory: directory(files)) }
        #expect(error.code == .migration)
        #expect(error.message.contains(message))
    }

    @Test(
        "A statement that begins or ends a transaction, or reads data, is refused before the database is contacted",
        arguments: [
            ("SELECT 1;\n\nbegin;", "BEGIN in line 3"), ("START TRANSACTION", "START in line 1"),
            ("CREATE TABLE b (n integer);\nCOMMIT", "COMMIT in line 2"), ("END", "END in line 1"),
            ("ROLLBACK", "ROLLBACK in line 1"), ("SAVEPOINT s", "SAVEPOINT in line 1"),
            ("-- Rows\nCOPY a (n) FROM stdin;\n1\n\\.", "COPY FROM STDIN in line 2"),
        ]
    )
    func refused(script: String, place: String) async throws {
        for name in ["0002_b.sql", "functions/b.sql"] {
            let files = ["0001_a.sql": first, name: script]
            let error = try await postgresError { _ = try Migrator(directory: directory(files)) }
            #expect(error.code == .migration)
            #expect(error.message.hasPrefix("Migration \(name) has \(place), which cannot be part"), "\(error.message)")
        }
        let body = "CREATE FUNCTION b() RETURNS void LANGUAGE plpgsql AS $$ BEGIN NULL; END $$"
        _ = try Migrator(directory: directory(["0001_a.sql": body]))
    }

    @Test("A migration into a new schema says which other schema has the tables of a server")
    func otherSchema() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": first])
            _ = try await folder.migrate(database)
            let existing = try await pool.value(String.self, "SELECT current_schema()::text")
            let schema = "\(existing)_other"
            try await pool.write("CREATE SCHEMA \(schema)")
            let url = try await SharedPostgres.url
            let settings = try PostgresSettings(
                url: "\(url)\(url.contains("?") ? "&" : "?")options=-csearch_path%3D\(schema)"
            )
            let log = CollectedLog()
            #expect(try await folder.migrate(database, settings, log: log) == ["0001_a.sql"])
            let line = await log.line { $0.level == .warning }
            #expect(line.message.hasPrefix("Schema created beside an existing one"))
            #expect(line.metadata["schema"] == schema)
            #expect(line.metadata["existing"]?.split(separator: ", ").contains(Substring(existing)) == true)
            try await pool.write("DROP SCHEMA \(schema) CASCADE")
        }
    }

    @Test("A failed migration is rolled back completely, and earlier migrations stay applied")
    func failure() async throws {
        try await TestDatabase.withPool { pool, database in
            let broken = "CREATE TABLE b (n integer); SELECT 1 / 0;"
            for (script, message) in [
                (broken, "0002_b.sql failed"),
                // PostgreSQL names a position only for what it does not understand.
                ("CREATE TABLE b (n integer);\n\nSELECT 1 / 0;", "0002_b.sql failed in line 3: division by zero."),
                (
                    "CREATE TABLE b (n integer);\n\nSELECT\n  카카오;",
                    "0002_b.sql failed in line 4: column \"카카오\" does not exist."
                ),
            ] {
                let migrator = try Migrator(directory: directory(["0001_a.sql": first, "0002_b.sql": script]))
                let error = try await postgresError {
                    _ = try await migrator.migrate(
                        settings: database.settings,
                        loop: database.loop,
                        logger: quietLogger
                    )
                }
                #expect(error.code == .migration)
                #expect(error.message.contains(message))
                #expect(try await migrator.pending(pool).migrations.map(\.version) == [2])
                #expect(try await pool.value(Bool.self, "SELECT to_regclass('b') IS NULL"))
            }
        }
    }

    @Test(
        "If several migrators start concurrently, each file is applied once, in order, and all find none pending then"
    )
    func concurrent() async throws {
        try await TestDatabase.withPool { pool, database in
            let migrator = try Migrator(
                directory: directory([
                    "0001_a.sql": first + " SELECT pg_sleep(0.1)", "0002_f.sql": second,
                    "functions/g.sql": "CREATE OR REPLACE FUNCTION g() RETURNS integer LANGUAGE sql AS 'SELECT f()'",
                ])
            )
            let applied = try await withThrowingTaskGroup(of: [String].self) { group in
                for index in 0..<4 {
                    group.addTask {
                        let applied = try await migrator.migrate(
                            settings: database.settings,
                            loop: TestDatabase.loop(index),
                            logger: quietLogger
                        ).fileNames
                        #expect(try await migrator.pending(pool).isEmpty)
                        return applied
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }.sorted()
            }
            #expect(applied == ["0001_a.sql", "0002_f.sql", "functions/g.sql"])
            #expect(try await pool.value(Int64.self, "SELECT count(*) FROM a") == 1)
            #expect(try await pool.value(Int32.self, "SELECT g()") == 1)
        }
    }
}
