import EventLoop
import FoundationEssentials
import Glibc
import Locking
import TestSupport
import Testing

@testable import Postgres

/// `COPY … FROM STDIN`: data of any length into a table, within a transaction.
@Suite(.timeLimit(.minutes(5))) struct CopyTests {
    private struct ChangeOfMind: Error {}

    private static let statement: SQL = "COPY t (n) FROM STDIN"

    /// Returns the numbers as lines, cut into pieces of `length` bytes.
    private func pieces(_ numbers: Range<Int>, of length: Int) -> [[UInt8]] {
        let bytes = numbers.flatMap { "\($0)\n".utf8 }
        return stride(from: 0, to: bytes.count, by: length).map { Array(bytes[$0..<min($0 + length, bytes.count)]) }
    }

    private func withTable(
        _ adjust: (inout PostgresSettings) -> Void = { _ in },
        _ body: (PostgresPool, TestDatabase) async throws -> Void
    ) async throws {
        try await TestDatabase.withPool {
            $0.exclusiveConnections = 2
            adjust(&$0)
        } _: { pool, database in
            try await pool.write("CREATE TABLE t (n integer PRIMARY KEY)")
            try await body(pool, database)
        }
    }

    /// Runs `body` with a table on a private server, whose backends it may stop.
    private func withPrivateTable(
        _ adjust: (inout PostgresSettings) -> Void,
        _ body: (PostgresPool) async throws -> Void
    ) async throws {
        try await withPrivateServer {
            $0.exclusiveConnections = 2
            adjust(&$0)
        } _: { _, pool in
            try await pool.write("CREATE TABLE t (n integer PRIMARY KEY)")
            try await body(pool)
        }
    }

    private func backend(_ transaction: PostgresTransaction) async throws -> Int32 {
        try #require(try await transaction.query("SELECT pg_backend_pid()").first).decode(Int32.self)
    }

    private func rows(_ pool: PostgresPool) async throws -> Int64 {
        try await pool.value(Int64.self, "SELECT count(*) FROM t")
    }

    @Test("10,000 rows arrive intact, wherever the data is cut, and are stored when the transaction commits")
    func rows() async throws {
        try await withTable { pool, _ in
            for length in [7, 1000, 1 << 20] {
                try await pool.withTransaction { transaction in
                    try await transaction.query("TRUNCATE t")
                    let count = try await transaction.copy(Self.statement) { writer in
                        for piece in pieces(0..<10_000, of: length) { try await writer.write(piece) }
                    }
                    #expect(count == 10_000)
                    // The transaction is still usable.
                    let sum = try await transaction.query("SELECT sum(n) FROM t").first?.decode(Int64.self)
                    #expect(sum == 49_995_000)
                }
                #expect(try await rows(pool) == 10_000)
            }
        }
    }

    @Test("Values of every type arrive unchanged in a temporary table, and the session's statement timeout is restored")
    func binaryRows() async throws {
        try await withTable { pool, _ in
            let values: [(Int64, String?, [String], Bool, Date?)] = [
                (
                    .max, "tab\t, \"quote\" and 여행", ["a", "", "b,c"], true,
                    Date(timeIntervalSince1970: 1_700_000_000.000001)
                ),
                (-1, "", [], false, nil), (0, nil, ["\\N"], true, Date(timeIntervalSince1970: -86_400)),
            ]
            try await pool.withConnection(statementTimeout: .seconds(77)) { session in
                try await session.execute(
                    script: """
                        CREATE TEMPORARY TABLE every (
                            number bigint, text text, texts text[], flag boolean, time timestamptz
                        )
                        """
                )
                let count = try await session.copy("COPY every FROM STDIN (FORMAT binary)") { writer in
                    var rows = PostgresCopyRows()
                    for (number, text, texts, flag, time) in values {
                        try rows.append([.int64(number), .text(text), .texts(texts), .bool(flag), .timestamp(time)])
                        try await writer.write(rows.take())
                    }
                    #expect(throws: PostgresError.self) { try rows.append([.text("a\0b")]) }
                    _ = rows.take()
                    rows.appendTrailer()
                    try await writer.write(rows.take())
                }
                #expect(count == 3)
                let rows = try await session.query("SELECT * FROM every")
                for (row, value) in zip(rows, values) {
                    let read = try row.decode(Int64.self, String?.self, [String].self, Bool.self, Date?.self)
                    #expect(read == value)
                }
                let timeout = try await session.query("SHOW statement_timeout").first?.decode(String.self)
                #expect(timeout == "77s")
            }
        }
    }

    @Test("A COPY without data, or with an empty piece, stores no rows")
    func empty() async throws {
        try await withTable { pool, _ in
            let counts = try await pool.withTransaction { transaction in
                let none = try await transaction.copy(Self.statement) { _ in }
                return [none, try await transaction.copy(Self.statement) { try await $0.write([]) }]
            }
            #expect(counts == [0, 0])
        }
    }

    @Test("A producer that throws half-way leaves no rows, its caller gets the error, and the connection stays usable")
    func producerFails() async throws {
        try await withTable {
            $0.exclusiveConnections = 1
        } _: { pool, _ in
            var backends: Set<Int32> = []
            for _ in 0..<2 {
                await #expect(throws: ChangeOfMind.self) {
                    try await pool.withTransaction { transaction in
                        backends.insert(try await backend(transaction))
                        _ = try await transaction.copy(Self.statement) { writer in
                            for piece in pieces(0..<5000, of: 512) { try await writer.write(piece) }
                            throw ChangeOfMind()
                        }
                    }
                }
            }
            #expect(backends.count == 1)
            #expect(try await rows(pool) == 0)
            let next = try await pool.withTransaction { try await backend($0) }
            #expect(next == backends.first)
        }
    }

    @Test("A row that the server rejects is an error with its SQLSTATE, and no rows of the COPY are kept")
    func badRow() async throws {
        try await withTable {
            $0.exclusiveConnections = 1
        } _: { pool, _ in
            for (bad, sqlState) in [("many\n", "22P02"), ("1\n", "23505"), ("2\t3\n", "22P04")] {
                let error = try await postgresError {
                    try await pool.withTransaction { transaction in
                        _ = try await transaction.copy(Self.statement) { writer in
                            try await writer.write(Array("1\n\(bad)".utf8))
                            // The server rejects the row long before it has received all of this.
                            for piece in pieces(10..<50_000, of: 4096) { try await writer.write(piece) }
                        }
                    }
                }
                #expect(error.code == .server)
                #expect(error.sqlState == sqlState)
            }
            let wrong = try await postgresError {
                try await pool.withTransaction { transaction in
                    _ = try await transaction.copy("COPY none FROM STDIN") { _ in Issue.record("the producer ran") }
                }
            }
            #expect(wrong.sqlState == "42P01")
            #expect(try await rows(pool) == 0)
            #expect(try await pool.withTransaction { _ in true })
        }
    }

    @Test("Only COPY FROM STDIN is allowed: another COPY loses the connection, and a plain statement takes no data")
    func otherStatements() async throws {
        try await withTable { pool, _ in
            let other = try await postgresError {
                try await pool.withTransaction { transaction in
                    _ = try await transaction.copy("COPY t TO STDOUT") { _ in }
                }
            }
            #expect(other.code == .connectionLost)
            let plain = try await postgresError {
                try await pool.withTransaction { transaction in
                    _ = try await transaction.copy("SELECT 1") { _ in Issue.record("the producer ran") }
                }
            }
            #expect(plain.code == .unavailable)
            #expect(try await pool.withTransaction { _ in true })
        }
    }

    @Test("A COPY whose task is cancelled between two pieces ends at once, and leaves neither rows nor locks")
    func cancelled() async throws {
        try await withTable { pool, _ in
            let started = AsyncStream.makeStream(of: Void.self)
            let task = Task(executorPreference: pool.loop) {
                defer { started.continuation.finish() }
                try await pool.withTransaction { transaction in
                    _ = try await transaction.copy(Self.statement) { writer in
                        try await writer.write(Array("1\n".utf8))
                        started.continuation.finish()
                        try await Task.sleep(for: .seconds(600))
                    }
                }
            }
            for await _ in started.stream {}
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            // Blocks while an unfinished transaction holds locks.
            try await pool.write("TRUNCATE t")
            #expect(try await pool.withTransaction { _ in true })
        }
    }

    /// The number of pieces of 1 MiB: more than a socket buffers while its peer does not read, and less than a
    /// machine's memory.
    private static let tooMany = 256

    /// Writes pieces of 1 MiB to a stopped backend, and counts those that were accepted.
    private func writeToStopped(_ writer: PostgresCopyWriter, _ taken: Locked<Int>) async throws {
        let piece = [UInt8](repeating: UInt8(ascii: "0"), count: 1 << 20)
        while taken.withLock({ $0 }) < Self.tooMany {
            try await writer.write(piece)
            taken.withLock { $0 += 1 }
        }
        Issue.record("the backend does not read, yet the writer does not wait")
    }

    @Test("A writer waits while the server does not read, can be cancelled during the wait, and the pool stays usable")
    func cancelledWhileBlocked() async throws {
        try await withPrivateTable {
            $0.statementTimeout = .seconds(60)
        } _: { pool in
            let started = AsyncStream.makeStream(of: Int32.self)
            let taken = Locked(0)
            let task = Task(executorPreference: pool.loop) {
                defer { started.continuation.finish() }
                try await pool.withTransaction { transaction in
                    let own = try await backend(transaction)
                    _ = try await transaction.copy(Self.statement) { writer in
                        #expect(kill(own, SIGSTOP) == 0)
                        started.continuation.yield(own)
                        try await writeToStopped(writer, taken)
                    }
                }
            }
            var iterator = started.stream.makeAsyncIterator()
            let stopped = try #require(await iterator.next())
            var before = -1
            try await eventually("the writer waits") {
                try await Task.sleep(for: .milliseconds(50))
                defer { before = taken.withLock { $0 } }
                return taken.withLock { $0 } == before
            }
            task.cancel()
            kill(stopped, SIGCONT)
            await #expect(throws: CancellationError.self) { try await task.value }
            try await pool.write("TRUNCATE t")
            #expect(try await pool.withTransaction { _ in true })
        }
    }

    @Test("A server that reads nothing for the statement timeout loses its connection")
    func noProgress() async throws {
        try await withPrivateTable {
            // Long enough for the statements before the COPY, even on a busy machine.
            $0.statementTimeout = .seconds(2)
            $0.answerGrace = .seconds(2)
        } _: { pool in
            let error = try await postgresError {
                try await pool.withTransaction { transaction in
                    let own = try await backend(transaction)
                    defer { _ = kill(own, SIGCONT) }
                    _ = try await transaction.copy(Self.statement) { writer in
                        #expect(kill(own, SIGSTOP) == 0)
                        try await writeToStopped(writer, Locked(0))
                    }
                }
            }
            #expect(error.code == .timedOut)
            try await eventually("there is a new connection") {
                (try? await pool.withTransaction { _ in true }) ?? false
            }
        }
    }

    @Test("A COPY may exceed the statement timeout for as long as its producer needs, but the next statement may not")
    func long() async throws {
        try await withTable {
            // Long enough for a statement on a busy machine. The pauses add up to more.
            $0.statementTimeout = .seconds(2)
            $0.answerGrace = .seconds(10)
        } _: { pool, _ in
            let error = try await postgresError {
                try await pool.withTransaction { transaction in
                    let count = try await transaction.copy(Self.statement) { writer in
                        for piece in pieces(0..<8, of: 2) {
                            try await writer.write(piece)
                            try await Task.sleep(for: .milliseconds(300))
                        }
                    }
                    #expect(count == 8)
                    try await transaction.query("SELECT pg_sleep(60)")
                }
            }
            #expect(error.sqlState == "57014")
        }
    }

    @Test("A transaction can have a longer statement timeout than others")
    func longTransaction() async throws {
        try await withTable {
            // Long enough for a statement on a busy machine.
            $0.statementTimeout = .seconds(5)
            $0.answerGrace = .seconds(10)
        } _: { pool, database in
            try await pool.withTransaction(statementTimeout: .seconds(60)) { transaction in
                _ = try await transaction.copy(Self.statement) { try await $0.write([UInt8]("1\n".utf8)) }
                try await transaction.query("SELECT pg_sleep(6)")
            }
            // The next transaction on that connection has the usual timeout again.
            let error = try await postgresError {
                try await pool.withTransaction { _ = try await $0.query("SELECT pg_sleep(60)") }
            }
            #expect(error.code == .timedOut)
            #expect(try await rows(pool) == 1)
        }
    }

    @Test("If the backend is terminated during a COPY, the writer receives the server's error")
    func terminated() async throws {
        try await withTable { pool, _ in
            let error = try await postgresError {
                try await pool.withTransaction { transaction in
                    let own = try await backend(transaction)
                    _ = try await transaction.copy(Self.statement) { writer in
                        try await writer.write(Array("1\n".utf8))
                        try await pool.write("SELECT pg_terminate_backend($1)", [.int32(own)])
                        let piece = Array("2\n".utf8)
                        while true { try await writer.write(piece) }
                    }
                }
            }
            #expect(error.code == .connectionLost)
            #expect(error.sqlState == "57P01")
            #expect(try await rows(pool) == 0)
            #expect(try await pool.withTransaction { _ in true })
        }
    }

    @Test("During a COPY other statements are rejected, and after it more data is rejected")
    func order() async throws {
        try await withTable { pool, _ in
            try await pool.withTransaction { transaction in
                var escaped: PostgresCopyWriter?
                let count = try await transaction.copy(Self.statement) { writer in
                    escaped = writer
                    try await writer.write(Array("1\n".utf8))
                    let error = try await postgresError { try await transaction.query("SELECT 1") }
                    #expect(error.code == .unavailable)
                }
                #expect(count == 1)
                let error = try await postgresError { try await escaped?.write(Array("2\n".utf8)) }
                #expect(error.code == .unavailable)
            }
            #expect(try await rows(pool) == 1)
        }
    }

    @Test("While the server reads no data, a COPY accepts only what buffers hold, and later the rest")
    func backpressure() async throws {
        try await withTable { pool, database in
            // The first row waits for a lock that another transaction holds.
            try await pool.write("CREATE TABLE bytes (b text)")
            try await pool.write(
                """
                CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_advisory_xact_lock(\(database.lock)); RETURN NEW; END $$
                """
            )
            try await pool.write("CREATE TRIGGER wait BEFORE INSERT ON bytes FOR EACH ROW EXECUTE FUNCTION wait()")
            let line = [UInt8](repeating: UInt8(ascii: "x"), count: 65_535) + [UInt8(ascii: "\n")]
            let lines = 2048
            let accepted = Locked(0)
            try await withThrowingTaskGroup { group in
                try await pool.withTransaction { holder in
                    try await holder.query("SELECT pg_advisory_xact_lock(\(database.lock))")
                    group.addTask {
                        try await pool.withTransaction { transaction in
                            let count = try await transaction.copy("COPY bytes FROM STDIN") { writer in
                                for _ in 0..<lines {
                                    try await writer.write(line)
                                    accepted.withLock { $0 += 1 }
                                }
                            }
                            #expect(count == lines)
                        }
                    }
                    var before = 0
                    try await eventually("the server waits, and no more data is accepted than at the last look") {
                        defer { before = accepted.withLock { $0 } }
                        let waiting = try await pool.value(
                            Int64.self,
                            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY bytes%' AND wait_event = 'advisory'"
                        )
                        return waiting == 1 && accepted.withLock { $0 } == before
                    }
                    // The buffers of the sockets hold only a few of the 128 MB.
                    #expect(accepted.withLock { $0 } < lines / 4)
                }
                try await group.waitForAll()
            }
            #expect(try await pool.value(Int64.self, "SELECT count(*) FROM bytes") == Int64(lines))
        }
    }
}
