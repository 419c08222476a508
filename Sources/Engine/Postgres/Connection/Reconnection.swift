/// The schedule of attempts to reconnect, and whether callers may wait for one.
///
/// The first attempt follows at once after a loss. After a failed attempt the next one follows 50 ms later, and the
/// delay doubles up to one second. Each delay varies by ±20 %, so that the clients of a restarted server do not all
/// connect at once. Pure: its owner provides the clock and the random numbers.
struct Reconnection {
    enum State: Equatable {
        /// Not started. Can transition to `connecting`, `closed`.
        case idle
        /// An attempt is in flight. Can transition to `open`, `backingOff`, `closed`.
        case connecting
        /// Connected since that time in milliseconds. Can transition to `connecting`, `backingOff`, `closed`.
        case open(since: UInt64)
        /// Waiting for the next attempt. Can transition to `connecting`, `closed`.
        case backingOff
        /// Closed for good.
        case closed
    }

    enum Action: Equatable {
        case connect
        /// Connect after this many milliseconds.
        case connectLater(UInt64)
        case none
    }

    static let firstDelay: UInt64 = 50
    static let longestDelay: UInt64 = 1000
    /// The shortest lifetime in milliseconds with which a connection does not count as a failed attempt. Without it, a
    /// server that closes every connection would be called in a busy loop.
    static let shortestLife: UInt64 = 1000

    private(set) var state = State.idle
    /// The number of consecutive failures: failed attempts, and connections that were lost too soon.
    private var failures = 0
    private var hasLastAttemptFailed = false

    /// Whether callers may wait for the connection. They may not after ``close()``, nor after a failed attempt until a
    /// connection is open.
    var mayWait: Bool {
        switch state {
        case .idle, .open: true
        case .connecting, .backingOff: !hasLastAttemptFailed
        case .closed: false
        }
    }

    mutating func start() -> Action {
        guard case .idle = state else { return .none }
        state = .connecting
        return .connect
    }

    mutating func opened(at now: UInt64) {
        guard case .connecting = state else { return }
        state = .open(since: now)
        hasLastAttemptFailed = false
    }

    /// Records that an attempt failed or the connection was lost.
    ///
    /// - Parameter jitter: A random number from -1 to 1.
    mutating func ended(at now: UInt64, jitter: Double) -> Action {
        switch state {
        case .open(let since) where now - min(since, now) >= Self.shortestLife:
            failures = 0
            state = .connecting
            return .connect
        case .open, .connecting:
            hasLastAttemptFailed = state == .connecting
            failures += 1
            state = .backingOff
            return .connectLater(delay(jitter: jitter))
        case .idle, .backingOff, .closed:
            return .none
        }
    }

    /// Starts the next attempt after the delay.
    mutating func delayPassed() -> Action {
        guard case .backingOff = state else { return .none }
        state = .connecting
        return .connect
    }

    mutating func close() {
        state = .closed
    }

    private func delay(jitter: Double) -> UInt64 {
        let doubled = Self.firstDelay << UInt64(min(failures - 1, 10))
        return UInt64(Double(min(doubled, Self.longestDelay)) * (1 + 0.2 * max(-1, min(1, jitter))))
    }
}
