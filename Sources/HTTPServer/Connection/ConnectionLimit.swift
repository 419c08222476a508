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

    /// Notes down whose a place is that was taken. Returns whether that address may have one more; if not, the place is to be given
    /// back by ``release(_:)`` with `nil`.
    func assign(to address: SocketAddress) -> Bool {
        guard let maximumPerAddress, !proxies.contains(address) else { return true }
        return state.withLock { state in
            let count = state.counts[address.network, default: 0]
            guard count < maximumPerAddress else { return false }
            state.counts[address.network] = count + 1
            return true
        }
    }

    /// Gives a place back, and whose it was if it was assigned.
    func release(_ address: SocketAddress?) {
        let network = address.flatMap { proxies.contains($0) ? nil : $0.network }
        let waiting = state.withLock { state in
            state.count -= 1
            if let network, let count = state.counts[network] {
                state.counts[network] = count > 1 ? count - 1 : nil
            }
            defer { state.waiting.removeAll() }
            return state.waiting
        }
        for body in waiting { body() }
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
