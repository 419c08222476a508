import EventLoop
import KakaoAPI
import Locking
import Net
import TestSupport
import Testing

@testable import Identity

/// The pace of credentials that Kakao may reject.
@Suite(.timeLimit(.minutes(1))) struct RejectionPaceTests {
    /// So long that nobody gets a second turn within a test.
    private static let interval = Duration.seconds(3600)

    private static func network(_ number: Int) throws -> SocketAddress.Network {
        try #require(SocketAddress("10.0.0.\(number)")).network
    }

    private static func limits(network: Int, server: Int) -> RejectionPace.Limits {
        RejectionPace.Limits(
            network: RejectionPace.Rate(rejections: network, inFlight: 8, interval: interval),
            server: RejectionPace.Rate(rejections: server, inFlight: 8, interval: interval),
            longestWait: interval * 1.5
        )
    }

    /// Returns whether a credential gets a turn, without waiting for it.
    private static func hasTurn(
        _ pace: RejectionPace,
        _ network: SocketAddress.Network,
        _ loop: EventLoop
    ) async -> Bool {
        let turn = Task { await pace.acquire(network, on: loop) }
        // A cancelled task does not sleep.
        turn.cancel()
        return await turn.value == .granted
    }

    private static func pace(network: Int, server: Int) -> RejectionPace {
        RejectionPace(limits(network: network, server: server), connections: 1000)
    }

    private static func withLoop(_ body: (EventLoop) async throws -> Void) async throws {
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        try await body(loops.loops[0])
    }

    @Test(
        "A network with too many rejections has a turn at each interval; accepted credentials and other networks do not wait"
    )
    func byNetwork() async throws {
        try await Self.withLoop { loop in
            let pace = Self.pace(network: 2, server: 1000)
            let (bad, good) = (try Self.network(1), try Self.network(2))
            for _ in 0..<2 {
                #expect(await Self.hasTurn(pace, bad, loop))
                pace.release(bad, isRejected: true, on: loop)
            }
            // One at once, one after the interval, and none after that, for more than the longest wait.
            #expect(await Self.hasTurn(pace, bad, loop))
            #expect(await Self.hasTurn(pace, bad, loop))
            #expect(await !Self.hasTurn(pace, bad, loop))
            for _ in 0..<100 {
                #expect(await Self.hasTurn(pace, good, loop))
                pace.release(good, isRejected: false, on: loop)
            }
        }
    }

    @Test("A backend has ten times the rejections of a network, apart from other credentials of its network")
    func byBackend() async throws {
        try await Self.withLoop { loop in
            let now = MonotonicTime.now
            let pace = RejectionPace(Self.limits(network: 1, server: 1000), connections: 1000) { now }
            let network = try Self.network(1)
            func hasTurn(isRejected: Bool) async -> Bool {
                let turn = Task { await pace.acquire(network, isBackend: true, on: loop) }
                turn.cancel()
                guard await turn.value == .granted else { return false }
                pace.release(network, isBackend: true, isRejected: isRejected, on: loop)
                return true
            }
            for _ in 0..<10 { #expect(await hasTurn(isRejected: true)) }
            // The next turns are a tenth of the interval apart, up to the longest wait.
            for _ in 0...15 { #expect(await hasTurn(isRejected: false)) }
            #expect(await !hasTurn(isRejected: false))
            #expect(await Self.hasTurn(pace, network, loop))
        }
    }

    @Test("An IPv6 site has four times the rejections and the turns of a network, however many networks it has")
    func bySite() async throws {
        try await Self.withLoop { loop in
            let pace = Self.pace(network: 1, server: 1000)
            func network(_ site: Int, _ number: Int) throws -> SocketAddress.Network {
                try #require(SocketAddress("2001:db8:\(site):\(number)::1")).network
            }
            for number in 1...4 {
                #expect(await Self.hasTurn(pace, try network(1, number), loop))
                pace.release(try network(1, number), isRejected: true, on: loop)
            }
            // One at once, and one at each quarter of the interval, up to the longest wait.
            for number in 5...11 { #expect(await Self.hasTurn(pace, try network(1, number), loop)) }
            #expect(await !Self.hasTurn(pace, try network(1, 12), loop))
            #expect(await Self.hasTurn(pace, try network(2, 1), loop))
        }
    }

    @Test("In the server's line, a network without rejections goes where the others no longer may")
    func clean() async throws {
        try await Self.withLoop { loop in
            let pace = Self.pace(network: 1000, server: 1)
            let (bad, other, good) = (try Self.network(1), try Self.network(2), try Self.network(3))
            for network in [bad, other] {
                #expect(await Self.hasTurn(pace, network, loop))
                pace.release(network, isRejected: true, on: loop)
            }
            // The next turn is an interval away, and they wait for half of the longest wait at most.
            #expect(await !Self.hasTurn(pace, bad, loop))
            #expect(await !Self.hasTurn(pace, other, loop))
            #expect(await Self.hasTurn(pace, good, loop))
        }
    }

    @Test("No more credentials are checked at a time on an event loop than it has connections for, also in slow turns")
    func connections() async throws {
        try await Self.withLoop { loop in
            let pace = RejectionPace(Self.limits(network: 1, server: 1000), connections: 2)
            let (bad, good) = (try Self.network(1), try Self.network(2))
            #expect(await Self.hasTurn(pace, bad, loop))
            pace.release(bad, isRejected: true, on: loop)
            for _ in 0..<2 { #expect(await Self.hasTurn(pace, bad, loop)) }
            // Both connections are taken, by slow turns.
            #expect(await !Self.hasTurn(pace, good, loop))
            let known = Task { await pace.acquire(nil, on: loop) }
            known.cancel()
            #expect(await known.value == .none)
            pace.release(bad, isRejected: false, on: loop)
            #expect(await Self.hasTurn(pace, good, loop))
        }
        let loops = try EventLoopGroup(count: 2)
        defer { loops.shutdown() }
        let pace = RejectionPace(Self.limits(network: 8, server: 1000), connections: 1)
        for loop in loops.loops { #expect(await Self.hasTurn(pace, try Self.network(1), loop)) }
    }

    @Test("A credential waits in all lines together for no longer than the longest wait")
    func oneEnd() async throws {
        let loops = try EventLoopGroup(count: 2)
        defer { loops.shutdown() }
        let (loop, otherLoop) = (loops.loops[0], loops.loops[1])
        let time = Locked(MonotonicTime.now)
        let limits = RejectionPace.Limits(
            network: RejectionPace.Rate(rejections: 8, inFlight: 1, interval: Self.interval),
            server: RejectionPace.Rate(rejections: 8, inFlight: 8, interval: Self.interval),
            longestWait: .seconds(15)
        )
        let pace = RejectionPace(limits, connections: 1) { time.withLock { $0 } }
        let (one, other) = (try Self.network(1), try Self.network(2))
        #expect(await pace.acquire(one, on: otherLoop) == .granted)
        #expect(await pace.acquire(other, on: loop) == .granted)
        // It waits for its network's turn, and then for a connection.
        let waiting = Task { await pace.acquire(one, on: loop) }
        try await eventually("it waits") { pace.waiting(of: one) == 1 }
        time.withLock { $0 = $0 + .seconds(10) }
        pace.release(one, isRejected: false, on: otherLoop)
        time.withLock { $0 = $0 + .seconds(10) }
        // The clock stands still now: with an end for each line it would wait for ever.
        #expect(await waiting.value == .none)
    }

    @Test("A network has so many credentials waiting, and others have room all the same")
    func room() async throws {
        try await Self.withLoop { loop in
            let pace = Self.pace(network: 1000, server: 1000)
            let (bad, good) = (try Self.network(1), try Self.network(2))
            for _ in 0..<8 { #expect(await pace.acquire(bad, on: loop) == .granted) }
            let waiting = (0..<RejectionPace.maximumWaiting).map { _ in Task { await pace.acquire(bad, on: loop) } }
            try await eventually("they wait") { pace.waiting(of: bad) == RejectionPace.maximumWaiting }
            #expect(await pace.acquire(bad, on: loop) == .none)
            pace.release(bad, isRejected: false, on: loop)
            try await eventually("one has its turn") { pace.waiting(of: bad) == RejectionPace.maximumWaiting - 1 }
            for _ in 0..<7 { pace.release(bad, isRejected: false, on: loop) }
            #expect(await pace.acquire(good, on: loop) == .granted)
            for task in waiting {
                task.cancel()
                if await task.value == .granted { pace.release(bad, isRejected: false, on: loop) }
            }
            #expect(pace.waiting(of: bad) == 0)
        }
    }

    @Test(
        "After a quota of the app was used up nothing is checked for as long as Kakao says; a user's quota pauses nothing"
    )
    func pause() async throws {
        try await Self.withLoop { loop in
            let time = Locked(MonotonicTime.now)
            let pace = RejectionPace(Self.limits(network: 8, server: 8), connections: 8) { time.withLock { $0 } }
            let network = try Self.network(1)
            func quota(_ code: String?, _ seconds: Int) -> KakaoError {
                KakaoError(
                    kind: .refused(status: 429, code: nil, message: ""),
                    credential: .none,
                    retryAfter: .seconds(seconds),
                    oauthError: OAuthError(error: "too_many_requests", code: code)
                )
            }
            #expect(pace.pause(after: quota("KOE237", 30)) == nil)
            #expect(await pace.acquire(network, on: loop) == .granted)
            #expect(pace.pause(after: quota(nil, 30)) == .seconds(30))
            #expect(await pace.acquire(network, on: loop) == .paused(.seconds(30)))
            #expect(await pace.acquire(nil, on: loop) == .paused(.seconds(30)))
            time.withLock { $0 = $0 + .seconds(30) }
            #expect(await pace.acquire(network, on: loop) == .granted)
            #expect(pace.pause(after: quota(nil, 86_400)) == .seconds(60))
        }
    }
}
