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
    package typealias Answer = RetrieveChannels.Answer

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
        answer: RetrieveChannels.answer("plus_friend", "KakaoPlusFriend")
    )
}

extension RetrieveChannels {
    /// The ids of channels in a request of an older client.
    fileprivate static let ids = Kind<[String]>.texts(count: 0...100, length: 1...64)
    fileprivate static let idsDescription = "The public ids of the channels; all of the app if it is absent."
}
