import Glibc
import JSON
import KakaoSandbox
import ServiceTesting
import TestSupport
import Testing

/// Tests that run the first commands and the clients of `docs/migrating.md` unchanged.
@Suite(.timeLimit(.minutes(5))) struct MigratingPageTests {
    /// A client of the page.
    private struct Client: Sendable {
        let language: String
        let file: String
        let command: String
        /// The programs that run it. Those beside Python are not installed for tests.
        let programs: [String]

        var isInstalled: Bool {
            programs.allSatisfy { program in
                ["/usr/bin", "/usr/local/bin"].contains { access("\($0)/\(program)", X_OK) == 0 }
            }
        }

        static let all = [
            Client(language: "python", file: "push.py", command: "python3 push.py", programs: ["python3"]),
            Client(language: "js", file: "push.mjs", command: "node push.mjs", programs: ["node"]),
            Client(language: "php", file: "push.php", command: "php push.php", programs: ["php"]),
            Client(language: "java", file: "Push.java", command: "java Push.java", programs: ["java", "javac"]),
        ]
    }

    /// Runs a client in a folder of its own.
    private static func run(_ client: Client, host: String, key: String) async throws -> Program.Result {
        let folder = try TemporaryFolder.make()
        let program = try TestFiles.code(in: "docs/migrating.md", after: "```\(client.language)\n")
        try writeFile(Array(program.utf8), to: "\(folder)/\(client.file)")
        return try await Program.run(
            ["bash", "-c", "cd \(folder) && \(client.command)"],
            environment: [
                "PATH": "/usr/local/bin:/usr/bin:/bin", "PUSH_HOST": host, "PUSH_KEY": key, "LC_ALL": "C.UTF-8",
            ]
        )
    }

    @Test("The first commands of the page register a device, send a push and list it, beside dev")
    func firstMinutes() async throws {
        let commands = try TestFiles.code(in: "docs/migrating.md", after: "```sh\n. .local/dev.env")
        let folder = try TemporaryFolder.make()
        try await DevServer.with(in: "\(folder)/.local") { _ in
            let result = try await Program.run(
                ["bash", "-euo", "pipefail", "-c", "cd \(folder)\n. .local/dev.env\(commands)"],
                environment: ["PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"]
            )
            #expect(result.status == 0, "\(result.text)")
            #expect(result.text.lowercased().contains("location: /v1/pushes/"), "\(result.text)")
            // The list has the push, of one user.
            #expect(result.text.contains(/[01]\/1\s/), "\(result.text)")
        }
    }

    @Test("Each client whose interpreter is installed does the same before and after, with another host and key")
    func clients() async throws {
        let output = try TestFiles.code(
            in: "docs/migrating.md",
            after: "Each of them registers a token, sends a push, and prints\n\n```\n"
        )
        let installed = Client.all.filter(\.isInstalled)
        #expect(installed.contains { $0.language == "python" }, "scripts/test installs python3")
        try await withService { service in
            for client in installed {
                for (host, key) in [(service.kakao.sandbox.url, Keys.admin), (service.api.url, Keys.operator)] {
                    service.kakao.sandbox.deleteDeliveries()
                    let result = try await Self.run(client, host: host, key: key)
                    #expect(result.status == 0 && result.text == "\(output)\n", "\(client.command): \(result.text)")
                    try await eventually("Kakao has delivered the push of \(client.command)") {
                        service.kakao.sandbox.deliveries(to: 1234).count == 1
                    }
                }
                let devices = try await service.api.get("/v1/users/1234/devices")
                #expect(devices.json?["items"]?.array?.map { $0["device_id"] } == ["phone-1"])
            }
        }
        let missing = Client.all.filter { !$0.isInstalled }.map(\.language)
        print("docs/migrating.md: ran \(installed.map(\.language)), without an interpreter: \(missing)")
    }

    @Test("A client whose call is rejected fails, and prints the status and the problem that the page shows")
    func rejection() async throws {
        let shown = try TestFiles.code(
            in: "docs/migrating.md",
            after: "With a key that lacks the scope, its error is\n\n```\n"
        )
        let parts = shown.split(separator: "…").map { $0.trimmingPrefix(",") }
        #expect(parts.count == 3 && parts[0].hasPrefix("403 ") && parts[1].contains("detail"))
        try await withService { service in
            let answer = try await service.api.post("/v1/keys", json: ["name": "reader", "scopes": ["read"]])
            let key = try #require(answer.json?["key"]?.string)
            for client in Client.all.filter(\.isInstalled) {
                let result = try await Self.run(client, host: service.api.url, key: key)
                #expect(result.status != 0 && !result.text.contains("registered"), "\(client.command)")
                for part in parts { #expect(result.text.contains(part), "\(client.command): \(result.text)") }
            }
        }
    }

    @Test("The clients differ from a direct call in the host and the key only")
    func environment() throws {
        for client in Client.all {
            let program = try TestFiles.code(in: "docs/migrating.md", after: "```\(client.language)\n")
            #expect(program.contains("PUSH_HOST") && program.contains("PUSH_KEY"), "\(client.language)")
            #expect(program.contains("before: https://kapi.kakao.com"), "\(client.language)")
        }
    }
}
