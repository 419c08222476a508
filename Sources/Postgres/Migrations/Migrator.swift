internal import Dispatch
package import EventLoop
package import Logging

/// Brings a database's schema up to date with a directory of SQL files.
///
/// Files are named `NNNN_name.sql`, from `0001` without gaps, and are applied in that order, each in a transaction of
/// its own. The table `schema_migrations` remembers each with the SHA-256 of its text. A file that was applied is never
/// to be changed or removed: either stops the migrator, with a message that names the file. Any number of migrators may
/// start at once: an advisory lock lets one work while the others wait, and then find nothing left to do.
///
/// A file is run as one script in the simple protocol, so it may hold several statements, but no `COMMIT` and nothing
/// that cannot be in a transaction.
package struct Migrator: Sendable {
    private let directory: String

    /// How long a migrator waits for another one, as PostgreSQL's `lock_timeout`.
    private static let lockTimeout = "60s"

    package init(directory: String) {
        self.directory = directory
    }

    /// Applies what has yet to be applied, and returns it.
    ///
    /// Uses one connection of its own, without a statement time-out.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/migration`` with a message for the operator; migrations before
    ///   the one that failed stay applied.
    package func migrate(settings: PostgresSettings, loop: EventLoop, logger: Logger) async throws -> [Migration] {
        let files = try await files()
        var settings = settings
        settings.statementTimeout = nil
        settings.exclusiveConnections = 1
        // Never started: its shared connections are not needed.
        let pool = PostgresPool(settings: settings, loop: loop, logger: logger)
        do {
            let applied = try await pool.withConnection { session in
                try await lock(session)
                try await session.query(Self.createTable)
                let pending = try await pending(files) { try await session.query($0, $1) }
                for migration in pending {
                    try await apply(migration, session)
                    logger.info("migration applied", metadata: ["migration": "\(migration.fileName)"])
                }
                return pending
            }
            await pool.shutdown()
            return applied
        } catch {
            await pool.shutdown()
            throw error
        }
    }

    /// What ``migrate(settings:loop:logger:)`` would apply. Changes nothing.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/migration`` as ``migrate(settings:loop:logger:)`` does.
    package func pending(_ pool: PostgresPool) async throws -> [Migration] {
        let files = try await files()
        let exists = try await pool.read("SELECT to_regclass('schema_migrations') IS NOT NULL")
        guard try exists.first?.decode(Bool.self) == true else { return files }
        return try await pending(files) { try await pool.read($0, $1) }
    }

    private func files() async throws -> [Migration] {
        let directory = directory
        return try await withCheckedThrowingContinuation { continuation in
            EventLoop.blocking.async {
                continuation.resume(with: Swift.Result { try Migration.read(directory: directory) })
            }
        }
    }

    private func pending(
        _ files: [Migration],
        query: (String, [PostgresValue]) async throws -> PostgresRows
    ) async throws -> [Migration] {
        let checksums = try await query(Self.checksums, [.byteas(files.map(\.script))])
            .map { row in try row.decode(String.self) }
        let applied = try await query(Self.selectApplied, []).map { row in
            let (version, name, checksum) = try row.decode(Int32.self, String.self, String.self)
            return AppliedMigration(version: version, name: name, checksum: checksum)
        }
        return try AppliedMigration.pending(files, checksums: checksums, applied: applied)
    }

    /// Takes the lock that its connection holds until it is closed.
    private func lock(_ session: PostgresSession) async throws {
        try await session.query("SET lock_timeout = '\(Self.lockTimeout)'")
        do {
            try await session.query(Self.advisoryLock)
        } catch let error as PostgresError where error.sqlState == "55P03" {
            throw PostgresError(.migration, message: "Another migrator is at work and does not finish.")
        }
        try await session.query("RESET lock_timeout")
    }

    private func apply(_ migration: Migration, _ session: PostgresSession) async throws {
        guard let script = String(validating: migration.script, as: UTF8.self) else {
            throw PostgresError(.migration, message: "Migration \(migration.fileName) is not UTF-8.")
        }
        do {
            try await session.query("BEGIN")
            try await session.query(Self.searchPath)
            let before = try await session.query(Self.transaction)
            try await session.execute(script: script)
            let after = try await session.query(Self.transaction)
            guard try before.first?.decode(String.self) == after.first?.decode(String.self) else {
                throw PostgresError(
                    .migration,
                    message: "Migration \(migration.fileName) ends the transaction it runs in."
                )
            }
            try await session.query(
                Self.insertApplied,
                [.int32(migration.version), .text(migration.name), .bytes(migration.script)]
            )
            try await session.query("COMMIT")
        } catch let error as PostgresError where error.code != .migration {
            throw PostgresError(
                .migration,
                sqlState: error.sqlState,
                constraint: error.constraint,
                message: "Migration \(migration.fileName) failed.",
                detail: error.detail,
                statement: error.statement
            )
        }
    }

    /// One lock a schema, so that databases that share a server's schemas do not wait for each other.
    private static let advisoryLock = """
        SELECT pg_advisory_lock(hashtextextended('schema_migrations ' || coalesce(current_schema(), ''), 0))
        """

    private static let createTable = """
        CREATE TABLE IF NOT EXISTS schema_migrations (
            version integer PRIMARY KEY,
            name text NOT NULL,
            checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT now()
        )
        """

    private static let checksums = """
        SELECT encode(sha256(script), 'hex')
        FROM unnest($1::bytea[]) WITH ORDINALITY AS file (script, position)
        ORDER BY position
        """

    private static let selectApplied = """
        SELECT version, name, checksum
        FROM schema_migrations
        ORDER BY version
        """

    /// For `SET search_path FROM CURRENT` in functions: they look up tables in this schema, and a temporary table of the same name cannot take the
    /// place of one of them.
    private static let searchPath = """
        SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)
        """

    private static let transaction = """
        SELECT pg_current_xact_id()::text
        """

    private static let insertApplied = """
        INSERT INTO schema_migrations (version, name, checksum)
        VALUES ($1, $2, encode(sha256($3), 'hex'))
        """
}
