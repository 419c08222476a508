package import FoundationEssentials

/// A change of a person's relation to one of the company's KakaoTalk channels, as Kakao reports it (Kakao, "KakaoTalk Channel:
/// webhook").
package struct ChannelChange: Sendable {
    /// A person, as Kakao names one.
    package enum Person: Sendable, Hashable {
        /// A user of the app who has agreed that the app knows: Kakao's id of the user.
        case user(Int64)
        /// A person who has not agreed. The id is never a user id, even if it is all digits.
        case openID(String)

        /// Kakao's name for the kind of id.
        var idType: String {
            switch self {
            case .user: "app_user_id"
            case .openID: "open_id"
            }
        }

        var id: String {
            switch self {
            case .user(let userID): String(userID)
            case .openID(let id): id
            }
        }
    }

    /// What the person has done, as `GET /v2/api/talk/channels` names it.
    package enum Relation: String, CaseIterable, Sendable {
        case added = "ADDED"
        case blocked = "BLOCKED"
    }

    let person: Person
    /// As in the channel's address: `_ZeUTxl`.
    let channelPublicID: String
    /// The search id, such as `@sample`; `nil` if Kakao has not sent it.
    let channelUUID: String?
    let relation: Relation
    /// When it happened, by Kakao's clock.
    let updatedAt: Date

    package init(
        person: Person,
        channelPublicID: String,
        channelUUID: String?,
        relation: Relation,
        updatedAt: Date
    ) {
        self.person = person
        self.channelPublicID = channelPublicID
        self.channelUUID = channelUUID
        self.relation = relation
        self.updatedAt = updatedAt
    }
}
