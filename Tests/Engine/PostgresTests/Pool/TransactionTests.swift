import EventLoop
import Postgres
import TestSupport
import Testing

@Suite struct TransactionTests {
    private struct ChangeOfMind: Error {}

    private func numbers(_ pool: PostgresPool) async throws -> [Int32] {
        try await pool.read("SELECT n FROM t ORDER BY n").map { try $0.decode(Int32.self) }
    }

    @Test("A transaction commits when its body returns, and is invisible to others before")
    func commit() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE t (n integer)")
            let result = try await pool.withTransaction { transaction in
                try await transaction.query("INSERT INTO t VALUES ($1)", [.int32(1)])
                try await transaction.execute(script: "INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)")
                #expect(try await numbers(pool) == [])
                return "done"
            }
            #expect(result == "done")
            #expect(try await numbers(pool) == [1, 2, 3])
        }
    }

    @Test("A transaction rolls back when its body throws, and its connection is reused")
    func rollBack() async throws {
        try await TestDatabase.withPool {
            $0.exclusiveConnections = 1
        } _: { pool, _ in
            try await pool.write("CREATE TABLE t (n integer)")
            var backends: Set<Int32> = []
            for _ in 0..<3 {
                await #expect(throws: ChangeOfMind.self) {
                    try await pool.withTransaction { transaction in
                        try await transaction.query("INSERT INTO t VALUES (1)")
                        throw ChangeOfMind()
                    }
                }
                let backend = try await pool.withTransaction { transaction in
                    try await transaction.query("SELECT pg_backend_pid()").first?.decode(Int32.self)
                }
                backends.insert(try #require(backend))
            }
            #expect(try await numbers(pool) == [])
            #expect(backends.count == 1)
        }
    }

    @Test("A transaction with a failed statement is not committed, even if its body ignores the error")
    func swallowedError() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE t (n integer PRIMARY KEY)")
            let error = try await postgresError {
                try await pool.withTransaction { transaction in
                    try await transaction.query("INSERT INTO t VALUES (1)")
                    _ = try? await transaction.query("INSERT INTO t VALUES (1)")
                }
            }
            #expect(error.sqlState == "25P02")
            #expect(try await numbers(pool) == [])
        }
    }

    @Test("A transaction rolls back at once when its task is cancelled, during a statement or between two")
    func cancellation() async throws {
        try await TestDatabase.withPool {
            $0.statementTimeout = .seconds(25)
        } _: { pool, _ in
            try await pool.write("CREATE TABLE t (n integer)")
            for statement in ["SELECT pg_sleep(30)", "SELECT 1"] {
                let started = AsyncStream.makeStream(of: Void.self)
                let task = Task(executorPreference: pool.loop) {
                    defer { started.continuation.finish() }
                    try await pool.withTransaction { transaction in
                        try await transaction.query("INSERT INTO t VALUES (1)")
                        started.continuation.finish()
                        while true { try await transaction.query(statement) }
                    }
                }
                for await _ in started.stream {}
                task.cancel()
                await #expect(throws: CancellationError.self) { try await task.value }
            }
            // Blocks while an unfinished transaction holds locks.
            try await pool.write("TRUNCATE t")
            #expect(try await numbers(pool) == [])
            #expect(try await pool.withTransaction { _ in true })
        }
    }

    @Test("A caller waits for a free connection until the timeout")
    func bounded() async throws {
        try await TestDatabase.withPool {
            $0.exclusiveConnections = 1
            $0.waitTimeout = .milliseconds(300)
        } _: { pool, _ in
            try await eventually("there is a connection") {
                (try? await pool.withTransaction { _ in true }) ?? false
            }
            try await pool.withTransaction { _ in
                let error = try await postgresError { try await pool.withTransaction { _ in } }
                #expect(error.code == .timedOut)
            }
            #expect(try await pool.withTransaction { _ in true })
        }
    }

    @Test("More transactions than connections all complete")
    func turns() async throws {
        try await TestDatabase.withPool {
            $0.exclusiveConnections = 2
            $0.waitTimeout = .seconds(30)
        } _: { pool, _ in
            try await pool.write("CREATE TABLE t (n integer)")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number: Int32 in 0..<40 {
                    group.addTask(executorPreference: pool.loop) {
                        _ = try await pool.withTransaction { transaction in
                            try await transaction.query("INSERT INTO t VALUES ($1)", [.int32(number)])
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await numbers(pool) == Array(0..<40))
        }
    }

    @Test("A finished transaction rejects statements")
    func stale() async throws {
        try await TestDatabase.withPool { pool, _ in
            let escaped = try await pool.withTransaction { $0 }
            let error = try await postgresError { try await escaped.query("SELECT 1") }
            #expect(error.code == .unavailable)
        }
    }

    @Test("An exclusive connection leaves no session state behind for others")
    func connection() async throws {
        try await TestDatabase.withPool {
            $0.exclusiveConnections = 1
        } _: { pool, _ in
            let backend = try await pool.withConnection { session in
                try await session.execute(script: "SET work_mem = '1234kB'; CREATE TEMPORARY TABLE scratch (n integer)")
                let memory = try await session.query("SHOW work_mem").first?.decode(String.self)
                #expect(memory == "1234kB")
                return try await session.query("SELECT pg_backend_pid()").first?.decode(Int32.self)
            }
            let (memory, other) = try await pool.withTransaction { transaction in
                let memory = try await transaction.query("SHOW work_mem").first?.decode(String.self)
                return (memory, try await transaction.query("SELECT pg_backend_pid()").first?.decode(Int32.self))
            }
            #expect(memory != "1234kB")
            #expect(other != backend)
        }
    }

    @Test("A failing script throws its error, and COPY in a script, which is not supported, loses only its connection")
    func scripts() async throws {
        try await TestDatabase.withPool { pool, _ in
            let error = try await postgresError {
                try await pool.withConnection { session in
                    try await session.execute(script: "CREATE TABLE t (n integer); SELECT 1 / 0; SELECT 2")
                }
            }
            #expect(error.sqlState == "22012")
            #expect(try await pool.value(Bool.self, "SELECT to_regclass('t') IS NULL") == true)
            let copy = try await postgresError {
                try await pool.withConnection { session in
                    try await session.execute(script: "CREATE TABLE t (n integer); COPY t FROM STDIN")
                }
            }
            #expect(copy.code == .connectionLost)
            #expect(try await pool.withTransaction { _ in true })
        }
    }
}
