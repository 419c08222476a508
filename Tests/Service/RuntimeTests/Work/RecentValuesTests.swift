import EventLoop
import Runtime
import Testing

/// Values of the last minutes.
@Suite struct RecentValuesTests {
    private let start = MonotonicTime.now

    @Test("The latest value of a key counts, also if an earlier one is in the older half")
    func latest() {
        var values = RecentValues<Int, String>(maximum: 100)
        values.store("first", for: 1, at: start)
        values.store("kept", for: 2, at: start)
        values.store("second", for: 1, at: start + .seconds(301))
        #expect(values.all == [1: "second", 2: "kept"])
    }

    @Test("A value is kept for five minutes at least, and for ten at most while others are stored")
    func period() {
        var values = RecentValues<Int, Int>(maximum: 100)
        values.store(1, for: 1, at: start + .seconds(299))
        values.store(2, for: 2, at: start + .seconds(301))
        values.store(3, for: 3, at: start + .seconds(598))
        #expect(values.all == [1: 1, 2: 2, 3: 3])
        values.store(4, for: 4, at: start + .seconds(602))
        #expect(values.all == [2: 2, 3: 3, 4: 4])
    }

    @Test("Without further values the last ones stay for half a day, and earlier ones not longer")
    func age() {
        var values = RecentValues<Int, Int>(maximum: 100)
        let start = MonotonicTime.now
        values.store(1, for: 1, at: start)
        values.store(2, for: 2, at: start + .seconds(11 * 3600))
        #expect(values.all(at: start + .seconds(11 * 3600)) { $1 } == [1: 1, 2: 2])
        #expect(values.all(at: start + .seconds(12 * 3600)) { $1 } == [2: 2])
        #expect(values.all(at: start + .seconds(23 * 3600)) { $1 }.isEmpty)
    }

    @Test("Of very many values the older half is dropped")
    func maximum() {
        var values = RecentValues<Int, Int>(maximum: 100)
        for number in 0..<1000 { values.store(number, for: number, at: start) }
        #expect(values.all.count <= 100)
        #expect((950..<1000).allSatisfy { values.all[$0] == $0 })
    }
}
