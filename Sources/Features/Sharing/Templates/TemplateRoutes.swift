import Endpoints
import HTTPServer
import HTTPTypes
import Net
import Schemas
import Templates

/// `POST /v1/templates/lint` and `/preview`, which take a template as the body, as it would be sent to Kakao.
struct TemplateRoutes: RouteCollection {
    static let title = "Message templates"
    static let operations = [linting, previewing]

    let linter: TemplateLinter

    // The body is read as text, since a syntax error is a finding too.
    private static let body = OperationDeclaration.Body.media(
        ["application/json"],
        "The template: the value of Kakao's `template_object`.",
        schema: .any
    )

    private static let linting = Operation(
        "lintTemplate",
        .post,
        "/v1/templates/lint",
        .operator(.sharing),
        "Says what Kakao would reject, cut or drop of a template.",
        body: body,
        maximumBodyBytes: TemplateLinter.maximumBytes,
        answers: [.json(.ok, LintResult.shape, "The findings, in the order of the template.")],
        handler: lint
    )

    private static let previewing = Operation(
        "previewTemplate",
        .post,
        "/v1/templates/preview",
        .operator(.sharing),
        "Shows a template approximately as KakaoTalk does.",
        body: .media(
            ["application/json", FormURLEncoded.mediaType],
            "The template, or a form whose field `template` has it.",
            schema: .any,
            isChecked: false
        ),
        // Percent-encoding triples bytes.
        maximumBodyBytes: 3 * TemplateLinter.maximumBytes + 1024,
        answers: [
            .json(
                .ok,
                PreviewResult.shape,
                "The message, and the findings of the linter; for a client that accepts HTML, the message."
            )
            .or(["text/html"])
        ],
        problems: [.invalidTemplate],
        handler: preview
    )

    @Sendable private func lint(_ call: Call) async throws -> Response {
        .json(LintResult.shape.json(LintResult(findings: linter.findings(in: call.request.body))))
    }

    @Sendable private func preview(_ call: Call) async throws -> Response {
        let json = try Self.template(in: call.request)
        let findings = linter.findings(in: json)
        let template: Template
        do throws(Template.Unreadable) {
            template = try Template(json: json, findings)
        } catch {
            throw Problem.invalidTemplate("The body is not a template of a message. \(error.reason)", findings)
        }
        if call.request.acceptsHTML { return Self.page(TemplatePreview(template)) }
        return .json(PreviewResult.shape.json(PreviewResult(preview: TemplatePreview(template), findings: findings)))
    }
}

extension TemplateRoutes {
    /// Returns the template of a request: its body, or the field of a form.
    private static func template(in request: Request) throws -> [UInt8] {
        guard request.contentType == FormURLEncoded.mediaType else { return request.body }
        let fields = try? FormURLEncoded.parse(request.body[...])
        guard let template = fields?.first(where: { $0.name == "template" }) else {
            throw Problem.field("template", "the template as JSON", isMissing: true)
        }
        return Array(template.value.utf8)
    }

    /// Returns the message as a page for a frame of the operator's page. It has styles of its own, which that page does not allow.
    private static func page(_ preview: TemplatePreview) -> Response {
        var response = Response(.ok, body: Array(preview.html.utf8))
        response.headerFields[.contentType] = "text/html; charset=utf-8"
        response.headerFields[.contentSecurityPolicy] =
            "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
        response.headerFields[.cacheControl] = "no-store"
        return response
    }
}

private struct LintResult: Sendable {
    let findings: [Finding]

    static let shape = Shape<LintResult>(
        "TemplateLint",
        [
            .member("rejected", .boolean, "Whether Kakao would reject the template.") { result in
                result.findings.contains { $0.effect == .rejected }
            },
            .member("checked", .boolean, "Whether the whole template was checked.") { result in
                !result.findings.contains(where: \.endsCheck)
            },
            .array("findings", Finding.shape.kind, "The findings.", \.findings),
        ]
    )
}

private struct PreviewResult: Sendable {
    let preview: TemplatePreview
    let findings: [Finding]

    static let shape = Shape<PreviewResult>(
        "TemplatePreview",
        [
            .member("html", .text, "A page with the message, complete in itself.", \.preview.html),
            .member("text", .text, "The message as text. What KakaoTalk does not show is in ⟦ ⟧.", \.preview.text),
            .array("findings", Finding.shape.kind, "The findings of the linter.", \.findings),
        ]
    )
}
