import FoundationEssentials
import Testing

@testable import Runtime

@Suite struct ReplicaLagTests {
    private static func time(_ seconds: Double) -> Date { Date(timeIntervalSince1970: 1_800_000_000 + seconds) }

    private static func lag(primary: Double, previous: Double?, replica: Double?) -> Duration? {
        ReplicaHealth.lag(primary: time(primary), previous: previous.map(time), replica: replica.map(time))
    }

    @Test("A replica that has what the primary had at the previous check is not behind")
    func current() {
        #expect(Self.lag(primary: 5, previous: 0, replica: 5) == .zero)
        // The lease was renewed between the two reads.
        #expect(Self.lag(primary: 5, previous: 0, replica: 10) == .zero)
        // It was renewed a moment ago.
        #expect(Self.lag(primary: 5, previous: 0, replica: 0) == .zero)
    }

    @Test("The lag of a replica that replays nothing grows")
    func stopped() {
        #expect(Self.lag(primary: 10, previous: 5, replica: 0) == .seconds(10))
        #expect(Self.lag(primary: 70, previous: 65, replica: 0) == .seconds(70))
    }

    @Test("The first check, and one after a check that failed, compare with the primary only")
    func first() {
        #expect(Self.lag(primary: 3600, previous: nil, replica: 0) == .seconds(3600))
        #expect(Self.lag(primary: 0, previous: nil, replica: 0) == .zero)
    }

    @Test("The lag is unknown without the lease, and if the replica is of another history than the primary")
    func unknown() {
        #expect(Self.lag(primary: 0, previous: nil, replica: nil) == nil)
        #expect(Self.lag(primary: 0, previous: nil, replica: 60) == nil)
    }

    @Test("The clock of a new primary may be behind that of the former one")
    func otherClock() {
        #expect(Self.lag(primary: 0, previous: 120, replica: 0) == .zero)
        #expect(Self.lag(primary: 0, previous: 120, replica: -100) == .seconds(100))
    }
}
