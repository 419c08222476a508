import EventLoop
import Glibc
import Locking
import Postgres
import PrivatePostgres
import Synchronization
import TestSupport

/// The server that the databases of the tests are on.
enum TestServer {
    /// Administers the databases.
    static var admin: (url: String, pool: PostgresPool) {
        get async throws { try await started.value }
    }

    private static let started = Task.detached {
        let url = try await SharedPostgres.url
        return (url: url, pool: try await Shared.pool(url))
    }
}

/// A database of one test's own, and a way to look into it.
struct TestDatabase: Sendable {
    let url: String
    let pool: PostgresPool

    private static let count = Atomic<Int>(0)

    /// What a database holds at first.
    enum Content {
        case nothing
        /// The tables of this version, all of them empty.
        case schema
    }

    /// The database that those with the schema are copied from: the migrations run once.
    private static let template = Task.detached {
        let admin = try await TestServer.admin
        let name = "push_service_test_\(getpid())_template"
        try await admin.pool.write("CREATE DATABASE \(name)")
        _ = try await Migrator(directory: TestFiles.migrations).migrate(
            settings: PostgresSettings(url: url(admin.url, database: name)),
            loop: Shared.loop,
            logger: quietLogger
        )
        return name
    }

    /// Runs `body` with a database of its own, and drops it afterwards.
    static func with(_ content: Content = .schema, _ body: (TestDatabase) async throws -> Void) async throws {
        let admin = try await TestServer.admin
        let name = "push_service_test_\(getpid())_\(count.add(1, ordering: .relaxed).newValue)"
        let source = content == .schema ? try await template.value : "template1"
        try await admin.pool.write("CREATE DATABASE \(name) TEMPLATE \(source)")
        let database = TestDatabase(
            url: url(admin.url, database: name),
            pool: try await Shared.pool(url(admin.url, database: name))
        )
        do {
            try await body(database)
        } catch {
            await database.pool.shutdown()
            throw error
        }
        await database.pool.shutdown()
        try await admin.pool.write("DROP DATABASE \(name) WITH (FORCE)")
    }

    /// Registers an Android phone for each of these users, which Kakao is taken to know already.
    func addPhones(_ userIDs: some Sequence<Int64> & Sendable, type: String = "fcm") async throws {
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

    /// Runs `body` as in the time before a user's devices were limited: it may store any number of them.
    func withoutDeviceLimit(_ body: () async throws -> Void) async throws {
        try await pool.write("ALTER TABLE devices DISABLE TRIGGER USER")
        try await body()
        try await pool.write("ALTER TABLE devices ENABLE TRIGGER USER")
    }

    /// The rows of a table, or of a part of it: `devices`, `push_batches WHERE state = 'sent'`.
    func count(_ table: String) async throws -> Int {
        try await Int(integer("SELECT count(*) FROM \(table)"))
    }

    /// The one integer that a query returns.
    func integer(_ sql: String) async throws -> Int64 {
        guard let row = try await pool.read(sql).first else { throw NoRow(sql: sql) }
        return try row.decode(Int64.self)
    }

    /// The one text that a query returns.
    func text(_ sql: String) async throws -> String {
        guard let row = try await pool.read(sql).first else { throw NoRow(sql: sql) }
        return try row.decode(String.self)
    }

    private struct NoRow: Error {
        let sql: String
    }

    /// The URL of another database of the same server.
    private static func url(_ url: String, database: String) -> String {
        let query = url.firstIndex(of: "?") ?? url.endIndex
        let authority = url.firstRange(of: "://")?.upperBound ?? url.startIndex
        let path = url[authority..<query].firstIndex(of: "/") ?? query
        return "\(url[..<path])/\(database)\(url[query...])"
    }
}

/// Every batch that has been claimed, with a row of its own or without one, in the place of a table.
let claimedBatches = """
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

/// What all tests have in common: a loop, and what lives on it.
enum Shared {
    static var loop: EventLoop {
        get throws { try loops.get().loops[0] }
    }

    private static let loops = Result { try EventLoopGroup(count: 1) }

    /// A pool that waits as long as a busy machine needs.
    static func pool(_ url: String) async throws -> PostgresPool {
        var settings = try PostgresSettings(url: url)
        settings.statementTimeout = nil
        settings.waitTimeout = .seconds(30)
        let pool = PostgresPool(settings: settings, loop: try loop, logger: quietLogger)
        pool.start()
        return pool
    }
}
