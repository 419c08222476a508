import FoundationEssentials
import Postgres
import ServiceTesting
import TestSupport
import Testing

/// Tests of the whole schema that the migrations create.
@Suite(.timeLimit(.minutes(5))) struct SchemaTests {
    /// The functions that name no table, and are inlined into statements only without a fixed search_path.
    private static let inlined = ["push_shown_state", "uuid_v7", "withdrawal"]

    @Test("Every function has a fixed search_path, so that a temporary table cannot shadow a table")
    func searchPath() async throws {
        try await Slots.servers.with {
            try await TestDatabase.with { database in
                let functions = """
                    FROM pg_proc
                    WHERE pronamespace = current_schema()::regnamespace
                        AND prokind = 'f'
                    """
                #expect(try await database.integer("SELECT count(*) \(functions)") >= 1)
                let unset = try await database.text(
                    """
                    SELECT coalesce(string_agg(proname, ' ' ORDER BY proname), '')
                    FROM (SELECT proname, proconfig \(functions)) AS function
                    WHERE NOT coalesce('search_path=public, pg_temp' = ANY (proconfig), false)
                    """
                )
                #expect(unset == Self.inlined.joined(separator: " "))
            }
        }
    }

    @Test("The functions, views and triggers of the database are those of the files, each defined once")
    func functions() async throws {
        let files = try Self.files(in: "migrations/functions")
        try await Slots.servers.with {
            try await TestDatabase.with { database in
                // A standard body (BEGIN ATOMIC) has no source text: it would pin the columns that it names.
                let functions = try await database.pool.read(
                    """
                    SELECT proname::text, coalesce(prosrc, '')
                    FROM pg_proc
                    WHERE pronamespace = current_schema()::regnamespace
                    ORDER BY proname
                    """
                ).map { try $0.decode(String.self, String.self) }
                let views = try await database.pool.read(
                    """
                    SELECT relname::text
                    FROM pg_class
                    WHERE relnamespace = current_schema()::regnamespace
                        AND relkind = 'v'
                    """
                ).map { try $0.decode(String.self) }
                #expect((functions.map(\.0) + views).map { "\($0).sql" }.sorted() == files.keys.sorted())
                for name in views {
                    let file = try #require(files["\(name).sql"])
                    #expect(file.matches(of: #/CREATE OR REPLACE/#).count == 1, "\(name)")
                    #expect(file.contains("\nCREATE OR REPLACE VIEW \(name) AS\n"), "\(name) begins with a comment")
                }
                for (name, body) in functions {
                    let file = try #require(files["\(name).sql"])
                    #expect(file.matches(of: #/CREATE OR REPLACE FUNCTION\b/#).count == 1, "\(name)")
                    #expect(file.contains("\nCREATE OR REPLACE FUNCTION \(name)("), "\(name) begins with a comment")
                    #expect(file.contains("AS $$\(body)$$;"), "\(name)")
                }
                let triggers = try await database.pool.read(
                    """
                    SELECT tgname::text, tgrelid::regclass::text, proname::text
                    FROM pg_trigger
                    JOIN pg_proc ON pg_proc.oid = tgfoid
                    WHERE pronamespace = current_schema()::regnamespace
                    """
                ).map { try $0.decode(String.self, String.self, String.self) }
                #expect(triggers.count == files.values.joined().matches(of: #/CREATE OR REPLACE TRIGGER\b/#).count)
                for (name, table, function) in triggers {
                    let file = try #require(files["\(function).sql"])
                    let start = try #require(file.firstRange(of: "CREATE OR REPLACE TRIGGER \(name) "))
                    let definition = file[start.upperBound...].prefix { $0 != ";" }
                    #expect(definition.contains(" ON \(table)\n") && definition.hasSuffix("\(function)()"), "\(name)")
                }
            }
        }
    }

    @Test("Numbered files define no functions, no views and no triggers")
    func numbered() throws {
        let files = try Self.files(in: "migrations")
        #expect(files.count >= 10)
        for (name, text) in files {
            #expect(
                text.firstMatch(of: /(?i)CREATE\s+(OR\s+REPLACE\s+)?(FUNCTION|PROCEDURE|VIEW|(CONSTRAINT\s+)?TRIGGER)/)
                    == nil,
                "\(name)"
            )
        }
    }

    @Test("Every table has a primary key, which logical replication needs to delete rows")
    func primaryKeys() async throws {
        try await Slots.servers.with {
            try await TestDatabase.with { database in
                let tables =
                    "FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
                #expect(try await database.integer("SELECT count(*) \(tables)") > 25)
                let without = try await database.text(
                    """
                    SELECT coalesce(string_agg(relname, ' '), '')
                    FROM (SELECT oid, relname \(tables)) AS relation
                    WHERE NOT EXISTS (SELECT FROM pg_index WHERE indrelid = relation.oid AND indisprimary)
                    """
                )
                #expect(without == "")
            }
        }
    }

    @Test("docs/schema.md is up to date: scripts/schema writes it")
    func document() async throws {
        try await Slots.servers.with {
            try await TestDatabase.with { database in
                let text = try await SchemaDocument(database).text
                let path = "\(TestFiles.repository)/docs/schema.md"
                if ProcessInfo.processInfo.environment["WRITE_SCHEMA_DOCUMENT"] != nil {
                    try Data(text.utf8).write(to: URL(filePath: path))
                }
                let isUpToDate = try String(contentsOfFile: path, encoding: .utf8) == text
                #expect(isUpToDate, "Run scripts/schema")
            }
        }
    }

    @Test("docs/threat-model.md says of every table who adds rows, how fast at most, and what removes them")
    func rows() async throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/threat-model.md", encoding: .utf8)
        let start = try #require(page.firstRange(of: "\n## Rows\n"))
        let section = page[start.upperBound...].prefix(
            upTo: page[start.upperBound...].firstRange(of: "\n## ")?.lowerBound ?? page.endIndex
        )
        var documented: [String] = []
        for line in section.split(separator: "\n") where line.hasPrefix("| `") {
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
            #expect(cells.count == 4 && cells.allSatisfy { $0.contains(/\w/) }, "\(line)")
            documented += cells[cells.startIndex].matches(of: /`(\w+)`/).map { String($0.output.1) }
        }
        try await Slots.servers.with {
            try await TestDatabase.with { database in
                let tables = try await database.pool.read(
                    """
                    SELECT relname::text
                    FROM pg_class
                    WHERE relnamespace = current_schema()::regnamespace
                        AND relkind IN ('r', 'p')
                    """
                ).map { try $0.decode(String.self) }
                #expect(documented.sorted() == tables.sorted())
            }
        }
    }

    /// Returns the texts of the SQL files of a folder, by name.
    private static func files(in folder: String) throws -> [String: String] {
        let path = "\(TestFiles.repository)/\(folder)"
        let names = try FileManager.default.contentsOfDirectory(atPath: path).filter { $0.hasSuffix(".sql") }
        return try Dictionary(
            uniqueKeysWithValues: names.map { ($0, try String(contentsOfFile: "\(path)/\($0)", encoding: .utf8)) }
        )
    }
}
