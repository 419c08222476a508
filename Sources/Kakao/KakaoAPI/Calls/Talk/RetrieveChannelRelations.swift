import HTTPTypes
import Schemas

/// Returns a user's relations to channels, as older clients call it: ``RetrieveChannels`` has replaced it. (Names as in Kakao's iOS
/// SDK 2.14.0, `TalkApi.channels`.)
package struct RetrieveChannelRelations: KakaoCall {
    package typealias Answer = RetrieveChannels.Answer

    /// The public ids of the channels to return; all of the app if `nil`.
    package let publicIDs: [String]?

    package static let operation = KakaoOperation<Self>(
        "talk_channels_v1",
        [.get],
        "/v1/api/talk/channels",
        .talk,
        [.userToken, .adminKeyForUser],
        "Returns the user's relations to the app's KakaoTalk channels. Older clients use it.",
        parameters: Record(
            .optional("channel_public_ids", \.publicIDs, RetrieveChannels.ids, RetrieveChannels.idsDescription),
            make: Self.init
        ),
        answer: RetrieveChannels.operation.answer
    )
}

/// Returns a user's relations to channels under their oldest name, "Plus Friend". (Names as in Kakao's JavaScript SDK 1.)
package struct RetrievePlusFriends: KakaoCall {
    /// The public ids of the channels to return; all of the app if `nil`.
    package let publicIDs: [String]?

    package static let operation = KakaoOperation<Self>(
        "talk_plusfriends",
        [.get],
        "/v1/api/talk/plusfriends",
        .talk,
        [.userToken, .adminKeyForUser],
        "Returns the user's relations to the app's KakaoTalk channels. The oldest clients use it.",
        parameters: Record(
            .optional("plus_friend_public_ids", \.publicIDs, RetrieveChannels.ids, RetrieveChannels.idsDescription),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("KakaoPlusFriends"),
            example: Answer(
                userID: 123_456_789,
                plusFriends: [
                    PlusFriend(
                        uuid: "@sample",
                        publicID: "_ZeUTxl",
                        relation: "ADDED",
                        updatedAt: "2022-04-11T01:45:28Z"
                    )
                ]
            )
        )
    )

    /// A channel under its old name, and the user's relation to it.
    package struct PlusFriend: Sendable {
        package let uuid: String?
        package let publicID: String
        package let relation: String
        package let updatedAt: String?

        package init(uuid: String?, publicID: String, relation: String, updatedAt: String?) {
            self.uuid = uuid
            self.publicID = publicID
            self.relation = relation
            self.updatedAt = updatedAt
        }

        fileprivate static let record = Record<PlusFriend>(
            .optional("plus_friend_uuid", \.uuid, .text, "The search id, such as `@sample`."),
            .required("plus_friend_public_id", \.publicID, .text, "The id in the channel's address."),
            .required("relation", \.relation, .text, "`ADDED`, `BLOCKED`, or `NONE` if the user never added it."),
            .optional("updated_at", \.updatedAt, .text, "The time of the last change."),
            make: PlusFriend.init
        )
    }

    package struct Answer: Sendable {
        package let userID: Int64?
        package let plusFriends: [PlusFriend]?

        package init(userID: Int64?, plusFriends: [PlusFriend]?) {
            self.userID = userID
            self.plusFriends = plusFriends
        }

        fileprivate static let record = Record<Answer>(
            .optional("user_id", \.userID, .kakaoID, "The user."),
            .optional(
                "plus_friends",
                \.plusFriends,
                PlusFriend.record.kind("KakaoPlusFriend").array,
                "The channels."
            ),
            make: Answer.init
        )
    }
}

extension RetrieveChannels {
    /// The ids of channels in a request of an older client.
    fileprivate static let ids = Kind<[String]>.texts(count: 0...100, length: 1...64)
    fileprivate static let idsDescription = "The public ids of the channels; all of the app if it is absent."
}
