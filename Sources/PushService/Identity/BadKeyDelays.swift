internal import EventLoop
internal import HTTPServer
internal import Locking

/// Addresses that keep presenting operators' keys that are not in force, and how long each has to wait before another key of its is looked
/// up: shared by all loops of a server.
///
/// Keys have 256 random bits, so this is not what keeps them from being guessed: it keeps the database from being asked about guesses.
/// Nobody is held: who has to wait is told so at once. A key in force takes nothing back, since an attacker may share an address with
/// its owner.
final class BadKeyDelays: Sendable {
    /// Bad keys of an address before it has to wait: somebody mends a script.
    static let allowance = 5
    private static let firstDelay = Duration.seconds(1)
    private static let longestDelay = Duration.seconds(15 * 60)
    /// An address is forgotten that has presented no bad key for so long after its wait.
    private static let quietTime = Duration.seconds(15 * 60)
    /// Addresses that are remembered.
    static let maximumAddresses = 16_384

    private struct Record: Sendable {
        var badKeys: Int
        /// When it may present a key again.
        var end: MonotonicTime
    }

    private let records = Locked(LRUCache<SocketAddress.Network, Record>(limit: maximumAddresses))

    /// How many addresses are remembered.
    var count: Int { records.withLock { $0.count } }

    /// How long an address has to wait yet; `nil` if it has not.
    func wait(_ address: SocketAddress.Network, at now: MonotonicTime = .now) -> Duration? {
        let end = records.withLock { $0.value(address)?.end }
        return end.flatMap { $0 > now ? $0 - now : nil }
    }

    /// An address has presented a key that is not in force. From the fifth on it has to wait: 1 s, and twice as long each time, up to
    /// 15 min.
    func recordInvalidKey(from address: SocketAddress.Network, at now: MonotonicTime = .now) {
        records.withLock { records in
            var record = records.value(address) ?? Record(badKeys: 0, end: now)
            // Was looked up at the same time as the one that it has to wait for.
            guard record.end <= now else { return }
            if now - record.end >= Self.quietTime { record.badKeys = 0 }
            record.badKeys += 1
            record.end = now + Self.delay(after: record.badKeys)
            records.set(record, for: address)
        }
    }

    private static func delay(after badKeys: Int) -> Duration {
        guard badKeys >= allowance else { return .zero }
        // Beyond sixteen doublings it is the longest anyway.
        return min(firstDelay * (1 << min(badKeys - allowance, 16)), longestDelay)
    }
}
