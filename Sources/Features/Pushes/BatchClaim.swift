import FoundationEssentials
import Runtime

/// A batch that a server has claimed.
struct BatchClaim: Sendable {
    let pushID: UUID
    var number: Int32
    var userIDs: [Int64] = []
    /// The number of attempts to send it, including the one of this claim.
    var attempts = 0
    /// The number of claims, including this one. The result counts only for this claim.
    let claims: Int32
    /// The rejected batch that this one is a part of.
    let origin: Int32?
    /// The lease of the claim. The result counts only under this lease.
    let lease: UUID
    /// The batches that share a row of `push_claims`, including this one; `nil` for a batch with a row of its own. A
    /// batch gets its own row when anything but its first attempt or its success is stored.
    var shared: Range<Int32>?

    /// Whether its result counts as one of the push that are not stored.
    var isCounted = false
    /// Whether Kakao has rejected several batches of the push in a row, as of the result of this one.
    var isRejectedRepeatedly = false

    var id: ClaimID { ClaimID(ownerID: pushID, number: number, claims: claims) }
}
