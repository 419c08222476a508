import FoundationEssentials
import JSON
import ServiceTesting
import TestSupport
import Testing

/// Tests that run the commands of `docs/sandbox.md`, `docs/sdk.md`, `docs/accounts.md` and `docs/api.md` unchanged, beside
/// `push-server dev`.
@Suite(.timeLimit(.minutes(5))) struct SandboxPageTests {
    /// Runs commands in a new shell beside a development server, in the folder in which it was started.
    ///
    /// - Parameter environment: The environment of the development server.
    /// - Returns: The output, and the status, the method and the path of each request of `curl`.
    private static func run(
        _ commands: [String],
        environment: [String: String] = [:]
    ) async throws -> (text: String, requests: [String]) {
        let folder = try TemporaryFolder.make()
        var result = (text: "", requests: [String]())
        try await DevServer.with(in: "\(folder)/.local", environment: environment) { _ in
            let format = "%{stderr}%{http_code} %{method} %{url_effective}\\n"
            let script = """
                cd \(folder)
                curl() { command curl -sS -w '\(format)' "$@" 2>>requests; }
                \(commands.joined(separator: "\n"))
                """
            let shell = ["bash", "-euo", "pipefail", "-c", script]
            let output = try await Program.run(shell, environment: ["PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"])
            #expect(output.status == 0, "\(output.text)")
            let lines = FileManager.default.contents(atPath: "\(folder)/requests") ?? Data()
            result.text = output.text
            result.requests = String(decoding: lines, as: UTF8.self).split(separator: "\n").map { line in
                String(line.replacing(/https?:\/\/[^\/]*/, with: ""))
            }
        }
        return result
    }

    private static func failed(_ requests: [String]) -> [String] {
        requests.filter { !$0.hasPrefix("2") && !$0.hasPrefix("3") }
    }

    @Test("Each command of the sandbox's page works beside dev")
    func sandbox() async throws {
        let blocks = try TestFiles.codeBlocks(in: "docs/sandbox.md", language: "sh")
        let commands = blocks.filter { !$0.contains("kakao-sandbox --callback-url") }
        #expect(commands.count == blocks.count - 1)
        let (text, requests) = try await Self.run(commands)
        // The user who has not signed up yet.
        #expect(Self.failed(requests) == ["400 GET /v2/user/me"], "\(requests) \(text)")
        #expect(requests.count > 60)
        // Kakao's calls to the server: the unlink, two events of channels, the account event and the shared message.
        #expect(text.components(separatedBy: #"{"sent":true,"status":20"#).count == 6, "\(text)")
    }

    @Test("Each command of the page about Kakao's SDKs works beside dev, over HTTPS")
    func sdk() async throws {
        let blocks = try TestFiles.codeBlocks(in: "docs/sdk.md", language: "sh")
        let (text, requests) = try await Self.run(blocks.filter { !$0.contains("push-server dev --") })
        #expect(requests.count == 4 && Self.failed(requests).isEmpty, "\(requests) \(text)")
        #expect(text.contains(#"{"id":1234,"#), "\(text)")
        #expect(text.components(separatedBy: #""template_msg":"#).count == 3, "\(text)")
    }

    @Test("The commands of a mobile app log the user in with a code, and import the token of an SDK")
    func accounts() async throws {
        let blocks = try TestFiles.codeBlocks(in: "docs/accounts.md", language: "sh")
        let app = blocks.filter { $0.contains("CODE_VERIFIER=") || $0.contains("ACCESS_TOKEN=") }
        #expect(app.count == 2)
        let (text, requests) = try await Self.run([". .local/dev.env"] + app)
        #expect(requests.count == 4 && Self.failed(requests).isEmpty, "\(requests) \(text)")
        #expect(text.contains(#""is_new":true"#), "\(text)")
        #expect(requests.last?.hasSuffix(" PUT /v1/accounts/1234/tokens") == true, "\(requests)")
    }

    @Test("The page of the API has all operations, each with an example that works")
    func api() async throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/api.md", encoding: .utf8)
        let command = try "\(Program.path("push-server")) openapi --format markdown"
        let tables = try await Program.run(["bash", "-c", command]).text
        let sections = tables.split(separator: /\n(?=### )/)
        #expect(sections.count > 30)
        for section in sections { #expect(page.contains("\n\(section)\n"), "\(section)") }

        let blocks = try TestFiles.codeBlocks(in: "docs/api.md", language: "sh")
        let start = try #require(blocks.firstIndex { $0.hasSuffix("\npush-server dev") })
        let end = try #require(blocks.firstIndex { $0.contains("/openapi.json\"     #") })
        let exports = blocks[start].split(separator: "\n").filter { $0.hasPrefix("export ") }
        let variables = try await Program.run(["bash", "-c", "\(exports.joined(separator: "\n"))\nenv"]).text
        var environment: [String: String] = [:]
        for line in variables.split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1)
            if parts.count == 2, exports.contains(where: { $0.contains(" \(parts[0])=") }) {
                environment[String(parts[0])] = String(parts[1])
            }
        }
        #expect(environment.count == 5)
        let (text, requests) = try await Self.run(Array(blocks[start + 1..<end]), environment: environment)
        // No batch has failed, and an upload may have been sent before it is canceled.
        let failed = Self.failed(requests).filter { !$0.hasSuffix("/retry") && !$0.contains("/customer-uploads/") }
        #expect(failed.isEmpty, "\(failed) \(text)")

        let called = requests.map { $0.dropFirst("200 ".count).split(separator: "?")[0].split(separator: "/") }
        let operations = tables.matches(of: /\| `(\w+ [^`]*)`/).map { $0.output.1.split(separator: "/") }
        #expect(operations.count > 180)
        for operation in operations where operation != ["POST ", "kakao", "account-events"] {
            let isCalled = called.contains { call in
                call.count == operation.count && zip(call, operation).allSatisfy { $0 == $1 || $1.hasPrefix("{") }
            }
            #expect(isCalled, "\(operation.joined(separator: "/")) has no example")
        }
        // The sandbox signs account events.
        #expect(text.contains(#"{"sent":true,"status":202"#), "\(text)")
    }
}
