internal import ArgumentParser
internal import EventLoop
internal import FoundationEssentials
internal import JSON
internal import PushService

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check the settings against Kakao, the database, and the addresses that Kakao calls.",
        discussion: """
            A line for each check: what is wrong and how to mend it. Exit code 0 when nothing is wrong, else 1. Nothing is changed \
            anywhere, and no push is sent. Run it where and as the server runs, before it is first started and after every change.

            Whether kakao.app_id is right only an access token tells, as an app gets it when a user logs in: give one in the \
            environment as KAKAO_ACCESS_TOKEN, or in a file.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Option(help: "A file with an access token of Kakao Login. (default: KAKAO_ACCESS_TOKEN of the environment)")
    var accessTokenFile: String?

    @Flag(help: "As JSON, a check a line.")
    var json = false

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let findings = try await findings()
            if json {
                for finding in findings { Terminal.writeLine(finding.json) }
            } else {
                let rows = findings.map { [$0.state.rawValue, $0.subject, Text.printable($0.text)] }
                for line in Text.table(rows) { Terminal.writeLine(line) }
            }
            guard !findings.contains(where: { $0.state == .wrong }) else { throw ExitCode.failure }
        }
    }

    private func findings() async throws -> [Finding] {
        let settings: Settings
        do {
            settings = try options.load()
        } catch let error as SettingsError {
            // There is nothing that could be looked at.
            return [Finding(.wrong, "settings", "\(error)")]
        }
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let doctor = Doctor(
            settings: settings,
            migrations: Result { try options.migrationsFolder() },
            accessToken: try accessToken(),
            loop: loops.loops[0]
        )
        return [Finding(.ok, "settings", "read from \(options.source)")] + (try await doctor.findings())
    }

    /// Not an argument, which every user of the machine would see.
    private func accessToken() throws -> Secret? {
        guard let accessTokenFile else {
            let token = ProcessInfo.processInfo.environment["KAKAO_ACCESS_TOKEN"] ?? ""
            return token.isEmpty ? nil : Secret(token)
        }
        guard let contents = FileContents.read(accessTokenFile) else {
            throw SettingsError(place: accessTokenFile, message: "The file cannot be read.")
        }
        return Secret(String(decoding: contents, as: UTF8.self).filter { !$0.isWhitespace })
    }
}

extension Finding {
    fileprivate var json: String {
        var json = JSONWriter()
        json.object {
            $0.member("state", state.rawValue)
            $0.member("subject", subject)
            $0.member("text", text)
        }
        return String(decoding: json.bytes, as: UTF8.self)
    }
}
