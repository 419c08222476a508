import EventLoop

/// Numbers by key that each event loop counts for itself, so that counting takes no lock. A scrape adds them up.
package struct LoopCounts<Key: Hashable & Sendable>: Sendable {
    /// The numbers of one loop.
    package typealias Own = LoopValue<[Key: Int]>.Copy

    private let numbers: LoopValue<[Key: Int]>

    package init(_ loops: [LoopServices]) {
        numbers = LoopValue([:], loops: loops.map(\.loop))
    }

    /// Returns the numbers of a loop, which must be one of the server's.
    package func on(_ loop: EventLoop) -> Own { numbers.on(loop) }

    /// Returns the sums over all loops, without those that are 0.
    package func sums() async -> [Key: Int] {
        await numbers.all().reduce(into: [:]) { sums, own in sums.merge(own) { $0 + $1 } }
    }
}

extension LoopValue.Copy {
    /// Adds to the number of a key. Called on the loop only.
    package func add<Key: Hashable>(_ amount: Int = 1, to key: Key) where Value == [Key: Int] {
        change { $0[key, default: 0] += amount }
    }
}
