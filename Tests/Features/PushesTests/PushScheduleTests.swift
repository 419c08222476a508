import EventLoop
import FoundationEssentials
import JSON
import KakaoAPI
import Runtime
import Testing

@testable import Pushes

/// The rules by which a server claims and sends the batches of pushes. Each test reads as a transcript.
@Suite struct PushScheduleTests {
    private var schedule = PushSchedule(maxRequestsInFlight: 10, intervals: WorkIntervals())
    private let lease = UUID()

    // MARK: Fairness

    @Test("Two pushes are claimed half and half, and the one with fewer requests in flight sends next")
    mutating func fairness() {
        let (large, small) = (push(), push())
        begin([large, small])
        let shares = schedule.nextOrder(at(0))
        #expect(Self.batches(shares) == [large.id: 10, small.id: 10])
        claim(large, 0..<20, by: shares)
        #expect((0..<5).map { send(inFlight: $0) } == Array(repeating: large.id, count: 5))
        claim(small, 0..<2, by: shares)
        #expect((5..<8).map { send(inFlight: $0) } == [small.id, small.id, large.id])
    }

    @Test("At most the configured number of requests is in flight")
    mutating func maximum() {
        let push = push()
        begin([push])
        claim(push, 0..<20)
        #expect(send(inFlight: 9) == push.id)
        #expect(send(inFlight: 10) == nil)
    }

    @Test("The configured rate bounds the requests that begin, and tells when the next may")
    mutating func rate() {
        let push = push()
        schedule.noticed(PushSchedule.Notices(requestsPerSecond: 10), at(0))
        begin([push])
        claim(push, 0..<20)
        #expect(send() == push.id)
        #expect(send(at: 0) == nil)
        #expect(schedule.nextPass(at(0)) == 100)
        #expect(send(at: 100) == push.id)
    }

    @Test("A push that is sent at most once holds no more batches than twice the requests in flight")
    mutating func atMostOnce() {
        let push = push(.atMostOnce)
        begin([push])
        let shares = schedule.nextOrder(at(0))
        #expect(Self.batches(shares) == [push.id: 10])
        claim(push, 0..<20, by: shares)
        #expect(schedule.nextOrder(at(0)) == nil)
        #expect(schedule.nextPass(at(0)) == .max)
    }

    @Test("A push with a rate of users is claimed twice in the time that a batch takes")
    mutating func usersPerSecond() {
        let push = push(usersPerSecond: 10)
        begin([push])
        claim(push, 0..<1, by: schedule.nextOrder(at(0)))
        #expect(schedule.nextOrder(at(499)) == nil)
        #expect(schedule.nextOrder(at(500)) != nil)
    }

    // MARK: Notifications

    @Test("A push without batches is looked for again when there are new ones, or after a while")
    mutating func newBatches() {
        let push = push()
        begin([push], isPrepared: false)
        claim(push, 0..<0, by: schedule.nextOrder(at(0)))
        #expect(schedule.nextOrder(at(199)) == nil)
        #expect(schedule.nextPass(at(1)) == 200)
        schedule.noticed(PushSchedule.Notices(changes: PushNotices.Changes(batches: [push.id: true])), at(1))
        #expect(schedule.nextOrder(at(1)) != nil)
    }

    @Test("Batches of an unknown push, a change, or work seen at a renewal make the server read the pushes")
    mutating func refresh() {
        begin([])
        #expect(chore(at(0)) == nil)
        schedule.noticed(PushSchedule.Notices(changes: PushNotices.Changes(batches: [UUID(): false])), at(1))
        #expect(isRefresh(chore(at(1))))
        schedule.noticed(PushSchedule.Notices(changes: PushNotices.Changes(hasChange: true)), at(2))
        #expect(isRefresh(chore(at(2))))
        schedule.leaseRenewed(hasWork: true, at(3))
        #expect(isRefresh(chore(at(3))))
        schedule.leaseRenewed(hasWork: false, at(4))
        #expect(chore(at(4)) == nil)
    }

    @Test("A push that was stopped releases its claims, and is forgotten once their results are stored")
    mutating func stopped() {
        let push = push()
        begin([push])
        claim(push, 0..<3)
        schedule.leaseRenewed(hasWork: true, at(1))
        refresh([], at: 1)
        #expect(schedule.released.map(\.number) == [0, 1, 2])
        #expect(schedule.isBusy)
        settleReleased(at: 2)
        refresh([], at: 5001)
        // There may be work of another server, which has stopped.
        #expect(schedule.isBusy)
        schedule.leaseRenewed(hasWork: false, at(5002))
        #expect(!schedule.isBusy)
    }

    @Test("A push with nothing left to send is finished, and again if that fails")
    mutating func finish() throws {
        let push = push()
        begin([push], drainChores: false)
        let first = chore(at(0))
        guard case .finish(let ids) = first else { throw Unexpected() }
        #expect(ids == [push.id])
        #expect(chore(at(0)) == nil)
        schedule.failed(.finish(ids))
        guard case .finish = chore(at(1)) else { throw Unexpected() }
        schedule.completed(.finish(ids), .finished(ids), at(1))
        #expect(!schedule.isBusy)
    }

    // MARK: Times

    @Test("An expired push releases its claims, is ended once, and read again")
    mutating func expiry() throws {
        let push = push()
        begin([push], expiresIn: .seconds(10))
        claim(push, 0..<20)
        #expect(schedule.nextPass(at(0)) == 10_000)
        #expect(send(at: 10_000) == nil)
        guard case .expire(push.id) = chore(at(10_000)) else { throw Unexpected() }
        #expect(chore(at(10_000)) == nil)
        #expect(schedule.released.count == 20)
        schedule.completed(.expire(push.id), .done, at(10_000))
        #expect(isRefresh(chore(at(11_000))))
    }

    @Test("Advertising is neither claimed nor sent after the hours have ended")
    mutating func hours() {
        let push = push()
        begin([push], hoursEndIn: .seconds(60))
        claim(push, 0..<2)
        #expect(send(at: 59_999) == push.id)
        #expect(send(at: 60_000) == nil)
        #expect(schedule.released.count == 1)
        #expect(schedule.nextOrder(at(60_000)) == nil)
    }

    // MARK: Kakao

    @Test("When Kakao's quota is exhausted, everything is released, and the pause doubles up to sixty times the first")
    mutating func pause() throws {
        let push = push()
        begin([push])
        var now: UInt64 = 0
        for seconds: UInt64 in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            claim(push, 0..<3, at: now)
            let request1 = pop(at: now)
            end(try #require(request1), .wait(Self.error), at: now)
            #expect(schedule.released.count == 2)
            settleReleased(at: now)
            guard case .reportPause(let end, _) = chore(at(now)) else { throw Unexpected() }
            #expect(end == now + seconds * 1000)
            #expect(schedule.nextOrder(at(now + seconds * 1000 - 1)) == nil)
            #expect(schedule.isResting(at: now))
            now += seconds * 1000
        }
        claim(push, 0..<1, at: now)
        let request2 = pop(at: now)
        end(try #require(request2), .sent, at: now)
        claim(push, 0..<1, at: now)
        let request3 = pop(at: now)
        end(try #require(request3), .wait(Self.error), at: now)
        guard case .reportPause(now + 60_000, _) = chore(at(now)) else { throw Unexpected() }
    }

    @Test("While calls are in vain, one batch is claimed at a time, when the next trial is due")
    mutating func trial() throws {
        let push = push()
        begin([push])
        #expect(schedule.nextOrder(at(0, nextTrial: 500)) == nil)
        #expect(schedule.nextPass(at(0, nextTrial: 500)) == 500)
        #expect(Self.batches(schedule.nextOrder(at(500, nextTrial: 500))) == [push.id: 1])
        claim(push, 0..<2, at: 500)
        let request = schedule.popReady(at(500, nextTrial: 500)) { true }
        #expect(schedule.popReady(at(500, inFlight: 1, nextTrial: 500)) { true } == nil)
        schedule.ended(
            try #require(request),
            [QueueResult(try #require(request).claim, .retry(after: .seconds(1), mayRepeat: false, Self.error))],
            at(600, nextTrial: 1600)
        )
        #expect(schedule.released.map(\.number) == [1])
    }

    @Test("A rejected app stops the claims of the push until the halt is stored")
    mutating func halt() throws {
        let push = push()
        begin([push])
        claim(push, 0..<3)
        let next = pop()
        let request = try #require(next)
        end(request, .halt(Self.error))
        #expect(schedule.released.count == 2)
        #expect(schedule.nextOrder(at(0)) == nil)
        var result = QueueResult(request.claim, BatchResult.halt(Self.error))
        schedule.recording(&result)
        schedule.recorded(result, at(1))
        #expect(isRefresh(chore(at(1))))
    }

    @Test("A message that Kakao has not accepted yet is held after a rejection, until the halves are stored")
    mutating func split() throws {
        let push = push()
        begin([push])
        claim(push, 0..<3)
        let next = pop()
        let request = try #require(next)
        end(request, .split(Self.error))
        #expect(schedule.released.count == 2)
        settleReleased(at: 0)
        #expect(schedule.nextOrder(at(2000)) == nil)
        var result = QueueResult(request.claim, BatchResult.split(Self.error))
        schedule.recording(&result)
        schedule.recorded(result, at(2000))
        #expect(schedule.nextOrder(at(2000)) != nil)
    }

    @Test("A message that Kakao has accepted is not held, until three batches in a row are rejected")
    mutating func rejections() throws {
        let push = push()
        begin([push])
        claim(push, 0..<8)
        let request4 = pop()
        end(try #require(request4), .sent)
        for _ in 0..<2 {
            let request = pop()
            end(try #require(request), .split(Self.error))
        }
        #expect(schedule.released.isEmpty)
        let next = pop()
        let third = try #require(next)
        end(third, .split(Self.error))
        #expect(schedule.released.count == 4)
        var result = QueueResult(third.claim, BatchResult.split(Self.error))
        schedule.recording(&result)
        #expect(result.claim.isRejectedRepeatedly)
    }

    @Test("A batch that is retried is claimed when it is due")
    mutating func retry() throws {
        let push = push()
        begin([push])
        claim(push, 0..<1, by: schedule.nextOrder(at(0)))
        let request5 = pop()
        end(try #require(request5), .retry(after: .milliseconds(700), mayRepeat: false, Self.error))
        #expect(schedule.nextOrder(at(699)) == nil)
        #expect(schedule.nextOrder(at(700)) != nil)
    }

    // MARK: Back pressure

    @Test("With 4,096 results that are not stored, nothing is claimed or sent")
    mutating func pendingWrites() {
        let push = push()
        begin([push])
        #expect(schedule.nextOrder(at(0, pendingWrites: 4096)) == nil)
        claim(push, 0..<1)
        #expect(schedule.popReady(at(0, pendingWrites: 4096)) { true } == nil)
        #expect(schedule.popReady(at(0, pendingWrites: 4095)) { true } != nil)
    }

    // MARK: Support

    private struct Unexpected: Error {}

    private static let error = KakaoError(kind: .refused(status: 400, code: nil, message: ""))

    private func push(_ delivery: Delivery = .atLeastOnce, usersPerSecond: Int32? = nil) -> BatchStore.Active {
        BatchStore.Active(
            id: UUID(),
            name: nil,
            message: PushMessage(JSONObject(), version: .v1),
            bypass: false,
            delivery: delivery,
            usersPerSecond: usersPerSecond
        )
    }

    /// Returns the next chore of either phase.
    private mutating func chore(_ load: QueueLoad) -> PushSchedule.Chore? {
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

    /// Lets the schedule read the pushes, at time 0.
    private mutating func begin(
        _ pushes: [BatchStore.Active],
        isPrepared: Bool = true,
        expiresIn: Duration? = nil,
        hoursEndIn: Duration? = nil,
        drainChores: Bool = true
    ) {
        refresh(pushes, isPrepared: isPrepared, expiresIn: expiresIn, hoursEndIn: hoursEndIn, at: 0)
        while drainChores, chore(at(0)) != nil {}
    }

    private mutating func refresh(
        _ pushes: [BatchStore.Active],
        isPrepared: Bool = true,
        expiresIn: Duration? = nil,
        hoursEndIn: Duration? = nil,
        at now: UInt64
    ) {
        let next = chore(at(now))
        guard let next, isRefresh(next) else {
            Issue.record("the pushes are not read")
            return
        }
        var active = BatchStore.ActivePushes()
        for push in pushes {
            active.timeLeft[push.id] = .some(expiresIn)
            active.hoursLeft[push.id] = hoursEndIn
            active.new.append((push, EncodedPushMessage([])))
            if !isPrepared { active.unprepared.insert(push.id) }
        }
        schedule.completed(next, .active(active), at(now))
    }

    private func isRefresh(_ chore: PushSchedule.Chore?) -> Bool {
        if case .refresh = chore { true } else { false }
    }

    private mutating func claim(
        _ push: BatchStore.Active,
        _ numbers: Range<Int32>,
        by shares: [BatchStore.Share]? = nil,
        at now: UInt64 = 0
    ) {
        let claims = numbers.map { number in
            BatchClaim(pushID: push.id, number: number, attempts: 1, claims: 1, origin: nil, lease: lease)
        }
        schedule.claimed(ClaimedBatches(claims), by: shares ?? [], at(now))
    }

    private static func batches(_ shares: [BatchStore.Share]?) -> [UUID: Int] {
        (shares ?? []).reduce(into: [:]) { $0[$1.pushID] = $1.batches }
    }

    private mutating func pop(at now: UInt64 = 0, inFlight: Int = 0) -> PushRequest? {
        schedule.popReady(at(now, inFlight: inFlight)) { true }
    }

    /// Begins a request. Returns its push.
    private mutating func send(at now: UInt64 = 0, inFlight: Int = 0) -> UUID? {
        pop(at: now, inFlight: inFlight)?.claim.pushID
    }

    private mutating func end(_ request: PushRequest, _ result: BatchResult, at now: UInt64 = 0) {
        schedule.ended(request, [QueueResult(request.claim, result)], at(now))
    }

    /// Stores that the released claims were not sent.
    private mutating func settleReleased(at now: UInt64) {
        for claim in schedule.released {
            var result = QueueResult(claim, BatchResult.notSent)
            schedule.recording(&result)
            schedule.recorded(result, at(now))
        }
        schedule.released = []
    }
}
