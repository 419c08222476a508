internal import FoundationEssentials

/// One claim of a batch. The batch may be claimed again before the response to the statement that stored this claim's result is read.
struct BatchID: Hashable, Sendable {
    let pushID: UUID
    let number: Int32
    let claims: Int32
}

/// A batch that a server has claimed.
struct BatchClaim: Sendable {
    let pushID: UUID
    let number: Int32
    let userIDs: [Int64]
    /// The attempts to send it, including the one for which it was claimed.
    let attempts: Int
    /// How often it was claimed, including this time. The result counts only for this claim.
    let claims: Int32
    /// The rejected batch that this one is a part of.
    let origin: Int32?
    /// The result counts only under this lease.
    let lease: UUID
    /// The batches that it shares a row of `push_claims` with, as nothing but that it is being sent was ever written of it; `nil` for one
    /// with a row of its own.
    let shared: Range<Int32>?

    var id: BatchID { BatchID(pushID: pushID, number: number, claims: claims) }
}
