internal import FoundationEssentials
internal import KakaoAPI

/// Where a push stands. `docs/architecture.md` draws the transitions.
enum PushState: String, Sendable {
    case scheduled, preparing, sending, done, paused, canceled, expired
    /// Kakao refuses the Admin key, the API or the message: an operator has to see to it.
    case halted
}

/// What is done with a request that was sent and not answered: Kakao's send has no idempotency key.
enum Delivery: String, Sendable, CaseIterable {
    /// It is sent again: users may be reached twice.
    case atLeastOnce = "at_least_once"
    /// It is left: users may not be reached.
    case atMostOnce = "at_most_once"
}

/// A push that somebody asks for, before it is stored.
struct NewPush: Sendable {
    let id: UUID
    let userIDs: [Int64]
    let message: PushMessage
    let bypass: Bool
    let delivery: Delivery
}

/// Users, or batches, by what became of them.
struct PushCounts: Sendable {
    var total: Int64 = 0
    var sent: Int64 = 0
    var failed: Int64 = 0
    var uncertain: Int64 = 0
    var skipped: Int64 = 0

    var pending: Int64 { total - sent - failed - uncertain - skipped }
}

/// A push as it is shown.
struct PushSummary: Sendable {
    let id: UUID
    let name: String?
    let state: PushState
    let reason: String?
    /// As it was given: a JSON object.
    let audience: [UInt8]
    let delivery: Delivery
    let usersPerSecond: Int32?
    let sendAt: Date?
    let expiresAt: Date?
    let createdAt: Date
    let startedAt: Date?
    let finishedAt: Date?
    let users: PushCounts
    let batches: PushCounts
}

/// A batch that a worker has claimed, and everything it needs to send it.
struct BatchClaim: Sendable {
    let pushID: UUID
    let number: Int32
    let userIDs: [Int64]
    let message: PushMessage
    let bypass: Bool
    let delivery: Delivery
    /// Counts the attempt for which it was claimed.
    let attempts: Int
    /// The result counts only under it.
    let lease: UUID
}
