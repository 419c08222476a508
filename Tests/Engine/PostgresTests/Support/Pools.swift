import EventLoop
import Postgres
import PrivatePostgres
import TestSupport
import Testing

/// Runs `body` with a pool, and shuts the pool down afterwards.
func withPool(_ settings: PostgresSettings, _ body: (PostgresPool) async throws -> Void) async throws {
    let pool = PostgresPool(settings: settings, loop: try TestDatabase.loop(), logger: quietLogger)
    try await pool.run { try await body(pool) }
}

/// Runs `body` with a pool of a private server, which the test may damage, and whose backends it may stop: the commands that create and
/// drop databases wait until each backend of their server has responded.
func withPrivateServer(
    _ adjust: (inout PostgresSettings) -> Void = { _ in },
    _ body: (PostgresCluster, PostgresPool) async throws -> Void
) async throws {
    try await TestDatabase.slots.with {
        try await TestCluster.with { cluster, url in
            var settings = try PostgresSettings(url: url)
            adjust(&settings)
            try await withPool(settings) { try await body(cluster, $0) }
        }
    }
}

extension PostgresPool {
    /// Starts the pool, runs `body`, and shuts the pool down afterwards.
    func run(_ body: () async throws -> Void) async throws {
        start()
        do {
            try await body()
        } catch {
            await shutdown()
            throw error
        }
        await shutdown()
    }
}

/// Expects that a pool cannot connect, for a reason with these words.
func expectRefusal(
    _ pool: PostgresPool,
    _ code: PostgresError.Code,
    _ words: String,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let error = try await postgresError(sourceLocation: sourceLocation) { _ = try await pool.read("SELECT 1") }
    #expect(error.code == code, sourceLocation: sourceLocation)
    #expect(error.words.contains(words), "\(error.words)", sourceLocation: sourceLocation)
}
