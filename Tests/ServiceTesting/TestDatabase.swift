package import EventLoop
import Glibc
import Locking
package import Postgres
import PrivatePostgres
import Synchronization
import TestSupport
import Testing

/// The PostgreSQL server with the databases of the tests.
package enum TestServer {
    /// The connections that create and drop the databases.
    package static var admin: (url: String, pool: PostgresPool) {
        get async throws { try await started.value }
    }

    private static let started = Task.detached {
        let url = try await SharedPostgres.url
        return (url: url, pool: try await Shared.pool(url))
    }
}

/// A database for a single test, with queries of its contents.
package struct TestDatabase: Sendable {
    package let url: String
    package let pool: PostgresPool

    package init(url: String, pool: PostgresPool) {
        self.url = url
        self.pool = pool
    }

    private static let count = Atomic<Int>(0)

    /// The initial contents of a database.
    package enum Content {
        case nothing
        /// The empty tables of this version.
        case schema
    }

    /// The template of the databases with the schema, so that the migrations run only once.
    private static let template = Task.detached {
        let admin = try await TestServer.admin
        let name = "push_service_test_\(getpid())_template"
        try await admin.pool.write("CREATE DATABASE \(name)")
        try await migrate(url(admin.url, database: name))
        return name
    }

    /// Creates the tables of this version.
    private static func migrate(_ url: String) async throws {
        _ = try await Migrator(directory: TestFiles.migrations).migrate(
            settings: PostgresSettings(url: url),
            loop: Shared.loop,
            logger: quietLogger
        )
    }

    /// Creates the tables of this version in a database that is empty.
    package func migrate() async throws { try await Self.migrate(url) }

    /// Runs `body` with a new database, and drops the database if `body` returns.
    package static func with(_ content: Content = .schema, _ body: (TestDatabase) async throws -> Void) async throws {
        let (database, name) = try await create(content)
        do {
            try await body(database)
        } catch {
            await database.pool.shutdown()
            throw error
        }
        await database.pool.shutdown()
        try await TestServer.admin.pool.write("DROP DATABASE \(name) WITH (FORCE)")
    }

    /// Creates a database.
    static func create(_ content: Content = .schema) async throws -> (database: TestDatabase, name: String) {
        let admin = try await TestServer.admin
        let name = "push_service_test_\(getpid())_\(count.add(1, ordering: .relaxed).newValue)"
        let source = content == .schema ? try await template.value : "template1"
        try await admin.pool.write("CREATE DATABASE \(name) TEMPLATE \(source) STRATEGY file_copy")
        let url = url(admin.url, database: name)
        return (TestDatabase(url: url, pool: try await Shared.pool(url)), name)
    }

    /// Stores a phone for each of these users, as if Kakao already had its token.
    ///
    /// - Parameter type: The push type, by default that of Android.
    package func addPhones(_ userIDs: some Sequence<Int64> & Sendable, type: String = "fcm") async throws {
        try await pool.write(
            """
            INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
            SELECT id, 'phone', $2, 'token-' || id, 1
            FROM unnest($1::bigint[]) AS id
            ON CONFLICT DO NOTHING
            """,
            [.int64s(Array(userIDs)), .text(type)]
        )
    }

    /// Lets PostgreSQL appear to have begun a new run, as after a failover, and waits until its servers have compared what they know.
    package func beginNewRun() async throws {
        try await eventually("a server knows the present run") {
            try await count("work_leases WHERE checked_run IS NOT NULL") > 0
        }
        try await pool.write(
            """
            CREATE OR REPLACE FUNCTION database_run() RETURNS text
            LANGUAGE sql STABLE
            AS $$ SELECT '\(UInt64.random(in: .min ... .max))' $$
            """
        )
        try await eventually("all servers have compared") {
            try await count("work_leases WHERE checked_run IS DISTINCT FROM database_run()") == 0
        }
    }

    /// Runs `body` without the triggers of `devices`: neither the limit of devices per user nor the record of withdrawals
    /// applies.
    package func withoutDeviceLimit(_ body: () async throws -> Void) async throws {
        try await pool.write("ALTER TABLE devices DISABLE TRIGGER USER")
        try await body()
        try await pool.write("ALTER TABLE devices ENABLE TRIGGER USER")
    }

    /// Returns the number of rows of a table or a part of it, such as `push_batches WHERE state = 'sent'`.
    package func count(_ table: String) async throws -> Int {
        try await Int(integer("SELECT count(*) FROM \(table)"))
    }

    /// Returns the integer that is the only result of a query.
    package func integer(_ sql: String) async throws -> Int64 {
        guard let row = try await pool.read(sql).first else { throw NoRow(sql: sql) }
        return try row.decode(Int64.self)
    }

    /// Returns the text that is the only result of a query.
    package func text(_ sql: String) async throws -> String {
        guard let row = try await pool.read(sql).first else { throw NoRow(sql: sql) }
        return try row.decode(String.self)
    }

    private struct NoRow: Error {
        let sql: String
    }

    /// Returns the URL of another database on the same server.
    private static func url(_ url: String, database: String) -> String {
        let query = url.firstIndex(of: "?") ?? url.endIndex
        let authority = url.firstRange(of: "://")?.upperBound ?? url.startIndex
        let path = url[authority..<query].firstIndex(of: "/") ?? query
        return "\(url[..<path])/\(database)\(url[query...])"
    }
}

/// A subquery with every batch that was claimed, whether it has its own row or not.
package let claimedBatches = """
    (
        SELECT push_id, number, users, state, attempts, lease, may_repeat, user_ids
        FROM push_batches
        UNION ALL
        SELECT push_id, number + place, LEAST(batch_users, users - place * batch_users),
            CASE get_bit(settled, place) WHEN 1 THEN 'sent' ELSE 'sending' END, 1, lease, false, NULL
        FROM push_claims AS claim
        CROSS JOIN LATERAL generate_series(0, length(settled) - 1) AS place
        WHERE NOT EXISTS (SELECT FROM push_batches AS own WHERE own.push_id = claim.push_id AND own.number = claim.number + place)
    ) AS batch
    """

/// The event loop that all tests share, and pools on it.
package enum Shared {
    package static var loop: EventLoop {
        get throws { try loops.get().loops[0] }
    }

    private static let loops = Result { try EventLoopGroup(count: 1) }

    /// Returns a pool with timeouts that are long enough for a busy machine.
    package static func pool(_ url: String) async throws -> PostgresPool {
        var settings = try PostgresSettings(url: url)
        settings.statementTimeout = nil
        settings.waitTimeout = .seconds(30)
        let pool = PostgresPool(settings: settings, loop: try loop, logger: quietLogger)
        pool.start()
        return pool
    }
}
