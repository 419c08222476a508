import Endpoints
import FoundationEssentials
import Runtime
import Testing

@testable import Webhooks

/// The rules by which a server claims and sends webhooks. Each test reads as a transcript.
@Suite struct WebhookScheduleTests {
    private typealias Room = WebhookSchedule.Room

    private var schedule = WebhookSchedule(endpoints: ["a", "b"], retries: [.seconds(5), .seconds(300)])

    // MARK: Claims

    @Test("A server that has found nothing claims again only after a notification")
    mutating func notification() {
        #expect(schedule.nextOrder(at(0)) == [Room(endpoint: "a", webhooks: 16), Room(endpoint: "b", webhooks: 16)])
        claim(0, of: "a", room: 16)
        claim(0, of: "b", room: 16)
        #expect(schedule.nextOrder(at(1000)) == nil)
        schedule.noticed(WebhookSchedule.Notices(hasChange: true), at(1000))
        #expect(schedule.wantsPass)
        #expect(schedule.nextOrder(at(1000))?.map(\.endpoint) == ["a", "b"])
    }

    @Test("Events that follow each other closely are claimed together")
    mutating func gathering() {
        _ = schedule.nextOrder(at(1000))
        claim(0, of: "a", room: 16, at: 1000)
        claim(0, of: "b", room: 16, at: 1000)
        schedule.noticed(WebhookSchedule.Notices(hasChange: true), at(1001))
        #expect(schedule.nextOrder(at(1001)) == nil)
        let next = schedule.nextPass(at(1001))
        #expect(next > 1001 && next <= 1100)
        #expect(schedule.nextOrder(at(next))?.map(\.endpoint) == ["a", "b"])
    }

    @Test("More is claimed once half of a claim is sent, if it found as much as it asked for")
    mutating func inTime() {
        _ = schedule.nextOrder(at(0))
        claim(16, of: "a", room: 16)
        for _ in 0..<7 { #expect(pop() != nil) }
        #expect(schedule.nextOrder(at(5)) == nil)
        let last = pop()
        claim(3, of: "b", room: 16)
        #expect(schedule.nextOrder(at(1000)) == [Room(endpoint: "a", webhooks: 8)])
        // There was nothing more for the other one.
        for _ in 0..<3 { #expect(pop()?.endpoint == "b") }
        #expect(schedule.nextOrder(at(1000)) == nil)
        schedule.wantsPass = false
        claim(8, of: "a", room: 8, at: 1000)
        if let last { end(last, .delivered, at: 1001) }
        #expect(!schedule.wantsPass, "as much is ready as a claim takes")
    }

    @Test("A claim is larger if the one before was used up soon, up to 512, and smaller if that took long")
    mutating func claimSizes() {
        var now: UInt64 = 0
        for room in [16, 32, 64, 128, 256, 512, 512] {
            #expect(schedule.nextOrder(at(now))?.first { $0.endpoint == "a" }?.webhooks == room)
            claim(room, of: "a", room: room, at: now)
            sendAll(at: now)
            now += 100
        }
        for room in [256, 128, 64, 32, 16, 16] {
            now += 3000
            #expect(schedule.nextOrder(at(now))?.first { $0.endpoint == "a" }?.webhooks == room)
            claim(room, of: "a", room: room, at: now)
            sendAll(at: now)
        }
    }

    @Test("With thousands of results that are not stored, nothing is claimed")
    mutating func pendingWrites() {
        #expect(schedule.nextOrder(at(0, pendingWrites: 4000)) == nil)
        #expect(schedule.nextPass(at(0, pendingWrites: 4000)) == .max)
        schedule.recorded(QueueResult(Self.claim(of: "a"), .notSent), at(0, pendingWrites: 3999))
        #expect(schedule.wantsPass)
        #expect(schedule.nextOrder(at(0, pendingWrites: 3999)) != nil)
    }

    @Test("After a failed pass nothing is claimed or stored for a time")
    mutating func failedPass() {
        claim(1, of: "a")
        if let claim = pop() { end(claim, .unavailable, at: 0) }
        schedule.failed(until: 1000)
        #expect(schedule.nextOrder(at(999)) == nil)
        #expect(schedule.nextChore(.beforeClaims, at(999)) == nil)
        #expect(schedule.nextPass(at(0)) == 1000)
        #expect(schedule.nextChore(.beforeClaims, at(1000)) != nil)
        #expect(schedule.nextOrder(at(1000))?.map(\.endpoint) == ["b"])
    }

    @Test("An idle server does not wake up by itself")
    mutating func idle() {
        _ = schedule.nextOrder(at(0))
        claim(0, of: "a", room: 16)
        claim(0, of: "b", room: 16)
        #expect(schedule.nextPass(at(0)) == .max)
        schedule.leaseRenewed(hasWork: false, at(5000))
        #expect(schedule.nextPass(at(5000)) == .max && !schedule.isBusy)
        schedule.leaseRenewed(hasWork: true, at(10_000))
        #expect(schedule.nextPass(at(10_000)) == 0 && schedule.isBusy)
    }

    // MARK: Requests

    @Test("Each endpoint has at most eight requests in flight, and they take turns")
    mutating func requestsInFlight() {
        claim(20, of: "a")
        claim(20, of: "b")
        let sent = (0..<16).compactMap { _ in pop() }
        #expect(sent.map(\.endpoint) == (0..<16).map { $0 % 2 == 0 ? "a" : "b" })
        #expect(pop() == nil)
        end(sent[1], .delivered, at: 5)
        #expect(pop()?.endpoint == "b")
        #expect(pop() == nil)
    }

    @Test("An endpoint that hangs costs the other one nothing")
    mutating func hanging() {
        _ = schedule.nextOrder(at(0))
        claim(16, of: "a", room: 16)
        for _ in 0..<8 { #expect(pop()?.endpoint == "a") }
        claim(16, of: "b", room: 16)
        for now in 1..<100 as Range<UInt64> {
            guard let next = pop() else { break }
            #expect(next.endpoint == "b")
            end(next, .delivered, at: now)
            for room in schedule.nextOrder(at(now)) ?? [] where room.endpoint == "b" {
                claim(room.webhooks, of: "b", room: room.webhooks, at: now)
            }
        }
        #expect(pop()?.endpoint == "b", "there were webhooks for it all the time")
    }

    // MARK: Results

    @Test("A webhook that is accepted is delivered; one that is rejected is tried again until its attempts are used up")
    mutating func results() {
        #expect(result(.delivered, attempts: 0) == .delivered)
        for (attempts, seconds) in [(0, 5.0), (1, 300.0)] as [(Int32, Double)] {
            guard case .retried(let wait) = result(.rejected, attempts: attempts) else {
                Issue.record("not retried")
                return
            }
            #expect((0.8...1.2).contains(wait / .seconds(seconds)))
            _ = result(.delivered, attempts: 0)
        }
        #expect(result(.rejected, attempts: 2) == .failed)
        #expect(result(.abandoned, attempts: 2) == .held)
        #expect(result(.unavailable, attempts: 2) == .held)
    }

    @Test("A webhook whose object is gone is dropped, and one that was not sent is due as before")
    mutating func notSent() {
        for (outcome, next) in [(WebhookResult.objectGone, WebhookClaim.Next.dropped), (.notSent, .held)] {
            var result = QueueResult(Self.claim(of: "a"), outcome)
            schedule.ended(result.claim, [result], at(0))
            schedule.recording(&result)
            #expect(result.claim.next == next)
        }
        // A claim that is released, whether or not it was sent before.
        var released = QueueResult(Self.claim(of: "a"), WebhookSchedule.notSent)
        schedule.recording(&released)
        #expect(released.claim.next == .held)
    }

    @Test("A webhook that was rejected is claimed when it is due, counted from the commit")
    mutating func retry() {
        _ = schedule.nextOrder(at(0))
        claim(0, of: "a", room: 16)
        claim(0, of: "b", room: 16)
        var claim = Self.claim(of: "a")
        claim.next = .retried(after: .seconds(5))
        schedule.recorded(QueueResult(claim, .notSent), at(100))
        #expect(schedule.nextPass(at(100)) == 5150)
        #expect(schedule.nextOrder(at(5149)) == nil)
        #expect(schedule.nextOrder(at(5150))?.map(\.endpoint) == ["a"])
    }

    // MARK: Endpoints that fail

    @Test("An endpoint that is failing gets one webhook at a time, when the database says so; the others are released")
    mutating func failing() throws {
        _ = schedule.nextOrder(at(0))
        claim(4, of: "a", room: 16)
        claim(0, of: "b", room: 16)
        let next = pop()
        let first = try #require(next)
        end(first, .unavailable, at: 10)
        #expect(schedule.released.count == 3 && schedule.wantsPass)
        schedule.released = []
        let nextChore = schedule.nextChore(.beforeClaims, at(10))
        let chore = try #require(nextChore)
        #expect(chore.endpoint == "a" && chore.change == EndpointChange(status: .failing, error: "unavailable"))
        #expect(schedule.nextOrder(at(10)) == nil)
        schedule.completed(chore, [Self.stored("a", .failing, probeIn: 2)], at(20))
        #expect(schedule.nextPass(at(20)) == 2020)
        #expect(schedule.nextOrder(at(2019)) == nil)
        #expect(schedule.nextOrder(at(2020)) == [Room(endpoint: "a", webhooks: 1)])
        // Another server probes it.
        claim(0, of: "a", room: 1, at: 2020, Self.stored("a", .failing, probeIn: 30))
        #expect(schedule.nextOrder(at(2020)) == nil)
    }

    @Test("A probe that succeeds lets the endpoint have everything again")
    mutating func recovery() throws {
        claim(1, of: "a", isProbe: true, Self.stored("a", .failing, probeIn: 30))
        let next = pop()
        let probe = try #require(next)
        #expect(schedule.nextOrder(at(0))?.map(\.endpoint) == ["b"], "one probe at a time")
        end(probe, .delivered, at: 10)
        let nextChore = schedule.nextChore(.beforeClaims, at(10))
        let chore = try #require(nextChore)
        #expect(chore.change == EndpointChange(status: .delivering))
        schedule.completed(chore, [Self.stored("a", .delivering)], at(20))
        #expect(schedule.nextOrder(at(5000)) == [Room(endpoint: "a", webhooks: 16)])
    }

    @Test("A state that could not be stored is stored again, with what has changed since")
    mutating func failedChore() throws {
        claim(2, of: "a")
        let (first, second) = (pop(), pop())
        end(try #require(first), .unavailable, at: 0)
        let nextChore = schedule.nextChore(.beforeClaims, at(0))
        let chore = try #require(nextChore)
        #expect(schedule.nextChore(.afterClaims, at(0)) == nil)
        end(try #require(second), .gone, at: 1)
        schedule.failed(chore)
        #expect(schedule.nextChore(.beforeClaims, at(2))?.change == EndpointChange(status: .gone, error: "gone"))
    }

    @Test("An endpoint that the database does not have gets nothing until it has it")
    mutating func unknown() throws {
        claim(1, of: "a")
        let next = pop()
        end(try #require(next), .unavailable, at: 0)
        let nextChore = schedule.nextChore(.beforeClaims, at(0))
        schedule.completed(try #require(nextChore), [], at(1))
        #expect(schedule.nextOrder(at(100_000))?.map(\.endpoint) == ["b"])
        // A new event says nothing about the endpoint.
        schedule.noticed(WebhookSchedule.Notices(hasChange: true), at(101_000))
        #expect(schedule.nextOrder(at(101_000))?.map(\.endpoint) == ["b"])
        schedule.noticed(WebhookSchedule.Notices(asksEndpoints: true), at(102_000))
        #expect(schedule.nextOrder(at(102_000))?.map(\.endpoint).sorted() == ["a", "b"])
    }

    // MARK: Settings

    @Test("Webhooks of an endpoint that a reload has removed are released, and one that it has added is begun with")
    mutating func reload() {
        claim(3, of: "a")
        schedule.noticed(WebhookSchedule.Notices(endpoints: ["b", "c"]), at(0))
        #expect(schedule.released.map(\.endpoint) == ["a", "a", "a"])
        #expect(schedule.nextOrder(at(0))?.map(\.endpoint) == ["b", "c"])
        // A claim that was in flight.
        schedule.released = []
        claim(2, of: "a")
        #expect(schedule.released.count == 2)
        #expect(pop() == nil)
    }

    @Test("At the end of a lease everything that is ready is given up")
    mutating func lease() {
        claim(3, of: "a")
        claim(2, of: "b")
        #expect(pop() != nil)
        #expect(schedule.removeReady().count == 4)
        #expect(pop() == nil)
    }

    // MARK: Support

    private func at(_ now: UInt64, pendingWrites: Int = 0) -> QueueLoad {
        QueueLoad(now: now, pendingWrites: pendingWrites)
    }

    private static func stored(
        _ endpoint: String,
        _ status: EndpointStatus,
        probeIn seconds: Double = 0
    ) -> StoredEndpoint {
        StoredEndpoint(name: endpoint, status: status, secondsToProbe: seconds)
    }

    private static func claim(of endpoint: String, attempts: Int32 = 0, isProbe: Bool = false) -> WebhookClaim {
        WebhookClaim(
            event: .v7(),
            claims: 1,
            endpoint: endpoint,
            attempts: attempts,
            isProbe: isProbe,
            readAt: 0,
            message: nil
        )
    }

    /// Claims webhooks of an endpoint.
    ///
    /// - Parameter room: The number that was asked for; `nil` for as many as were claimed.
    private mutating func claim(
        _ count: Int,
        of endpoint: String,
        room: Int? = nil,
        at now: UInt64 = 0,
        isProbe: Bool = false,
        _ state: StoredEndpoint? = nil
    ) {
        let claims = (0..<count).map { _ in Self.claim(of: endpoint, isProbe: isProbe) }
        let state = state ?? Self.stored(endpoint, .delivering)
        schedule.claimed(
            ClaimedWebhooks(claims: claims, endpoints: [state], isLeaseValid: true),
            by: [Room(endpoint: endpoint, webhooks: room ?? count)],
            at(now)
        )
    }

    /// Begins the next request.
    private mutating func pop() -> WebhookClaim? { schedule.popReady(at(0)) { true } }

    private mutating func end(_ claim: WebhookClaim, _ outcome: WebhookOutcome, at now: UInt64) {
        schedule.ended(claim, [QueueResult(claim, Self.attempted(outcome))], at(now))
    }

    private static func attempted(_ outcome: WebhookOutcome) -> WebhookResult {
        .attempted(WebhookAttempt(outcome: outcome, status: nil, text: "\(outcome)", duration: .zero))
    }

    /// Sends everything that is ready.
    private mutating func sendAll(at now: UInt64) {
        while let claim = pop() { end(claim, .delivered, at: now) }
    }

    /// Sends a webhook, and returns what becomes of it.
    private mutating func result(_ outcome: WebhookOutcome, attempts: Int32) -> WebhookClaim.Next {
        let claim = Self.claim(of: "a", attempts: attempts)
        var result = QueueResult(claim, Self.attempted(outcome))
        schedule.ended(claim, [result], at(0))
        schedule.recording(&result)
        return result.claim.next
    }
}
