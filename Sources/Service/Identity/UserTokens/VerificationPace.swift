import EventLoop
import Locking
import Net
import Runtime

/// The rate at which Kakao is asked about unknown access tokens, for each address and for the whole server. Shared by
/// all event loops.
///
/// Kakao's quota belongs to the app: random tokens that use it up lock out every user. An address may therefore have
/// only a few tokens rejected in a minute. Beyond that, its unknown tokens are verified slowly rather than rejected,
/// since users of a mobile carrier share an address. Tokens that Kakao accepts cost nothing. The server as a whole has
/// the same kind of limit, against a flood from many addresses.
final class VerificationPace: Sendable {
    /// The limits of an address or of the server.
    private struct Limits: Sendable {
        /// The rejected tokens allowed in a minute, and also the largest burst of them.
        let rejections: Int
        /// The verifications in flight while no token was rejected lately. Each of them may still be rejected.
        let inFlight: Int
        /// The time between two verifications once the rejections are used up.
        let interval: Duration

        static let address = Limits(rejections: 20, inFlight: 32, interval: .milliseconds(500))
        static let server = Limits(rejections: 1000, inFlight: .max, interval: .milliseconds(50))
    }

    private static let minute = Duration.seconds(60)
    /// How long a token waits at most for the turn of its address, and then for the server's: a phone waits with it.
    private static let longestWait = Duration.seconds(2)
    /// How often a waiting token checks whether its turn has come.
    private static let pollInterval = Duration.milliseconds(25)
    /// The maximum number of addresses remembered.
    private static let maximumAddresses = 16_384
    /// The delay in seconds before a token that got no turn may be sent again.
    static let retrySeconds: Int64 = 2

    /// The pace of one address or of the server.
    private struct Pace: Sendable {
        let limits: Limits
        var inFlight = 0
        /// When the bucket of rejections will be full again, as in ``RequestLimit``.
        private var full = MonotonicTime.now
        /// When the next slow verification may begin.
        private var nextSlot = MonotonicTime.now

        init(_ limits: Limits) { self.limits = limits }

        enum Turn: Sendable {
            case now
            /// The verification has a reserved time.
            case at(MonotonicTime)
            /// The verification may begin when another one ends.
            case later
            /// The verification cannot begin before `end`.
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

        mutating func release(isRejected: Bool, at now: MonotonicTime) {
            // The address may have been evicted meanwhile.
            inFlight = max(0, inFlight - 1)
            guard isRejected else { return }
            full = min(max(full, now) + VerificationPace.minute / limits.rejections, now + VerificationPace.minute)
        }
    }

    private struct State: Sendable {
        var addresses = LRUCache<SocketAddress.Network, Pace>(limit: VerificationPace.maximumAddresses)
        var server = Pace(.server)

        /// Changes the pace of an address.
        ///
        /// - Parameter address: `nil` for the server's own pace.
        mutating func change<Result>(_ address: SocketAddress.Network?, _ body: (inout Pace) -> Result) -> Result {
            guard let address else { return body(&server) }
            var pace = addresses.value(address) ?? Pace(.address)
            defer { addresses.set(pace, for: address) }
            return body(&pace)
        }
    }

    private let state = Locked(State())

    /// The number of addresses remembered at present.
    var count: Int { state.withLock { $0.addresses.count } }

    /// Waits until a token from an address may be verified.
    ///
    /// - Returns: Whether it may. If so, ``release(_:isRejected:)`` must follow.
    func acquire(_ address: SocketAddress.Network, on loop: EventLoop) async -> Bool {
        guard await waitForTurn(address, on: loop) else { return false }
        guard await waitForTurn(nil, on: loop) else {
            state.withLock { $0.change(address) { $0.release(isRejected: false, at: .now) } }
            return false
        }
        return true
    }

    /// Records the end of a verification, also of one without a result.
    func release(_ address: SocketAddress.Network, isRejected: Bool) {
        state.withLock { state in
            let now = MonotonicTime.now
            state.change(address) { $0.release(isRejected: isRejected, at: now) }
            state.change(nil) { $0.release(isRejected: isRejected, at: now) }
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
