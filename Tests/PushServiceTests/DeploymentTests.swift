import FoundationEssentials
import Testing

@testable import PushService

/// Tests of the files for the container image and compose.
@Suite(.timeLimit(.minutes(5))) struct DeploymentTests {
    private static func contents(_ name: String) throws -> String {
        try String(contentsOf: URL(filePath: "\(TestFiles.repository)/\(name)"), encoding: .utf8)
    }

    @Test(".env.example has every setting once, and otherwise only the password of compose's PostgreSQL")
    func environmentExample() throws {
        var names: [String] = []
        for line in try Self.contents(".env.example").split(separator: "\n") {
            let text = line.hasPrefix("# ") ? line.dropFirst(2) : line
            guard let end = text.firstIndex(of: "="),
                text[..<end].allSatisfy({ $0.isUppercase || $0.isNumber || $0 == "_" })
            else { continue }
            names.append(String(text[..<end]))
        }
        #expect(names.sorted() == (SettingKey.allCases.map(\.environmentName) + ["POSTGRES_PASSWORD"]).sorted())
        // Compose passes .env, the operator's copy of the file, to the server.
        let compose = try Self.contents("docker-compose.yml")
        #expect(compose.contains("env_file: .env\n"))
    }

    @Test("The image runs as a numeric user other than root, and a crash report contains no registers")
    func image() throws {
        let lines = try Self.contents("Dockerfile").split(separator: "\n")
        #expect(lines.contains("USER 10001:10001"))
        let backtrace = try #require(lines.first { $0.hasPrefix("ENV SWIFT_BACKTRACE=") })
        let options = backtrace.dropFirst("ENV SWIFT_BACKTRACE=".count).split(separator: ",")
        #expect(options.contains("registers=none") && options.contains("sanitize=yes"))
    }
}
