import HTTPTypes
package import JSON
import Schemas

/// Validates a message made of a web page for KakaoTalk Sharing: Kakao scrapes the page. (Names as in Kakao's iOS SDK,
/// `ShareApi.shareScrap`.)
package struct ValidateScrapTemplate: KakaoCall {
    package typealias Answer = TemplateValidation

    package let linkVersion: String
    package let requestURL: String
    package let templateID: Int64?
    /// Texts by the names of the template's arguments.
    package let templateArgs: JSONObject?
    package let schemeParams: JSONObject?

    package init(
        linkVersion: String = TemplateValidation.linkVersion,
        requestURL: String,
        templateID: Int64? = nil,
        templateArgs: JSONObject? = nil,
        schemeParams: JSONObject? = nil
    ) {
        self.linkVersion = linkVersion
        self.requestURL = requestURL
        self.templateID = templateID
        self.templateArgs = templateArgs
        self.schemeParams = schemeParams
    }

    package static let operation = KakaoOperation<Self>(
        "link_template_scrap",
        [.post, .get],
        "/v2/api/kakaolink/talk/template/scrap",
        .sharing,
        [.appKey],
        isIdempotent: true,
        "Validates a message made of a web page for sharing.",
        parameters: Record(
            .linkVersion(\.linkVersion),
            .requestURL(\.requestURL),
            .templateID(\.templateID),
            .templateArgs(\.templateArgs),
            .schemeParams(\.schemeParams),
            make: Self.init
        ),
        answer: TemplateValidation.answer
    )
}
