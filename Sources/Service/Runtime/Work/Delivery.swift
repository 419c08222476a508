import Schemas

/// The treatment of a request that was sent and got no response. Kakao's calls that send have no idempotency key.
package enum Delivery: String, Sendable, CaseIterable {
    /// The request is sent again: users may be reached twice.
    case atLeastOnce = "at_least_once"
    /// The request is not sent again: users may not be reached.
    case atMostOnce = "at_most_once"
}

extension Kind where Value == Delivery {
    package static var delivery: Kind { .choice.named("Delivery") }
}
