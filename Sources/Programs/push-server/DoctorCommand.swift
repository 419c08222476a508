import ArgumentParser
import Crypto
import EventLoop
import FoundationEssentials
import JSON
import Server
import Settings

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check the settings against Kakao, the database, and the addresses that Kakao calls.",
        discussion: """
            Prints a line for each check, with the remedy for a problem. Exit code 1 if a check is wrong, else 0. Changes nothing \
            and sends no push. Run it on the server's machine as the server's user, before the first start and after every change.

            kakao.app_id can be checked only with an access token, which an app gets when a user logs in. Set KAKAO_ACCESS_TOKEN \
            to one, or name a file that contains one.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Option(help: "A file that contains an access token of Kakao Login. (default: the token in KAKAO_ACCESS_TOKEN)")
    var accessTokenFile: String?

    @Flag(help: "Print JSON, one check per line.")
    var json = false

    @Flag(
        help:
            "Print the fields of Kakao's console with this server's values (docs/kakao-console.md), and check nothing."
    )
    var console = false

    @concurrent
    func run() async throws {
        try await reportingFailures {
            guard !console else {
                let settings = try options.load()
                Terminal.writeTable([["field", "place", "value", "state"]] + ConsoleField.all.map { $0.row(settings) })
                return
            }
            let findings = try await findings()
            if json {
                for finding in findings { Terminal.writeLine(finding.json.description) }
            } else {
                let rows = findings.map { [$0.state.rawValue, $0.subject, Text.printable($0.text)] }
                Terminal.writeTable(rows)
            }
            guard !findings.contains(where: { $0.state == .wrong }) else { throw ExitCode.failure }
        }
    }

    private func findings() async throws -> [Finding] {
        let settings: Settings
        do {
            settings = try options.load()
        } catch let error as SettingsError {
            // Without valid settings there is nothing else to check.
            return [Finding("settings", .wrong("\(error)"))]
        }
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let doctor = Doctor(
            settings: settings,
            migrations: options.migrations,
            accessToken: try accessToken(),
            loop: loops.loops[0]
        )
        return [Finding("settings", .ok("read from \(options.source)"))] + (await doctor.findings())
    }

    /// Returns the access token from the file or the environment. An argument would be visible to every user of the
    /// machine.
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
    fileprivate var json: JSONValue {
        ["state": .string(state.rawValue), "subject": .string(subject), "text": .string(text)]
    }
}
