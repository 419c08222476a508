import EventLoop
import Postgres
import TestSupport
import Testing

@Suite struct StatementCoalescerTests {
    /// Inserts items into the table of ``createTable(_:)``.
    private func coalescer(_ pool: PostgresPool, maximumWaiting: Int = 10_000) -> StatementCoalescer<InsertItems> {
        StatementCoalescer(pool: pool, maximumWaiting: maximumWaiting, statement: InsertItems.init)
    }

    private func createTable(_ pool: PostgresPool) async throws {
        try await pool.write("CREATE TABLE t (id bigint PRIMARY KEY CHECK (id <> 13), note text NOT NULL)")
    }

    /// Submits each id in a separate task. Returns the results by id.
    private func submit(
        _ ids: some Sequence<Int64> & Sendable,
        _ coalescer: StatementCoalescer<InsertItems>,
        _ loop: EventLoop
    ) async -> [Int64: Result<Int64, any Error>] {
        await Task(executorPreference: loop) {
            await withTaskGroup(of: (Int64, Result<Int64, any Error>).self) { group in
                for id in ids {
                    group.addTask {
                        do {
                            let item = InsertItems.Item(id: id, note: "note \(id)")
                            return (id, .success(try await coalescer.submit(item)))
                        } catch {
                            return (id, .failure(error))
                        }
                    }
                }
                return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
            }
        }.value
    }

    @Test(
        "1,000 concurrent items are stored by few statements, and each caller receives its own result"
    )
    func thousand() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await createTable(pool)
            let results = await submit(101...1100, coalescer(pool), pool.loop)
            #expect(results.count == 1000)
            for (id, result) in results {
                let answer = try result.get()
                #expect(answer == id * 10)
            }
            let rows = try await pool.read("SELECT count(*), count(DISTINCT xmin::text), count(DISTINCT note) FROM t")
            let (stored, transactions, notes) = try #require(rows.first).decode(Int64.self, Int64.self, Int64.self)
            #expect(stored == 1000)
            #expect(notes == 1000)
            #expect(transactions <= 10)
        }
    }

    @Test("1,000 concurrent reads are run by few statements, which are read-only")
    func reads() async throws {
        try await TestDatabase.withPool { pool, _ in
            let squares = StatementCoalescer(pool: pool, access: .read, statement: ComputeSquares.init)
            let before = pool.statementCount
            // On the loop, so that all reads are submitted in one tick, however busy the machine is.
            try await Task(executorPreference: pool.loop) {
                try await withThrowingTaskGroup(of: (Int64, Int64).self) { group in
                    for number in Int64(1)...1000 { group.addTask { (number, try await squares.submit(number)) } }
                    for try await (number, square) in group { #expect(square == number * number) }
                }
            }.value
            #expect(pool.statementCount - before <= 10)
        }
    }

    @Test(
        "With a spacing, the first item is sent at once, and later ones share a statement: when it is full, or when the time has passed"
    )
    func spacing() async throws {
        try await TestDatabase.withPool { pool, _ in
            func squares(_ spacing: Duration) -> StatementCoalescer<ComputeSquares> {
                StatementCoalescer(
                    pool: pool,
                    access: .read,
                    maximumItems: 3,
                    spacing: spacing,
                    statement: ComputeSquares.init
                )
            }
            let rare = squares(.seconds(3600))
            #expect(try await rare.submit(2) == 4)
            let before = pool.statementCount
            let first = Task(executorPreference: pool.loop) { try await rare.submit(3) }
            let second = Task(executorPreference: pool.loop) { try await rare.submit(4) }
            try await eventually("two items wait") { await pool.statistics().waiting == 2 }
            #expect(pool.statementCount == before)
            #expect(try await rare.submit(5) == 25)
            #expect(try await [first.value, second.value] == [9, 16])
            #expect(pool.statementCount == before + 1)

            let soon = squares(.milliseconds(1))
            for number in Int64(1)...5 { #expect(try await soon.submit(number) == number * number) }
        }
    }

    @Test("A caller that has its result finds its row committed")
    func committed() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await createTable(pool)
            let coalescer = coalescer(pool)
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for id in Int64(101)...150 {
                    group.addTask(executorPreference: pool.loop) {
                        _ = try await coalescer.submit(InsertItems.Item(id: id, note: ""))
                        return try await pool.read("SELECT 1 FROM t WHERE id = $1", [.int64(id)]).count == 1
                    }
                }
                for try await isThere in group { #expect(isThere) }
            }
        }
    }

    @Test("An invalid row fails only its own caller, whether the server rejects it or it cannot be sent")
    func badRow() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await createTable(pool)
            let coalescer = coalescer(pool)
            let unsendable = Task(executorPreference: pool.loop) {
                try await coalescer.submit(InsertItems.Item(id: 1000, note: "a\0b"))
            }
            let missing = Task(executorPreference: pool.loop) {
                try await coalescer.submit(InsertItems.Item(id: 1001, note: nil))
            }
            let results = await submit(10...40, coalescer, pool.loop)
            for (id, result) in results where id != 13 {
                let answer = try result.get()
                #expect(answer == id * 10)
            }
            let checked = try await postgresError { _ = try results[13]?.get() }
            #expect(checked.sqlState == "23514")
            let refused = try await postgresError { _ = try await unsendable.value }
            #expect(refused.code == .invalidParameter)
            let null = try await postgresError { _ = try await missing.value }
            #expect(null.sqlState == "23502")
            #expect(try await pool.read("SELECT id FROM t").count == 30)
        }
    }

    @Test(
        "Items for the same row are separated and written one after another"
    )
    func sameRow() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await pool.write("CREATE TABLE t (id bigint PRIMARY KEY, times integer NOT NULL)")
            let upserts = StatementCoalescer(pool: pool, statement: CountSubmissions.init)
            let times = try await Task(executorPreference: pool.loop) {
                try await withThrowingTaskGroup(of: Int32.self) { group in
                    for _ in 0..<5 { group.addTask { try await upserts.submit(1) } }
                    return try await group.reduce(into: []) { $0.append($1) }.sorted()
                }
            }.value
            #expect(times == [1, 2, 3, 4, 5])
        }
    }

    @Test("Above the limit of waiting items, an item is rejected at once")
    func overloaded() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await createTable(pool)
            let results = await submit(101...150, coalescer(pool, maximumWaiting: 20), pool.loop)
            let refused = results.values.filter { result in
                if case .failure(let error as PostgresError) = result { error.code == .overloaded } else { false }
            }
            let stored = try await pool.read("SELECT id FROM t").count
            #expect(refused.count >= 1)
            #expect(stored >= 20)
            #expect(stored + refused.count == 50)
        }
    }

    @Test("Results that do not match the items are an error to all callers, and later items are still written")
    func wrongAnswers() async throws {
        try await TestDatabase.withPool { pool, _ in
            try await createTable(pool)
            let confused = StatementCoalescer(pool: pool, statement: InsertConfusedly.init)
            let error = try await postgresError { _ = try await confused.submit(1) }
            #expect(error.code == .decoding)
            #expect(error.statement == "InsertConfusedly")
            #expect(try await confused.submit(2) == 2)
        }
    }

    @Test("All items fail if the server rejects the statement for another reason than a row")
    func brokenStatement() async throws {
        try await TestDatabase.withPool { pool, _ in
            let results = await submit(101...110, coalescer(pool), pool.loop)
            for result in results.values {
                let error = #expect(throws: PostgresError.self) { try result.get() }
                #expect(error?.sqlState == "42P01")
                #expect(error?.statement == "InsertItems")
            }
        }
    }
}

// MARK: Statements

/// Inserts items into a table `t`. Returns ten times the id of each.
private struct InsertItems: CoalescedStatement {
    static let sql: SQL = """
        WITH stored AS (
            INSERT INTO t (id, note)
            SELECT id, note
            FROM unnest($1::bigint[], $2::text[]) AS item (id, note)
            RETURNING id
        )
        SELECT stored.id * 10
        FROM unnest($1::bigint[]) WITH ORDINALITY AS item (id, position)
        JOIN stored USING (id)
        ORDER BY position
        """

    struct Item: Sendable {
        let id: Int64
        let note: String?
    }

    let items: [Item]

    var parameters: [PostgresValue] { [.int64s(items.map(\.id)), .texts(items.map(\.note))] }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Int64] {
        try rows.map { try $0.decode(Int64.self) }
    }
}

/// Computes the square of each number, plus one unless the transaction is read-only.
private struct ComputeSquares: CoalescedStatement {
    typealias Item = Int64

    static let sql: SQL = """
        SELECT number * number + CASE WHEN current_setting('transaction_read_only')::boolean THEN 0 ELSE 1 END
        FROM unnest($1::bigint[]) WITH ORDINALITY AS item (number, place)
        ORDER BY place
        """

    let numbers: [Int64]

    var parameters: [PostgresValue] { [.int64s(numbers)] }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Int64] {
        try rows.map { try $0.decode(Int64.self) }
    }
}

/// Counts how often each id was submitted.
private struct CountSubmissions: CoalescedStatement {
    typealias Item = Int64

    static let sql: SQL = """
        INSERT INTO t (id, times)
        SELECT id, 1
        FROM unnest($1::bigint[]) AS item (id)
        ON CONFLICT (id) DO UPDATE SET times = t.times + 1
        RETURNING times
        """

    let ids: [Int64]

    var parameters: [PostgresValue] { [.int64s(ids)] }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Int32] {
        try rows.map { try $0.decode(Int32.self) }
    }
}

/// Inserts ids and returns them. Returns id 1 twice, which is one result too many.
private struct InsertConfusedly: CoalescedStatement {
    typealias Item = Int64

    static let sql: SQL = """
        INSERT INTO t (id, note)
        SELECT id, ''
        FROM unnest($1::bigint[]) AS item (id)
        RETURNING id
        """

    let ids: [Int64]

    var parameters: [PostgresValue] { [.int64s(ids)] }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Int64] {
        let ids = try rows.map { try $0.decode(Int64.self) }
        return ids.contains(1) ? ids + [1] : ids
    }
}
