package import EventLoop
package import KakaoAPI
import Locking
package import Net
import Runtime

/// The rate at which Kakao is asked about credentials that strangers present, such as unknown access tokens or the
/// codes of logins: for each network and for the whole server. Shared by all event loops.
///
/// Kakao's quota belongs to the app: invented credentials that use it up lock out every user. A network may therefore
/// have only a few credentials rejected in a minute. Beyond that, its credentials are checked slowly, in the order of
/// their arrival, rather than refused, since users of a mobile carrier share an address. Credentials that Kakao accepts
/// cost nothing. A backend, which sends the credentials of many users, counts as ten networks. The server as a whole has the same kind of limit, against a flood from many networks. On each event loop no
/// more are checked at a time than there are connections for them: the others wait here, where their network counts, and
/// not for a connection, where they would time out. After Kakao has reported that a quota is used up, none is checked for a
/// while.
package final class RejectionPace: Sendable {
    /// The limits of a kind of credential.
    package struct Limits: Sendable {
        /// Those of each IPv4 address or IPv6 network of 64 bits. An IPv6 site, of which one line may have many networks, has
        /// four times as much.
        package var network: Rate
        /// Those of all networks together.
        package var server: Rate
        /// How long a credential waits at most. Of what is left of it after the lines of its network and its site, a credential
        /// waits for half if these have rejections in the last minute, so that it leaves room for the others.
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
        fileprivate var ofSite: Rate { ofSeveral(SocketAddress.Network.networksPerSite) }

        /// The rate of a backend, which sends the credentials of many users.
        fileprivate var ofBackend: Rate { ofSeveral(RejectionPace.networksPerBackend) }

        /// Returns the rate of several networks together.
        private func ofSeveral(_ networks: Int) -> Rate {
            Rate(
                rejections: rejections * networks,
                inFlight: inFlight * networks,
                interval: interval / networks
            )
        }
    }

    /// What becomes of a credential that asks for its turn.
    package enum Turn: Sendable, Equatable {
        /// It may be checked. ``release(_:isBackend:isRejected:on:)`` must follow.
        case granted
        /// Others come first, for longer than it may wait.
        case none
        /// A quota at Kakao is used up. Nothing is checked for so long.
        case paused(Duration)
    }

    private static let minute = Duration.seconds(60)
    /// How often a waiting credential checks whether its turn has come.
    private static let pollInterval = Duration.milliseconds(25)
    /// The maximum number of networks remembered, and of sites.
    private static let maximumNetworks = 16_384
    /// The maximum number of credentials of a network that wait, so that one does not use up the room for all that are
    /// checked or wait: some thousands.
    static let maximumWaiting = 128
    /// The number of networks that a backend counts as.
    private static let networksPerBackend = 10
    /// The pause after a quota was used up, if Kakao does not name one, and the longest.
    private static let (usualPause, longestPause) = (Duration.seconds(5), Duration.seconds(60))

    /// The lines in which a credential waits, one after the other.
    private enum Line: Sendable {
        case network(SocketAddress.Network)
        case site(SocketAddress.Network)
        /// A backend of the service, in place of its network and site.
        case backend(SocketAddress.Network)
        case server

        static func all(of network: SocketAddress.Network?, isBackend: Bool) -> [Line] {
            guard let network else { return [] }
            if isBackend { return [.backend(network), .server] }
            return [.network(network)] + (network.site.map { [.site($0)] } ?? []) + [.server]
        }
    }

    /// What a line says to a credential.
    private enum Step: Sendable {
        case now
        /// The check has a reserved time.
        case at(MonotonicTime)
        /// The check may begin when another one ends.
        case later
        /// The check cannot begin in time.
        case none
    }

    /// The pace of one network, of one site or of the server.
    private struct Pace: Sendable {
        let rate: Rate
        /// The maximum of ``waiting``.
        let maximumWaiting: Int
        /// The credentials that have not got their turn yet.
        var waiting = 0
        var inFlight = 0
        /// When the bucket of rejections will be full again, as in ``RequestLimit``.
        private var full: MonotonicTime
        private var lastRejection: MonotonicTime?
        /// When the next slow check may begin.
        private var nextSlot: MonotonicTime

        init(_ rate: Rate, maximumWaiting: Int, at now: MonotonicTime) {
            self.rate = rate
            self.maximumWaiting = maximumWaiting
            full = now
            nextSlot = now
        }

        mutating func step(at now: MonotonicTime, before end: MonotonicTime) -> Step {
            let interval = RejectionPace.minute / rate.rejections
            let left = Int((RejectionPace.minute - max(full - now, .zero)) / interval + 1e-6)
            guard left > 0 else {
                let slot = max(nextSlot, now)
                guard slot <= end else { return .none }
                nextSlot = slot + rate.interval
                inFlight += 1
                return .at(slot)
            }
            guard inFlight < (full <= now ? rate.inFlight : min(left, rate.inFlight)) else { return .later }
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
        /// The maximum number of checks on an event loop.
        let connections: Int
        var networks = LRUCache<SocketAddress.Network, Pace>(limit: RejectionPace.maximumNetworks)
        var sites = LRUCache<SocketAddress.Network, Pace>(limit: RejectionPace.maximumNetworks)
        var backends = LRUCache<SocketAddress.Network, Pace>(limit: RejectionPace.maximumNetworks)
        var server: Pace
        /// The checks in flight on each event loop.
        var loops: [ObjectIdentifier: Int] = [:]
        var pauseEnd: MonotonicTime?

        init(_ limits: Limits, connections: Int, at now: MonotonicTime) {
            self.limits = limits
            self.connections = connections
            server = Pace(limits.server, maximumWaiting: .max, at: now)
        }

        /// Returns the time until checks go on; `nil` without a pause.
        func pause(at now: MonotonicTime) -> Duration? {
            pauseEnd.flatMap { $0 > now ? $0 - now : nil }
        }

        /// Changes the pace of a line.
        mutating func change<Result>(_ line: Line, at now: MonotonicTime, _ body: (inout Pace) -> Result) -> Result {
            let maximum = RejectionPace.maximumWaiting
            let networksPerSite = SocketAddress.Network.networksPerSite
            switch line {
            case .network(let network):
                var pace = networks.value(network) ?? Pace(limits.network, maximumWaiting: maximum, at: now)
                defer { networks.set(pace, for: network) }
                return body(&pace)
            case .site(let site):
                var pace =
                    sites.value(site)
                    ?? Pace(limits.network.ofSite, maximumWaiting: maximum * networksPerSite, at: now)
                defer { sites.set(pace, for: site) }
                return body(&pace)
            case .backend(let network):
                var pace =
                    backends.value(network)
                    ?? Pace(
                        limits.network.ofBackend,
                        maximumWaiting: maximum * RejectionPace.networksPerBackend,
                        at: now
                    )
                defer { backends.set(pace, for: network) }
                return body(&pace)
            case .server:
                return body(&server)
            }
        }

        /// Adds a credential to those that wait in some lines. Returns `false` if there is no room.
        mutating func enter(_ lines: [Line], at now: MonotonicTime) -> Bool {
            for line in lines where change(line, at: now, { $0.waiting >= $0.maximumWaiting }) { return false }
            for line in lines { change(line, at: now) { $0.waiting += 1 } }
            return true
        }

        mutating func leave(_ lines: [Line], at now: MonotonicTime) {
            // The network may have been evicted meanwhile.
            for line in lines { change(line, at: now) { $0.waiting = max(0, $0.waiting - 1) } }
        }

        /// Ends a check in some lines.
        mutating func release(_ lines: [Line], isRejected: Bool, at now: MonotonicTime) {
            for line in lines { change(line, at: now) { $0.release(isRejected: isRejected, at: now) } }
        }

        /// Takes one of the connections of an event loop.
        mutating func takeConnection(of loop: ObjectIdentifier) -> Step {
            guard loops[loop, default: 0] < connections else { return .later }
            loops[loop, default: 0] += 1
            return .now
        }
    }

    private let longestWait: Duration
    private let clock: @Sendable () -> MonotonicTime
    private let state: Locked<State>

    /// - Parameters:
    ///   - connections: The number of connections of each event loop that the checks have.
    ///   - clock: Returns the time.
    package init(
        _ limits: Limits,
        connections: Int,
        clock: @escaping @Sendable () -> MonotonicTime = { .now }
    ) {
        longestWait = limits.longestWait
        self.clock = clock
        state = Locked(State(limits, connections: connections, at: clock()))
    }

    /// The number of networks remembered at present.
    var count: Int { state.withLock { $0.networks.count } }

    /// Returns the number of credentials of a network that wait for their turn.
    func waiting(of network: SocketAddress.Network) -> Int {
        state.withLock { $0.networks.value(network)?.waiting ?? 0 }
    }

    /// Waits until a credential may be checked.
    ///
    /// - Parameters:
    ///   - network: The network that it comes from; `nil` for a credential that Kakao has accepted before, which waits for
    ///     nothing but a connection.
    ///   - isBackend: Whether a backend of the service sends it, for one of many users.
    package func acquire(
        _ network: SocketAddress.Network?,
        isBackend: Bool = false,
        on loop: EventLoop
    ) async -> Turn {
        let lines = Line.all(of: network, isBackend: isBackend)
        let arrival = clock()
        let refusal: Turn? = state.withLock { state in
            if let pause = state.pause(at: arrival) { return .paused(pause) }
            return state.enter(lines, at: arrival) ? nil : Turn.none
        }
        if let refusal { return refusal }
        defer { state.withLock { $0.leave(lines, at: clock()) } }
        var end = arrival + longestWait
        var passed: [Line] = []
        func giveUp() -> Turn {
            state.withLock { $0.release(passed, isRejected: false, at: clock()) }
            return .none
        }
        for line in lines {
            if case .server = line, passed.contains(where: hasRejections) {
                let now = clock()
                end = now + (end - now) / 2
            }
            let isPassed = await wait(before: end, on: loop) { state, now in
                state.change(line, at: now) { $0.step(at: now, before: end) }
            }
            guard isPassed else { return giveUp() }
            passed.append(line)
        }
        let connections = ObjectIdentifier(loop)
        guard await wait(before: end, on: loop, { state, _ in state.takeConnection(of: connections) }) else {
            return giveUp()
        }
        // The quota may have been used up while this credential waited.
        let now = clock()
        guard let pause = state.withLock({ $0.pause(at: now) }) else { return .granted }
        release(network, isBackend: isBackend, isRejected: false, on: loop)
        return .paused(pause)
    }

    /// Records the end of a check, also of one without a result.
    package func release(
        _ network: SocketAddress.Network?,
        isBackend: Bool = false,
        isRejected: Bool,
        on loop: EventLoop
    ) {
        let now = clock()
        state.withLock { state in
            state.release(Line.all(of: network, isBackend: isBackend), isRejected: isRejected, at: now)
            state.loops[ObjectIdentifier(loop), default: 1] -= 1
        }
    }

    /// Makes all further credentials wait if an error says that a quota of the app is used up, for as long as Kakao says, but at
    /// most a minute.
    ///
    /// - Returns: The pause; `nil` for other errors.
    @discardableResult
    package func pause(after error: KakaoError) -> Duration? {
        guard error.exhaustsAppQuota else { return nil }
        let pause = min(error.retryAfter ?? Self.usualPause, Self.longestPause)
        let end = clock() + pause
        state.withLock { $0.pauseEnd = end }
        return pause
    }

    private func hasRejections(_ line: Line) -> Bool {
        let now = clock()
        return state.withLock { $0.change(line, at: now) { $0.hasRejections(at: now) } }
    }

    /// Takes steps until one of them lets a credential pass. Returns whether one does.
    private func wait(
        before end: MonotonicTime,
        on loop: EventLoop,
        _ step: (inout State, MonotonicTime) -> Step
    ) async -> Bool {
        while true {
            let now = clock()
            switch state.withLock({ step(&$0, now) }) {
            case .now: return true
            case .none: return false
            case .at(let time):
                // A wait that ends early at shutdown is harmless.
                try? await loop.sleep(for: time - now)
                return true
            case .later:
                guard now < end, (try? await loop.sleep(for: Self.pollInterval)) != nil else { return false }
            }
        }
    }
}
