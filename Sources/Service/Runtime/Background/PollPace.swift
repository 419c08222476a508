import EventLoop
import Locking

/// The pace at which the background workers of a server look for work without a signal: one of them at a time, so that
/// an idle server makes few transactions however many workers there are.
package final class PollPace: Sendable {
    /// The time between two polls, in milliseconds.
    private static let slot: UInt64 = 2000

    /// The slots that are taken, as multiples of ``slot``. Each worker has at most one.
    private let taken = Locked<Set<UInt64>>([])

    package init() {}

    /// Takes the first free slot after `wait`, and returns the time until then.
    ///
    /// - Parameter own: Before, the worker's earlier slot, which is released; afterwards, its new one.
    func reserve(after wait: Duration, in own: inout UInt64?) -> Duration {
        let now = EventLoop.milliseconds()
        let first = (now + wait.wholeMilliseconds) / Self.slot + 1
        let slot = taken.withLock { [own] taken in
            if let own { taken.remove(own) }
            var slot = first
            while !taken.insert(slot).inserted { slot += 1 }
            return slot
        }
        own = slot
        return .milliseconds(Int(slot * Self.slot - now))
    }
}
