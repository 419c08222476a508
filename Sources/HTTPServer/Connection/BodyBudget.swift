internal import Synchronization

/// The bytes of requests that a server holds in memory, over all of its connections and loops.
///
/// A body that does not fit is refused with 503 and not made to wait: bodies that wait would hold the very room that they wait for, and
/// a few hundred slow ones would stop everybody until they time out. Refusing one gives its room back at once.
final class BodyBudget: Sendable {
    /// The bytes of each connection that do not count: calls from Kakao, which come once, and registrations are smaller, and are taken
    /// however many large bodies there are. Of 10,000 connections they are 40 MiB.
    static let uncounted = 4096

    private let limit: Int
    private let held = Atomic<Int>(0)

    init(limit: Int) {
        self.limit = limit
    }

    /// The bytes that are taken now.
    var count: Int { held.load(ordering: .relaxed) }

    /// Takes room for so many bytes. Returns whether there was enough; if not, nothing is taken.
    func take(_ bytes: Int) -> Bool {
        guard held.add(bytes, ordering: .relaxed).newValue > limit else { return true }
        held.subtract(bytes, ordering: .relaxed)
        return false
    }

    /// Gives room back that was taken.
    func release(_ bytes: Int) {
        held.subtract(bytes, ordering: .relaxed)
    }
}
