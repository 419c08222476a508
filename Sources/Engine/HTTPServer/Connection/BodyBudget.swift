import Synchronization

/// The number of request bytes that a server holds in memory, over all connections and loops.
///
/// A body that does not fit is rejected with 503. It does not wait, because waiting bodies would occupy the memory that
/// they wait for: a few hundred slow ones would block every client until they time out. A rejection frees the memory at
/// once.
final class BodyBudget: Sendable {
    /// The bytes per connection that are not counted. Registrations, and the calls from Kakao that come only once, are
    /// smaller; they are accepted however many large bodies there are. With 10,000 connections this is 40 MiB.
    static let uncountedBytes = 4096

    private let limit: Atomic<Int>
    private let held = Atomic<Int>(0)

    init(limit: Int) {
        self.limit = Atomic(limit)
    }

    /// Sets another limit for further bodies.
    func apply(limit: Int) {
        self.limit.store(limit, ordering: .relaxed)
    }

    /// The number of bytes currently counted.
    var count: Int { held.load(ordering: .relaxed) }

    /// Reserves `bytes`. Returns whether the budget allowed it; if not, nothing is reserved.
    func reserve(_ bytes: Int) -> Bool {
        guard held.add(bytes, ordering: .relaxed).newValue > limit.load(ordering: .relaxed) else { return true }
        held.subtract(bytes, ordering: .relaxed)
        return false
    }

    /// Releases reserved bytes.
    func release(_ bytes: Int) {
        held.subtract(bytes, ordering: .relaxed)
    }
}
