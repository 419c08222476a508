import DequeModule
import Locking

/// The number of connections for transactions that the pools of a server may open together.
///
/// A pool acquires a place for each connection and keeps it until the connection is closed. When none is free, the pools
/// close their idle connections, and places go to the pools that wait, in order.
package final class ExclusivePlaces: Sendable {
    /// A pool, as this object calls it from any thread.
    struct Member: Sendable {
        /// Closes the idle connections.
        let closeIdle: @Sendable () -> Void
        /// Passes a place to the pool, which had none when it asked.
        let placeGranted: @Sendable () -> Void
    }

    /// The time in milliseconds for which a pool that waits leaves others the connections that they use: to open another
    /// one takes some milliseconds.
    private static let patience: UInt64 = 50

    private struct State {
        var free: Int
        var members: [ObjectIdentifier: Member] = [:]
        var waiting: Deque<(pool: ObjectIdentifier, since: UInt64)> = []
    }

    private let state: Locked<State>

    package init(_ count: Int) {
        state = Locked(State(free: count))
    }

    /// Adds a pool, until ``remove(_:)``.
    func add(_ pool: ObjectIdentifier, _ member: Member) {
        state.withLock { $0.members[pool] = member }
    }

    /// Removes a pool that was shut down. It still releases the places that it has.
    func remove(_ pool: ObjectIdentifier) {
        state.withLock { state in
            state.members[pool] = nil
            state.waiting.removeAll { $0.pool == pool }
        }
    }

    /// Acquires a place. If there is none, ``Member/placeGranted`` passes one to the pool later.
    func acquire(_ pool: ObjectIdentifier, at now: UInt64) -> Bool {
        let others: [Member]? = state.withLock { state in
            if state.free > 0 {
                state.free -= 1
                return nil
            }
            if !state.waiting.contains(where: { $0.pool == pool }) { state.waiting.append((pool, now)) }
            return state.members.filter { $0.key != pool }.map(\.value)
        }
        guard let others else { return true }
        for other in others { other.closeIdle() }
        return false
    }

    /// Releases a place, to the pool that has waited longest if there is one.
    func release() {
        let next: Member? = state.withLock { state in
            while let first = state.waiting.popFirst() {
                if let member = state.members[first.pool] { return member }
            }
            state.free += 1
            return nil
        }
        next?.placeGranted()
    }

    /// Returns whether a pool is to close a connection that a transaction has left: another pool waits for its place.
    ///
    /// - Parameter isNeeded: Whether callers of the pool wait for the connection.
    func isClaimed(isNeeded: Bool, at now: UInt64) -> Bool {
        state.withLock { state in
            guard let first = state.waiting.first else { return false }
            return !isNeeded || now >= first.since + Self.patience
        }
    }
}
