import FoundationEssentials
import ServiceTesting
import Testing

@testable import Server
@testable import Settings

/// Tests of the files for the container image and compose.
@Suite(.timeLimit(.minutes(5))) struct DeploymentTests {
    private static func contents(_ name: String) throws -> String {
        try String(contentsOf: URL(filePath: "\(TestFiles.repository)/\(name)"), encoding: .utf8)
    }

    @Test(
        "The documents of the settings are those that push-server settings prints",
        arguments: [
            (SettingsDocument.markdown, "docs/settings.md"), (.yaml, "config/push-server.yaml"),
            (.environment, ".env.example"),
        ]
    )
    func settings(document: SettingsDocument, file: String) throws {
        let text = try Self.contents(file)
        if document == .markdown {
            #expect(text.contains("\n\n\(document.text)\n"))
        } else {
            #expect(text == document.text)
        }
    }

    @Test("Compose passes .env, the operator's copy of .env.example, to the server")
    func compose() throws {
        #expect(try Self.contents("docker-compose.yml").contains("env_file: .env\n"))
        let example = try Self.contents(".env.example")
        for setting in Settings.all {
            let line = "\(setting.environmentName)="
            #expect(example.contains("\n\(line)") != example.contains("\n# \(line)"), "\(setting.name)")
        }
    }

    @Test("Compose limits each container, and leaves it no capabilities but those that it needs")
    func limits() throws {
        let text = try Self.contents("docker-compose.yml")
        let start = try #require(text.firstRange(of: "\nservices:\n")).upperBound
        let end = try #require(text.firstRange(of: "\nvolumes:\n")).lowerBound
        let services = text[start..<end].split(separator: /\n\n(?=  \w+:\n)/)
        #expect(services.count == 3)
        for service in services {
            let limits = [
                "cap_drop: [ALL]", "security_opt: [\"no-new-privileges:true\"]", "mem_limit: ", "pids_limit: ",
            ]
            for limit in limits {
                #expect(service.contains("\n    \(limit)"), "\(service.prefix(20))")
            }
        }
    }

    @Test("The settings file is valid with all settings uncommented")
    func yaml() throws {
        let lines = SettingsDocument.yaml.text.split(separator: "\n").map { line in
            let text = String(line)
            // Settings, and the members of a list.
            return text.firstMatch(of: /^  # (    |  - )?[a-z_.]+:( |$)/) == nil
                ? text : text.replacing("  # ", with: "  ", maxReplacements: 1)
        }
        let file = try SettingsFile(
            yaml: lines.joined(separator: "\n"),
            path: "file",
            names: SettingNames(Settings.all)
        )
        let names = Set(
            file.entries.keys.map { $0.hasSuffix("_file") && !Self.isName($0) ? String($0.dropLast(5)) : $0 }
        )
        let withValue = Settings.all.filter { !$0.example.isEmpty }.map(\.name)
        #expect(names == Set(withValue))
    }

    private static func isName(_ name: String) -> Bool { Settings.all.contains { $0.name == name } }

    @Test("The image runs as a numeric user other than root, and a crash report contains no registers")
    func image() throws {
        let lines = try Self.contents("Dockerfile").split(separator: "\n")
        #expect(lines.contains("USER 10001:10001"))
        let backtrace = try #require(lines.first { $0.hasPrefix("ENV SWIFT_BACKTRACE=") })
        let options = backtrace.dropFirst("ENV SWIFT_BACKTRACE=".count).split(separator: ",")
        #expect(options.contains("registers=none") && options.contains("sanitize=yes"))
    }
}
