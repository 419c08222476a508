import HTTPTypes
package import JSON
import Schemas

/// Sends a custom template of the message template builder to the user's own chatroom. (Kakao, "KakaoTalk Message: REST
/// API", "Send custom message to me".)
///
/// Needs the scope `talk_message`. Not idempotent: each call sends a message.
package struct SendCustomMemo: KakaoCall {
    package typealias Answer = MemoAnswer

    package let templateID: Int64
    /// Texts by the names of the template's arguments.
    package let templateArgs: JSONObject?

    package init(templateID: Int64, templateArgs: JSONObject? = nil) {
        self.templateID = templateID
        self.templateArgs = templateArgs
    }

    package static let operation = KakaoOperation<Self>(
        "talk_memo_custom",
        [.post],
        "/v2/api/talk/memo/send",
        .talk,
        [.userToken],
        "Sends a custom template to the user's own chatroom.",
        parameters: Record(
            .templateID(\.templateID),
            .templateArgs(\.templateArgs),
            make: Self.init
        ),
        answer: MemoAnswer.answer
    )
}
