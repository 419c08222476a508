import FoundationEssentials
import JSON
import ServiceTesting
import TestSupport
import Testing

/// Tests that run the commands of `docs/sandbox.md`, `docs/sdk.md` and `docs/accounts.md` unchanged, beside `push-server dev`.
@Suite(.timeLimit(.minutes(5))) struct SandboxPageTests {
    /// Runs commands in a new shell beside a development server, in the folder in which it was started.
    ///
    /// - Returns: The output, and the status, the method and the path of each request of `curl`.
    private static func run(_ commands: [String]) async throws -> (text: String, requests: [String]) {
        let folder = try TemporaryFolder.make()
        var result = (text: "", requests: [String]())
        try await DevServer.with(in: "\(folder)/.local") { _ in
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
}
