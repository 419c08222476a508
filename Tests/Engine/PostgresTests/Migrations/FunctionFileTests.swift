import Postgres
import TestSupport
import Testing

/// Functions, triggers and views: the files of `functions/`.
@Suite struct FunctionFileTests {
    private let table = "CREATE TABLE a (n integer, doubled integer)"
    private func function(_ name: String, _ body: String) -> String {
        "CREATE OR REPLACE FUNCTION \(name)() RETURNS integer LANGUAGE sql AS $$ SELECT \(body) $$;\n"
    }
    private let trigger = """
        CREATE OR REPLACE FUNCTION double() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.doubled := 2 * NEW.n;
            RETURN NEW;
        END
        $$;

        -- Calls a function of another file.
        CREATE OR REPLACE TRIGGER doubling BEFORE INSERT ON a
        FOR EACH ROW WHEN (NEW.n < z()) EXECUTE FUNCTION double();
        """

    @Test("Functions are applied after the tables, in any order, and triggers after them")
    func order() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder([
                "0001_a.sql": table, "functions/b.sql": function("b", "z() FROM a"),
                "functions/z.sql": function("z", "7"), "functions/double.sql": trigger,
            ])
            let all = ["0001_a.sql", "functions/b.sql", "functions/double.sql", "functions/z.sql"]
            #expect(try await folder.pending(pool) == all)
            #expect(try await folder.migrate(database) == all)
            #expect(try await folder.pending(pool) == [])
            try await pool.write("INSERT INTO a (n) VALUES (3)")
            #expect(try await pool.value(Int32.self, "SELECT doubled FROM a") == 6)
            #expect(try await pool.value(Int32.self, "SELECT b()") == 7)
            #expect(try await folder.migrate(database) == [])
        }
    }

    @Test("A view may call functions, and functions and triggers may read it, whatever the order of their names")
    func views() async throws {
        try await TestDatabase.withPool { pool, database in
            let view = "CREATE OR REPLACE VIEW seen AS SELECT sum(n)::integer + z() AS total"
            let folder = try MigrationFolder([
                "0001_a.sql": table,
                "functions/b.sql": function("b", "total FROM seen"),
                "functions/double.sql": """
                CREATE OR REPLACE FUNCTION double() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    UPDATE a SET doubled = (SELECT total FROM seen);
                    RETURN NULL;
                END
                $$;
                CREATE OR REPLACE TRIGGER doubling AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION double();
                """,
                "functions/seen.sql": "\(view) FROM a",
                "functions/z.sql": function("z", "7"),
            ])
            let all = [
                "0001_a.sql", "functions/b.sql", "functions/double.sql", "functions/seen.sql", "functions/z.sql",
            ]
            #expect(try await folder.migrate(database) == all)
            #expect(try await folder.pending(pool) == [])
            try await pool.write("INSERT INTO a (n) VALUES (3)")
            #expect(try await pool.value(Int32.self, "SELECT doubled FROM a") == 10)
            #expect(try await pool.value(Int32.self, "SELECT b()") == 10)

            try folder.write("\(view), count(*) AS rows FROM a", "functions/seen.sql")
            #expect(try await folder.migrate(database) == ["functions/seen.sql"])
            #expect(try await pool.value(Int64.self, "SELECT rows FROM seen") == 1)

            // As a migration does that changes the type of a column which the view reads.
            try folder.write("DROP VIEW seen; ALTER TABLE a ALTER COLUMN n TYPE bigint", "0002_b.sql")
            #expect(try await folder.migrate(database) == ["0002_b.sql", "functions/seen.sql"])
            #expect(try await pool.value(Int32.self, "SELECT total FROM seen") == 10)
            #expect(try await folder.pending(pool) == [])

            try folder.write("CREATE OR REPLACE VIEW z AS SELECT 7 AS n", "functions/z.sql")
            let error = try await postgresError { _ = try await folder.migrate(database) }
            #expect(error.message.contains("functions/z.sql changes the parameters or the kind of z"))
        }
    }

    @Test("A changed function is pending and applied again, even if only its white space has changed")
    func changed() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table, "functions/f.sql": function("f", "1")])
            _ = try await folder.migrate(database)
            for (body, result) in [("2", 2), ("2 ", 2), ("1", 1)] as [(String, Int32)] {
                try folder.write(function("f", body), "functions/f.sql")
                #expect(try await folder.pending(pool) == ["functions/f.sql"])
                #expect(try await folder.migrate(database) == ["functions/f.sql"])
                #expect(try await folder.pending(pool) == [])
                #expect(try await pool.value(Int32.self, "SELECT f()") == result)
            }
        }
    }

    @Test("A function or a trigger that is gone from the database is applied again")
    func missing() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder([
                "0001_a.sql": table, "functions/double.sql": trigger, "functions/z.sql": function("z", "7"),
            ])
            _ = try await folder.migrate(database)
            for drop in ["TABLE a", "FUNCTION double() CASCADE"] {
                try folder.write(
                    "DROP \(drop); CREATE TABLE IF NOT EXISTS a (n integer, doubled integer)",
                    drop == "TABLE a" ? "0002_b.sql" : "0003_c.sql"
                )
                _ = try await folder.migrate(database)
                #expect(try await folder.pending(pool) == [])
                #expect(
                    try await pool.value(Int64.self, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'a'::regclass")
                        == 1
                )
            }
        }
    }

    @Test("A function whose file was removed stays until a migration drops it")
    func removed() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table, "functions/f.sql": function("f", "1")])
            _ = try await folder.migrate(database)
            try folder.remove("functions/f.sql")
            #expect(try await folder.pending(pool) == [])
            #expect(try await folder.migrate(database) == [])
            #expect(try await pool.value(Int32.self, "SELECT f()") == 1)
            try folder.write("DROP FUNCTION IF EXISTS f", "0002_drop.sql")
            #expect(try await folder.migrate(database) == ["0002_drop.sql"])
            // A program that has the file again applies it again.
            try folder.write(function("f", "1"), "functions/f.sql")
            #expect(try await folder.migrate(database) == ["functions/f.sql"])
        }
    }

    @Test(
        "A file that fails names its line and PostgreSQL's reason; no function is changed, and the tables stay",
        arguments: [
            (
                "-- A comment\nCREATE OR REPLACE FUNCTION g() RETURNS integer LANGUAGE sql AS $$\n    SELECT 1\n    FROM nowhere\n$$",
                "functions/g.sql failed in line 4: relation \"nowhere\" does not exist."
            ),
            ("SELECT 1;\nSELECT 1 / 0", "functions/g.sql failed in line 2: division by zero."),
            (
                "CREATE OR REPLACE FUNCTION f() RETURNS text LANGUAGE sql AS $$ SELECT '' $$",
                "functions/g.sql failed in line 1: cannot change return type of existing function."
            ),
            ("SELECT 1", "functions/g.sql does not define a function or a view g."),
            (
                "CREATE OR REPLACE FUNCTION g() RETURNS integer LANGUAGE sql AS 'SELECT 1'; CREATE OR REPLACE FUNCTION g(n integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
                "functions/g.sql changes the parameters or the kind of g"
            ),
        ]
    )
    func failure(script: String, message: String) async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table, "functions/f.sql": function("f", "1")])
            _ = try await folder.migrate(database)
            try folder.write("CREATE TABLE b (n integer)", "0002_b.sql")
            try folder.write(function("f", "2"), "functions/f.sql")
            try folder.write(script, "functions/g.sql")
            let error = try await postgresError { _ = try await folder.migrate(database) }
            #expect(error.code == .migration)
            #expect(error.message.contains(message), "\(error.message)")
            #expect(try await folder.pending(pool) == ["functions/f.sql", "functions/g.sql"])
            #expect(try await pool.value(Bool.self, "SELECT to_regclass('b') IS NOT NULL"))
            #expect(try await pool.value(Int32.self, "SELECT f()") == 1)
        }
    }

    @Test("Another list of parameters, which would make a second function, is refused")
    func parameters() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table, "functions/f.sql": function("f", "1")])
            _ = try await folder.migrate(database)
            try folder.write(
                "CREATE OR REPLACE FUNCTION f(n integer) RETURNS integer LANGUAGE sql AS $$ SELECT n $$",
                "functions/f.sql"
            )
            let error = try await postgresError { _ = try await folder.migrate(database) }
            #expect(error.message.contains("functions/f.sql changes the parameters or the kind of f"))
            #expect(
                try await pool.value(
                    Int64.self,
                    "SELECT count(*) FROM pg_proc WHERE proname = 'f' AND pronamespace = current_schema()::regnamespace"
                ) == 1
            )
        }
    }

    @Test("A trigger that a file does not create, or no longer, stays until a numbered file drops it")
    func leftTriggers() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder([
                "0001_a.sql": table, "functions/double.sql": trigger, "functions/z.sql": function("z", "7"),
            ])
            func triggers() async throws -> [String] {
                let names =
                    "SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = 'a'::regclass"
                return try await pool.value(String?.self, names)?.split(separator: " ").map(String.init) ?? []
            }
            _ = try await folder.migrate(database)
            try await pool.write("CREATE TRIGGER own BEFORE UPDATE ON a FOR EACH ROW EXECUTE FUNCTION double()")
            #expect(try await folder.pending(pool) == [])

            let function = try #require(trigger.split(separator: "\n\n").first)
            try folder.write(String(function), "functions/double.sql")
            #expect(try await folder.migrate(database) == ["functions/double.sql"])
            #expect(try await triggers() == ["doubling", "own"])

            try folder.write("DROP TRIGGER IF EXISTS doubling ON a;", "0002_b.sql")
            // The function has fewer triggers than were recorded.
            #expect(try await folder.migrate(database) == ["0002_b.sql", "functions/double.sql"])
            #expect(try await triggers() == ["own"])
            #expect(try await folder.pending(pool) == [])
        }
    }

    @Test("A migrator that finds a newer migration than its own changes nothing, no function either, and says so")
    func newer() async throws {
        try await TestDatabase.withPool { pool, database in
            let old = try MigrationFolder(["0001_a.sql": table, "functions/f.sql": function("f", "1")])
            let new = try MigrationFolder([
                "0001_a.sql": table, "0002_b.sql": "CREATE TABLE b (n integer)", "functions/f.sql": function("f", "2"),
            ])
            _ = try await old.migrate(database)
            _ = try await new.migrate(database)
            let log = CollectedLog()
            #expect(try await old.migrate(database, log: log) == [])
            let warning = log.lines.first { $0.message.hasPrefix("The database is newer than this program") }
            #expect(warning?.metadata["migrations"] == "0002_b.sql")
            #expect(try await old.pending(pool) == [])
            #expect(try await pool.value(Int32.self, "SELECT f()") == 2)
            #expect(try await new.pending(pool) == [])
        }
    }

    @Test("A database from before the functions had files of their own is refused")
    func old() async throws {
        try await TestDatabase.withPool { pool, database in
            let folder = try MigrationFolder(["0001_a.sql": table])
            _ = try await folder.migrate(database)
            try await pool.write("DROP TABLE schema_functions")
            for attempt in [{ _ = try await folder.migrate(database) }, { _ = try await folder.pending(pool) }] {
                let error = try await postgresError(attempt)
                #expect(error.code == .migration)
                #expect(error.message.contains("made before 0.1.0: export"))
            }
            #expect(try await pool.value(Bool.self, "SELECT to_regclass('schema_functions') IS NULL"))
        }
    }

    @Test("Functions with invalid file names are rejected before the database is contacted")
    func names() async throws {
        let folder = try MigrationFolder(["0001_a.sql": table, "functions/F.sql": ""])
        let error = try await postgresError {
            _ = try await Migrator(directory: folder.path).migrate(
                settings: PostgresSettings(url: "postgresql:///nobody?host=/nowhere"),
                loop: TestDatabase.loop(),
                logger: quietLogger
            )
        }
        #expect(error.message == "Invalid file name: functions/F.sql. Use the name of its function or view.")
    }
}
