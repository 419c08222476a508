import Testing

@testable import Runtime

/// The capacity of the cache, and the order of eviction.
@Suite struct LRUCacheTests {
    @Test("The cache never exceeds its limit")
    func bounded() {
        var values = LRUCache<Int, Int>(limit: 100)
        for key in 0..<10_000 {
            values.set(key, for: key)
            #expect(values.count <= 100)
        }
        #expect(values.value(9999) == 9999)
        #expect(values.value(0) == nil)
    }

    @Test("A value in frequent use outlasts a flood of unused ones")
    func recent() {
        var values = LRUCache<Int, String>(limit: 100)
        values.set("kept", for: -1)
        for key in 0..<10_000 {
            values.set("flood", for: key)
            #expect(values.value(-1) == "kept")
        }
        #expect(values.count <= 100)
    }

    @Test("A value is replaced or removed in both halves")
    func replaced() {
        var values = LRUCache<Int, String>(limit: 4)
        for key in 0..<3 { values.set("old", for: key) }
        values.set("new", for: 0)
        #expect(values.value(0) == "new")
        values.remove(0)
        #expect(values.value(0) == nil)
        values.remove(2)
        #expect(values.value(2) == nil)
        #expect(values.count == 1)
    }
}
