import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import Server
import ServiceTesting
import Sharing
import Templates
import TestSupport
import Testing

/// The endpoints and the command that lint and preview templates.
@Suite(.timeLimit(.minutes(5))) struct TemplateRoutesTests {
    private static let template = """
        {"object_type": "text", "text": "Hello", "link": {"web_url": "https://other.example/"}}
        """

    private static func post(
        _ service: TestService,
        _ path: String,
        _ body: String,
        type: String = "application/json"
    ) async throws -> HTTPClientResponse {
        try await service.api.post(path, Array(body.utf8), type: type)
    }

    @Test("A template is linted with the registered domains, and a syntax error is a finding")
    func lint() async throws {
        try await withService { settings in
            settings.sharing.domains = ["example.com"]
        } _: { service in
            let answer = try await Self.post(service, "/v1/templates/lint", Self.template)
            #expect(answer.status == 200)
            #expect(answer.json?["rejected"] == false)
            #expect(answer.json?["checked"] == true)
            let finding = answer.json?["findings"]?[0]
            #expect(finding?["path"] == "$.link.web_url")
            #expect(finding?["rule"] == "unregistered-domain")
            #expect(finding?["effect"] == "dropped")
            #expect(finding?["limit"] == nil as JSONValue? || finding?["limit"]?.isNull == true)
            #expect(finding?["value"] == "other.example")

            for type in ["application/json", "application/json; charset=utf-8"] {
                let broken = try await Self.post(
                    service,
                    "/v1/templates/lint",
                    "{\"object_type\": \"text\",}",
                    type: type
                )
                #expect(broken.status == 200)
                #expect(broken.json?["rejected"] == true)
                #expect(broken.json?["findings"]?[0]?["rule"] == "syntax")
            }
            #expect(try await Self.post(service, "/v1/templates/lint", "", type: "text/html").status == 415)
            let large = String(repeating: " ", count: TemplateLinter.maximumBytes + 1)
            #expect(try await Self.post(service, "/v1/templates/lint", large).status == 413)
        }
    }

    @Test("A preview has the page, the text and the findings; what is not a template is rejected with them")
    func preview() async throws {
        try await withSharedService { service in
            let answer = try await Self.post(service, "/v1/templates/preview", Self.template)
            #expect(answer.status == 200)
            #expect(answer.json?["text"] == "Hello\n[ 자세히 보기 ]\n")
            #expect(answer.json?["html"]?.string?.contains("Hello") == true)
            #expect(answer.json?["findings"]?.array?.isEmpty == true)

            let wrong = try await Self.post(
                service,
                "/v1/templates/preview",
                "{\"object_type\": \"text\", \"text\": \"Hi\"}"
            )
            #expect(wrong.status == 400)
            #expect(wrong.json?["type"] == "urn:kakao-push-server:error:invalid-template")
            #expect(wrong.json?["findings"]?[0]?["rule"] == "missing-member")
            #expect(wrong.json?["detail"]?.string?.contains("link is missing") == true)
        }
    }

    @Test("The command prints findings by file, and exits with 1 if Kakao would reject the template")
    func command() async throws {
        let folder = try TemporaryFolder.make()
        let good = "\(folder)/good.json"
        let bad = "\(folder)/bad.json"
        try Data(Self.template.utf8).write(to: URL(filePath: good))
        try Data("{\"object_type\": \"list\"}".utf8).write(to: URL(filePath: bad))

        let lint = try await Self.run(["lint", good, "--domain", "example.com"])
        #expect(lint.ending == .exited(0))
        #expect(lint.lines.contains { $0.hasPrefix("\(good): dropped: $.link.web_url: ") })
        let rejected = try await Self.run(["lint", bad])
        #expect(rejected.ending == .exited(1))
        #expect(rejected.lines.contains { $0.hasPrefix("\(bad): rejected: $: contents is missing") })
        let preview = try await Self.run(["preview", good])
        #expect(preview.ending == .exited(0))
        #expect(preview.lines == ["Hello", "[ 자세히 보기 ]"])
        #expect(try await Self.run(["preview", bad]).ending == .exited(1))
        #expect(try await Self.run(["lint", "\(folder)/none.json"]).ending == .exited(64))
        // As in the setting.
        let clean = try await Self.run(["lint", good, "--domain", "example.com, other.example"])
        #expect(clean.lines == ["\(good): no findings"])
        #expect(try await Self.run(["lint", good, "--domain", "*.example.com"]).ending == .exited(64))
    }

    private static func run(_ arguments: [String]) async throws -> (lines: [String], ending: RunningProgram.Ending?) {
        let process = try await RunningProgram.start(["templates"] + arguments, environment: [:])
        let ending = await process.ended()
        return (process.lines, ending)
    }
}
