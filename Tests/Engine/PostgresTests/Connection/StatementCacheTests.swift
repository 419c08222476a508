import Testing

@testable import Postgres

@Suite struct StatementCacheTests {
    private let key = key("SELECT $1", types: [TypeOID.int8])

    private static func key(_ text: String, types: [UInt32] = []) -> StatementCache.Key {
        StatementCache.Key(statement: StatementText(text: text), types: types)
    }

    @Test("A statement is prepared once, under a unique name")
    func once() {
        var cache = StatementCache()
        #expect(cache.use(key) == .prepare(name: "statement"))
        #expect(cache.use(key) == .prepared(name: "statement"))
        #expect(cache.use(Self.key("SELECT 2")) == .prepare(name: "statement_2"))
        #expect(cache.use(Self.key("SELECT 3")) == .prepare(name: "statement_3"))
    }

    @Test("The same SQL with other parameter types is another statement")
    func types() {
        var cache = StatementCache()
        _ = cache.use(key)
        #expect(cache.use(Self.key("SELECT $1", types: [TypeOID.text])) == .prepare(name: "statement_2"))
    }

    @Test("A statement that could not be prepared is removed, and dependent commands receive the reason")
    func failure() {
        var cache = StatementCache()
        let why = PostgresError(.server, sqlState: "42601")
        _ = cache.use(key)
        cache.failed(key, why)
        #expect(cache.evict(key, after: PostgresError(.server, sqlState: "26000")) == why)
        // Its name may exist on the server.
        #expect(cache.use(key) == .prepare(name: "statement_2"))
    }

    @Test("A declared statement is prepared under the name of its type, with a number if that name was used before")
    func declared() {
        var cache = StatementCache()
        let find = StatementCache.Key(statement: StatementText(FindFruit.self), types: [TypeOID.int8])
        #expect(cache.use(find) == .prepare(name: "FindFruit"))
        #expect(cache.use(find) == .prepared(name: "FindFruit"))

        let count = StatementCache.Key(statement: StatementText(CountFruits.self), types: [])
        #expect(cache.use(count) == .prepare(name: "CountFruits"))

        // Its name may exist on the server.
        cache.failed(find, PostgresError(.server, sqlState: "42P01"))
        #expect(cache.use(find) == .prepare(name: "FindFruit_2"))
        #expect(cache.use(find) == .prepared(name: "FindFruit_2"))

        _ = cache.evict(find, after: PostgresError(.server, sqlState: "0A000"))
        #expect(cache.use(find) == .prepare(name: "FindFruit_3"))

        let text = StatementCache.Key(statement: StatementText(FindFruit.self), types: [TypeOID.text])
        #expect(cache.use(text) == .prepare(name: "FindFruit_4"))
        #expect(cache.use(count) == .prepared(name: "CountFruits"))
    }

    @Test("Beyond the cache's capacity, statements run unprepared")
    func full() {
        var cache = StatementCache()
        for number in 0..<StatementCache.capacity { _ = cache.use(Self.key("SELECT \(number)")) }
        #expect(cache.use(key) == .unprepared)
        #expect(cache.use(Self.key("SELECT 0")) == .prepared(name: "statement"))
    }
}

// MARK: Statements

private struct FindFruit: PostgresStatement {
    static let sql: SQL = """
        SELECT name
        FROM fruits
        WHERE id = $1
        """

    static func decode(_ row: PostgresRow) throws -> String { try row.decode(String.self) }
}

private struct CountFruits: PostgresStatement {
    static let sql: SQL = """
        SELECT count(*)
        FROM fruits
        """

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
