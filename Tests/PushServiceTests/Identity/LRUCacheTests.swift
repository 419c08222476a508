import Testing

@testable import PushService

/// What is remembered, and how much of it.
@Suite struct LRUCacheTests {
    @Test("It never holds more than its limit, whatever it is filled with")
    func bounded() {
        var values = LRUCache<Int, Int>(limit: 100)
        for key in 0..<10_000 {
            values.set(key, for: key)
            #expect(values.count <= 100)
        }
        #expect(values.value(9999) == 9999)
        #expect(values.value(0) == nil)
    }

    @Test("What is asked for again and again outlasts a flood of what is not")
    func recent() {
        var values = LRUCache<Int, String>(limit: 100)
        values.set("kept", for: -1)
        for key in 0..<10_000 {
            values.set("flood", for: key)
            #expect(values.value(-1) == "kept")
        }
        #expect(values.count <= 100)
    }

    @Test("A value that is set again or removed is so in both halves")
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
