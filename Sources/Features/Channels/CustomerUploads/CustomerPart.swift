import FoundationEssentials
import JSON
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// A part of an upload that a server has claimed.
struct CustomerPart: QueueClaim {
    let uploadID: UUID
    let number: Int32
    /// The number of times that it was claimed, including this one.
    let claims: Int32
    /// The attempts that have failed.
    let attempts: Int32
    /// What Kakao is called about; `nil` if only the claim is known.
    let call: Call?

    struct Call: Sendable {
        let channelPublicID: String
        let fileID: Int64
        let type: CustomerType
        let action: CustomerUpload.Action
        /// An array of ``Customer``, as JSON.
        let users: [UInt8]
    }

    var id: ClaimID { ClaimID(ownerID: uploadID, number: number, claims: claims) }

    /// The parameters by which its row is found, unless it was claimed again.
    var key: [PostgresValue] { [.uuid(uploadID), .int32(number), .int32(claims)] }
}

/// What became of a part.
enum CustomerPartResult: Sendable {
    /// There was no request.
    case notSent
    /// Kakao has accepted it. Of its users, this many count.
    case accepted(Int64)
    /// The attempt has failed, and there is another one.
    case retried(after: Duration, reason: String)
    /// Kakao refuses it.
    case refused(String)
}

/// A part that a statement has claimed, if one was due.
struct ClaimedCustomerPart: QueueClaims {
    let claims: [CustomerPart]
    let isLeaseValid: Bool
}
