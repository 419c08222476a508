internal import EventLoop
internal import Locking

/// The pace at which the background workers of a server look for work without a signal: one of them at a time, so that
/// an idle server makes few transactions however many workers there are.
package final class PollPace: Sendable {
    /// The time between two looks, in milliseconds.
    private static let slot: UInt64 = 2000

    /// The slots that are taken, as multiples of ``slot``.
    private let taken = Locked<Set<UInt64>>([])

    package init() {}

    /// Takes the first free slot after `wait`, and returns the time until then.
    func reserve(after wait: Duration) -> Duration {
        let now = EventLoop.milliseconds()
        return taken.withLock { taken in
            taken = taken.filter { $0 * Self.slot >= now }
            var slot = (now + wait.wholeMilliseconds) / Self.slot + 1
            while !taken.insert(slot).inserted { slot += 1 }
            return .milliseconds(Int(slot * Self.slot - now))
        }
    }
}
