import EventLoop
import Postgres

/// A value that operators see, read from the database at most once in each lifetime, however often it is asked for.
package actor CachedQuery<Value: Sendable> {
    /// The timeout of the database's response. Prometheus waits for ten seconds.
    private static var timeout: Duration { .seconds(4) }
    /// The time until a query that failed is repeated.
    private static var retryInterval: Duration { .seconds(5) }

    package nonisolated let unownedExecutor: UnownedSerialExecutor
    private let pool: PostgresPool
    private let lifetime: Duration
    private let read: @Sendable (PostgresPool) async throws -> Value
    /// The latest query, finished or in flight, and the time of the next one in the loop's milliseconds.
    private var latest: (reading: Task<Value?, Never>, end: UInt64)?

    /// - Parameters:
    ///   - lifetime: The time for which a value is cached. Prometheus scrapes about every 15 s.
    ///   - read: Reads the value.
    package init(
        _ pool: PostgresPool,
        lifetime: Duration = .seconds(5),
        _ read: @escaping @Sendable (PostgresPool) async throws -> Value
    ) {
        self.pool = pool
        self.lifetime = lifetime
        self.read = read
        unownedExecutor = pool.loop.asUnownedSerialExecutor()
    }

    /// Invalidates the value, so that the next caller reads it from the database.
    package func invalidate() {
        latest = nil
    }

    /// Returns a value that is at most its lifetime old; `nil` if the database does not respond.
    package func value() async -> Value? {
        if let latest, pool.loop.now < latest.end { return await latest.reading.value }
        // A task of its own, since the first caller may be cancelled.
        let reading = Task(executorPreference: pool.loop) { [pool, read] in
            try? await pool.loop.run(within: Self.timeout) { try await read(pool) }
        }
        latest = (reading, pool.loop.now + lifetime.wholeMilliseconds)
        let value = await reading.value
        if value == nil { latest?.end = pool.loop.now + Self.retryInterval.wholeMilliseconds }
        return value
    }
}
