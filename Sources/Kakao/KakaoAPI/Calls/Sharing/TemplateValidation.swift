package import JSON
import Schemas

/// Kakao's answer to the validation of a template: what KakaoTalk needs in order to show the message, and what Kakao
/// found.
package struct TemplateValidation: Sendable {
    /// The id of the template; for a default template, Kakao's own id of its type.
    package let templateID: Int64
    /// The values of the template's arguments.
    package let templateArgs: JSONObject?
    /// The message, in KakaoTalk's format.
    package let templateMessage: JSONObject
    /// Kakao's warnings by place, such as a link that is dropped because its domain is not registered.
    package let warnings: JSONObject
    /// Kakao's warnings about arguments, such as a missing one.
    package let argumentWarnings: JSONObject
    package let schemeParams: JSONObject?

    package init(
        templateID: Int64,
        templateArgs: JSONObject?,
        templateMessage: JSONObject,
        warnings: JSONObject,
        argumentWarnings: JSONObject,
        schemeParams: JSONObject?
    ) {
        self.templateID = templateID
        self.templateArgs = templateArgs
        self.templateMessage = templateMessage
        self.warnings = warnings
        self.argumentWarnings = argumentWarnings
        self.schemeParams = schemeParams
    }

    private static let record = Record<TemplateValidation>(
        .required("template_id", \.templateID, .count, "The id of the template."),
        .optional("template_args", \.templateArgs, .object, "The values of the template's arguments."),
        .required("template_msg", \.templateMessage, .object, "The message, in KakaoTalk's format."),
        .required("warning_msg", \.warnings, .object, "Kakao's warnings by place, such as a dropped link."),
        .required("argument_msg", \.argumentWarnings, .object, "Kakao's warnings about arguments."),
        .schemeParams(\.schemeParams),
        make: TemplateValidation.init
    )

    static let answer = KakaoAnswer.json(
        record.kind("TemplateValidation"),
        example: TemplateValidation(
            templateID: 35_445,
            templateArgs: ["${TITLE}": "Hello"],
            templateMessage: ["P": ["TP": "Feed", "ME": "${ME}"], "C": ["TI": ["TD": ["T": "${TITLE}"]]]],
            warnings: [:],
            argumentWarnings: [:],
            schemeParams: nil
        )
    )

    /// The version of KakaoTalk's message format.
    static let linkVersion = "4.0"
}

extension RecordMember where Value == String {
    /// The version of KakaoTalk's message format.
    static func linkVersion(_ get: @escaping @Sendable (Whole) -> String) -> RecordMember {
        .required("link_ver", get, .text(oneOf: [TemplateValidation.linkVersion]), "The format's version.")
    }
}

extension RecordMember where Value == JSONObject? {
    /// The options of KakaoTalk's picker.
    static func schemeParams(_ get: @escaping @Sendable (Whole) -> JSONObject?) -> RecordMember {
        .optional("scheme_params", get, .object, "Options of KakaoTalk's picker.")
    }
}
