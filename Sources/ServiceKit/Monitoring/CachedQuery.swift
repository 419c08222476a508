package import EventLoop
package import Postgres

/// A value that operators see, read from the database at most once in each ``lifetime``, however often it is asked for.
package actor CachedQuery<Value: Sendable> {
    /// The time for which a value is cached. Prometheus scrapes about every 15 s.
    private static var lifetime: Duration { .seconds(5) }
    /// The timeout of the database's response. Prometheus waits for ten seconds.
    private static var timeout: Duration { .seconds(4) }

    package nonisolated let unownedExecutor: UnownedSerialExecutor
    private let pool: PostgresPool
    private let read: @Sendable (PostgresPool) async throws -> Value
    /// The latest query, finished or in flight, and the time of the next one in the loop's milliseconds.
    private var latest: (reading: Task<Value?, Never>, end: UInt64)?

    /// - Parameter read: Reads the value.
    package init(_ pool: PostgresPool, _ read: @escaping @Sendable (PostgresPool) async throws -> Value) {
        self.pool = pool
        self.read = read
        unownedExecutor = pool.loop.asUnownedSerialExecutor()
    }

    /// Returns a value that is at most ``lifetime`` old; `nil` if the database does not respond.
    package func value() async -> Value? {
        if let latest, pool.loop.now < latest.end { return await latest.reading.value }
        // A task of its own, since the first caller may be cancelled.
        let reading = Task(executorPreference: pool.loop) { [pool, read] in
            try? await pool.loop.run(within: Self.timeout) { try await read(pool) }
        }
        latest = (reading, pool.loop.now + Self.lifetime.wholeMilliseconds)
        return await reading.value
    }
}
