import EventLoop
import Glibc
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
                try await pool.run { try await body(pool, pair) }
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
            pool.useReplica(until: MonotonicTime.now + .seconds(3600))
            #expect(try await isAnsweredByStandby(pool) == true)
            let isInRecovery = try await pool.withReplica { replica in
                try await replica.withConnection { try await $0.query("SELECT pg_is_in_recovery()") }
            }
            #expect(try isInRecovery.first?.decode(Bool.self) == true)
            pool.useReplica(until: nil)
            #expect(try await isAnsweredByStandby(pool) == false)

            pool.useReplica(until: MonotonicTime.now + .seconds(3600))
            await pair.standby.stop(.immediate)
            #expect(try await isAnsweredByStandby(pool) == false)
            #expect(pool.replicaFailures == 1)
            // It is not tried again until a check finds that it responds.
            try await pair.standby.start()
            #expect(try await isAnsweredByStandby(pool) == false)
            try await eventually("the standby is read again") {
                pool.useReplica(until: MonotonicTime.now + .seconds(3600))
                return try await isAnsweredByStandby(pool) == true
            }
        }
    }

    @Test("A replica that hangs delays one read, which the primary answers")
    func frozen() async throws {
        try await withPool { pool, pair in
            pool.useReplica(until: MonotonicTime.now + .seconds(3600))
            #expect(try await isAnsweredByStandby(pool) == true)
            let process = try #require(await pair.standby.processIdentifier)
            // The processes of its sessions, too.
            let pids = try await pool.withReplica { try await $0.read("SELECT pid FROM pg_stat_activity") }
                .map { try $0.decode(Int32.self) }
            for pid in pids + [process] { kill(pid, SIGSTOP) }
            defer { for pid in pids + [process] { kill(pid, SIGCONT) } }
            #expect(try await isAnsweredByStandby(pool) == false)
            #expect(try await isAnsweredByStandby(pool) == false)
            #expect(pool.replicaFailures == 1)
        }
    }

    @Test("What a replica has not replayed yet, cancels or takes too long for is read from the primary")
    func errors() async throws {
        try await withPool { pool, pair in
            pool.useReplica(until: MonotonicTime.now + .seconds(3600))
            let replica = try #require(pool.replica)
            _ = try await replica.read("SELECT pg_wal_replay_pause()")
            try await eventually("replay is paused") {
                try await replica.value(String.self, "SELECT pg_get_wal_replay_pause_state()") == "paused"
            }
            try await pool.write("CREATE TABLE added (id integer)")
            try await pool.write("INSERT INTO added VALUES (1)")
            let rows = try await pool.withReplica { try await $0.read("SELECT id FROM added") }
            #expect(try rows.first?.decode(Int32.self) == 1)

            let slow = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_sleep(60)::text ELSE 'primary' END"
            let value = try await pool.withReplica { try await $0.read(slow) }
            #expect(try value.first?.decode(String.self) == "primary")
            // It responds, so that it is still read.
            #expect(try await isAnsweredByStandby(pool) == true)
            #expect(pool.replicaFailures == 2)
            await #expect(throws: OtherError.self) {
                try await pool.withReplica { _ -> Bool in throw OtherError() }
            }
            let other = try await pool.withReplica { pool in
                if pool === replica { throw NotReplicated() }
                return "primary"
            }
            #expect(other == "primary")
            #expect(pool.replicaFailures == 2)
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

private struct OtherError: Error {}
