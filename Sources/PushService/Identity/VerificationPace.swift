internal import EventLoop
internal import HTTPServer
internal import Locking

/// How fast Kakao is asked about unknown access tokens, for each address and for the whole server: shared by all loops.
///
/// Kakao's quota is the app's: random tokens that use it up lock out every user. So an address may have a few tokens rejected in a minute.
/// Beyond that its unknown tokens are verified slowly, and not refused, since a mobile carrier's users share an address. Tokens that Kakao
/// accepts cost nothing. The same holds for all addresses together, against a flood from many.
final class VerificationPace: Sendable {
    /// The verifications that an address, or the server, may request.
    private struct Limits: Sendable {
        /// Rejected tokens in a minute, and at once.
        let rejections: Int
        /// Questions in flight while none was rejected lately; their rejections are yet to come.
        let inFlight: Int
        /// The time between two questions once the rejections are used up.
        let interval: Duration

        static let address = Limits(rejections: 20, inFlight: 32, interval: .milliseconds(500))
        static let server = Limits(rejections: 1000, inFlight: .max, interval: .milliseconds(50))
    }

    private static let minute = Duration.seconds(60)
    /// The longest that a token waits for its turn: a phone waits with it.
    private static let longestWait = Duration.seconds(2)
    /// How often a token looks whether a question of its address has been answered.
    private static let pollInterval = Duration.milliseconds(25)
    /// Addresses that are remembered.
    private static let maximumAddresses = 16_384
    /// When a token may come again that found no turn.
    static let retrySeconds: Int64 = 2

    /// One address's, or the server's.
    private struct Pace: Sendable {
        let limits: Limits
        var inFlight = 0
        /// When the bucket of rejections is full again, as in ``RequestLimit``.
        private var full = MonotonicTime.now
        /// When the next slow question may be asked.
        private var nextSlot = MonotonicTime.now

        init(_ limits: Limits) { self.limits = limits }

        enum Turn: Sendable {
            case now
            /// At this time, for certain.
            case at(MonotonicTime)
            /// As soon as a question in flight is answered.
            case later
            /// Not before `end`.
            case none
        }

        mutating func turn(at now: MonotonicTime, before end: MonotonicTime) -> Turn {
            let interval = VerificationPace.minute / limits.rejections
            let left = Int((VerificationPace.minute - max(full - now, .zero)) / interval + 1e-6)
            guard left > 0 else {
                let slot = max(nextSlot, now)
                guard slot <= end else { return .none }
                nextSlot = slot + limits.interval
                inFlight += 1
                return .at(slot)
            }
            guard inFlight < (full <= now ? limits.inFlight : min(left, limits.inFlight)) else {
                return now < end ? .later : .none
            }
            inFlight += 1
            return .now
        }

        mutating func end(isRejected: Bool, at now: MonotonicTime) {
            // It may have been forgotten meanwhile.
            inFlight = max(0, inFlight - 1)
            guard isRejected else { return }
            full = min(max(full, now) + VerificationPace.minute / limits.rejections, now + VerificationPace.minute)
        }
    }

    private struct State: Sendable {
        var addresses = LRUCache<SocketAddress.Network, Pace>(limit: VerificationPace.maximumAddresses)
        var server = Pace(.server)

        /// - Parameter address: `nil` for the server's own.
        mutating func change<Result>(_ address: SocketAddress.Network?, _ body: (inout Pace) -> Result) -> Result {
            guard let address else { return body(&server) }
            var pace = addresses.value(address) ?? Pace(.address)
            defer { addresses.set(pace, for: address) }
            return body(&pace)
        }
    }

    private let state = Locked(State())

    /// How many addresses are remembered.
    var count: Int { state.withLock { $0.addresses.count } }

    /// Waits until a token of an address may be verified.
    ///
    /// - Returns: Whether it may. If so, ``end(_:isRejected:)`` follows.
    func begin(_ address: SocketAddress.Network, on loop: EventLoop) async -> Bool {
        guard await waitForTurn(address, on: loop) else { return false }
        guard await waitForTurn(nil, on: loop) else {
            state.withLock { $0.change(address) { $0.end(isRejected: false, at: .now) } }
            return false
        }
        return true
    }

    /// A token has been verified, or Kakao could not say.
    func end(_ address: SocketAddress.Network, isRejected: Bool) {
        state.withLock { state in
            let now = MonotonicTime.now
            state.change(address) { $0.end(isRejected: isRejected, at: now) }
            state.change(nil) { $0.end(isRejected: isRejected, at: now) }
        }
    }

    private func waitForTurn(_ address: SocketAddress.Network?, on loop: EventLoop) async -> Bool {
        let end = MonotonicTime.now + Self.longestWait
        while true {
            let now = MonotonicTime.now
            switch state.withLock({ $0.change(address) { $0.turn(at: now, before: end) } }) {
            case .now: return true
            case .none: return false
            case .at(let time):
                // A wait that ends early at shutdown is harmless.
                try? await loop.sleep(for: time - now)
                return true
            case .later: try? await loop.sleep(for: Self.pollInterval)
            }
        }
    }
}
