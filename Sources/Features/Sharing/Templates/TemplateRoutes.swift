import Endpoints
import HTTPServer
import HTTPTypes
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
        body: body,
        maximumBodyBytes: TemplateLinter.maximumBytes,
        answers: [.json(.ok, PreviewResult.shape, "The message, and the findings of the linter.")],
        problems: [.invalidTemplate],
        handler: preview
    )

    @Sendable private func lint(_ call: Call) async throws -> Response {
        .json(LintResult.shape.json(LintResult(findings: linter.findings(in: call.request.body))))
    }

    @Sendable private func preview(_ call: Call) async throws -> Response {
        let findings = linter.findings(in: call.request.body)
        let template: Template
        do throws(Template.Unreadable) {
            template = try Template(json: call.request.body, findings)
        } catch {
            throw Problem.invalidTemplate("The body is not a template of a message. \(error.reason)", findings)
        }
        return .json(PreviewResult.shape.json(PreviewResult(preview: TemplatePreview(template), findings: findings)))
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
