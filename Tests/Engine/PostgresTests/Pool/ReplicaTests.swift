import PrivatePostgres
import TestSupport
import Testing

@testable import Postgres

/// Reads from a standby.
@Suite struct ReplicaTests {
    /// Runs `body` with a pool of a primary and its standby.
    private func withPool(_ body: (PostgresPool, TestPair) async throws -> Void) async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.withStandby { pair in
                let loop = try TestDatabase.loop()
                var settings = try PostgresSettings(url: pair.standbyURL)
                settings.isReplica = true
                settings.statementTimeout = .seconds(1)
                let pool = PostgresPool(
                    settings: try PostgresSettings(url: pair.primaryURL),
                    loop: loop,
                    replica: PostgresPool(settings: settings, loop: loop, logger: quietLogger),
                    logger: quietLogger
                )
                pool.start()
                do {
                    try await body(pool, pair)
                } catch {
                    await pool.shutdown()
                    throw error
                }
                await pool.shutdown()
            }
        }
    }

    /// Returns whether a read was answered by the standby.
    private func isAnsweredByStandby(_ pool: PostgresPool) async throws -> Bool? {
        try await pool.withReplica { try await $0.read("SELECT pg_is_in_recovery()") }.first?.decode(Bool.self)
    }

    @Test("A replica is read once it is known to be up to date, and the primary while it is not or does not respond")
    func fallback() async throws {
        try await withPool { pool, pair in
            #expect(try await isAnsweredByStandby(pool) == false)
            pool.useReplica(true)
            #expect(try await isAnsweredByStandby(pool) == true)
            let isInRecovery = try await pool.withReplica { replica in
                try await replica.withConnection { try await $0.query("SELECT pg_is_in_recovery()") }
            }
            #expect(try isInRecovery.first?.decode(Bool.self) == true)
            pool.useReplica(false)
            #expect(try await isAnsweredByStandby(pool) == false)

            pool.useReplica(true)
            await pair.standby.stop(.immediate)
            #expect(try await isAnsweredByStandby(pool) == false)
            try await pair.standby.start()
            try await eventually("the standby is read again") { try await isAnsweredByStandby(pool) == true }
        }
    }

    @Test("What a replica has not replayed yet is read from the primary, and what takes too long is not repeated there")
    func errors() async throws {
        try await withPool { pool, pair in
            pool.useReplica(true)
            let replica = try #require(pool.replica)
            _ = try await replica.read("SELECT pg_wal_replay_pause()")
            try await eventually("replay is paused") {
                try await replica.value(String.self, "SELECT pg_get_wal_replay_pause_state()") == "paused"
            }
            try await pool.write("CREATE TABLE added (id integer)")
            try await pool.write("INSERT INTO added VALUES (1)")
            let rows = try await pool.withReplica { try await $0.read("SELECT id FROM added") }
            #expect(try rows.first?.decode(Int32.self) == 1)

            let error = try await postgresError {
                try await pool.withReplica { replica in
                    guard replica !== pool else { throw PostgresError(.decoding) }
                    _ = try await replica.read("SELECT pg_sleep(60)")
                }
            }
            #expect(error.code == .timedOut)
        }
    }

    @Test("The pool of a replica changes nothing, not even at a primary")
    func writes() async throws {
        try await TestDatabase.withPool {
            $0.isReplica = true
        } _: { pool, _ in
            let write = try await postgresError { try await pool.write("CREATE TABLE t ()") }
            #expect(write.code == .unavailable)
            let transaction = try await postgresError {
                try await pool.withTransaction { _ = try await $0.query("CREATE TABLE t ()") }
            }
            #expect(transaction.sqlState == PostgresError.readOnlyTransaction)
        }
    }
}
