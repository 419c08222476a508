import EventLoop
import HTTPServer
import Net
import Testing

@testable import Identity

/// The delays of an address that repeatedly presents invalid keys.
@Suite struct BadKeyDelaysTests {
    private static let start = MonotonicTime.now

    private static func network(_ number: Int) throws -> SocketAddress.Network {
        try #require(SocketAddress("10.\(number >> 16 & 255).\(number >> 8 & 255).\(number & 255)")).network
    }

    @Test("Four invalid keys cause no delay; from the fifth on it doubles from 1 s to 15 min")
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

    @Test("Concurrent invalid keys do not extend the delay that the first of them began")
    func simultaneous() throws {
        let delays = BadKeyDelays()
        let address = try Self.network(1)
        for _ in 0..<100 { delays.recordInvalidKey(from: address, at: Self.start) }
        #expect(delays.wait(address, at: Self.start) == .seconds(1))
    }

    @Test("The delays of an address are reset 15 min after its last delay, and not before")
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

    @Test("The number of stored addresses is bounded")
    func bounded() throws {
        let delays = BadKeyDelays()
        for number in 0..<50_000 { delays.recordInvalidKey(from: try Self.network(number), at: Self.start) }
        #expect(delays.count <= BadKeyDelays.maximumAddresses)
    }

    @Test("An IPv6 site has four times the invalid keys of a network, however many networks it has")
    func site() throws {
        let delays = BadKeyDelays()
        func network(_ number: Int) throws -> SocketAddress.Network {
            try #require(SocketAddress("2001:db8:1:\(number)::1")).network
        }
        for number in 1...19 {
            delays.recordInvalidKey(from: try network(number), at: Self.start)
            #expect(delays.wait(try network(number), at: Self.start) == nil)
        }
        delays.recordInvalidKey(from: try network(20), at: Self.start)
        #expect(delays.wait(try network(21), at: Self.start) == .seconds(1))
        let other = try #require(SocketAddress("2001:db8:2:1::1")).network
        #expect(delays.wait(other, at: Self.start) == nil)
    }
}
