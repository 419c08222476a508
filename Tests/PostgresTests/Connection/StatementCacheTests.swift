import Testing

@testable import Postgres

@Suite struct StatementCacheTests {
    private let key = StatementCache.Key(sql: "SELECT $1", types: [TypeOID.int8])

    @Test("A statement is prepared once, under a name of its own")
    func once() {
        var cache = StatementCache()
        #expect(cache.use(key) == .prepare(name: "s1"))
        #expect(cache.use(key) == .prepared(name: "s1"))
        #expect(cache.use(StatementCache.Key(sql: "SELECT 2", types: [])) == .prepare(name: "s2"))
    }

    @Test("The same text with parameters of other types is another statement")
    func types() {
        var cache = StatementCache()
        _ = cache.use(key)
        #expect(cache.use(StatementCache.Key(sql: key.sql, types: [TypeOID.text])) == .prepare(name: "s2"))
    }

    @Test("A statement that could not be prepared is forgotten, and those who counted on it learn why")
    func failure() {
        var cache = StatementCache()
        let why = PostgresError(.server, sqlState: "42601")
        _ = cache.use(key)
        cache.failed(key, why)
        #expect(cache.forget(key, after: PostgresError(.server, sqlState: "26000")) == why)
        // Its name may exist on the server.
        #expect(cache.use(key) == .prepare(name: "s2"))
    }

    @Test("Beyond its capacity, statements run without being prepared")
    func full() {
        var cache = StatementCache()
        for number in 0..<StatementCache.capacity {
            _ = cache.use(StatementCache.Key(sql: "SELECT \(number)", types: []))
        }
        #expect(cache.use(key) == .unprepared)
        #expect(cache.use(StatementCache.Key(sql: "SELECT 0", types: [])) == .prepared(name: "s1"))
    }
}
