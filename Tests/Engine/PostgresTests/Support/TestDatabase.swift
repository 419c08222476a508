import EventLoop
import Glibc
import Logging
import Postgres
import PrivatePostgres
import Synchronization
import TestSupport
import Testing

/// A schema that one test uses alone on the shared server, and the loop of the test's connections.
struct TestDatabase: Sendable {
    let settings: PostgresSettings
    let loop: EventLoop
    /// An advisory lock that this test uses alone. Statements that wait for it take as long as the test needs.
    let lock: Int64

    private static let loops = Result { try EventLoopGroup(count: 2) }
    private static let count = Atomic<Int>(0)
    /// The limit on concurrent tests with their own connections.
    static let slots = Slots(8)

    static func loop(_ index: Int = 0) throws -> EventLoop {
        let loops = try loops.get().loops
        return loops[index % loops.count]
    }

    /// The pool that creates and drops schemas.
    private static let admin = Task.detached {
        let pool = PostgresPool(
            settings: try PostgresSettings(url: try await SharedPostgres.url),
            loop: try loop(),
            logger: quietLogger
        )
        pool.start()
        return pool
    }

    /// Runs `body` with a pool on an empty schema, and drops the schema afterwards if `body` returns.
    static func withPool(
        _ adjust: (inout PostgresSettings) -> Void = { _ in },
        _ body: (PostgresPool, TestDatabase) async throws -> Void
    ) async throws {
        try await slots.with {
            let number = count.add(1, ordering: .relaxed).newValue
            let schema = "test_\(getpid())_\(number)"
            let admin = try await admin.value
            try await admin.write("CREATE SCHEMA \(schema)")

            let url = try await SharedPostgres.url
            let separator = url.contains("?") ? "&" : "?"
            var settings = try PostgresSettings(url: "\(url)\(separator)options=-csearch_path%3D\(schema)")
            adjust(&settings)
            let loop = try loop(number)
            let pool = PostgresPool(settings: settings, loop: loop, logger: quietLogger)
            let lock = Int64(getpid()) << 16 + Int64(number)
            try await pool.run {
                try await body(pool, TestDatabase(settings: settings, loop: loop, lock: lock))
            }
            try await admin.write("DROP SCHEMA \(schema) CASCADE")
        }
    }
}

extension PostgresPool {
    /// Returns the only column of the first row.
    func value<Value: PostgresDecodable>(
        _ type: Value.Type,
        _ sql: String,
        _ parameters: [PostgresValue] = []
    ) async throws -> Value {
        let rows = try await read(sql, parameters)
        return try #require(rows.first).decode(type)
    }
}

extension TestDatabase {
    /// A statement that ends shortly after `body` of ``whileLocked(_:_:)`` has ended, and not before.
    static let wait = "SELECT pg_advisory_xact_lock($1)"

    /// Runs `body` while statements that ``wait`` for the lock are blocked.
    func whileLocked(_ pool: PostgresPool, _ body: () async throws -> Void) async throws {
        try await pool.withTransaction { transaction in
            try await transaction.query(Self.wait, [.int64(lock)])
            try await body()
        }
    }

    /// Waits until exactly `count` statements wait for the lock.
    func isAwaited(by count: Int64, _ pool: PostgresPool) async throws {
        try await eventually("the statements wait for the lock") {
            let waiting = try await pool.withTransaction { transaction in
                try await transaction.query(
                    """
                    SELECT 1
                    FROM pg_locks
                    WHERE locktype = 'advisory' AND NOT granted AND (classid::bigint << 32) + objid::bigint = $1
                    """,
                    [.int64(lock)]
                ).count
            }
            return waiting == count
        }
    }
}

/// Returns the error that `body` throws, which must be a `PostgresError`.
func postgresError(
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Void
) async throws -> PostgresError {
    do {
        try await body()
    } catch let error as PostgresError {
        return error
    }
    throw NothingThrown(sourceLocation: sourceLocation)
}

/// An error for a body that did not throw.
struct NothingThrown: Error {
    let sourceLocation: SourceLocation
}
