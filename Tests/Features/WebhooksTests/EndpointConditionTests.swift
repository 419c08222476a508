import Testing

@testable import Webhooks

/// The state machine of the endpoint. Probes wait for 1 s, 2 s and so on, without jitter.
@Suite struct EndpointConditionTests {
    private static func condition(_ status: EndpointStatus = .delivering) -> EndpointCondition {
        EndpointCondition(status, firstProbe: .seconds(1), longestProbe: .seconds(4), at: 0)
    }

    private static func attempt(_ outcome: WebhookOutcome, retryAfter: Duration? = nil) -> WebhookAttempt {
        WebhookAttempt(outcome: outcome, status: nil, text: "", retryAfter: retryAfter, duration: .zero)
    }

    @Test("Any number of requests may be in flight, and a webhook that is rejected alone is set aside")
    func delivering() {
        var condition = Self.condition()
        for _ in 0..<3 { #expect(condition.admit(at: 0) == .now) }
        #expect(condition.ended(Self.attempt(.rejected), attempts: 1, at: 0, jitter: 1) == .setAside)
        #expect(condition.ended(Self.attempt(.unanswered), attempts: 1, at: 0, jitter: 1) == .setAside)
        #expect(condition.ended(Self.attempt(.delivered), attempts: 1, at: 0, jitter: 1) == .delivered)
        #expect(condition.status == .delivering)
    }

    @Test("Failures in a row, without a success between them, mean that the endpoint is failing")
    func failuresInRow() {
        var condition = Self.condition()
        for number in 1..<(2 * EndpointCondition.failureLimit) {
            #expect(condition.admit(at: 0) == .now)
            let outcome: WebhookOutcome = number == EndpointCondition.failureLimit - 1 ? .delivered : .rejected
            _ = condition.ended(Self.attempt(outcome), attempts: 1, at: 0, jitter: 1)
            #expect(condition.status == (number == 2 * EndpointCondition.failureLimit - 1 ? .failing : .delivering))
        }
    }

    @Test("Without a connection the webhook is held at once, and one probe at a time waits longer and longer")
    func probes() {
        var condition = Self.condition()
        #expect(condition.admit(at: 0) == .now)
        #expect(condition.ended(Self.attempt(.unavailable), attempts: 1, at: 0, jitter: 1) == .hold)
        var now: UInt64 = 0
        for wait: UInt64 in [1000, 2000, 4000, 4000] {
            #expect(condition.admit(at: now) == .at(now + wait))
            now += wait
            #expect(condition.admit(at: now) == .now)
            #expect(condition.admit(at: now) == .later)
            #expect(condition.ended(Self.attempt(.unavailable), attempts: 9, at: now, jitter: 1) == .hold)
        }
        #expect(condition.status == .failing)
        #expect(condition.admit(at: now + 4000) == .now)
        #expect(condition.ended(Self.attempt(.delivered), attempts: 1, at: now + 4000, jitter: 1) == .delivered)
        #expect(condition.status == .delivering)
        for _ in 0..<2 { #expect(condition.admit(at: now + 4000) == .now) }
    }

    @Test("A request that was in flight when the endpoint began to fail is no probe")
    func inFlight() {
        var condition = Self.condition()
        for _ in 0..<2 { #expect(condition.admit(at: 0) == .now) }
        for _ in 0..<2 { #expect(condition.ended(Self.attempt(.unavailable), attempts: 1, at: 10, jitter: 1) == .hold) }
        #expect(condition.admit(at: 10) == .at(1010))
    }

    @Test("The endpoint's Retry-After is the shortest wait, up to an hour")
    func retryAfter() {
        var condition = Self.condition()
        #expect(condition.admit(at: 0) == .now)
        _ = condition.ended(Self.attempt(.unavailable, retryAfter: .seconds(30)), attempts: 1, at: 0, jitter: 0.8)
        #expect(condition.admit(at: 0) == .at(30_000))
        #expect(condition.admit(at: 30_000) == .now)
        _ = condition.ended(
            Self.attempt(.unavailable, retryAfter: .seconds(86_400)),
            attempts: 1,
            at: 30_000,
            jitter: 1
        )
        #expect(condition.admit(at: 30_000) == .at(3_630_000))
    }

    @Test("A webhook that fails as a probe three times is set aside, so that it does not block the others")
    func poison() {
        var condition = Self.condition(.failing)
        var now: UInt64 = 0
        for number in 1...3 {
            #expect(condition.admit(at: now) == .now)
            let verdict = condition.ended(Self.attempt(.unanswered), attempts: number, at: now, jitter: 1)
            #expect(verdict == (number == 3 ? .setAside : .hold))
            now += 10_000
        }
        #expect(condition.status == .failing)
    }

    @Test("After 410 nothing is sent until the endpoint is restored, also by another server")
    func gone() {
        for var condition in [Self.condition(), Self.condition(.gone)] {
            if condition.admit(at: 0) == .now {
                #expect(condition.ended(Self.attempt(.gone), attempts: 1, at: 0, jitter: 1) == .hold)
            }
            #expect(condition.status == .gone)
            #expect(condition.admit(at: 1_000_000) == .later)
            condition.restore()
            #expect(condition.admit(at: 1_000_000) == .now)
        }
    }

    @Test("A request that the server gave up at its end says nothing about the endpoint")
    func abandoned() {
        var condition = Self.condition()
        for _ in 0..<10 {
            #expect(condition.admit(at: 0) == .now)
            #expect(condition.ended(Self.attempt(.abandoned), attempts: 1, at: 0, jitter: 1) == .hold)
        }
        #expect(condition.status == .delivering)
    }
}
