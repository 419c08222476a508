import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import Locking
import Logging
import Postgres
import PrivatePostgres

/// The resources that all workers share: a private PostgreSQL, a migrated template database, and the event loops.
final class Testbed: Sendable {
    private static let template = "delivery_template"

    let migrations: String
    /// The path of PostgreSQL's Unix socket.
    let upstream: String
    /// The loops of the proxies and of the proof's own calls.
    let loops: EventLoopGroup
    /// The loops of the sandboxes.
    let kakaoLoops: EventLoopGroup
    let client: HTTPClient
    private let directory: String
    private let cluster: PostgresCluster
    private let clusterURL: String
    private let admin: PostgresPool
    private let databases = Locked(0)

    /// Starts PostgreSQL and prepares the template database.
    ///
    /// - Parameter migrations: The directory of the SQL files.
    init(migrations: String) async throws {
        self.migrations = migrations
        directory = FileManager.default.temporaryDirectory.path + "/delivery-proof-\(getpid())"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        cluster = PostgresCluster(
            directory: directory + "/postgres",
            // No durability or autovacuum: no data outlives the process, and no table grows large.
            settings: [
                "max_connections": "600", "shared_buffers": "256MB", "fsync": "off", "full_page_writes": "off",
                "wal_level": "minimal", "max_wal_senders": "0", "autovacuum": "off",
            ]
        )
        clusterURL = try await cluster.start()
        let port = clusterURL.split(separator: "=").last ?? ""
        upstream = "\(await cluster.realDirectory ?? directory)/.s.PGSQL.\(port)"
        loops = try EventLoopGroup(count: 1)
        kakaoLoops = try EventLoopGroup(count: 1)
        client = HTTPClient(settings: HTTPClientSettings(maximumConnections: 256), loop: loops.loops[0])
        admin = try Self.pool(url: clusterURL, loop: loops.loops[0])
        try await prepareTemplate()
    }

    private func prepareTemplate() async throws {
        try await admin.write(text: "CREATE DATABASE \(Self.template)")
        let url = databaseURL(Self.template)
        let settings = try PostgresSettings(url: url)
        _ = try await Migrator(directory: migrations).migrate(settings: settings, loop: loop, logger: .quiet)
        let pool = try Self.pool(url: url, loop: loop)
        try await pool.write(InsertDevices(users: Int64(Scenario.users)))
        // A database with connections cannot be copied.
        await pool.shutdown()
        try await waitUntil("the template is unused", within: .seconds(10)) {
            try await self.admin.read(CountConnections(database: Self.template)).first == 0
        }
    }

    var loop: EventLoop { loops.loops[0] }

    /// Creates a database for one worker. Returns its name and a pool that bypasses the proxy.
    func makeDatabase() async throws -> (name: String, pool: PostgresPool) {
        let number = databases.withLock { number in
            number += 1
            return number
        }
        let name = "delivery_\(number)"
        try await admin.withConnection { session in
            try await session.execute(script: "SET statement_timeout = '60s'")
            try await session.query(text: "CREATE DATABASE \(name) TEMPLATE \(Self.template)")
        }
        return (name, try Self.pool(url: databaseURL(name), loop: loop))
    }

    func dropDatabase(_ name: String) async throws {
        try await admin.write(text: "DROP DATABASE IF EXISTS \(name) WITH (FORCE)")
    }

    /// Stops all resources and removes their files.
    func stop() async {
        await admin.shutdown()
        await client.shutdown()
        await cluster.stop(.immediate)
        loops.shutdown()
        kakaoLoops.shutdown()
        try? FileManager.default.removeItem(atPath: directory)
    }

    private func databaseURL(_ name: String) -> String {
        clusterURL.replacing("/postgres?", with: "/\(name)?")
    }

    private static func pool(url: String, loop: EventLoop) throws -> PostgresPool {
        var settings = try PostgresSettings(url: url)
        settings.applicationName = "delivery-proof"
        settings.writeConnections = 1
        settings.exclusiveConnections = 1
        settings.statementTimeout = .seconds(30)
        settings.waitTimeout = .seconds(30)
        let pool = PostgresPool(settings: settings, loop: loop, logger: .quiet)
        pool.start()
        return pool
    }
}

extension Logger {
    /// A logger that discards everything, because the proof reports on standard output.
    static let quiet = Logger(label: "delivery-proof", factory: { _ in SwiftLogNoOpLogHandler() })
}

/// The error of a condition that did not become true in time.
struct TimedOut: Error, CustomStringConvertible {
    let what: String
    let limit: Duration
    var description: String { "timed out after \(limit / .seconds(1)) s while waiting until \(what)" }
}

/// Waits until a condition holds.
///
/// - Throws: ``TimedOut``, and errors of the condition.
func waitUntil(
    _ what: String,
    within limit: Duration,
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw TimedOut(what: what, limit: limit) }
        try await Task.sleep(for: .milliseconds(20))
    }
}

// MARK: Statements

/// Inserts a device of each user from 1 to `users`, as registered with Kakao.
struct InsertDevices: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
        SELECT id, 'phone', 'fcm', 'token-' || id, 1
        FROM generate_series(1, $1::bigint) AS id
        """

    let users: Int64

    var parameters: [PostgresValue] { [.int64(users)] }
}

/// Counts the connections to a database.
struct CountConnections: PostgresStatement {
    static let sql: SQL = """
        SELECT count(*)
        FROM pg_stat_activity
        WHERE datname = $1
        """

    let database: String

    var parameters: [PostgresValue] { [.text(database)] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
