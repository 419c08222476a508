import Locking
import Net
import Synchronization

/// Counts a server's connections, in total over all loops and per address, and notifies loops that wait for a free
/// place.
final class ConnectionLimit: Sendable {
    private struct State {
        var maximum: Int
        var maximumPerAddress: Int?
        var count = 0
        /// Connections by network, without the port. Only kept if there is a limit per address.
        var counts: [SocketAddress.Network: Int] = [:]
        /// The same by ``SocketAddress/Network/site``.
        var siteCounts: [SocketAddress.Network: Int] = [:]

        /// At most a quarter of all connections.
        var maximumPerSite: Int {
            let perAddress = maximumPerAddress ?? maximum
            return max(perAddress, min(perAddress * SocketAddress.Network.networksPerSite, maximum / 4))
        }

        var waiting: [@Sendable () -> Void] = []
    }

    private let hasLimitPerAddress: Bool
    private let proxies: TrustedProxies
    private let state: Locked<State>
    private let crowded = Atomic<Bool>(false)

    /// - Parameter proxies: Exempt from the limit per address, because each proxy serves many clients.
    init(maximum: Int, perAddress: Int?, proxies: TrustedProxies) {
        hasLimitPerAddress = perAddress != nil
        self.proxies = proxies
        state = Locked(State(maximum: maximum, maximumPerAddress: perAddress))
    }

    /// Sets other limits. Connections beyond a lower one remain, and new ones wait until there is a place.
    ///
    /// Switching the limit per address on or off is a programming error, since connections are counted with it only.
    func apply(maximum: Int, perAddress: Int?) {
        precondition((perAddress != nil) == hasLimitPerAddress, "the limit per address cannot be switched on or off")
        let waiting = state.withLock { state in
            state.maximum = maximum
            state.maximumPerAddress = perAddress
            update(state)
            defer { state.waiting.removeAll() }
            return state.waiting
        }
        for body in waiting { body() }
    }

    /// Acquires a place. Returns whether one was free.
    func acquire() -> Bool {
        state.withLock { state in
            guard state.count < state.maximum else { return false }
            state.count += 1
            update(state)
            return true
        }
    }

    /// The number of connections.
    var count: Int { state.withLock { $0.count } }

    /// Whether more than three quarters of the places are taken, so that idle connections are kept for a shorter time.
    var isCrowded: Bool { crowded.load(ordering: .relaxed) }

    private func update(_ state: State) {
        crowded.store(state.count > state.maximum - state.maximum / 4, ordering: .relaxed)
    }

    /// Whether connections from an address count towards the limit per address.
    func counts(_ address: SocketAddress) -> Bool {
        hasLimitPerAddress && !proxies.contains(address)
    }

    /// Assigns a taken place to an address. Returns whether the address may have one more connection. If not, the place
    /// must be released by ``release(_:)`` with `nil`.
    func assign(to address: SocketAddress) -> Bool {
        guard counts(address) else { return true }
        return state.withLock { state in
            let network = address.network
            let count = state.counts[network, default: 0]
            guard count < state.maximumPerAddress ?? .max else { return false }
            if let site = network.site {
                let siteCount = state.siteCounts[site, default: 0]
                guard siteCount < state.maximumPerSite else { return false }
                state.siteCounts[site] = siteCount + 1
            }
            state.counts[network] = count + 1
            return true
        }
    }

    /// Removes an assigned place from its address's limit. The place remains taken and must be released by
    /// ``release(_:)`` with `nil`.
    func exempt(_ address: SocketAddress) {
        guard counts(address) else { return }
        state.withLock { Self.remove(address.network, from: &$0) }
    }

    /// Releases a place and, if it was assigned, its address's share.
    func release(_ address: SocketAddress?) {
        let network = address.flatMap { counts($0) ? $0.network : nil }
        let waiting = state.withLock { state in
            state.count -= 1
            update(state)
            if let network { Self.remove(network, from: &state) }
            defer { state.waiting.removeAll() }
            return state.waiting
        }
        for body in waiting { body() }
    }

    private static func remove(_ network: SocketAddress.Network, from state: inout State) {
        guard let count = state.counts[network] else { return }
        state.counts[network] = count > 1 ? count - 1 : nil
        guard let site = network.site, let siteCount = state.siteCounts[site] else { return }
        state.siteCounts[site] = siteCount > 1 ? siteCount - 1 : nil
    }

    /// Calls `body` when a place is released, or at once if one has become free meanwhile.
    func notify(_ body: @escaping @Sendable () -> Void) {
        let isFree = state.withLock { state in
            guard state.count >= state.maximum else { return true }
            state.waiting.append(body)
            return false
        }
        if isFree { body() }
    }
}
