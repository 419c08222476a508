import EventLoop
import Glibc
import Logging
import Postgres
import PrivatePostgres
import Synchronization
import Testing

/// A schema of one test's own, on the shared server, and the loop that the test's connections live on.
struct TestDatabase: Sendable {
    let settings: PostgresSettings
    let loop: EventLoop

    private static let loops = Result { try EventLoopGroup(count: 2) }
    private static let count = Atomic<Int>(0)

    static func loop(_ index: Int = 0) throws -> EventLoop {
        let loops = try loops.get().loops
        return loops[index % loops.count]
    }

    /// Runs `body` with a pool on an empty schema, and drops the schema afterwards.
    static func withPool(
        _ adjust: (inout PostgresSettings) -> Void = { _ in },
        _ body: (PostgresPool, TestDatabase) async throws -> Void
    ) async throws {
        let number = count.add(1, ordering: .relaxed).newValue
        let schema = "test_\(getpid())_\(number)"
        let url = try await TestServer.url
        let loop = try loop(number)
        let admin = PostgresPool(settings: try PostgresSettings(url: url), loop: loop, logger: quietLogger)
        admin.start()
        try await admin.write("CREATE SCHEMA \(schema)")

        let separator = url.contains("?") ? "&" : "?"
        var settings = try PostgresSettings(url: "\(url)\(separator)options=-csearch_path%3D\(schema)")
        adjust(&settings)
        let pool = PostgresPool(settings: settings, loop: loop, logger: quietLogger)
        pool.start()
        do {
            try await body(pool, TestDatabase(settings: settings, loop: loop))
        } catch {
            await pool.shutdown()
            await admin.shutdown()
            throw error
        }
        await pool.shutdown()
        try await admin.write("DROP SCHEMA \(schema) CASCADE")
        await admin.shutdown()
    }
}

/// Says what goes wrong with the tests themselves, and nothing of what is meant to.
let quietLogger: Logger = {
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    return logger
}()

/// Waits until `condition` holds. Fails the test if it does not within 30 seconds.
func eventually(
    _ what: Comment,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + .seconds(30)
    while ContinuousClock.now < deadline {
        if try await condition() { return }
        try await Task.sleep(for: .milliseconds(10))
    }
    Issue.record(what, sourceLocation: sourceLocation)
}

/// The error that `body` throws, which has to be a `PostgresError`.
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

/// A body that should have thrown did not.
struct NothingThrown: Error {
    let sourceLocation: SourceLocation
}
