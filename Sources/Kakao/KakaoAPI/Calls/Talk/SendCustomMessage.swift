import HTTPTypes
package import JSON
import Schemas

/// Sends a custom template of the message template builder to friends of the user. (Kakao, "KakaoTalk Message: REST
/// API", "Send custom message to friends".)
///
/// Needs the scopes `friends` and `talk_message`. Not idempotent: each call sends a message. Kakao answers 200
/// if at least one receiver was reached: see ``FriendMessageAnswer``.
package struct SendCustomMessage: KakaoCall {
    package typealias Answer = FriendMessageAnswer

    /// The `uuid` of each receiver: 1 to 5 friends of the sender.
    package var receivers: [String]
    package let templateID: Int64
    /// Texts by the names of the template's arguments.
    package let templateArgs: JSONObject?
    /// `uuid`, which Kakao's SDK for JavaScript sends.
    package let receiverIDType: String?

    package init(
        receivers: [String],
        templateID: Int64,
        templateArgs: JSONObject? = nil,
        receiverIDType: String? = nil
    ) {
        self.receivers = receivers
        self.templateID = templateID
        self.templateArgs = templateArgs
        self.receiverIDType = receiverIDType
    }

    package static let operation = KakaoOperation<Self>(
        "talk_message_custom",
        [.post],
        "/v1/api/talk/friends/message/send",
        .talk,
        [.userToken],
        "Sends a custom template to friends of the user.",
        parameters: Record(
            .receivers(\.receivers),
            .templateID(\.templateID),
            .templateArgs(\.templateArgs),
            .receiverIDType(\.receiverIDType),
            make: Self.init
        ),
        answer: FriendMessageAnswer.answer
    )
}
