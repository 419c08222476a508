/// When a lost connection is made again, and what happens meanwhile to those who want it.
///
/// At once after a loss; after a failed attempt 50 ms later, twice that after the next and so on up to a second, each
/// ±20 % so that many clients of a server that comes back do not come all at once. Pure: its owner has the clock and
/// the dice.
struct Reconnection {
    enum State: Equatable {
        /// Not asked for yet. Can transition to `connecting`, `closed`.
        case idle
        /// An attempt is under way. Can transition to `open`, `backingOff`, `closed`.
        case connecting
        /// There is a connection, since then in milliseconds. Can transition to `connecting`, `backingOff`, `closed`.
        case open(since: UInt64)
        /// There will be another attempt. Can transition to `connecting`, `closed`.
        case backingOff
        /// No more.
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
    /// A connection that lived less is one more failed attempt: a server that hangs up on everyone is not asked in a
    /// busy loop.
    static let shortestLife: UInt64 = 1000

    private(set) var state = State.idle
    /// In a row: attempts that failed, and connections that were lost too soon.
    private var failures = 0
    private var hasLastAttemptFailed = false

    /// Whether someone who wants the connection may wait for it: it is there, or the last attempt to make it has not
    /// failed.
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

    /// An attempt failed, or the connection was lost.
    ///
    /// - Parameter jitter: from -1 to 1.
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

    /// The delay is over.
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
