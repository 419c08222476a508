internal import Locking

/// How many connections a server has, over all of its loops and from each address, and who waits for one to end.
final class ConnectionLimit: Sendable {
    private struct State {
        var count = 0
        /// By the address without its port; only kept when there is a limit.
        var counts: [SocketAddress.Network: Int] = [:]
        var waiting: [@Sendable () -> Void] = []
    }

    private let maximum: Int
    private let maximumPerAddress: Int?
    private let proxies: TrustedProxies
    private let state = Locked(State())

    /// - Parameter proxies: Not limited by address: behind each are many.
    init(maximum: Int, perAddress: Int?, proxies: TrustedProxies) {
        self.maximum = maximum
        maximumPerAddress = perAddress
        self.proxies = proxies
    }

    /// Takes a place. Returns whether there was one.
    func take() -> Bool {
        state.withLock { state in
            guard state.count < maximum else { return false }
            state.count += 1
            return true
        }
    }

    /// Whether connections of an address count towards a limit of its own.
    func counts(_ address: SocketAddress) -> Bool {
        maximumPerAddress != nil && !proxies.contains(address)
    }

    /// Notes down whose a place is that was taken. Returns whether that address may have one more; if not, the place is to be given
    /// back by ``release(_:)`` with `nil`.
    func assign(to address: SocketAddress) -> Bool {
        guard let maximumPerAddress, counts(address) else { return true }
        return state.withLock { state in
            let count = state.counts[address.network, default: 0]
            guard count < maximumPerAddress else { return false }
            state.counts[address.network] = count + 1
            return true
        }
    }

    /// A place that was assigned to an address no longer counts towards its limit, but is still taken. To be given back by
    /// ``release(_:)`` with `nil`.
    func exempt(_ address: SocketAddress) {
        guard counts(address) else { return }
        state.withLock { Self.remove(address.network, from: &$0) }
    }

    /// Gives a place back, and whose it was if it was assigned.
    func release(_ address: SocketAddress?) {
        let network = address.flatMap { counts($0) ? $0.network : nil }
        let waiting = state.withLock { state in
            state.count -= 1
            if let network { Self.remove(network, from: &state) }
            defer { state.waiting.removeAll() }
            return state.waiting
        }
        for body in waiting { body() }
    }

    private static func remove(_ network: SocketAddress.Network, from state: inout State) {
        guard let count = state.counts[network] else { return }
        state.counts[network] = count > 1 ? count - 1 : nil
    }

    /// Has `body` called when a place is given back; at once, if one has been meanwhile.
    func notify(_ body: @escaping @Sendable () -> Void) {
        let isFree = state.withLock { state in
            guard state.count >= maximum else { return true }
            state.waiting.append(body)
            return false
        }
        if isFree { body() }
    }
}
