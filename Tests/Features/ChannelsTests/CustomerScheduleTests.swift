import FoundationEssentials
import Runtime
import Testing

@testable import Channels

/// The rules by which a server claims and sends the parts of uploads. Each test reads as a transcript.
@Suite struct CustomerScheduleTests {
    private var schedule = CustomerSchedule()

    @Test("A server looks for the next part once the result of one is stored, and then only after a notification")
    mutating func oneAtATime() {
        #expect(claim(part(1), at: 0))
        #expect(!mayClaim(at: 0))
        let sent = pop(at: 0)
        #expect(sent?.number == 1)
        #expect(pop(at: 0) == nil)
        schedule.recorded(QueueResult(part(1), .accepted(1)), at(10))
        #expect(schedule.wantsPass)
        #expect(claim(nil, at: 10))
        #expect(!mayClaim(at: 1_000_000))
        #expect(schedule.nextPass(at(10)) == .max)
        schedule.noticed(true, at(1_000_000))
        #expect(mayClaim(at: 1_000_000))
    }

    @Test("A part whose attempt has failed is claimed again once it is due, and the parts of other files before")
    mutating func retry() {
        #expect(claim(part(1), at: 0))
        _ = pop(at: 0)
        schedule.recorded(QueueResult(part(1), .retried(after: .seconds(4), reason: "")), at(1000))
        // Another file's.
        #expect(claim(part(7), at: 1000))
        _ = pop(at: 1000)
        schedule.recorded(QueueResult(part(7), .accepted(1)), at(1100))
        #expect(claim(nil, at: 1100))
        let due = schedule.nextPass(at(1100))
        #expect(due >= 5000 && due <= 5100)
        #expect(!mayClaim(at: 4999))
        #expect(claim(part(1), at: due))
        _ = pop(at: due)
        schedule.recorded(QueueResult(part(1), .accepted(1)), at(6000))
        #expect(claim(nil, at: 6000))
        #expect(schedule.nextPass(at(6000)) == .max)
    }

    @Test("The earliest of several retries counts; the others are found when the lease is renewed")
    mutating func retries() {
        for (number, delay, now) in [(1, 60, 0), (2, 4, 10), (3, 30, 20)] as [(Int32, Int, UInt64)] {
            #expect(claim(part(number), at: now))
            _ = pop(at: now)
            schedule.recorded(QueueResult(part(number), .retried(after: .seconds(delay), reason: "")), at(now))
        }
        #expect(claim(nil, at: 30))
        let due = schedule.nextPass(at(30))
        #expect(due >= 4010 && due <= 4100)
        #expect(claim(nil, at: due))
        schedule.leaseRenewed(hasWork: false, at(20_000))
        #expect(!mayClaim(at: 20_000))
        schedule.leaseRenewed(hasWork: true, at(30_000))
        #expect(mayClaim(at: 30_000))
    }

    @Test("After a failed pass nothing is claimed before the given time")
    mutating func failure() {
        schedule.failed(until: 500)
        #expect(!mayClaim(at: 499))
        #expect(schedule.nextPass(at(0)) == 500)
        #expect(mayClaim(at: 500))
    }

    private func at(_ now: UInt64) -> QueueLoad { QueueLoad(now: now) }

    private func part(_ number: Int32) -> CustomerPart {
        CustomerPart(uploadID: UUID(), number: number, claims: 1, attempts: 0, call: nil)
    }

    private func mayClaim(at now: UInt64) -> Bool {
        var schedule = schedule
        return schedule.nextOrder(at(now)) != nil
    }

    /// Claims a part, or finds none. Returns whether the schedule has ordered it.
    private mutating func claim(_ part: CustomerPart?, at now: UInt64) -> Bool {
        guard schedule.nextOrder(at(now)) != nil else { return false }
        let claimed = ClaimedCustomerPart(claims: part.map { [$0] } ?? [], isLeaseValid: true)
        schedule.claimed(claimed, by: (), at(now))
        return true
    }

    private mutating func pop(at now: UInt64) -> CustomerPart? { schedule.popReady(at(now)) { true } }
}
