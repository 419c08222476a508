import EventLoop
import Glibc
import PrivatePostgres
import TestSupport
import Testing

@testable import Postgres

/// The effect on statements when connections and servers fail, and the recovery without intervention.
@Suite struct RecoveryTests {
    /// Starts a slow read. Returns its task and the backend that runs it.
    private func slowRead(_ pool: PostgresPool) async throws -> (Task<Int, any Error>, backend: Int32) {
        let backend = try await pool.value(Int32.self, "SELECT pg_backend_pid()")
        let task = Task(executorPreference: pool.loop) { try await pool.read("SELECT pg_sleep(30)").count }
        try await eventually("the slow read runs") {
            try await pool.withTransaction { transaction in
                try await transaction.query(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'",
                    [.int32(backend)]
                ).count == 1
            }
        }
        return (task, backend)
    }

    @Test(
        "A connection that the server closes during a statement is an error to its callers, and is reopened"
    )
    func terminated() async throws {
        try await TestDatabase.withPool { pool, _ in
            let (task, backend) = try await slowRead(pool)
            try await pool.write("SELECT pg_terminate_backend($1)", [.int32(backend)])
            let error = try await postgresError { _ = try await task.value }
            #expect(error.code == .connectionLost)
            let next = try await pool.value(Int32.self, "SELECT pg_backend_pid()")
            #expect(next != backend)
        }
    }

    @Test("Transactions do not receive connections that were lost while idle")
    func terminatedWhileIdle() async throws {
        try await TestDatabase.withPool {
            $0.exclusiveConnections = 1
        } _: { pool, _ in
            let backend = try await pool.withTransaction { transaction in
                try #require(try await transaction.query("SELECT pg_backend_pid()").first).decode(Int32.self)
            }
            try await pool.write("SELECT pg_terminate_backend($1, 10000)", [.int32(backend)])
            try await eventually("the connection is reopened") {
                (try? await pool.withTransaction { _ in true }) ?? false
            }
        }
    }

    @Test("After a crash of the whole server, statements work again without a restart of this process")
    func crash() async throws {
        try await withPrivateServer { _, pool in
            let (task, backend) = try await slowRead(pool)
            #expect(kill(backend, SIGKILL) == 0)
            let error = try await postgresError { _ = try await task.value }
            #expect(error.code == .connectionLost)
            try await eventually("reads recover") { (try? await pool.read("SELECT 1").count) == 1 }
            try await eventually("writes recover") {
                (try? await pool.write("CREATE TABLE IF NOT EXISTS t ()")) != nil
            }
            try await eventually("transactions recover") {
                (try? await pool.withTransaction { _ in true }) ?? false
            }
        }
    }

    @Test("While the server is down all statements fail fast; when it is up again, all work")
    func restart() async throws {
        try await withPrivateServer { cluster, pool in
            #expect(try await pool.read("SELECT 1").count == 1)
            await cluster.stop()
            try await eventually("reads are unavailable") {
                await fails(.unavailable) { _ = try await pool.read("SELECT 1") }
            }
            try await eventually("writes are unavailable") {
                await fails(.unavailable) { try await pool.write("CREATE TABLE t ()") }
            }
            try await eventually("transactions are unavailable") {
                await fails(.unavailable) { try await pool.withTransaction { _ in } }
            }
            try await cluster.start()
            try await eventually("reads recover") { (try? await pool.read("SELECT 1").count) == 1 }
            try await eventually("writes recover") {
                (try? await pool.write("CREATE TABLE IF NOT EXISTS t ()")) != nil
            }
            try await eventually("transactions recover") {
                (try? await pool.withTransaction { _ in true }) ?? false
            }
        }
    }

    @Test("If the server does not respond, the statement times out, and the next one uses a new connection")
    func silence() async throws {
        try await withPrivateServer {
            // Long enough for a statement on a busy machine.
            $0.statementTimeout = .seconds(2)
            $0.answerGrace = .seconds(2)
        } _: { _, pool in
            let backend = try await pool.value(Int32.self, "SELECT pg_backend_pid()")
            #expect(kill(backend, SIGSTOP) == 0)
            defer { _ = kill(backend, SIGCONT) }
            // On the loop, so that both are sent before the first times out.
            let reads = await Task(executorPreference: pool.loop) {
                ["SELECT 1", "SELECT 2"].map { sql in
                    Task(executorPreference: pool.loop) { try await pool.read(sql) }
                }
            }.value
            var codes: Set<PostgresError.Code> = []
            for read in reads { codes.insert(try await postgresError { _ = try await read.value }.code) }
            #expect(codes == [.timedOut, .connectionLost])
            try await eventually("there is a new connection") {
                guard let next = try? await pool.value(Int32.self, "SELECT pg_backend_pid()") else { return false }
                return next != backend
            }
        }
    }

    @Test("A server that cannot be reached by path, address or name is reported as unavailable")
    func unreachable() async throws {
        for url in [
            "postgresql:///d?host=/nowhere", "postgresql://127.0.0.1:1/d", "postgresql://localhost:1/d",
            "postgresql://name.invalid/d",
        ] {
            let pool = PostgresPool(
                settings: try PostgresSettings(url: url),
                loop: try TestDatabase.loop(),
                logger: quietLogger
            )
            pool.start()
            let read = try await postgresError { _ = try await pool.read("SELECT 1") }
            #expect(read.code == .unavailable)
            let transaction = try await postgresError { try await pool.withTransaction { _ in } }
            #expect(transaction.code == .unavailable)
            await pool.shutdown()
        }
    }

    private func fails(_ code: PostgresError.Code, _ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return false
        } catch {
            return (error as? PostgresError)?.code == code
        }
    }
}
