import EventLoop
import Logging
import Net
import Testing

@testable import Identity

/// The limit of requests per minute and key.
@Suite struct RequestLimitTests {
    private static let start = MonotonicTime.now

    @Test("The requests of a minute may arrive at once, then one is allowed per interval")
    func bucket() {
        let limit = RequestLimit<Int>(perMinute: 6)
        for _ in 0..<6 { #expect(limit.take(from: 1, at: Self.start) == nil) }
        #expect(limit.take(from: 1, at: Self.start) == .seconds(10))
        #expect(limit.take(from: 1, at: Self.start + .seconds(4)) == .seconds(6))
        #expect(limit.take(from: 1, at: Self.start + .seconds(10)) == nil)
        #expect(limit.take(from: 1, at: Self.start + .seconds(10)) == .seconds(10))
        // A rejected request does not extend the wait.
        #expect(limit.take(from: 1, at: Self.start + .seconds(20)) == nil)
    }

    @Test("After a pause of any length, no more than the requests of a minute are allowed")
    func rest() {
        let limit = RequestLimit<Int>(perMinute: 6)
        for _ in 0..<6 { _ = limit.take(from: 1, at: Self.start) }
        let later = Self.start + .seconds(3600)
        for _ in 0..<6 { #expect(limit.take(from: 1, at: later) == nil) }
        #expect(limit.take(from: 1, at: later) == .seconds(10))
    }

    @Test("A limit of an hour is a bucket of an hour")
    func hour() {
        let limit = RequestLimit<Int>(perHour: 20)
        for _ in 0..<20 { #expect(limit.take(from: 1, at: Self.start) == nil) }
        #expect(limit.take(from: 1, at: Self.start) == .seconds(180))
        let allowed = (0..<24 * 60).count { limit.take(from: 1, at: Self.start + .seconds(60 * $0)) == nil }
        #expect(allowed == 24 * 20 - 1)
    }

    @Test(
        "Calls with app keys have a bucket of a day for each network, four times that for an IPv6 site, and one for all"
    )
    func appKeys() throws {
        let limits = AppKeyLimits(perDay: 2, perMinute: 11)
        func network(_ text: String) throws -> SocketAddress.Network { try #require(SocketAddress(text)).network }
        func isAdmitted(_ text: String, after seconds: Int = 0) throws -> Bool {
            let network = try network(text)
            do { try limits.charge(network, at: Self.start + .seconds(seconds)) } catch { return false }
            return true
        }
        #expect(try (0..<3).map { _ in try isAdmitted("10.0.0.1") } == [true, true, false])
        // A fifth network of the same site.
        for number in 1...4 { for _ in 0..<2 { #expect(try isAdmitted("2001:db8:1:\(number)::1")) } }
        #expect(try !isAdmitted("2001:db8:1:5::1"))
        #expect(try isAdmitted("10.0.0.2"))
        #expect(try !isAdmitted("10.0.0.3"))
        // A share of a minute later, one more passes; a network gets its next call after half a day.
        #expect(try isAdmitted("10.0.0.4", after: 6))
        #expect(try !isAdmitted("10.0.0.1", after: 43_199))
        #expect(try isAdmitted("10.0.0.1", after: 43_200))
    }

    @Test("Over time the requests of a minute plus one per interval are allowed")
    func rate() {
        let limit = RequestLimit<Int>(perMinute: 600)
        let allowed = (0..<60_000).count { limit.take(from: 1, at: Self.start + .milliseconds($0)) == nil }
        #expect(allowed == 600 + 599)
    }

    @Test("Another limit applies to the next request; what was taken before counts")
    func otherLimit() {
        let limit = RequestLimit<Int>(perMinute: nil)
        for _ in 0..<1000 { #expect(limit.take(from: 1, at: Self.start) == nil) }
        limit.apply(perMinute: 2)
        for _ in 0..<2 { #expect(limit.take(from: 1, at: Self.start) == nil) }
        #expect(limit.take(from: 1, at: Self.start) == .seconds(30))
        limit.apply(perMinute: 6)
        #expect(limit.take(from: 1, at: Self.start) == .seconds(10))
        limit.apply(perMinute: nil)
        #expect(limit.take(from: 1, at: Self.start) == nil)
    }

    @Test("Each key has its own limit")
    func keys() {
        let limit = RequestLimit<Int>(perMinute: 1)
        for key in 0..<100 { #expect(limit.take(from: key, at: Self.start) == nil) }
        for key in 0..<100 { #expect(limit.take(from: key, at: Self.start) == .seconds(60)) }
    }

    @Test("A bounded number of keys is stored, those with the latest requests")
    func bounded() {
        let limit = RequestLimit<Int>(perMinute: 1)
        for key in 0..<200_000 {
            _ = limit.take(from: key, at: Self.start)
            _ = limit.take(from: -1, at: Self.start)
        }
        #expect(limit.count <= RequestLimit<Int>.maximumBuckets)
        #expect(limit.take(from: -1, at: Self.start) != nil)
        #expect(limit.take(from: 199_999, at: Self.start) != nil)
    }

    @Test("An IPv6 site has four times the limit of a network, however many networks it has")
    func site() throws {
        func network(_ site: Int, _ number: Int) throws -> SocketAddress.Network {
            try #require(SocketAddress("2001:db8:\(site):\(String(number, radix: 16))::1")).network
        }
        let limit = AddressLimit(perMinute: 6, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let allowed = try (1...100).count { limit.take(from: try network(1, $0), at: Self.start) == nil }
        #expect(allowed == 24)
        #expect(limit.take(from: try network(1, 101), at: Self.start) == .milliseconds(2500))
        for _ in 0..<6 { #expect(limit.take(from: try network(2, 1), at: Self.start) == nil) }
        // What a network sends beyond its limit leaves the others of its site their turns.
        for _ in 0..<100 { #expect(limit.take(from: try network(2, 1), at: Self.start) != nil) }
        #expect(limit.take(from: try network(2, 2), at: Self.start) == nil)
    }
}
