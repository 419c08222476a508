import HTTPTypes
package import JSON
import Schemas

/// Validates a default template for KakaoTalk Sharing, as Kakao's SDKs do before they open KakaoTalk. (Names as in
/// Kakao's iOS SDK, `ShareApi.shareDefault`.)
package struct ValidateDefaultTemplate: KakaoCall {
    package typealias Answer = TemplateValidation

    package let linkVersion: String
    package let template: JSONObject
    package let schemeParams: JSONObject?

    package init(
        linkVersion: String = TemplateValidation.linkVersion,
        template: JSONObject,
        schemeParams: JSONObject? = nil
    ) {
        self.linkVersion = linkVersion
        self.template = template
        self.schemeParams = schemeParams
    }

    package static let operation = KakaoOperation<Self>(
        "link_template_default",
        // The SDKs for iOS send a form, the others a query. A form has no limit of length.
        [.post, .get],
        "/v2/api/kakaolink/talk/template/default",
        .sharing,
        [.appKey],
        isIdempotent: true,
        "Validates a default template for sharing.",
        parameters: Record(
            .linkVersion(\.linkVersion),
            .templateObject(\.template),
            .schemeParams(\.schemeParams),
            make: Self.init
        ),
        answer: TemplateValidation.answer
    )
}
