import FoundationEssentials
import Runtime
import Testing

@testable import Messages
@testable import Sharing

/// The rules by which a server claims and sends the receivers of messages. Each test reads as a transcript.
@Suite struct MessageScheduleTests {
    private var schedule = MessageSchedule(requestsPerSecond: 1000)

    @Test("A server that has found nothing claims again only after a notification")
    mutating func notification() {
        #expect(schedule.nextOrder(at(0)) == 16)
        schedule.claimed(ClaimedReceivers([]), by: 16, at(0))
        #expect(schedule.nextOrder(at(1000)) == nil)
        schedule.noticed(MessageNotices.Changes(hasChange: true), at(1000))
        #expect(schedule.nextOrder(at(1000)) == 16)
    }

    @Test("Nothing is claimed while claimed receivers wait to be sent, and again once half of the requests have ended")
    mutating func inTime() throws {
        claim(16)
        #expect(schedule.nextOrder(at(0)) == nil)
        var sent: [ReceiverBatch] = []
        while let batch = schedule.popReady(at(0, inFlight: sent.count), { true }) { sent.append(batch) }
        #expect(sent.count == 16)
        schedule.ended(sent[0], Self.results(sent[0], .sent), at(5, inFlight: 15))
        #expect(schedule.nextOrder(at(5, inFlight: 15)) == nil)
        schedule.ended(sent[1], Self.results(sent[1], .sent), at(6, inFlight: 8))
        #expect(schedule.wantsPass)
        #expect(schedule.nextOrder(at(6, inFlight: 8)) == 8)
    }

    @Test("At most 16 requests are in flight, and no more begin than the rate allows")
    mutating func limits() {
        schedule = MessageSchedule(requestsPerSecond: 10)
        while chore(at(0)) != nil {}
        claim(10)
        #expect(schedule.nextOrder(at(0)) == nil)
        #expect(schedule.popReady(at(0, inFlight: 16), { true }) == nil)
        #expect(schedule.popReady(at(0), { true }) != nil)
        #expect(schedule.popReady(at(0), { true }) == nil)
        #expect(schedule.nextPass(at(0)) == 100)
        #expect(schedule.popReady(at(100), { true }) != nil)
    }

    @Test("While calls are in vain, nothing is claimed before the next trial, and then for one request")
    mutating func trial() throws {
        #expect(schedule.nextOrder(at(0, nextTrial: 500)) == nil)
        #expect(schedule.nextPass(at(0, nextTrial: 500)) == 0, "messages to end and to resolve are looked for")
        #expect(schedule.nextOrder(at(500, nextTrial: 500)) == 1)
        claim(2, at: 500)
        let nextBatch = schedule.popReady(at(500, nextTrial: 500), { true })
        let batch = try #require(nextBatch)
        schedule.ended(batch, Self.results(batch, .notSent), at(600, nextTrial: 1600))
        // Another server may reach Kakao.
        #expect(schedule.released.map(\.position) == [1])
    }

    @Test("What Kakao's availability does not admit stays ready")
    mutating func refused() {
        claim(1)
        #expect(schedule.popReady(at(0), { false }) == nil)
        #expect(schedule.popReady(at(0), { true }) != nil)
    }

    @Test("A message is ended once the results of its receivers are stored, and again if that fails")
    mutating func finish() throws {
        claim(1)
        let nextBatch = schedule.popReady(at(0), { true })
        let batch = try #require(nextBatch)
        schedule.ended(batch, Self.results(batch, .sent), at(5))
        _ = chore(at(5, pendingWrites: 1))
        #expect(chore(at(5, pendingWrites: 1)) == nil)
        schedule.recorded(QueueResult(batch.receivers[0], .sent), at(6))
        let next = chore(at(6))
        let finish = try #require(next)
        guard case .finish(let ids) = finish else { throw Unexpected() }
        #expect(ids == [batch.message.id])
        #expect(chore(at(6)) == nil)
        schedule.failed(finish)
        #expect(chore(at(7)) != nil)
    }

    @Test("A receiver that waits is claimed when it is due, counted from its commit")
    mutating func waiting() throws {
        claim(1)
        let nextBatch = schedule.popReady(at(0), { true })
        let batch = try #require(nextBatch)
        let result = ReceiverResult(state: .waiting, secondsUntilDue: 2)
        schedule.ended(batch, Self.results(batch, result), at(10))
        #expect(schedule.nextOrder(at(10)) == 16)
        schedule.claimed(ClaimedReceivers([]), by: 16, at(10))
        schedule.recorded(QueueResult(batch.receivers[0], result), at(20))
        #expect(schedule.nextOrder(at(2069)) == nil)
        #expect(schedule.nextOrder(at(2070)) == 16)
    }

    @Test("With a thousand results that are not stored, nothing is claimed")
    mutating func pendingWrites() {
        #expect(schedule.nextOrder(at(0, pendingWrites: 1000)) == nil)
        claim(1)
        schedule.recorded(QueueResult(Self.claim(of: UUID(), 0), .sent), at(1, pendingWrites: 999))
        #expect(schedule.wantsPass)
    }

    @Test("An idle server does not wake up by itself")
    mutating func idle() {
        while chore(at(0)) != nil {}
        _ = schedule.nextOrder(at(0))
        #expect(schedule.nextPass(at(0)) == .max)
        schedule.leaseRenewed(hasWork: false, at(5000))
        #expect(schedule.nextPass(at(5000)) == .max)
        schedule.leaseRenewed(hasWork: true, at(5000))
        #expect(schedule.nextPass(at(5000)) == 6000)
    }

    // MARK: Support

    private struct Unexpected: Error {}

    /// Returns the next chore of either phase.
    private mutating func chore(_ load: QueueLoad) -> MessageSchedule.Chore? {
        schedule.nextChore(.beforeClaims, load) ?? schedule.nextChore(.afterClaims, load)
    }

    private func at(
        _ now: UInt64,
        inFlight: Int = 0,
        pendingWrites: Int = 0,
        nextTrial: UInt64? = nil
    ) -> QueueLoad {
        QueueLoad(now: now, inFlight: inFlight, pendingWrites: pendingWrites, nextTrial: nextTrial)
    }

    /// Claims receivers of one message, each of which takes a request.
    private mutating func claim(_ count: Int32, at now: UInt64 = 0) {
        let message = SendingMessage(
            id: UUID(),
            sender: 1,
            addressing: .friends,
            content: .custom(1, args: nil),
            delivery: .atMostOnce,
            whenOverQuota: .wait
        )
        let receivers = (0..<count).map { position in
            ClaimReceivers.Receiver(
                claim: Self.claim(of: message.id, position),
                message: position == 0 ? message : nil,
                failed: 0
            )
        }
        schedule.claimed(ClaimedReceivers(receivers), by: Int(count), at(now))
    }

    private static func claim(of messageID: UUID, _ position: Int32) -> ReceiverClaim {
        ReceiverClaim(
            messageID: messageID,
            position: position,
            claims: 1,
            attempts: 1,
            lease: UUID(),
            uuid: "uuid-\(position)",
            isAlone: true,
            lastCode: nil
        )
    }

    private static func results(
        _ batch: ReceiverBatch,
        _ result: ReceiverResult
    ) -> [QueueResult<ReceiverClaim, ReceiverResult>] {
        batch.receivers.map { QueueResult($0, result) }
    }
}
