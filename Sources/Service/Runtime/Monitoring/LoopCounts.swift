package import EventLoop

/// Numbers by key that each event loop counts for itself, so that counting takes no lock. A scrape adds them up.
package final class LoopCounts<Key: Hashable & Sendable>: Sendable {
    /// The numbers of one loop.
    package final class Own: @unchecked Sendable {
        // `numbers` is accessed on the loop only, which both methods check.

        fileprivate let loop: EventLoop
        private var numbers: [Key: Int] = [:]

        fileprivate init(_ loop: EventLoop) {
            self.loop = loop
        }

        /// Adds to the number of a key.
        package func add(_ amount: Int = 1, to key: Key) {
            loop.preconditionOnLoop()
            numbers[key, default: 0] += amount
        }

        fileprivate var all: [Key: Int] {
            loop.preconditionOnLoop()
            return numbers
        }
    }

    private let own: [Own]

    package init(_ loops: [LoopServices]) {
        own = loops.map { Own($0.loop) }
    }

    /// Returns the numbers of a loop, which must be one of the server's.
    package func on(_ loop: EventLoop) -> Own {
        guard let own = own.first(where: { $0.loop === loop }) else { preconditionFailure("each loop has numbers") }
        return own
    }

    /// Returns the sums over all loops, without those that are 0.
    package func sums() async -> [Key: Int] {
        var sums: [Key: Int] = [:]
        for own in own { sums.merge(await own.loop.result { own.all }) { $0 + $1 } }
        return sums
    }
}
