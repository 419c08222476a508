import EventLoop
import Locking
import Net
import Runtime

/// Delays for addresses that keep presenting invalid operator keys. Shared by all event loops of a server.
///
/// Keys have 256 random bits and cannot be guessed anyway. The delays protect the database from look-ups of guessed
/// keys. No request is held: during the delay, a request is rejected at once. A valid key does not reset the delay,
/// since an attacker may share an address with the key's owner. An IPv6 site, of which one line may have many networks, may
/// present four times as many.
final class BadKeyDelays: Sendable {
    /// The number of invalid keys at which an address has to wait. The attempts before allow a person to correct a
    /// script.
    static let allowance = 5
    private static let firstDelay = Duration.seconds(1)
    private static let longestDelay = Duration.seconds(15 * 60)
    /// How long an address must present no invalid key, after its delay, for its count to start again at zero.
    private static let quietTime = Duration.seconds(15 * 60)
    /// The maximum number of addresses remembered.
    static let maximumAddresses = 16_384

    private struct Record: Sendable {
        var badKeys: Int
        /// When the address may present a key again.
        var end: MonotonicTime
    }

    private typealias Records = LRUCache<SocketAddress.Network, Record>

    private struct State: Sendable {
        var addresses = Records(limit: BadKeyDelays.maximumAddresses)
        var sites = Records(limit: BadKeyDelays.maximumAddresses)
    }

    private let state = Locked(State())

    /// The number of addresses and sites remembered at present.
    var count: Int { state.withLock { $0.addresses.count + $0.sites.count } }

    /// Returns how long an address still has to wait; `nil` if it does not.
    func wait(_ address: SocketAddress.Network, at now: MonotonicTime = .now) -> Duration? {
        let ends = state.withLock { state in
            [state.addresses.value(address)?.end, address.site.flatMap { state.sites.value($0)?.end }]
        }
        return ends.compactMap { $0.flatMap { $0 > now ? $0 - now : nil } }.max()
    }

    /// Records an invalid key from an address. From the fifth on, the address has to wait: first 1 s, then twice as
    /// long each time, up to 15 min. The same holds for its site from the twentieth on.
    func recordInvalidKey(from address: SocketAddress.Network, at now: MonotonicTime = .now) {
        state.withLock { state in
            Self.record(in: &state.addresses, address, allowance: Self.allowance, at: now)
            guard let site = address.site else { return }
            let allowance = Self.allowance * SocketAddress.Network.networksPerSite
            Self.record(in: &state.sites, site, allowance: allowance, at: now)
        }
    }

    private static func record(
        in records: inout Records,
        _ address: SocketAddress.Network,
        allowance: Int,
        at now: MonotonicTime
    ) {
        var record = records.value(address) ?? Record(badKeys: 0, end: now)
        // This look-up was concurrent with the one that started the present delay.
        guard record.end <= now else { return }
        if now - record.end >= quietTime { record.badKeys = 0 }
        record.badKeys += 1
        record.end = now + delay(after: record.badKeys, allowance)
        records.set(record, for: address)
    }

    private static func delay(after badKeys: Int, _ allowance: Int) -> Duration {
        guard badKeys >= allowance else { return .zero }
        // More doublings would exceed the longest delay anyway.
        return min(firstDelay * (1 << min(badKeys - allowance, 16)), longestDelay)
    }
}
