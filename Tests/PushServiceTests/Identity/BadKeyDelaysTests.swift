import EventLoop
import HTTPServer
import Testing

@testable import PushService

/// How long an address has to wait that keeps presenting bad keys.
@Suite struct BadKeyDelaysTests {
    private static let start = MonotonicTime.now

    private static func network(_ number: Int) throws -> SocketAddress.Network {
        try #require(SocketAddress("10.\(number >> 16 & 255).\(number >> 8 & 255).\(number & 255)")).network
    }

    @Test("Four bad keys cost nothing; from the fifth on the wait doubles from a second to a quarter of an hour")
    func grows() throws {
        let delays = BadKeyDelays()
        let address = try Self.network(1)
        var now = Self.start
        for _ in 0..<4 {
            delays.recordInvalidKey(from: address, at: now)
            #expect(delays.wait(address, at: now) == nil)
        }
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900] {
            delays.recordInvalidKey(from: address, at: now)
            #expect(delays.wait(address, at: now) == .seconds(seconds))
            #expect(delays.wait(address, at: now + .milliseconds(250)) == .seconds(seconds) - .milliseconds(250))
            now = now + .seconds(seconds)
            #expect(delays.wait(address, at: now) == nil)
        }
        #expect(try delays.wait(Self.network(2), at: now) == nil)
    }

    @Test("Keys that were looked up at the same moment count as the one that the wait began with")
    func simultaneous() throws {
        let delays = BadKeyDelays()
        let address = try Self.network(1)
        for _ in 0..<100 { delays.recordInvalidKey(from: address, at: Self.start) }
        #expect(delays.wait(address, at: Self.start) == .seconds(1))
    }

    @Test("An address is forgiven a quarter of an hour after its wait, and not before")
    func quiet() throws {
        let delays = BadKeyDelays()
        let address = try Self.network(1)
        for _ in 0..<5 { delays.recordInvalidKey(from: address, at: Self.start) }
        var now = Self.start + .seconds(1 + 899)
        delays.recordInvalidKey(from: address, at: now)
        #expect(delays.wait(address, at: now) == .seconds(2))
        now = now + .seconds(2 + 900)
        for _ in 0..<4 { delays.recordInvalidKey(from: address, at: now) }
        #expect(delays.wait(address, at: now) == nil)
        delays.recordInvalidKey(from: address, at: now)
        #expect(delays.wait(address, at: now) == .seconds(1))
    }

    @Test("It remembers a bounded number of addresses")
    func bounded() throws {
        let delays = BadKeyDelays()
        for number in 0..<50_000 { delays.recordInvalidKey(from: try Self.network(number), at: Self.start) }
        #expect(delays.count <= BadKeyDelays.maximumAddresses)
    }
}
