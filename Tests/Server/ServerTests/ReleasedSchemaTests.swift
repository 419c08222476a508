import FoundationEssentials
import Postgres
import ServiceTesting
import TestSupport
import Testing

/// Tests of what each release promises to the next: its numbered files never change, and servers of it go on working with the schema
/// of this version.
///
/// `Released` has the schema of each release since the first one, with the migrations that it had applied: `scripts/release` writes it.
@Suite(.timeLimit(.minutes(5))) struct ReleasedSchemaTests {
    private static let folder = "\(TestFiles.repository)/Tests/Server/ServerTests/Released"

    static var releases: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".sql") } }
    }

    @Test(
        "A database of a release can be migrated, and keeps all that servers of the release use",
        arguments: try releases
    )
    func upgrade(release: String) async throws {
        try await Slots.servers.with {
            try await TestDatabase.with(.nothing) { database in
                let psql = ["psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", database.url]
                let restored = try await Program.run(psql + ["--file", "\(Self.folder)/\(release)"])
                #expect(restored.status == 0, "\(restored.text)")
                let before = try await Self.parts(of: database)
                #expect(before.count > 100)
                // Fails if a numbered file has changed or is missing.
                try await database.migrate()
                let missing = before.subtracting(try await Self.parts(of: database))
                #expect(
                    missing.isEmpty,
                    "servers of \(release) use what the migrations of this version have taken away"
                )
            }
        }
    }

    /// Returns the columns with their types, and the functions with their arguments and results.
    private static func parts(of database: TestDatabase) async throws -> Set<String> {
        let parts = try await database.pool.read(
            """
            SELECT format('%s.%s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod))
            FROM pg_attribute
            JOIN pg_class ON pg_class.oid = attrelid
            WHERE relnamespace = current_schema()::regnamespace
                AND relkind IN ('r', 'p', 'v')
                AND attnum > 0
                AND NOT attisdropped
            UNION ALL
            SELECT format('%s %s', oid::regprocedure, prorettype::regtype)
            FROM pg_proc
            WHERE pronamespace = current_schema()::regnamespace
            """
        )
        return Set(try parts.map { try $0.decode(String.self) })
    }
}
