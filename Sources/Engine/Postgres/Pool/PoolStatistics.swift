package import EventLoop

/// The numbers of a pool that operators see.
package struct PoolStatistics: Sendable {
    /// The times from sending a statement to its result, of all connections of the pool.
    package var durations = DurationCounts()
    /// The statements, transactions and items of coalesced statements that wait to be sent.
    package var waiting = 0
    /// The number of times that a lost shared connection was opened again.
    package var reconnections = 0
}

/// The numbers of a pool that are counted as they occur.
final class PoolCounts: @unchecked Sendable {
    // Only used on the pool's loop: by its connections and coalescers.

    var durations = DurationCounts()
    /// The items that wait in coalescers.
    var waitingItems = 0
}
