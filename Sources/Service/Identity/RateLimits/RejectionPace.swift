package import EventLoop
import Locking
package import Net
import Runtime

/// The rate at which Kakao is asked about credentials that strangers present, such as unknown access tokens or the
/// codes of logins: for each network and for the whole server. Shared by all event loops.
///
/// Kakao's quota belongs to the app: invented credentials that use it up lock out every user. A network may therefore
/// have only a few credentials rejected in a minute. Beyond that, its credentials are checked slowly, in the order of
/// their arrival, rather than refused, since users of a mobile carrier share an address. Credentials that Kakao accepts
/// cost nothing. The server as a whole has the same kind of limit, against a flood from many networks.
package final class RejectionPace: Sendable {
    /// The limits of a kind of credential.
    package struct Limits: Sendable {
        /// Those of each IPv4 address or IPv6 network of 64 bits. An IPv6 site, of which one line may have many networks, has
        /// four times as much.
        package var network: Rate
        /// Those of all networks together.
        package var server: Rate
        /// How long a credential waits at most for the turn of its network, then of its site, and then for the server's.
        /// In the server's line, those of a network or a site with rejections in the last minute wait for half of it, so
        /// that they leave room for the others.
        package var longestWait: Duration

        package init(network: Rate, server: Rate, longestWait: Duration) {
            self.network = network
            self.server = server
            self.longestWait = longestWait
        }
    }

    /// The rate of a network or of the server.
    package struct Rate: Sendable {
        /// The rejections allowed in a minute, and also the largest burst of them.
        let rejections: Int
        /// The checks in flight while no credential was rejected lately. Each of them may still be rejected.
        let inFlight: Int
        /// The time between two checks once the rejections are used up.
        let interval: Duration

        /// - Parameters:
        ///   - rejections: The rejections allowed in a minute: 1 or more.
        ///   - inFlight: The checks in flight while none was rejected lately: 1 or more.
        ///   - interval: The time between two checks once the rejections are used up.
        package init(rejections: Int, inFlight: Int, interval: Duration) {
            self.rejections = rejections
            self.inFlight = inFlight
            self.interval = interval
        }

        /// The rate of an IPv6 site, as ``SocketAddress/Network/site``.
        fileprivate var ofSite: Rate {
            Rate(
                rejections: rejections * RejectionPace.networksOfSite,
                inFlight: inFlight * RejectionPace.networksOfSite,
                interval: interval / RejectionPace.networksOfSite
            )
        }
    }

    private static let minute = Duration.seconds(60)
    /// How often a waiting credential checks whether its turn has come.
    private static let pollInterval = Duration.milliseconds(25)
    /// The maximum number of networks remembered, and of sites.
    private static let maximumNetworks = 16_384
    /// The number of networks for which an IPv6 site counts.
    private static let networksOfSite = 4

    /// The lines in which a credential waits, one after the other.
    private enum Line: Sendable {
        case network(SocketAddress.Network)
        case site(SocketAddress.Network)
        case server

        static func all(of network: SocketAddress.Network) -> [Line] {
            [.network(network)] + (network.site.map { [.site($0)] } ?? []) + [.server]
        }
    }

    /// The pace of one network, of one site or of the server.
    private struct Pace: Sendable {
        let rate: Rate
        var inFlight = 0
        /// When the bucket of rejections will be full again, as in ``RequestLimit``.
        private var full = MonotonicTime.now
        private var lastRejection: MonotonicTime?
        /// When the next slow check may begin.
        private var nextSlot = MonotonicTime.now

        init(_ rate: Rate) { self.rate = rate }

        enum Turn: Sendable {
            case now
            /// The check has a reserved time.
            case at(MonotonicTime)
            /// The check may begin when another one ends.
            case later
            /// The check cannot begin before `end`.
            case none
        }

        mutating func turn(at now: MonotonicTime, before end: MonotonicTime) -> Turn {
            let interval = RejectionPace.minute / rate.rejections
            let left = Int((RejectionPace.minute - max(full - now, .zero)) / interval + 1e-6)
            guard left > 0 else {
                let slot = max(nextSlot, now)
                guard slot <= end else { return .none }
                nextSlot = slot + rate.interval
                inFlight += 1
                return .at(slot)
            }
            guard inFlight < (full <= now ? rate.inFlight : min(left, rate.inFlight)) else {
                return now < end ? .later : .none
            }
            inFlight += 1
            return .now
        }

        /// Returns whether a credential was rejected in the last minute.
        func hasRejections(at now: MonotonicTime) -> Bool {
            lastRejection.map { now - $0 < RejectionPace.minute } ?? false
        }

        mutating func release(isRejected: Bool, at now: MonotonicTime) {
            // The network may have been evicted meanwhile.
            inFlight = max(0, inFlight - 1)
            guard isRejected else { return }
            lastRejection = now
            full = min(max(full, now) + RejectionPace.minute / rate.rejections, now + RejectionPace.minute)
        }
    }

    private struct State: Sendable {
        let limits: Limits
        var networks = LRUCache<SocketAddress.Network, Pace>(limit: RejectionPace.maximumNetworks)
        var sites = LRUCache<SocketAddress.Network, Pace>(limit: RejectionPace.maximumNetworks)
        var server: Pace

        init(_ limits: Limits) {
            self.limits = limits
            server = Pace(limits.server)
        }

        /// Changes the pace of a line.
        mutating func change<Result>(_ line: Line, _ body: (inout Pace) -> Result) -> Result {
            switch line {
            case .network(let network):
                var pace = networks.value(network) ?? Pace(limits.network)
                defer { networks.set(pace, for: network) }
                return body(&pace)
            case .site(let site):
                var pace = sites.value(site) ?? Pace(limits.network.ofSite)
                defer { sites.set(pace, for: site) }
                return body(&pace)
            case .server:
                return body(&server)
            }
        }

        /// Ends a check in some lines.
        mutating func release(_ lines: [Line], isRejected: Bool) {
            let now = MonotonicTime.now
            for line in lines { change(line) { $0.release(isRejected: isRejected, at: now) } }
        }
    }

    private let longestWait: Duration
    private let state: Locked<State>

    package init(_ limits: Limits) {
        longestWait = limits.longestWait
        state = Locked(State(limits))
    }

    /// The number of networks remembered at present.
    var count: Int { state.withLock { $0.networks.count } }

    /// Waits until a credential from a network may be checked.
    ///
    /// - Returns: Whether it may. If so, ``release(_:isRejected:)`` must follow.
    package func acquire(_ network: SocketAddress.Network, on loop: EventLoop) async -> Bool {
        var passed: [Line] = []
        var hasRejections = false
        for line in Line.all(of: network) {
            let isLast = if case .server = line { true } else { false }
            guard await waitForTurn(line, atMost: isLast && hasRejections ? longestWait / 2 : longestWait, on: loop)
            else {
                state.withLock { $0.release(passed, isRejected: false) }
                return false
            }
            passed.append(line)
            hasRejections = hasRejections || state.withLock { $0.change(line) { $0.hasRejections(at: .now) } }
        }
        return true
    }

    /// Records the end of a check, also of one without a result.
    package func release(_ network: SocketAddress.Network, isRejected: Bool) {
        state.withLock { $0.release(Line.all(of: network), isRejected: isRejected) }
    }

    private func waitForTurn(_ line: Line, atMost longest: Duration, on loop: EventLoop) async -> Bool {
        let end = MonotonicTime.now + longest
        while true {
            let now = MonotonicTime.now
            switch state.withLock({ $0.change(line) { $0.turn(at: now, before: end) } }) {
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
