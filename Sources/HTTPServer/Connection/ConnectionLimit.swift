internal import Synchronization

/// How many connections a server has, over all of its loops, and who waits for one to end.
final class ConnectionLimit: Sendable {
    private struct State {
        var count = 0
        var waiting: [@Sendable () -> Void] = []
    }

    private let maximum: Int
    private let state = Mutex(State())

    init(maximum: Int) {
        self.maximum = maximum
    }

    /// Takes a place. Returns whether there was one.
    func take() -> Bool {
        state.withLock { state in
            guard state.count < maximum else { return false }
            state.count += 1
            return true
        }
    }

    /// Gives a place back.
    func release() {
        let waiting = state.withLock { state in
            state.count -= 1
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
