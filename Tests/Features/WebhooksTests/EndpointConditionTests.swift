import Testing

@testable import Webhooks

/// The state machine of an endpoint, as a server knows it.
@Suite struct EndpointConditionTests {
    private var condition = EndpointCondition()

    private func attempt(_ outcome: WebhookOutcome, retryAfter: Duration? = nil) -> WebhookAttempt {
        WebhookAttempt(
            outcome: outcome,
            status: nil,
            text: "\(outcome)",
            retryAfter: retryAfter,
            duration: .zero
        )
    }

    /// Stores what is to be stored, and returns it.
    private mutating func store() -> EndpointChange? {
        let change = condition.beginStoring()
        if change != nil { condition.endedStoring() }
        return change
    }

    @Test("A webhook that is rejected alone is retried, and its error is stored without a state")
    mutating func rejected() {
        #expect(condition.ended(attempt(.rejected), isProbe: false) == .retried)
        #expect(store() == EndpointChange(error: "rejected"))
        #expect(condition.ended(attempt(.unanswered), isProbe: false) == .retried)
        #expect(store() == EndpointChange(error: "unanswered"))
        #expect(condition.ended(attempt(.delivered), isProbe: false) == .delivered)
        #expect(store() == nil)
        #expect(condition.isDelivering && condition.nextClaim == 0)
    }

    @Test("Failures in a row, without a success between them, mean that the endpoint is failing")
    mutating func failuresInRow() {
        let limit = EndpointCondition.failureLimit
        for number in 1..<(2 * limit) {
            let outcome: WebhookOutcome = number == limit - 1 ? .delivered : .rejected
            #expect(
                condition.ended(attempt(outcome), isProbe: false) == (outcome == .delivered ? .delivered : .retried)
            )
            #expect(condition.isDelivering == (number < 2 * limit - 1))
        }
        #expect(store() == EndpointChange(status: .failing, error: "rejected"))
    }

    @Test("Without a connection the endpoint is failing at once, and the attempt does not count")
    mutating func unavailable() {
        #expect(condition.ended(attempt(.unavailable, retryAfter: .seconds(30)), isProbe: false) == .held)
        #expect(!condition.isDelivering)
        #expect(condition.nextClaim == .max, "the database says when the next probe is")
        #expect(store() == EndpointChange(status: .failing, error: "unavailable", retryAfter: .seconds(30)))
        condition.stored(.failing, nextProbe: 30_000)
        #expect(condition.nextClaim == 30_000)
    }

    @Test("A failed probe is stored, so that the next wait is longer; a successful one ends the failure")
    mutating func probes() {
        condition.stored(.failing, nextProbe: 0)
        #expect(condition.ended(attempt(.unavailable), isProbe: true) == .held)
        #expect(store()?.status == .failing)
        condition.stored(.failing, nextProbe: 1000)
        // A webhook that the endpoint cannot process does not probe it forever.
        #expect(condition.ended(attempt(.rejected), isProbe: true) == .retried)
        #expect(store() == EndpointChange(status: .failing, error: "rejected"))
        condition.stored(.failing, nextProbe: 2000)
        #expect(condition.ended(attempt(.delivered), isProbe: true) == .delivered)
        #expect(store() == EndpointChange(status: .delivering))
        #expect(condition.isDelivering)
    }

    @Test("A request that was in flight when the endpoint began to fail is no probe")
    mutating func inFlight() {
        #expect(condition.ended(attempt(.unavailable), isProbe: false) == .held)
        #expect(store()?.status == .failing)
        condition.stored(.failing, nextProbe: 1000)
        #expect(condition.ended(attempt(.unavailable), isProbe: false) == .held)
        #expect(condition.ended(attempt(.rejected), isProbe: false) == .retried)
        #expect(store() == nil)
        #expect(condition.nextClaim == 1000)
    }

    @Test("After 410 nothing is claimed until the database has another state")
    mutating func gone() {
        #expect(condition.ended(attempt(.gone), isProbe: false) == .held)
        #expect(condition.nextClaim == nil)
        #expect(store() == EndpointChange(status: .gone, error: "gone"))
        // Those that were in flight change nothing.
        #expect(condition.ended(attempt(.delivered), isProbe: false) == .delivered)
        #expect(condition.ended(attempt(.unavailable), isProbe: true) == .held)
        #expect(condition.nextClaim == nil && store() == nil)
        condition.stored(.delivering, nextProbe: 0)
        #expect(condition.nextClaim == 0)
    }

    @Test("An endpoint that is removed, or that the database does not have, gets nothing")
    mutating func removed() {
        for status in [EndpointStatus.removed, nil] {
            condition.stored(.delivering, nextProbe: 0)
            condition.stored(status, nextProbe: 0)
            #expect(condition.nextClaim == nil)
        }
    }

    @Test("A state that this server has yet to store is not replaced by that of the database")
    mutating func unstored() {
        _ = condition.ended(attempt(.gone), isProbe: false)
        condition.stored(.delivering, nextProbe: 0)
        #expect(condition.nextClaim == nil)
        let change = condition.beginStoring()
        condition.stored(.delivering, nextProbe: 0)
        #expect(condition.nextClaim == nil)
        condition.failedToStore(change ?? EndpointChange())
        condition.ask()
        #expect(condition.nextClaim == nil)
        #expect(store() == EndpointChange(status: .gone, error: "gone"))
        condition.stored(.delivering, nextProbe: 0)
        #expect(condition.nextClaim == 0)
    }

    @Test("Changes that follow each other are stored as one, the later over the earlier")
    mutating func merged() {
        _ = condition.ended(attempt(.rejected), isProbe: false)
        _ = condition.ended(attempt(.unavailable, retryAfter: .seconds(9)), isProbe: false)
        #expect(condition.beginStoring()?.status == .failing)
        // While it is being stored, there is nothing else to store.
        _ = condition.ended(attempt(.gone), isProbe: false)
        #expect(condition.beginStoring() == nil)
        condition.endedStoring()
        #expect(store() == EndpointChange(status: .gone, error: "gone"))
    }

    @Test("A server that may be wrong asks the database as soon as it can")
    mutating func ask() {
        condition.stored(.gone, nextProbe: 0)
        condition.ask()
        #expect(condition.nextClaim == 0)
        condition.stored(.failing, nextProbe: 60_000)
        condition.ask()
        #expect(condition.nextClaim == 0)
    }

    @Test("A request that the server gave up at its end says nothing about the endpoint")
    mutating func abandoned() {
        for _ in 0..<10 { #expect(condition.ended(attempt(.abandoned), isProbe: false) == .held) }
        #expect(condition.isDelivering && store() == nil)
    }
}
