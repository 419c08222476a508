import EventLoop
import Net
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
        return await turn.value
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
            let pace = RejectionPace(Self.limits(network: 2, server: 1000))
            let (bad, good) = (try Self.network(1), try Self.network(2))
            for _ in 0..<2 {
                #expect(await Self.hasTurn(pace, bad, loop))
                pace.release(bad, isRejected: true)
            }
            // One at once, one after the interval, and none after that, for more than the longest wait.
            #expect(await Self.hasTurn(pace, bad, loop))
            #expect(await Self.hasTurn(pace, bad, loop))
            #expect(await !Self.hasTurn(pace, bad, loop))
            for _ in 0..<100 {
                #expect(await Self.hasTurn(pace, good, loop))
                pace.release(good, isRejected: false)
            }
        }
    }

    @Test("An IPv6 site has four times the rejections and the turns of a network, however many networks it has")
    func bySite() async throws {
        try await Self.withLoop { loop in
            let pace = RejectionPace(Self.limits(network: 1, server: 1000))
            func network(_ site: Int, _ number: Int) throws -> SocketAddress.Network {
                try #require(SocketAddress("2001:db8:\(site):\(number)::1")).network
            }
            for number in 1...4 {
                #expect(await Self.hasTurn(pace, try network(1, number), loop))
                pace.release(try network(1, number), isRejected: true)
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
            let pace = RejectionPace(Self.limits(network: 1000, server: 1))
            let (bad, other, good) = (try Self.network(1), try Self.network(2), try Self.network(3))
            for network in [bad, other] {
                #expect(await Self.hasTurn(pace, network, loop))
                pace.release(network, isRejected: true)
            }
            // The next turn is an interval away, and they wait for half of the longest wait at most.
            #expect(await !Self.hasTurn(pace, bad, loop))
            #expect(await !Self.hasTurn(pace, other, loop))
            #expect(await Self.hasTurn(pace, good, loop))
        }
    }
}
