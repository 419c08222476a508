import EventLoop
import Postgres
import TestSupport
import Testing

@Suite struct ReadAndWriteTests {
    /// Submits reads in one tick of the loop and returns their results, in order.
    private func together(
        _ statements: [String],
        _ pool: PostgresPool
    ) async -> [Result<PostgresRows, any Error>] {
        await Task(executorPreference: pool.loop) {
            await withTaskGroup(of: (Int, Result<PostgresRows, any Error>).self) { group in
                for (index, sql) in statements.enumerated() {
                    group.addTask {
                        do {
                            return (index, .success(try await pool.read(sql)))
                        } catch {
                            return (index, .failure(error))
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.map(\.1)
            }
        }.value
    }

    @Test("Reads of one tick are sent in one sync group, which is one transaction on the server")
    func oneSync() async throws {
        try await TestDatabase.withPool { pool, _ in
            _ = try await pool.read("SELECT pg_current_xact_id()::text")
            // On a busy machine, the twenty calls may be made in two ticks.
            try await eventually("twenty reads are one transaction") {
                let transactions = try await together(
                    (0..<20).map { "SELECT pg_current_xact_id()::text, \($0)" },
                    pool
                ).map { result in
                    let row = try #require(try result.get().first)
                    return try row.decode(String.self, Int32.self).0
                }
                return Set(transactions).count == 1
            }
        }
    }

    @Test("A failing read does not affect its neighbours, whether it fails when it runs or when it is prepared")
    func neighbours() async throws {
        try await TestDatabase.withPool { pool, _ in
            for bad in ["SELECT 1 / 0", "SELEKT", "SELECT nothing FROM nowhere"] {
                let results = await together(["SELECT 1", bad, "SELECT 2", bad, "SELECT 3", bad, "SELECT 4"], pool)
                for (index, number) in zip([0, 2, 4, 6], 1...) {
                    let row = try #require(try results[index].get().first)
                    #expect(try row.decode(Int32.self) == Int32(number))
                }
                for index in [1, 3, 5] {
                    let error = #expect(throws: PostgresError.self) { try results[index].get() }
                    #expect(error?.code == .server)
                    #expect(["22012", "42601", "42P01"].contains(error?.sqlState))
                }
            }
        }
    }

    @Test("A read that changes data is rejected, because a read may be run twice")
    func readsDoNotWrite() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE t (n integer)")
            let error = try await postgresError { _ = try await pool.read("INSERT INTO t VALUES (1)") }
            #expect(error.sqlState == "25006")
        }
    }

    @Test("Each write is a separate transaction, even if another write of the same tick fails")
    func writes() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE t (n integer PRIMARY KEY)")
            let results = await Task(executorPreference: pool.loop) {
                await withTaskGroup(of: Bool.self) { group in
                    for number: Int32 in [1, 2, 2, 3, 3, 4] {
                        group.addTask {
                            (try? await pool.write("INSERT INTO t VALUES ($1)", [.int32(number)]))?.affectedRows == 1
                        }
                    }
                    return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
                }
            }.value
            #expect(results == 4)
            let rows = try await pool.read("SELECT n, xmin::text FROM t ORDER BY n")
            let stored = try rows.map { try $0.decode(Int32.self, String.self) }
            #expect(stored.map(\.0) == [1, 2, 3, 4])
            #expect(Set(stored.map(\.1)).count == 4)
        }
    }

    @Test("An error has SQLSTATE, constraint and statement, and is safe to print")
    func errors() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE t (token text CONSTRAINT token_once UNIQUE)")
            try await pool.write("INSERT INTO t VALUES ('confidential')")
            let error = try await postgresError {
                try await pool.write("INSERT INTO t VALUES ($1)", [.text("confidential")])
            }
            #expect(error.code == .server)
            #expect(error.sqlState == "23505")
            #expect(error.constraint == "token_once")
            #expect(error.statement == "INSERT INTO t VALUES ($1)")
            #expect("\(error)" == "The database rejected the statement. (server, SQLSTATE 23505)")
            #expect(!String(reflecting: error).contains("confidential"))
        }
    }

    @Test("The server cancels a statement that takes too long, and the next one runs")
    func statementTimeout() async throws {
        try await TestDatabase.withPool {
            // Long enough for the second statement, even on a busy machine.
            $0.statementTimeout = .seconds(2)
        } _: { pool, _ in
            let error = try await postgresError { _ = try await pool.read("SELECT pg_sleep(30)") }
            #expect(error.code == .timedOut)
            #expect(error.sqlState == "57014")
            #expect(try await pool.read("SELECT 1").count == 1)
        }
    }

    @Test("A cancelled caller returns at once, and callers behind it receive their own results")
    func cancellation() async throws {
        try await TestDatabase.withPool {
            $0.statementTimeout = .seconds(60)
        } _: { pool, database in
            var next: Task<String, any Error>?
            try await database.whileLocked(pool) {
                let slow = Task(executorPreference: pool.loop) {
                    try await pool.read(TestDatabase.wait, [.int64(database.lock)])
                }
                try await database.isAwaited(by: 1, pool)
                next = Task { try await pool.value(String.self, "SELECT 'next'::text") }
                slow.cancel()
                await #expect(throws: CancellationError.self) { try await slow.value }
            }
            let answer = try await next?.value
            #expect(answer == "next")
        }
    }

    @Test("While a write waits for a lock, no other write waits behind it")
    func stalledWrite() async throws {
        try await TestDatabase.withPool {
            $0.statementTimeout = .seconds(60)
        } _: { pool, database in
            var blocked: Task<PostgresRows, any Error>?
            try await database.whileLocked(pool) {
                blocked = Task { try await pool.write(TestDatabase.wait, [.int64(database.lock)]) }
                try await database.isAwaited(by: 1, pool)
                // Takes longer than any commit, so that the first write is recognized as waiting.
                try await pool.write("SELECT pg_sleep(0.1)")
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<10 { group.addTask { _ = try await pool.write("SELECT pg_sleep(0.2)") } }
                    try await eventually("the other connection has not responded for some time, with more statements") {
                        try await pool.read(
                            """
                            SELECT 1 FROM pg_stat_activity
                            WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
                            AND query LIKE '%pg_sleep(0.2)%' AND clock_timestamp() - query_start > interval '100 ms'
                            """
                        ).count == 1
                    }
                    group.addTask { _ = try await pool.write("SELECT 1") }
                    try await group.waitForAll()
                }
            }
            #expect(try await blocked?.value.count == 1)
        }
    }

    @Test("A prepared statement still works after its table has changed")
    func changedTable() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE t (n integer)")
            try await pool.write("INSERT INTO t VALUES (1)")
            #expect(try await pool.read("SELECT * FROM t").columnCount == 1)
            try await pool.write("ALTER TABLE t ADD COLUMN m integer")
            #expect(try await pool.read("SELECT * FROM t").columnCount == 2)
        }
    }

    @Test("Results larger than any buffer arrive complete while others are in flight")
    func largeResults() async throws {
        try await TestDatabase.withPool { pool, _ in
            let results = await together(
                (0..<8).map { "SELECT repeat('x', 100), g FROM generate_series(1, 20000 + \($0)) AS g" },
                pool
            )
            for (index, result) in results.enumerated() {
                let count = try result.get().count
                #expect(count == 20000 + index)
            }
        }
    }

    @Test("Statements can be submitted before the pool is started, and are rejected after it is shut down")
    func life() async throws {
        try await TestDatabase.withPool { _, database in
            let pool = PostgresPool(settings: database.settings, loop: database.loop, logger: quietLogger)
            async let early = pool.read("SELECT 1")
            pool.start()
            #expect(try await early.count == 1)
            await pool.shutdown()
            let error = try await postgresError { _ = try await pool.read("SELECT 1") }
            #expect(error.code == .unavailable)
            let refused = try await postgresError { try await pool.withTransaction { _ in } }
            #expect(refused.code == .unavailable)
        }
    }

    @Test("A pool that has never connected shuts down at once", .timeLimit(.minutes(1)))
    func shutdownUnconnected() async throws {
        try await TestDatabase.withPool { _, database in
            let pool = PostgresPool(settings: database.settings, loop: database.loop, logger: quietLogger)
            await pool.shutdown(within: .seconds(600))
        }
    }

    @Test("Shutting down lets statements in flight finish")
    func orderlyShutdown() async throws {
        try await TestDatabase.withPool {
            $0.statementTimeout = .seconds(60)
        } _: { pool, database in
            let closing = PostgresPool(settings: database.settings, loop: database.loop, logger: quietLogger)
            closing.start()
            let done = AsyncStream.makeStream(of: Bool.self)
            try await database.whileLocked(pool) {
                Task {
                    let read = try? await closing.read(TestDatabase.wait, [.int64(database.lock)])
                    done.continuation.yield(read != nil)
                }
                Task {
                    let write = try? await closing.write(TestDatabase.wait, [.int64(database.lock)])
                    done.continuation.yield(write != nil)
                }
                try await database.isAwaited(by: 2, pool)
                Task { await closing.shutdown() }
                try await eventually("the shutdown begins") {
                    do {
                        try await closing.withTransaction { _ in }
                        return false
                    } catch let error as PostgresError {
                        return error.code == .unavailable
                    }
                }
            }
            for await result in done.stream.prefix(2) { #expect(result) }
        }
    }
}
