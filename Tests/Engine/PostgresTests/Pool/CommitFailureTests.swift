import EventLoop
import Postgres
import TestSupport
import Testing

/// Statements that succeed, and whose commit fails.
@Suite struct CommitFailureTests {
    /// Runs `body` with a table that rejects negative numbers at the commit, and 40001 for the first commits of zero.
    private func withTable(
        retries: Int = 0,
        _ adjust: (inout PostgresSettings) -> Void = { _ in },
        _ body: (PostgresPool) async throws -> Void
    ) async throws {
        try await TestDatabase.withPool(adjust) { pool, _ in
            try await pool.withConnection { session in
                try await session.execute(
                    text: """
                        CREATE TABLE t (n integer);
                        CREATE SEQUENCE attempts;
                        CREATE FUNCTION check_row() RETURNS trigger LANGUAGE plpgsql AS $$
                        BEGIN
                            IF NEW.n < 0 THEN
                                RAISE 'negative' USING ERRCODE = 'check_violation', CONSTRAINT = 't_positive';
                            ELSIF NEW.n = 0 AND nextval('attempts') <= \(retries) THEN
                                RAISE 'concurrent' USING ERRCODE = 'serialization_failure';
                            END IF;
                            RETURN NULL;
                        END $$;
                        CREATE CONSTRAINT TRIGGER t_check AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
                        FOR EACH ROW EXECUTE FUNCTION check_row()
                        """
                )
            }
            try await body(pool)
        }
    }

    @Test("A failed commit fails its own statement, and neither others of the pipeline nor the connection")
    func writes() async throws {
        try await withTable {
            $0.writeConnections = 1
        } _: { pool in
            let results = await Task(executorPreference: pool.loop) {
                await withTaskGroup(of: (Int32, PostgresError?).self) { group in
                    for number: Int32 in -20...20 {
                        group.addTask {
                            do {
                                try await pool.write("INSERT INTO t VALUES ($1)", [.int32(number)])
                                return (number, nil)
                            } catch {
                                return (number, error as? PostgresError)
                            }
                        }
                    }
                    return await group.reduce(into: [:]) { $0[$1.0] = .some($1.1) }
                }
            }.value
            for (number, error) in results {
                #expect(error?.constraint == (number < 0 ? "t_positive" : nil))
                #expect(error?.sqlState == (number < 0 ? "23514" : nil))
            }
            let count = try await pool.value(Int64.self, "SELECT count(*) FROM t")
            #expect(count == 21)
            #expect(await pool.statistics().reconnections == 0)
        }
    }

    @Test("An item that fails the commit of a coalesced statement fails alone")
    func coalesced() async throws {
        try await withTable { pool in
            let coalescer = StatementCoalescer(pool: pool) { InsertNumbers(numbers: $0) }
            let failed = await Task(executorPreference: pool.loop) {
                await withTaskGroup(of: Int32?.self) { group in
                    for number: Int32 in [1, 2, -3, 4, -5] {
                        group.addTask {
                            do {
                                try await coalescer.submit(number)
                                return nil
                            } catch {
                                return (error as? PostgresError)?.constraint == "t_positive" ? number : nil
                            }
                        }
                    }
                    return await group.reduce(into: Set()) { if let number = $1 { $0.insert(number) } }
                }
            }.value
            #expect(failed == [-3, -5])
            let count = try await pool.value(Int64.self, "SELECT count(*) FROM t")
            #expect(count == 3)
        }
    }

    @Test("A commit that fails because of a concurrent transaction is tried again")
    func serializationFailures() async throws {
        try await withTable(retries: 2) { pool in
            let rows = try await pool.write("INSERT INTO t VALUES (0)")
            #expect(rows.affectedRows == 1)
            #expect(try await pool.value(Int64.self, "SELECT count(*) FROM t") == 1)
        }
        try await withTable(retries: .max) { pool in
            let error = try await postgresError { try await pool.write("INSERT INTO t VALUES (0)") }
            #expect(error.sqlState == "40001")
        }
    }

    @Test("A transaction whose commit fails throws the reason, and its connection is used again")
    func transactions() async throws {
        try await withTable {
            $0.exclusiveConnections = 1
        } _: { pool in
            func backend(_ number: Int) async throws -> Int32? {
                try await pool.withTransaction { transaction in
                    try await transaction.query("INSERT INTO t VALUES (\(number))")
                    return try await transaction.query("SELECT pg_backend_pid()").first?.decode(Int32.self)
                }
            }
            let first = try await backend(1)
            let error = try await postgresError { _ = try await backend(-1) }
            #expect(error.constraint == "t_positive")
            #expect(try await backend(2) == first)
            #expect(try await pool.value(Int64.self, "SELECT sum(n) FROM t") == 3)
        }
    }

    @Test("A COPY and a script whose commit fails throw the reason")
    func scripts() async throws {
        try await withTable { pool in
            for number in [-1, 1] {
                let errors = try await pool.withConnection { session in
                    var errors: [PostgresError] = []
                    do {
                        try await session.execute(text: "SELECT 1; INSERT INTO t VALUES (\(number))")
                    } catch let error as PostgresError { errors.append(error) }
                    do {
                        _ = try await session.copy("COPY t FROM STDIN") {
                            try await $0.write(Array("\(number)\n".utf8))
                        }
                    } catch let error as PostgresError { errors.append(error) }
                    return errors
                }
                #expect(errors.map(\.constraint) == (number < 0 ? ["t_positive", "t_positive"] : []))
            }
            #expect(try await pool.value(Int64.self, "SELECT count(*) FROM t") == 2)
        }
    }
}

private struct InsertNumbers: CoalescedStatement {
    typealias Item = Int32

    static let sql: SQL = "INSERT INTO t SELECT unnest($1::integer[])"

    let numbers: [Int32]

    var parameters: [PostgresValue] { [.int32s(numbers)] }
}
