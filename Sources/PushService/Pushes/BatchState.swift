/// The state of a batch.
package enum BatchState: String, Sendable, CaseIterable {
    /// To be sent, now or after a delay. Can transition to `sending`.
    case waiting
    /// Claimed by a server. Can transition to each of the others.
    case sending
    /// Kakao has accepted it.
    case sent
    /// Kakao has rejected it, or all attempts have failed. A retry makes it `waiting`.
    case failed
    /// It was sent, its response was lost, and its push is sent at most once. A retry can make it `waiting`.
    case uncertain
}
