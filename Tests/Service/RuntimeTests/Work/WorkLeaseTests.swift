import ServiceTesting
import Testing

@testable import Runtime

/// Tests of when a server may send under its lease, and when it may reclaim other servers' batches.
@Suite struct WorkLeaseTests {
    private static let intervals = WorkIntervals()

    @Test("Nothing is sent in the last seconds of a lease, until it is renewed")
    func margin() {
        var lease = WorkLease(requestedAt: 1000, Self.intervals)
        #expect(lease.maySend(at: 15_999))
        #expect(!lease.maySend(at: 16_000))
        lease.renewed(at: 14_000)
        #expect(lease.maySend(at: 28_999))
        #expect(!lease.maySend(at: 29_000))
    }

    @Test("A server may reclaim batches once it has renewed its lease in time for the duration of a lease")
    func reclaim() {
        var lease = WorkLease(requestedAt: 0, Self.intervals)
        for time in stride(from: UInt64(5000), through: 20_000, by: 5000) {
            #expect(!lease.mayReclaim(at: time - 1))
            lease.renewed(at: time)
        }
        #expect(lease.mayReclaim(at: 20_000))
        // After an outage, the leases of all servers have expired. Each server gets the time to renew its own.
        #expect(lease.mayReclaim(at: 30_000))
        #expect(!lease.mayReclaim(at: 30_001))
        lease.renewed(at: 31_000)
        #expect(!lease.mayReclaim(at: 31_000))
        lease.renewed(at: 36_000)
        lease.renewed(at: 41_000)
        lease.renewed(at: 46_000)
        #expect(!lease.mayReclaim(at: 50_999))
        #expect(lease.mayReclaim(at: 51_000))
    }

    @Test("Each lease has a new id")
    func id() {
        #expect(WorkLease(requestedAt: 0, Self.intervals).id != WorkLease(requestedAt: 0, Self.intervals).id)
    }
}
