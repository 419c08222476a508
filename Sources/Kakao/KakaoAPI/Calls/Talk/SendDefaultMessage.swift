import HTTPTypes
package import JSON
import Schemas

/// Sends a default template to friends of the user. (Kakao, "KakaoTalk Message: REST API", "Send default message to
/// friends".)
///
/// Needs the scopes `friends` and `talk_message`. Not idempotent: each call sends a message. Kakao answers 200
/// if at least one receiver was reached: see ``FriendMessageAnswer``.
package struct SendDefaultMessage: KakaoCall {
    package typealias Answer = FriendMessageAnswer

    /// The `uuid` of each receiver: 1 to 5 friends of the sender.
    package var receivers: [String]
    package let template: JSONObject
    /// `uuid`, which Kakao's SDK for JavaScript sends.
    package let receiverIDType: String?

    package init(receivers: [String], template: JSONObject, receiverIDType: String? = nil) {
        self.receivers = receivers
        self.template = template
        self.receiverIDType = receiverIDType
    }

    package static let operation = KakaoOperation<Self>(
        "talk_message_default",
        [.post],
        "/v1/api/talk/friends/message/default/send",
        .talk,
        [.userToken],
        "Sends a default template to friends of the user.",
        parameters: Record(
            .receivers(\.receivers),
            .templateObject(\.template),
            .receiverIDType(\.receiverIDType),
            make: Self.init
        ),
        answer: FriendMessageAnswer.answer
    )
}
