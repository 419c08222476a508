package import Endpoints
import HTTPServer
package import JSON
import KakaoAPI
import Schemas
package import Templates

/// What a message shows: one of the three ways in which Kakao's SDKs make a message.
package enum MessageContent: Sendable {
    /// A default template.
    case template(JSONObject)
    /// A custom template of Kakao's template builder, with its arguments.
    case custom(Int64, args: [String: String]?)
    /// A web page, shown by a default or a custom template.
    case page(String, templateID: Int64?, args: [String: String]?)

    /// The fields of a request.
    package static let fields: [any FieldDeclaration] = [template, templateID, templateArgs, requestURL]

    private static let template = Field.optional(
        "template",
        .template,
        "A default template, Kakao's `template_object`: at most 10,240 bytes as JSON."
    )
    private static let templateID = Field.optional(
        "template_id",
        Kind<Int64>.integer(1...Int64.max),
        "A custom template of Kakao's template builder."
    )
    private static let templateArgs = Field.optional(
        "template_args",
        .textObject(count: 100, names: 1...64, values: .text(0...2000)).limited(toBytes: TemplateSize.maximumBytes),
        "The arguments of the custom template: at most 10,240 bytes as JSON."
    )
    private static let requestURL = Field.optional(
        "request_url",
        .text(1...2048),
        "A page of which Kakao makes the message, on a registered domain."
    )

    /// - Throws: ``Problem`` 400 for fields that are invalid or do not go together.
    package init(_ call: Call) throws {
        let template = try call[Self.template]
        let templateID = try call[Self.templateID]
        let args = try call[Self.templateArgs]
        let requestURL = try call[Self.requestURL]
        if args != nil, templateID == nil {
            throw Problem.field("template_args", "absent", "There is no template_id.")
        }
        switch (template, templateID, requestURL) {
        case (let template?, nil, nil): self = .template(template)
        case (nil, let id?, nil): self = .custom(id, args: args)
        case (nil, let id, let url?): self = .page(url, templateID: id, args: args)
        default:
            throw Problem.field(
                "template",
                "a template, or absent with template_id or request_url",
                "Specify template, or template_id, or request_url with or without template_id."
            )
        }
    }

    /// The id of the custom template, if it has one. Kakao names it in its callbacks.
    package var templateID: Int64? {
        switch self {
        case .template: nil
        case .custom(let id, _): id
        case .page(_, let id, _): id
        }
    }

    /// Returns the content with addresses at Kakao in place of references to images.
    ///
    /// - Throws: ``Problem``.
    package func resolved(_ images: ImageReferences) async throws -> MessageContent {
        guard case .template(let template) = self else { return self }
        return .template(try await images.resolve(.object(template)).object ?? template)
    }

    /// Returns what Kakao would reject, cut or drop.
    package func findings(_ linter: TemplateLinter) -> [Finding] {
        switch self {
        case .template(let template): linter.findings(in: .object(template))
        case .custom: []
        case .page(let url, _, _): linter.findings(inPage: url, at: "request_url")
        }
    }
}
