import EventLoop
import Locking
import PrivatePostgres
import TestSupport
import Testing

@testable import Postgres

/// PgBouncer between this program and PostgreSQL.
@Suite(.enabled(if: PgBouncer.isInstalled)) struct PoolerTests {
    private func withPooler(
        _ mode: String,
        _ settings: [String: String] = [:],
        _ body: (PgBouncer, PostgresCluster) async throws -> Void
    ) async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.with { cluster, _ in
                try await PgBouncer.with(mode, before: cluster, settings: settings) { try await body($0, cluster) }
            }
        }
    }

    @Test(
        "In session mode, as installed, everything works: statements, transactions, COPY, notifications and migrations"
    )
    func sessionMode() async throws {
        try await withPooler("session") { pooler, cluster in
            let settings = try PostgresSettings(url: pooler.url)
            let folder = try MigrationFolder(["0001_first.sql": "CREATE TABLE t (n integer)"])
            let migrator = try Migrator(directory: folder.path)
            for names in [["0001_first.sql"], []] {
                let applied = try await migrator.migrate(
                    settings: settings,
                    loop: try TestDatabase.loop(),
                    logger: quietLogger
                )
                #expect(applied.fileNames == names)
            }
            let events = Locked<[PostgresListener.Event]>([])
            let listener = PostgresListener(
                settings: settings,
                channels: ["news"],
                loop: try TestDatabase.loop(),
                logger: quietLogger
            ) { event in events.withLock { $0.append(event) } }
            listener.start()
            try await withPool(settings) { pool in
                try await eventually("the listener listens") { events.withLock { $0 } == [.listening] }
                try await pool.write("INSERT INTO t VALUES ($1)", [.int32(1)])
                try await pool.withTransaction { transaction in
                    try await transaction.query("INSERT INTO t VALUES (2)")
                    _ = try await transaction.copy("COPY t FROM STDIN") { try await $0.write(Array("3\n".utf8)) }
                    try await transaction.query("SELECT pg_notify('news', 'three')")
                }
                #expect(try await pool.value(Int64.self, "SELECT sum(n) FROM t") == 6)
                #expect(try await pool.value(String.self, "SHOW statement_timeout") == "5s")
                let news = PostgresListener.Event.notification(channel: "news", payload: "three")
                try await eventually("the notification arrives") { events.withLock { $0 } == [.listening, news] }
                // The migrator left no lock in a session that PgBouncer keeps.
                #expect(
                    try await pool.value(Int64.self, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
                )
            }
            await listener.shutdown()
            // Nor do parameters remain.
            let left = try await Program.run(["psql", pooler.url, "-Atc", "SHOW statement_timeout"])
            #expect(left.text == "0\n")
        }
    }

    @Test(
        "Another mode is refused by name before anything is set in a session",
        arguments: ["transaction", "statement"],
        ["0", "1"]
    )
    func otherModes(mode: String, roundRobin: String) async throws {
        try await withPooler(mode, ["server_round_robin": roundRobin]) { pooler, _ in
            let settings = try PostgresSettings(url: pooler.url)
            try await withPool(settings) { pool in
                try await expectRefusal(pool, .unsuitable, "set pool_mode = session")
                let error = try await postgresError { _ = try await pool.withTransaction { _ in } }
                #expect(error.code == .unsuitable)
            }
            let folder = try MigrationFolder(["0001_first.sql": "CREATE TABLE t (n integer)"])
            let error = try await postgresError {
                _ = try await Migrator(directory: folder.path).migrate(
                    settings: settings,
                    loop: try TestDatabase.loop(),
                    logger: quietLogger
                )
            }
            #expect(error.code == .unsuitable)
            let left = try await Program.run(
                [
                    "psql", pooler.url, "-Atc",
                    """
                    SELECT string_agg(name, ' ')
                    FROM pg_settings
                    WHERE source = 'session' AND name <> 'application_name' AND NOT starts_with(name, 'transaction_')
                    """,
                ]
            )
            #expect(left.text == "\n")
        }
    }

    @Test("A pooler's limit is found by opening connections, with those that are open; without a pooler there is none")
    func limit() async throws {
        // The pool has three connections, and the check of the pooler two.
        try await withPooler("session", ["default_pool_size": "6"]) { pooler, cluster in
            try await withPool(try PostgresSettings(url: pooler.url)) { pool in
                try await pool.write("SELECT 1")
                #expect(await pool.connectionsThroughPooler(upTo: 5) == 5)
                #expect(await pool.connectionsThroughPooler(upTo: 9) == 6)
                // Those that were opened for it are closed.
                try await pool.withTransaction { _ = try await $0.query("SELECT 1") }
            }
            try await withPool(try PostgresSettings(url: try #require(await cluster.url))) { pool in
                try await pool.write("SELECT 1")
                #expect(await pool.connectionsThroughPooler(upTo: 9) == nil)
            }
        }
    }

    @Test("A pooler that is set to another mode later is refused when two connections get one session")
    func changedMode() async throws {
        try await withPooler("session") { pooler, _ in
            try await withPool(try PostgresSettings(url: pooler.url)) { pool in
                _ = try await pool.read("SELECT 1")
                try await pooler.change(to: "transaction")
                try await eventually("it is refused") {
                    do {
                        // Each opens a connection.
                        try await pool.withConnection { _ = try await $0.query("SELECT 1") }
                        _ = try await pool.read("SELECT 1")
                        return false
                    } catch let error as PostgresError {
                        return error.code == .unsuitable
                    }
                }
                try await pooler.change(to: "session")
                try await eventually("it works again") { (try? await pool.write("SELECT 1")) != nil }
            }
        }
    }

    @Test("PgBouncer's refusal of options is explained")
    func options() async throws {
        try await withPooler("session") { pooler, _ in
            try await withPool(try PostgresSettings(url: "\(pooler.url)&options=-csearch_path%3Da")) { pool in
                try await expectRefusal(
                    pool,
                    .unavailable,
                    "PgBouncer before 1.20 rejects the options of the database URL"
                )
            }
        }
    }
}
