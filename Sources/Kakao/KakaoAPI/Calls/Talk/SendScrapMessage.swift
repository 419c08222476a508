import HTTPTypes
package import JSON
import Schemas

/// Sends a message made of a web page, which Kakao scrapes, to friends of the user. (Kakao, "KakaoTalk Message: REST
/// API", "Send scrap message to friends".)
///
/// Needs the scopes `friends` and `talk_message`. Not idempotent: each call sends a message. Kakao answers 200
/// if at least one receiver was reached: see ``FriendMessageAnswer``.
package struct SendScrapMessage: KakaoCall {
    package typealias Answer = FriendMessageAnswer

    /// The `uuid` of each receiver: 1 to 5 friends of the sender.
    package var receivers: [String]
    /// The page, on a domain that is registered for the app.
    package let requestURL: String
    /// The custom template to use; `nil` for Kakao's own.
    package let templateID: Int64?
    /// Texts by the names of the template's arguments. They cannot replace what Kakao takes from the page.
    package let templateArgs: JSONObject?
    /// `uuid`, which Kakao's SDK for JavaScript sends.
    package let receiverIDType: String?

    package init(
        receivers: [String],
        requestURL: String,
        templateID: Int64? = nil,
        templateArgs: JSONObject? = nil,
        receiverIDType: String? = nil
    ) {
        self.receivers = receivers
        self.requestURL = requestURL
        self.templateID = templateID
        self.templateArgs = templateArgs
        self.receiverIDType = receiverIDType
    }

    package static let operation = KakaoOperation<Self>(
        "talk_message_scrap",
        [.post],
        "/v1/api/talk/friends/message/scrap/send",
        .talk,
        [.userToken],
        "Sends a message made of a web page to friends of the user.",
        parameters: Record(
            .receivers(\.receivers),
            .requestURL(\.requestURL),
            .templateID(\.templateID),
            .templateArgs(\.templateArgs),
            .receiverIDType(\.receiverIDType),
            make: Self.init
        ),
        answer: FriendMessageAnswer.answer
    )
}
