import FoundationEssentials
import Postgres
import TestSupport

/// A folder of SQL files that a test migrates to.
struct MigrationFolder {
    let path: String

    init(path: String) {
        self.path = path
    }

    init(_ files: [String: String]) throws {
        path = try TemporaryFolder.make(mode: 0o700)
        try FileManager.default.createDirectory(atPath: "\(path)/functions", withIntermediateDirectories: false)
        for (name, sql) in files { try write(sql, name) }
    }

    func write(_ sql: String, _ name: String) throws {
        try Data(sql.utf8).write(to: URL(filePath: "\(path)/\(name)"))
    }

    func remove(_ name: String) throws {
        try FileManager.default.removeItem(atPath: "\(path)/\(name)")
    }

    /// Migrates a database, and returns the names of the files that were applied.
    func migrate(
        _ database: TestDatabase,
        _ settings: PostgresSettings? = nil,
        patience: Migrator.Patience = Migrator.Patience(),
        log: CollectedLog = CollectedLog()
    ) async throws -> [String] {
        try await Migrator(directory: path, patience: patience)
            .migrate(settings: settings ?? database.settings, loop: database.loop, logger: log.logger)
            .fileNames
    }

    func pending(_ pool: PostgresPool) async throws -> [String] {
        try await Migrator(directory: path).pending(pool).fileNames
    }
}
