import HTTPTypes
package import JSON
import Schemas

/// Sends a message made of a web page, which Kakao scrapes, to the user's own chatroom. (Kakao, "KakaoTalk Message:
/// REST API", "Send scrap message to me".)
///
/// Needs the scope `talk_message`. Not idempotent: each call sends a message.
package struct SendScrapMemo: KakaoCall {
    package typealias Answer = MemoAnswer

    /// The page, on a domain that is registered for the app.
    package let requestURL: String
    /// The custom template to use; `nil` for Kakao's own.
    package let templateID: Int64?
    /// Texts by the names of the template's arguments. They cannot replace what Kakao takes from the page.
    package let templateArgs: JSONObject?

    package init(requestURL: String, templateID: Int64? = nil, templateArgs: JSONObject? = nil) {
        self.requestURL = requestURL
        self.templateID = templateID
        self.templateArgs = templateArgs
    }

    package static let operation = KakaoOperation<Self>(
        "talk_memo_scrap",
        [.post],
        "/v2/api/talk/memo/scrap/send",
        .talk,
        [.userToken],
        "Sends a message made of a web page to the user's own chatroom.",
        parameters: Record(
            .requestURL(\.requestURL),
            .templateID(\.templateID),
            .templateArgs(\.templateArgs),
            make: Self.init
        ),
        answer: MemoAnswer.answer
    )
}
