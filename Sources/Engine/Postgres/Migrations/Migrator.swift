package import EventLoop
import Locking
package import Logging

/// A migrator that brings a database's schema up to date with SQL files, which it reads once.
///
/// Tables come first: files `NNNN_name.sql`, from `0001` without gaps, each in a transaction of its own. An applied
/// file must never be changed or removed: the migrator then fails with a message that names the file. Functions, triggers
/// and views follow: files `functions/NAME.sql`, together in one transaction. They are applied whenever their text has
/// changed, or their function, a trigger of it, or their view is missing. One that is in no file any more stays until a
/// numbered file drops it. `schema_migrations` and `schema_functions` record each file with the SHA-256 of its text.
///
/// In a database with further migrations, which a newer program has applied, the migrator changes nothing.
///
/// Any number of migrators may start concurrently. Each transaction takes an advisory lock and then reads again what
/// has been applied, so that nothing is left behind in a session, which a pooler would give to others.
///
/// A file may contain several statements, but none that begins or ends a transaction, cannot run in one, or reads data
/// from the client.
package struct Migrator: Sendable {
    /// How long the migrator waits for locks.
    package struct Patience: Sendable {
        /// The longest time that a statement waits for a lock. Others wait behind it for so long.
        package var lockTimeout: Duration = .seconds(2)
        /// The time between two attempts, in which the others go ahead.
        package var pause: Duration = .seconds(1)
        /// The number of attempts for each transaction: a minute in all.
        package var attempts = 20

        package init() {}
    }

    private let files: SchemaFiles
    private let patience: Patience

    /// Reads the files of a directory. Blocks.
    ///
    /// - Throws: ``PostgresError/Code/migration`` for files that cannot be read or applied, with a message for the operator.
    package init(directory: String, patience: Patience = Patience()) throws(PostgresError) {
        files = try SchemaFiles.read(directory: directory)
        self.patience = patience
    }

    /// Creates a migrator of files that are in memory, in the order of their paths.
    ///
    /// - Throws: ``PostgresError/Code/migration`` for files that cannot be applied.
    package init(files: [MigrationFile], patience: Patience = Patience()) throws(PostgresError) {
        self.files = try SchemaFiles.parse(files)
        self.patience = patience
    }

    /// Applies the pending files and returns them. Logs a warning if the database is newer than the files.
    ///
    /// Uses two connections of its own: one without a statement timeout, and one that asks who blocks the first.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/migration`` with a message for the operator. Migrations before
    ///   the failed one stay applied.
    package func migrate(settings: PostgresSettings, loop: EventLoop, logger: Logger) async throws -> SchemaFiles {
        var settings = settings
        settings.statementTimeout = nil
        settings.exclusiveConnections = 2
        // Never started: its shared connections are not needed.
        let pool = PostgresPool(settings: settings, loop: loop, logger: logger)
        do {
            var applied = SchemaFiles()
            while true {
                let step = try await patiently(pool, logger) { try await applyNext($0, logger) }
                guard !step.isEmpty else {
                    applied.newer = step.newer
                    applied.warnIfNewer(logger)
                    break
                }
                for migration in step.migrations {
                    logger.info("Migration applied", metadata: ["migration": "\(migration.fileName)"])
                }
                if !step.functions.isEmpty {
                    let names = step.functions.map(\.name).joined(separator: " ")
                    logger.info("Functions applied", metadata: ["functions": "\(names)"])
                }
                applied.migrations += step.migrations
                applied.functions += step.functions
            }
            await pool.shutdown()
            return applied
        } catch {
            await pool.shutdown()
            throw error
        }
    }

    /// Returns the files that ``migrate(settings:loop:logger:)`` would apply. Changes nothing.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/migration`` as ``migrate(settings:loop:logger:)`` does.
    package func pending(_ pool: PostgresPool) async throws -> SchemaFiles {
        try await pending(PoolReader(pool: pool)).files
    }

    private func pending(_ reader: some StatementReader) async throws -> (files: SchemaFiles, isNew: Bool) {
        let tables = try await reader.query(FindMigrationTables()).first ?? (migrations: false, functions: false)
        guard tables.migrations else { return (files, true) }
        guard tables.functions else {
            throw PostgresError(
                .migration,
                message: """
                    The database was made before 0.1.0: export its devices with the version that made it and import them \
                    into an empty database (docs/runbook.md). Nothing was changed.
                    """
            )
        }
        return (try files.pending(applied: await reader.query(ReadAppliedFiles())), false)
    }

    /// Applies the next numbered file or, if there is none, all pending functions. Returns what it has applied.
    private func applyNext(_ session: PostgresSession, _ logger: Logger) async throws -> SchemaFiles {
        let (pending, isNew) = try await pending(session)
        if isNew {
            if let (schema, others) = try await session.query(FindOtherSchemas()).first {
                logger.warning(
                    "Schema created beside an existing one: correct the role's search_path unless both are wanted",
                    metadata: ["schema": "\(schema)", "existing": "\(others)"]
                )
            }
            try await session.execute(script: createTables)
        }
        if let migration = pending.migrations.first {
            try await apply(migration.fileName, migration.script.statements, session)
            try await session.query(RecordMigration(migration: migration))
            return SchemaFiles(migrations: [migration])
        }
        if !pending.functions.isEmpty { try await apply(pending.functions, session) }
        return pending
    }

    /// Applies functions, triggers and views, the files in any order: functions may call each other and read views, and views may
    /// call functions, but not read each other.
    private func apply(_ functions: [FunctionFile], _ session: PostgresSession) async throws {
        // PostgreSQL looks up what a body names only if this is on: when all of the functions and views exist.
        try await session.query(CheckFunctionBodies(isOn: false))
        for function in functions {
            try await apply(function.fileName, function.script.statements.filter { $0.kind == .other }, session)
        }
        // The locks of all triggers' tables and of all views are held until the end: together they wait no longer than one
        // statement. The tables are locked first, as by a transaction whose trigger reads a view.
        let deadline = ContinuousClock.now + patience.lockTimeout
        for kind in [SQLScript.Statement.Kind.trigger, .view] {
            for function in functions {
                for statement in function.script.statements where statement.kind == kind {
                    let left = ContinuousClock.now.duration(to: deadline)
                    try await session.query(SetLockTimeout(lockTimeout: max(.milliseconds(1), left)))
                    try await apply(function.fileName, [statement], session)
                }
            }
        }
        try await session.query(SetLockTimeout(lockTimeout: patience.lockTimeout))
        try await session.query(CheckFunctionBodies(isOn: true))
        for function in functions {
            try await apply(function.fileName, function.script.statements.filter { $0.kind == .other }, session)
        }
        for (name, count) in try await session.query(CountFunctions(names: functions.map(\.name))) where count != 1 {
            throw PostgresError(
                .migration,
                message: count == 0
                    ? "functions/\(name).sql does not define a function or a view \(name). Give the file its name."
                    : "functions/\(name).sql changes the parameters or the kind of \(name), which would make a second one. Give it a new name."
            )
        }
        try await session.query(RecordFunctions(functions: functions))
    }

    private func apply(_ fileName: String, _ statements: [SQLScript.Statement], _ session: PostgresSession) async throws
    {
        for statement in statements {
            do {
                try await session.execute(text: statement.text)
            } catch let error as PostgresError {
                let line = statement.line(ofPosition: error.position)
                throw MigrationFailure(place: .file(fileName, line: line), error: error)
            }
        }
    }

    // MARK: Locks

    /// Runs `body` in a transaction that holds the migration lock. Tries again while others hold locks that it needs.
    private func patiently<Result: Sendable>(
        _ pool: PostgresPool,
        _ logger: Logger,
        _ body: (PostgresSession) async throws -> Result
    ) async throws -> Result {
        var attempt = 1
        while true {
            let blockers = Locked<[MigrationBlocker]>([])
            do {
                return try await pool.withTransaction { transaction in
                    let session = transaction.session
                    let pid = try await session.query(BeginMigration(lockTimeout: patience.lockTimeout)).first
                    let watching = Task(executorPreference: pool.loop) {
                        try? await watch(pid ?? 0, pool, logger, blockers)
                    }
                    defer { watching.cancel() }
                    do {
                        try await session.query(LockMigrations())
                    } catch let error as PostgresError {
                        throw MigrationFailure(place: .migrationLock, error: error)
                    }
                    return try await body(session)
                }
            } catch {
                let failure: MigrationFailure
                switch error {
                case let error as MigrationFailure: failure = error
                case let error as PostgresError where error.code == .server || error.code == .connectionLost:
                    failure = MigrationFailure(place: .records, error: error)
                default: throw error
                }
                guard failure.isLock, attempt < patience.attempts else {
                    throw failure.described(blockers.withLock { $0 }, patience)
                }
            }
            attempt += 1
            try await pool.loop.sleep(for: patience.pause)
        }
    }

    /// Returns the sessions that block a session: the processes alone for a role that may not read `pg_stat_activity`.
    private func sessions(blocking pid: Int32, _ pool: PostgresPool) async throws -> [MigrationBlocker] {
        do {
            return try await pool.queryAlone(ListMigrationBlockers(pid: pid))
        } catch let error as PostgresError where error.sqlState == "42501" {
            return try await pool.queryAlone(ListBlockingProcesses(pid: pid))
        }
    }

    /// Lists the sessions that block a session, until the task is cancelled. PostgreSQL forgets them when the wait ends.
    private func watch(
        _ pid: Int32,
        _ pool: PostgresPool,
        _ logger: Logger,
        _ blockers: Locked<[MigrationBlocker]>
    ) async throws {
        var isLogged = false
        while true {
            try await pool.loop.sleep(for: patience.lockTimeout / 4)
            let found = try await sessions(blocking: pid, pool)
            guard !found.isEmpty else { continue }
            blockers.withLock { $0 = found }
            guard !isLogged else { continue }
            isLogged = true
            logger.warning("Migration waits for a lock", metadata: ["blocked_by": "\(found.text)"])
        }
    }
}

/// The failure of a statement of the migrator.
private struct MigrationFailure: Error {
    enum Place {
        /// The lock that lets one migrator work at a time.
        case migrationLock
        /// The tables that record what has been applied.
        case records
        case file(String, line: Int)
    }

    let place: Place
    let error: PostgresError

    /// Whether others held a lock that was needed. PostgreSQL ends a deadlock (40P01) by the failure of one transaction.
    var isLock: Bool { error.sqlState == "55P03" || error.sqlState == "40P01" }

    /// Returns the error for the operator.
    func described(_ blockers: [MigrationBlocker], _ patience: Migrator.Patience) -> PostgresError {
        // Others are not the fault of the file: the connection is lost, or the server shuts down.
        let isOfFile = error.code == .server || error.sqlState == "57014"
        guard isOfFile || error.code == .connectionLost else { return error }
        return PostgresError(
            isOfFile ? .migration : error.code,
            sqlState: error.sqlState,
            constraint: error.constraint,
            message: isLock ? lockMessage(blockers, patience) : isOfFile ? message : connectionMessage,
            detail: error.detail,
            statement: error.statement
        )
    }

    private var message: String {
        let words = error.detail ?? error.message
        return switch place {
        case .migrationLock, .records: "The schema cannot be migrated: \(words)."
        case .file(let name, let line): "Migration \(name) failed in line \(line): \(words)."
        }
    }

    private var connectionMessage: String {
        let place =
            switch place {
            case .migrationLock, .records: "during a migration"
            case .file(let name, let line): "in line \(line) of migration \(name)"
            }
        return """
            The connection to the database was lost \(place). Each file is applied as a whole or not at all: migrate again \
            to continue.
            """
    }

    private func lockMessage(_ blockers: [MigrationBlocker], _ patience: Migrator.Patience) -> String {
        let seconds = ((patience.lockTimeout + patience.pause) * patience.attempts).components.seconds
        let names = blockers.isEmpty ? "" : " Blocked by \(blockers.text)."
        return switch place {
        case .migrationLock:
            """
            Another migrator has held the lock for \(seconds) seconds.\(names) Wait until it has finished, or stop it.
            """
        case .records:
            "The records of migrations have been locked for \(seconds) seconds.\(names) End what locks them, and migrate again."
        case .file(let name, let line):
            """
            Migration \(name) could not get a lock for line \(line) within \(seconds) seconds.\(names) End the sessions that \
            hold it, or wait until they end, and migrate again.
            """
        }
    }
}

extension [MigrationBlocker] {
    fileprivate var text: String { map(\.description).joined(separator: ", ") }
}

/// Runs statements that change nothing.
private protocol StatementReader: Sendable {
    func query<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row]
}

extension PostgresSession: StatementReader {}

private struct PoolReader: StatementReader {
    let pool: PostgresPool

    func query<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        try await pool.read(statement)
    }
}

// MARK: Statements

/// Creates the tables that record what has been applied.
private let createTables: SQL = """
    CREATE TABLE schema_migrations (
        version     integer     PRIMARY KEY,
        name        text        NOT NULL,
        checksum    bytea       NOT NULL,
        applied_at  timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE schema_functions (
        name        text        PRIMARY KEY,
        checksum    bytea       NOT NULL,
        -- The number of triggers that call it.
        triggers    integer     NOT NULL,
        applied_at  timestamptz NOT NULL DEFAULT now()
    );
    """

/// Begins a transaction of the migrator: sets what holds until its end, and returns the process that runs it.
///
/// The search path is for `SET search_path FROM CURRENT` in functions. They look up tables in this schema, so that a
/// temporary table of the same name cannot take the place of one of them.
private struct BeginMigration: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_backend_pid(),
            set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true),
            set_config('lock_timeout', $1, true),
            set_config('statement_timeout', '0', true)
        """

    let lockTimeout: Duration

    var parameters: [PostgresValue] { [.text("\(lockTimeout.wholeMilliseconds)ms")] }

    static func decode(_ row: PostgresRow) throws -> Int32 {
        try row.decode(Int32.self, String?.self, String?.self, String?.self).0
    }
}

/// Sets how long the following statements of the transaction wait for locks.
private struct SetLockTimeout: PostgresStatement {
    static let sql: SQL = """
        SELECT set_config('lock_timeout', $1, true)
        """

    let lockTimeout: Duration

    var parameters: [PostgresValue] { [.text("\(lockTimeout.wholeMilliseconds)ms")] }
}

/// Takes the lock of the current schema until the end of the transaction. Migrators of different schemas do not wait for
/// each other.
private struct LockMigrations: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_advisory_xact_lock(hashtextextended('schema_migrations ' || coalesce(current_schema(), ''), 0))
        """
}

/// Reads which of the migrator's tables exist, in the form of 0.1.0.
private struct FindMigrationTables: PostgresStatement {
    static let sql: SQL = """
        SELECT to_regclass('schema_migrations') IS NOT NULL,
            EXISTS (
                SELECT
                FROM pg_attribute
                WHERE attrelid = to_regclass('schema_functions')
                    AND attname = 'checksum'
                    AND atttypid = 'bytea'::regtype
            )
        """

    static func decode(_ row: PostgresRow) throws -> (migrations: Bool, functions: Bool) {
        try row.decode(Bool.self, Bool.self)
    }
}

/// Finds the current schema, and the others that have the migrator's tables, if there are any.
private struct FindOtherSchemas: PostgresStatement {
    static let sql: SQL = """
        SELECT current_schema()::text, string_agg(relnamespace::regnamespace::text, ', ' ORDER BY relnamespace)
        FROM pg_class
        WHERE relname = 'schema_functions'
            AND relkind = 'r'
            AND relnamespace <> quote_ident(current_schema())::regnamespace
        HAVING count(*) > 0
        """

    static func decode(_ row: PostgresRow) throws -> (schema: String, others: String) {
        try row.decode(String.self, String.self)
    }
}

/// Reads the applied files: migrations in the order of their versions, and then those functions that still exist, with
/// their triggers, and those views.
private struct ReadAppliedFiles: PostgresStatement {
    static let sql: SQL = """
        SELECT version, name, checksum
        FROM schema_migrations
        UNION ALL
        SELECT NULL, applied.name, applied.checksum
        FROM schema_functions AS applied
        WHERE EXISTS (
            SELECT
            FROM pg_proc
            WHERE pronamespace = quote_ident(current_schema())::regnamespace
                AND proname = applied.name::name
                AND (SELECT count(*) FROM pg_trigger WHERE tgfoid = pg_proc.oid AND NOT tgisinternal) >= applied.triggers
        )
            OR EXISTS (
                SELECT
                FROM pg_class
                WHERE relnamespace = quote_ident(current_schema())::regnamespace
                    AND relname = applied.name::name
                    AND relkind = 'v'
            )
        ORDER BY version
        """

    static func decode(_ row: PostgresRow) throws -> AppliedFile {
        let (version, name, checksum) = try row.decode(Int32?.self, String.self, [UInt8].self)
        return AppliedFile(version: version, name: name, checksum: checksum)
    }
}

private struct RecordMigration: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO schema_migrations (version, name, checksum)
        VALUES ($1, $2, $3)
        """

    let migration: Migration

    var parameters: [PostgresValue] {
        [.int32(migration.version), .text(migration.name), .bytes(migration.script.checksum)]
    }
}

/// Sets whether PostgreSQL looks up what the bodies of functions name, until the end of the transaction.
private struct CheckFunctionBodies: PostgresStatement {
    static let sql: SQL = """
        SELECT set_config('check_function_bodies', $1::boolean::text, true)
        """

    let isOn: Bool

    var parameters: [PostgresValue] { [.bool(isOn)] }
}

/// Counts the functions and views of the current schema by name. Another list of arguments makes another function.
private struct CountFunctions: PostgresStatement {
    static let sql: SQL = """
        SELECT file.name, count(object.name)
        FROM unnest($1::text[]) AS file (name)
        LEFT JOIN (
            SELECT proname AS name
            FROM pg_proc
            WHERE pronamespace = quote_ident(current_schema())::regnamespace
            UNION ALL
            SELECT relname
            FROM pg_class
            WHERE relnamespace = quote_ident(current_schema())::regnamespace
                AND relkind = 'v'
        ) AS object ON object.name = file.name::name
        GROUP BY file.name
        ORDER BY file.name
        """

    let names: [String]

    var parameters: [PostgresValue] { [.texts(names)] }

    static func decode(_ row: PostgresRow) throws -> (name: String, count: Int64) {
        try row.decode(String.self, Int64.self)
    }
}

private struct RecordFunctions: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO schema_functions (name, checksum, triggers)
        SELECT file.name,
            file.checksum,
            (
                SELECT count(*)
                FROM pg_trigger
                JOIN pg_proc ON pg_proc.oid = tgfoid
                WHERE pronamespace = quote_ident(current_schema())::regnamespace
                    AND proname = file.name::name
                    AND NOT tgisinternal
            )
        FROM unnest($1::text[], $2::bytea[]) AS file (name, checksum)
        ON CONFLICT (name) DO UPDATE
        SET checksum = excluded.checksum,
            triggers = excluded.triggers,
            applied_at = excluded.applied_at
        """

    let functions: [FunctionFile]

    var parameters: [PostgresValue] { [.texts(functions.map(\.name)), .byteas(functions.map(\.script.checksum))] }
}
