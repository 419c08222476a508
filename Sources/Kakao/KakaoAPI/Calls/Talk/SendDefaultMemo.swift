import HTTPTypes
package import JSON
import Schemas

/// Sends a default template to the user's own chatroom. (Kakao, "KakaoTalk Message: REST API", "Send default message to
/// me".)
///
/// Needs the scope `talk_message`. Not idempotent: each call sends a message.
package struct SendDefaultMemo: KakaoCall {
    package typealias Answer = MemoAnswer

    package let template: JSONObject

    package init(template: JSONObject) {
        self.template = template
    }

    package static let operation = KakaoOperation<Self>(
        "talk_memo_default",
        [.post],
        "/v2/api/talk/memo/default/send",
        .talk,
        [.userToken],
        "Sends a default template to the user's own chatroom.",
        parameters: Record(
            .templateObject(\.template),
            make: Self.init
        ),
        answer: MemoAnswer.answer
    )
}
