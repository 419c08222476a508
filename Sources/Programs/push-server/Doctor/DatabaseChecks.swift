import Accounts
import Crypto
import EventLoop
import FoundationEssentials
import Logging
import Messages
import Postgres
import Runtime
import Server
import Settings

/// The doctor's checks of the database: whether it is reachable, up to date, and grants the server what it needs.
struct DatabaseChecks: Sendable {
    /// The oldest supported version of PostgreSQL: 14.
    private static let oldestVersion = 140_000
    /// The time limit of a commit.
    private static let commitLimit = Duration.seconds(2)
    /// The SQLSTATE of a statement on a table that does not exist.
    private static let undefinedTable = "42P01"
    /// The SQLSTATE of an unknown time zone.
    private static let invalidParameterValue = "22023"

    let settings: Settings
    let migrations: String?
    let loop: EventLoop

    func findings() async -> [Finding] {
        let postgres: PostgresSettings
        do {
            postgres = try PostgresSettings(url: settings.databaseURL.revealed)
        } catch {
            return unreachable("\(error.words): correct database.url")
        }
        return await withPool(postgres) { await findings($0, postgres) }
    }

    private func withPool<Result>(_ settings: PostgresSettings, _ body: (PostgresPool) async -> Result) async -> Result
    {
        var settings = settings
        settings.statementTimeout = .seconds(3)
        settings.applicationName = "push-server doctor"
        let logger = Logger(label: "doctor") { _ in SwiftLogNoOpLogHandler() }
        let pool = PostgresPool(settings: settings, loop: loop, logger: logger)
        pool.start()
        let result = await body(pool)
        await pool.shutdown(within: .seconds(1))
        return result
    }

    private func findings(_ pool: PostgresPool, _ postgres: PostgresSettings) async -> [Finding] {
        let server: Verdict
        do {
            server = try await self.server(pool)
        } catch let error as PostgresError where error.code == .standby || error.code == .unsuitable {
            return unreachable(error.words)
        } catch {
            return unreachable(
                "\(Self.words(error)): start PostgreSQL, allow connections from this machine, or correct database.url"
            )
        }
        let others: [@Sendable () async -> Finding] = [
            { await self.check("clock.database") { try await self.clock(pool) } },
            { await self.check("database.migrations") { try await self.pending(pool) } },
            { await self.check("database.role") { try await self.role(pool, postgres) } },
            { await self.check("database.tls") { Self.tls(postgres) } },
            { await self.check("database.connections") { try await self.connections(pool) } },
            { await self.check("database.commits") { try await self.commits(pool) } },
            { await self.check("database.durability") { try await self.durability(pool) } },
            { await self.check("database.timeline") { try await self.timeline(pool) } },
            { await self.check("database.autovacuum") { try await self.autovacuum(pool) } },
            { await self.check("database.read_url") { try await self.replica(pool) } },
            { await self.check("database.accounts") { try await self.accounts(pool) } },
            { await self.check("talk.quota_time_zone") { try await self.quotaTimeZone(pool) } },
        ]
        return await [Finding("database", server)] + concurrently(others)
    }

    private func unreachable(_ text: String) -> [Finding] {
        let others = [
            "migrations", "role", "tls", "connections", "commits", "durability", "timeline", "autovacuum", "read_url",
            "accounts",
        ].map { "database.\($0)" }
        let subjects = ["clock.database"] + others + ["talk.quota_time_zone"]
        return [Finding("database", .wrong(text))]
            + subjects.map { Finding($0, .skipped("the database is unreachable")) }
    }

    private func check(_ subject: String, _ body: () async throws -> Verdict) async -> Finding {
        do {
            return Finding(subject, try await body())
        } catch {
            return Finding(subject, .wrong(Self.words(error)))
        }
    }

    /// Returns the message of the server or libpq, which contains no password.
    private static func words(_ error: any Error) -> String {
        (error as? PostgresError)?.words ?? "\(error)"
    }

    // MARK: Checks

    private func server(_ pool: PostgresPool) async throws -> Verdict {
        guard let (version, number) = try await pool.read(ReadServerVersion()).first else {
            throw PostgresError(.decoding)
        }
        guard number >= Self.oldestVersion else {
            return .wrong("PostgreSQL \(version) is too old: upgrade to 14 or newer")
        }
        let start = MonotonicTime.now
        _ = try await pool.read(PingDatabase())
        let time = (MonotonicTime.now - start).inMilliseconds
        return .ok("PostgreSQL \(version), a round trip takes \(time)")
    }

    private func clock(_ pool: PostgresPool) async throws -> Verdict {
        let begin = Date()
        let time = try await pool.read(ReadDatabaseClock()).first
        let end = Date()
        guard let time else { throw PostgresError(.decoding) }
        return ClockCheck(other: "the database's clock").verdict(time...time, askedAt: begin, answeredAt: end)
    }

    private func pending(_ pool: PostgresPool) async throws -> Verdict {
        let pending = try await Migrator(ofProgramOr: migrations).pending(pool)
        if let newer = pending.newer.first {
            return .warning(
                "the database is newer than this program: \(newer) is unknown here. That is meant only during an upgrade, or after going back one version"
            )
        }
        guard let first = pending.fileNames.first else { return .ok("all have been applied") }
        let text = "\(pending.count) are pending, from \(first) on"
        return settings.migratesOnStart
            ? .ok("\(text); serve applies them when it starts") : .wrong("\(text): run push-server migrate")
    }

    /// Checks whether the role has the privileges that the server needs.
    private func role(_ pool: PostgresPool, _ postgres: PostgresSettings) async throws -> Verdict {
        // A connection for writes is not opened to a standby or a read-only database: the error says why.
        _ = try await pool.write(PingDatabase()) as [Int32]
        guard
            let (role, schema, isSuperuser, mayCreate, mayUseTemporary, mayAlter, denied) =
                try await pool.read(ReadRolePrivileges()).first
        else { throw PostgresError(.decoding) }
        guard let schema else {
            return .wrong("\(role) has no schema: GRANT USAGE ON SCHEMA public TO it, or correct its search_path")
        }
        guard denied.isEmpty else {
            return .wrong(
                "\(role) lacks privileges on \(denied.joined(separator: ", ")): GRANT SELECT, INSERT, UPDATE, DELETE ON them"
            )
        }
        guard mayUseTemporary else {
            return .wrong("\(role) may not create temporary tables, which uploads need: GRANT TEMPORARY ON DATABASE")
        }
        // Otherwise a vulnerability of this server would expose all of PostgreSQL, and its machine.
        guard !isSuperuser else {
            let text = "\(role) is a superuser"
            // As with push-server dev, whose database is its own.
            guard !settings.kakao.isSandbox || postgres.isRemote else {
                return .ok("\(text), which is well for a sandbox on this machine only")
            }
            return .warning("\(text): use an ordinary role that owns the database")
        }
        // A server that does not migrate needs no more than that.
        guard settings.migratesOnStart else { return .ok("\(role) may read and write the tables of \(schema)") }
        guard mayCreate else {
            return .wrong(
                "\(role) may not create tables: GRANT CREATE ON SCHEMA \(schema), or set database.migrate to false"
            )
        }
        guard mayAlter else {
            return .wrong("\(role) does not own the tables and so cannot alter them: set database.migrate to false")
        }
        return .ok("\(role) may migrate, read and write in \(schema)")
    }

    /// Checks whether TLS makes sure that the password and the tokens go to the database, and nowhere else.
    ///
    /// - Parameter setting: The setting with the database's URL.
    static func tls(_ postgres: PostgresSettings, _ setting: String = "database.url") -> Verdict {
        guard postgres.isRemote else { return .ok("the database is on this machine") }
        guard ["verify-ca", "verify-full"].contains(postgres.tlsMode) else {
            return .warning(
                "the database is on another machine, and sslmode=\(postgres.tlsMode) does not verify its identity: "
                    + "add sslmode=verify-full and sslrootcert to \(setting)"
            )
        }
        return .ok("encrypted, and the database's certificate is verified (\(postgres.tlsMode))")
    }

    private func connections(_ pool: PostgresPool) async throws -> Verdict {
        guard let (allowed, free) = try await pool.read(ReadConnectionLimit()).first else {
            throw PostgresError(.decoding)
        }
        let plan = settings.connectionPlan()
        guard plan.total <= allowed else {
            return .wrong(
                "a server with \(settings.loopCount) event loops opens up to \(plan.total) connections, but PostgreSQL allows "
                    + "\(allowed): set database.max_connections to at most \(allowed), or raise max_connections, or the limit of "
                    + "the role or the database"
            )
        }
        if let given = await pool.connectionsThroughPooler(upTo: plan.total), given < plan.total {
            return .warning(
                "a server opens up to \(plan.total) connections, and the pooler gives \(given): unless servers run already, raise "
                    + "default_pool_size, or lower database.max_connections"
            )
        }
        let text = "a server opens up to \(plan.total) of \(allowed) connections, \(plan.held) of them at once"
        guard plan.held <= free else {
            return .warning(
                "\(text), and \(free) are free now: unless the server runs already, lower database.max_connections, or raise "
                    + "max_connections"
            )
        }
        return .ok("\(text); \(free) are free now")
    }

    /// Checks that a commit ends, and says what it waits for otherwise.
    private func commits(_ pool: PostgresPool) async throws -> Verdict {
        let begin = MonotonicTime.now
        do {
            let message = try await loop.run(within: Self.commitLimit) { try await pool.write(CommitMessage()) }
            if message != nil { return .ok("a commit takes \((MonotonicTime.now - begin).inMilliseconds)") }
        } catch let error as PostgresError where error.sqlState == PostgresError.readOnlyTransaction {
            return .skipped("the database accepts no changes")
        }
        let waits = try await pool.read(ListDatabaseWaits())
        let late = "a commit takes longer than 2 s"
        guard !waits.isEmpty else { return .warning("\(late): look at PostgreSQL's disk") }
        let words = waits.map(\.description).joined(separator: ", ")
        guard waits.contains(where: { $0.event == "SyncRep" }) else {
            return .warning("\(late), and sessions wait for \(words)")
        }
        return .wrong(
            "commits do not end, and sessions wait for \(words): start the standby, or take it from synchronous_standby_names"
        )
    }

    private func durability(_ pool: PostgresPool) async throws -> Verdict {
        let off = try await pool.read(ListDisabledSettings(names: ["fsync", "full_page_writes", "synchronous_commit"]))
        guard off.isEmpty else {
            return .warning("\(off.joined(separator: ", ")) is off: acknowledged requests can be lost; turn it on")
        }
        guard let (commit, synchronous, standbys) = try await pool.read(ReadReplication()).first else {
            throw PostgresError(.decoding)
        }
        return Self.durability(commit: commit, synchronous: synchronous, standbys: standbys)
    }

    /// Says what a failover may lose.
    ///
    /// - Parameters:
    ///   - commit: `synchronous_commit`, which is not off.
    ///   - synchronous: `synchronous_standby_names`.
    ///   - standbys: The number of connected standbys.
    static func durability(commit: String, synchronous: String, standbys: Int64) -> Verdict {
        let loss = "the promotion of a standby that lags loses acknowledged requests (docs/delivery.md)"
        guard !synchronous.isEmpty else {
            return standbys == 0
                ? .ok("acknowledged requests are on disk; no standby is connected")
                : .warning("no standby is synchronous: \(loss); name some in synchronous_standby_names")
        }
        guard commit != "local" else {
            return .warning("synchronous_commit is local: \(loss); set it to on")
        }
        return .ok("acknowledged requests are on disk, here and at a synchronous standby: promote no other")
    }

    /// Checks whether the role may learn the timeline of PostgreSQL, by which servers recognize a failover.
    private func timeline(_ pool: PostgresPool) async throws -> Verdict {
        do {
            let timeline = try await pool.read(ReadTimeline()).first ?? ""
            return .ok("a failover is recognized: the timeline is \(timeline)")
        } catch let error as PostgresError where error.code == .server {
            return .warning(
                "PostgreSQL does not tell its timeline, so a failover is recognized only by its new start: "
                    + "GRANT EXECUTE ON FUNCTION pg_current_wal_lsn(), pg_walfile_name(pg_lsn) TO the role"
            )
        }
    }

    /// Checks that the replica for reads can be read, and how far it is behind.
    private func replica(_ primary: PostgresPool) async throws -> Verdict {
        guard let postgres = try settings.replica() else { return .skipped("database.read_url is not set") }
        return await withPool(postgres) { pool in
            do {
                return try await replica(pool, of: primary, Self.tls(postgres, "database.read_url"))
            } catch let error as PostgresError where error.sqlState == Self.undefinedTable {
                return .skipped("migrations are pending, here or there")
            } catch {
                return .wrong("\(Self.words(error)): start the replica, or correct database.read_url")
            }
        }
    }

    private func replica(_ pool: PostgresPool, of primary: PostgresPool, _ tls: Verdict) async throws -> Verdict {
        guard let (version, _) = try await pool.read(ReadServerVersion()).first,
            let place = try await pool.read(ReadServerPlace()).first,
            let placeOfPrimary = try await primary.read(ReadServerPlace()).first
        else { throw PostgresError(.decoding) }
        let text = "PostgreSQL \(version)"
        if !place.isStandby, place.start == placeOfPrimary.start {
            return .warning("\(text) is the server of database.url, which gains nothing: name a replica")
        }
        guard try await Migrator(ofProgramOr: migrations).pending(pool).isEmpty else {
            return .warning("\(text) lacks migrations, so the primary is read: unless it catches up, apply them there")
        }
        guard let newest = try await primary.read(FindNewestLease()).first else {
            return tls.state == .ok ? .ok("\(text); no server is running, so its lag is unknown") : tls
        }
        let copy = try await pool.read(ReadLeaseEnd(process: newest.process)).first ?? nil
        guard let lag = ReplicaHealth.lag(primary: newest.endsAt, previous: nil, replica: copy) else {
            return .wrong("\(text) does not have what database.url has: it is of another database, or far behind")
        }
        guard lag < ReplicaHealth.defaultMaximumLag else {
            return .warning("\(text) is \(lag.components.seconds) s behind, and is not read until it has caught up")
        }
        guard tls.state == .ok else { return tls }
        let connections = settings.connectionPlan().replicaConnections
        return .ok(
            "\(text), less than \(lag.components.seconds + 5) s behind; a server opens up to \(connections) connections to it"
        )
    }

    private func autovacuum(_ pool: PostgresPool) async throws -> Verdict {
        let off = try await pool.read(ListDisabledSettings(names: ["autovacuum", "track_counts"]))
        guard off.isEmpty else {
            return .warning(
                "\(off.joined(separator: ", ")) is off: the tables of pushes grow without limit; turn it on"
            )
        }
        return .ok("on")
    }

    /// Checks that the configured keys decrypt the tokens of users.
    private func accounts(_ pool: PostgresPool) async throws -> Verdict {
        guard settings.accounts.encryptionKey != nil else { return .skipped("accounts.encryption_key is not set") }
        let keys: [StoredKey]
        do {
            keys = try await StoredKey.all(pool: pool, settings.accounts, appID: settings.kakao.appID)
        } catch let error as PostgresError where error.sqlState == Self.undefinedTable {
            return .skipped("the migration of accounts is pending")
        } catch let error as PostgresError where error.code == .timedOut {
            return .skipped(
                "too many accounts for a check: push-server accounts rotate-key reports tokens that cannot be decrypted"
            )
        }
        for key in keys {
            switch key.use {
            case .current, .decryption: break
            case .missing:
                return .wrong(
                    "tokens are encrypted with key \(key.id), which is not set: add it to accounts.decryption_keys"
                )
            case .unreadable(let userID):
                return .wrong(
                    "the tokens of user \(userID) cannot be decrypted: restore kakao.app_id if it was changed, otherwise the row was altered"
                )
            }
        }
        guard !keys.contains(where: { $0.use == .decryption }) else {
            return .ok(
                "all keys of stored tokens are set; run push-server accounts rotate-key before you remove one from accounts.decryption_keys"
            )
        }
        return .ok("all stored tokens are encrypted with accounts.encryption_key")
    }

    /// Checks that PostgreSQL knows the time zone with which each message is sent.
    private func quotaTimeZone(_ pool: PostgresPool) async throws -> Verdict {
        let name = settings.messages.quotas.timeZone
        do {
            let time = try await pool.read(ReadTime(timeZone: name)).first ?? ""
            return .ok("PostgreSQL knows \(name), where it is \(time)")
        } catch let error as PostgresError where error.sqlState == Self.invalidParameterValue {
            return .wrong(
                "PostgreSQL does not know the time zone \(name), so no KakaoTalk message is sent: use a name such as Asia/Seoul"
            )
        }
    }
}

// MARK: Statements

/// Reads the version of PostgreSQL, as a text and as a number.
struct ReadServerVersion: PostgresStatement {
    static let sql: SQL = """
        SELECT split_part(current_setting('server_version'), ' ', 1),
            current_setting('server_version_num')::integer
        """

    static func decode(_ row: PostgresRow) throws -> (version: String, number: Int32) {
        try row.decode(String.self, Int32.self)
    }
}

/// Reads whether a server is a standby, and when it was started, by which no two servers are the same.
struct ReadServerPlace: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_is_in_recovery(), pg_postmaster_start_time()
        """

    static func decode(_ row: PostgresRow) throws -> (isStandby: Bool, start: Date) {
        try row.decode(Bool.self, Date.self)
    }
}

/// Returns one row, to measure a round trip.
struct PingDatabase: PostgresStatement {
    static let sql: SQL = """
        SELECT 1
        """

    static func decode(_ row: PostgresRow) throws -> Int32 { try row.decode(Int32.self) }
}

/// Reads the time in a time zone, as hours and minutes.
struct ReadTime: PostgresStatement {
    static let sql: SQL = """
        SELECT to_char(now() AT TIME ZONE $1, 'HH24:MI')
        """

    let timeZone: String

    var parameters: [PostgresValue] { [.text(timeZone)] }
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

/// Reads the database's clock.
struct ReadDatabaseClock: PostgresStatement {
    static let sql: SQL = """
        SELECT clock_timestamp()
        """

    static func decode(_ row: PostgresRow) throws -> Date { try row.decode(Date.self) }
}

/// Commits a transaction that writes a message to the write-ahead log and changes nothing.
struct CommitMessage: PostgresStatement {
    static let sql: SQL = """
        SELECT pg_logical_emit_message(true, 'push-server doctor', '')::text
        """

    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

/// Reads the current role and schema, whether the role is a superuser or a member of one, its privileges, and the tables
/// that it may not read and write.
///
/// The tables are those in the schema of `schema_migrations` that have the same owner as `schema_migrations`, and its views.
struct ReadRolePrivileges: PostgresStatement {
    static let sql: SQL = """
        WITH own AS (
            SELECT relation.oid, relation.relname, relation.relowner,
                relation.relname IN ('schema_migrations', 'schema_functions') AS is_migrations
            FROM pg_class AS migrations
            JOIN pg_class AS relation USING (relnamespace, relowner)
            WHERE migrations.oid = to_regclass('schema_migrations')
                -- Tables, those that are partitioned, and views.
                AND relation.relkind IN ('r', 'p', 'v')
        )
        SELECT current_user::text,
            current_schema()::text,
            EXISTS (SELECT 1 FROM pg_roles WHERE rolsuper AND pg_has_role(current_user, oid, 'MEMBER')),
            coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
            has_database_privilege(current_database(), 'TEMPORARY'),
            (SELECT coalesce(bool_and(pg_has_role(relowner, 'USAGE')), true) FROM own),
            ARRAY(
                SELECT relname::text
                FROM own
                WHERE NOT has_table_privilege(oid, 'SELECT')
                    OR NOT is_migrations
                    AND NOT (
                        has_table_privilege(oid, 'INSERT')
                        AND has_table_privilege(oid, 'UPDATE')
                        AND has_table_privilege(oid, 'DELETE')
                    )
                ORDER BY relname
            )
        """

    static func decode(
        _ row: PostgresRow
    ) throws -> (
        role: String, schema: String?, isSuperuser: Bool, mayCreate: Bool, mayUseTemporary: Bool, mayAlter: Bool,
        denied: [String]
    ) {
        try row.decode(String.self, String?.self, Bool.self, Bool.self, Bool.self, Bool.self, [String].self)
    }
}

/// Lists those settings of PostgreSQL that are off.
struct ListDisabledSettings: PostgresStatement {
    static let sql: SQL = """
        SELECT name
        FROM unnest($1::text[]) AS name
        WHERE current_setting(name) = 'off'
        """

    let names: [String]

    var parameters: [PostgresValue] { [.texts(names)] }
    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

/// Reads how commits are replicated: `synchronous_commit`, `synchronous_standby_names`, and the number of connected standbys.
struct ReadReplication: PostgresStatement {
    static let sql: SQL = """
        SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
            (SELECT count(*) FROM pg_stat_replication)
        """

    static func decode(_ row: PostgresRow) throws -> (commit: String, synchronous: String, standbys: Int64) {
        try row.decode(String.self, String.self, Int64.self)
    }
}

/// Reads the timeline of PostgreSQL, as `database_run()` does (`migrations/functions`).
struct ReadTimeline: PostgresStatement {
    static let sql: SQL = """
        SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)
        """

    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}
