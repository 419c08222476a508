import FoundationEssentials
import Testing

@testable import Runtime

@Suite struct ReplicaLagTests {
    private static func time(_ seconds: Double) -> Date { Date(timeIntervalSince1970: 1_800_000_000 + seconds) }

    @Test("A replica that has what the primary had at the previous check is not behind")
    func current() {
        var lag = ReplicaLag()
        #expect(lag.record(primary: Self.time(0), replica: Self.time(0)) == .zero)
        // The lease was renewed between the two reads.
        #expect(lag.record(primary: Self.time(5), replica: Self.time(10)) == .zero)
        // It was renewed a moment ago.
        #expect(lag.record(primary: Self.time(10), replica: Self.time(5)) == .zero)
    }

    @Test("The lag of a replica that replays nothing grows")
    func stopped() {
        var lag = ReplicaLag()
        _ = lag.record(primary: Self.time(0), replica: Self.time(0))
        _ = lag.record(primary: Self.time(5), replica: Self.time(0))
        #expect(lag.record(primary: Self.time(10), replica: Self.time(0)) == .seconds(10))
        #expect(lag.record(primary: Self.time(70), replica: Self.time(0)) == .seconds(70))
        #expect(lag.record(primary: Self.time(75), replica: Self.time(72)) == .zero)
    }

    @Test("The first check already finds a replica that is far behind")
    func first() {
        var lag = ReplicaLag()
        #expect(lag.record(primary: Self.time(3600), replica: Self.time(0)) == .seconds(3600))
    }

    @Test("The lag of a database without the lease is unknown")
    func unknown() {
        var lag = ReplicaLag()
        #expect(lag.record(primary: Self.time(0), replica: nil) == nil)
    }
}
