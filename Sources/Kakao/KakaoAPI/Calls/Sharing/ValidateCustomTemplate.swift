import HTTPTypes
package import JSON
import Schemas

/// Validates a custom template of the message template builder for KakaoTalk Sharing. (Names as in Kakao's iOS SDK,
/// `ShareApi.shareCustom`.)
package struct ValidateCustomTemplate: KakaoCall {
    package typealias Answer = TemplateValidation

    package let linkVersion: String
    package let templateID: Int64
    /// Texts by the names of the template's arguments.
    package let templateArgs: JSONObject?
    package let schemeParams: JSONObject?

    package init(
        linkVersion: String = TemplateValidation.linkVersion,
        templateID: Int64,
        templateArgs: JSONObject? = nil,
        schemeParams: JSONObject? = nil
    ) {
        self.linkVersion = linkVersion
        self.templateID = templateID
        self.templateArgs = templateArgs
        self.schemeParams = schemeParams
    }

    package static let operation = KakaoOperation<Self>(
        "link_template_validate",
        [.post, .get],
        "/v2/api/kakaolink/talk/template/validate",
        .sharing,
        [.appKey],
        isIdempotent: true,
        "Validates a custom template for sharing.",
        parameters: Record(
            .linkVersion(\.linkVersion),
            .templateID(\.templateID),
            .templateArgs(\.templateArgs),
            .schemeParams(\.schemeParams),
            make: Self.init
        ),
        answer: TemplateValidation.answer
    )
}
