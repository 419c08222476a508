import Dispatch
package import EventLoop
package import Logging

/// A migrator that brings a database's schema up to date with a directory of SQL files.
///
/// Files are named `NNNN_name.sql`, from `0001` without gaps. They are applied in that order, each in a transaction of
/// its own. The table `schema_migrations` records each file with the SHA-256 of its text. An applied file must never be
/// changed or removed: the migrator then fails with a message that names the file. Any number of migrators may start
/// concurrently: an advisory lock lets one work while the others wait, and then find nothing pending.
///
/// A file is run as one script in the simple protocol. It may contain several statements, but no `COMMIT`, and no
/// statement that cannot run in a transaction.
package struct Migrator: Sendable {
    private let directory: String

    package init(directory: String) {
        self.directory = directory
    }

    /// Applies the pending migrations and returns them.
    ///
    /// Uses one connection of its own, without a statement timeout.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/migration`` with a message for the operator. Migrations before
    ///   the failed one stay applied.
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
                try await session.query(CreateMigrationTable())
                let checksums = try await session.query(ComputeChecksums(scripts: files.map(\.script)))
                let applied = try await session.query(ReadAppliedMigrations())
                let pending = try AppliedMigration.pending(files, checksums: checksums, applied: applied)
                for migration in pending {
                    try await apply(migration, session)
                    logger.info("Migration applied", metadata: ["migration": "\(migration.fileName)"])
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

    /// Returns the migrations that ``migrate(settings:loop:logger:)`` would apply. Changes nothing.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/migration`` as ``migrate(settings:loop:logger:)`` does.
    package func pending(_ pool: PostgresPool) async throws -> [Migration] {
        let files = try await files()
        guard try await pool.read(FindMigrationTable()).first == true else { return files }
        let checksums = try await pool.read(ComputeChecksums(scripts: files.map(\.script)))
        let applied = try await pool.read(ReadAppliedMigrations())
        return try AppliedMigration.pending(files, checksums: checksums, applied: applied)
    }

    private func files() async throws -> [Migration] {
        let directory = directory
        return try await withCheckedThrowingContinuation { continuation in
            EventLoop.blocking.async {
                continuation.resume(with: Swift.Result { try Migration.read(directory: directory) })
            }
        }
    }

    /// Takes the migration lock, which the connection holds until it is closed.
    private func lock(_ session: PostgresSession) async throws {
        try await session.execute(script: "SET lock_timeout = '60s'")
        do {
            try await session.query(LockMigrations())
        } catch let error as PostgresError where error.sqlState == "55P03" {
            throw PostgresError(
                .migration,
                message: "Another migrator has held the lock for 60 seconds. Wait until it has finished, or stop it."
            )
        }
        try await session.execute(script: "RESET lock_timeout")
    }

    private func apply(_ migration: Migration, _ session: PostgresSession) async throws {
        guard let script = String(validating: migration.script, as: UTF8.self) else {
            throw PostgresError(.migration, message: "Migration \(migration.fileName) contains invalid UTF-8.")
        }
        do {
            try await session.execute(script: "BEGIN")
            try await session.query(FixSearchPath())
            let before = try await session.query(ReadTransactionID())
            try await session.execute(text: script)
            guard try await session.query(ReadTransactionID()) == before else {
                throw PostgresError(
                    .migration,
                    message:
                        "Migration \(migration.fileName) ends the transaction it runs in. Remove COMMIT and ROLLBACK from it."
                )
            }
            try await session.query(RecordMigration(migration: migration))
            try await session.execute(script: "COMMIT")
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
}

// MARK: Statements

/// Takes the lock of the current schema. Migrators of different schemas do not wait for each other.
private struct LockMigrations: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_advisory_lock(hashtextextended('schema_migrations ' || coalesce(current_schema(), ''), 0))
        """
}

private struct FindMigrationTable: PostgresStatement {
    static let sql: SQL = """
        SELECT to_regclass('schema_migrations') IS NOT NULL
        """

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

private struct CreateMigrationTable: PostgresStatement {
    static let sql: SQL = """
        CREATE TABLE IF NOT EXISTS schema_migrations (
            version integer PRIMARY KEY,
            name text NOT NULL,
            checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT now()
        )
        """
}

/// Computes the checksums of scripts in their order, in hexadecimal.
private struct ComputeChecksums: PostgresStatement {
    static let sql: SQL = """
        SELECT encode(sha256(script), 'hex')
        FROM unnest($1::bytea[]) WITH ORDINALITY AS file (script, position)
        ORDER BY position
        """

    let scripts: [[UInt8]]

    var parameters: [PostgresValue] { [.byteas(scripts)] }
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

private struct ReadAppliedMigrations: PostgresStatement {
    static let sql: SQL = """
        SELECT version, name, checksum
        FROM schema_migrations
        ORDER BY version
        """

    static func decode(_ row: PostgresRow) throws -> AppliedMigration {
        let (version, name, checksum) = try row.decode(Int32.self, String.self, String.self)
        return AppliedMigration(version: version, name: name, checksum: checksum)
    }
}

/// Sets the search path for `SET search_path FROM CURRENT` in functions. They look up tables in this schema, so that a
/// temporary table of the same name cannot take the place of one of them.
private struct FixSearchPath: PostgresStatement {
    static let sql: SQL = """
        SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)
        """
}

private struct ReadTransactionID: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_current_xact_id()::text
        """

    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

private struct RecordMigration: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO schema_migrations (version, name, checksum)
        VALUES ($1, $2, encode(sha256($3), 'hex'))
        """

    let migration: Migration

    var parameters: [PostgresValue] {
        [.int32(migration.version), .text(migration.name), .bytes(migration.script)]
    }
}
