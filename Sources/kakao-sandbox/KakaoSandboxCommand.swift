internal import ArgumentParser
internal import EventLoop
internal import FoundationEssentials
internal import Glibc
internal import KakaoSandbox
internal import Logging

@main
struct KakaoSandboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kakao-sandbox",
        abstract: "Kakao's servers on a laptop: the Push API as documented, with faults that can be turned on.",
        discussion: """
            Answers /v1/push/* and /v2/push/*, remembers what was delivered to whom, and calls the push server back as Kakao \
            does. It is controlled over HTTP under /sandbox/; docs/sandbox.md has every call with curl.

            Prints one line with its URL when it is ready. Ends on SIGTERM or SIGINT.
            """
    )

    @Option(help: "The numeric address to listen on. Whoever reaches it may control the sandbox.")
    var host = "127.0.0.1"

    @Option(help: "The port to listen on; 0 for one that is free.")
    var port: UInt16 = 9090

    @Option(help: "The Admin key that callers must show. (default: KAKAO_ADMIN_KEY, else sandbox-admin-key)")
    var adminKey: String?

    @Option(help: "The id of the app that the Admin key belongs to.")
    var appID = 123_456

    @Flag(help: "Serve HTTPS with a certificate that the sandbox makes for localhost, 127.0.0.1 and ::1.")
    var tls = false

    @Option(help: "Where to write that certificate, for the client that shall trust it.")
    var certificateFile: String?

    // Unconditional: -1 would be taken for another option.
    @Option(parsing: .unconditional, help: "Days until a token expires; -1 for never, 0 for at once.")
    var tokenLifetimeDays = 30

    @Option(help: "The push server's base URL, which Link callbacks go to: http://127.0.0.1:8080.")
    var callbackURL: String?

    @Option(help: "Certificates in PEM form to trust when calling the push server over HTTPS.")
    var callbackCertificateFile: String?

    @Option(help: "A number that the faults' choices are made from, to play a run again.")
    var seed: UInt64?

    @Option(help: "The member of custom_field by which pushes are told apart in /sandbox/reached.")
    var markerField = "marker"

    @Option(
        help: "What is logged to stderr, at least: trace, debug, info (a line each request), notice, warning, error.",
        transform: parseLevel
    )
    var logLevel = Logger.Level.notice

    func validate() throws {
        guard (-1...36_500).contains(tokenLifetimeDays) else {
            throw ValidationError("--token-lifetime-days is -1 to 36500.")
        }
        guard tls || certificateFile == nil else { throw ValidationError("--certificate-file needs --tls.") }
    }

    private var settings: KakaoSandboxSettings {
        var settings = KakaoSandboxSettings()
        settings.host = host
        settings.port = Int(port)
        // On a command line every user of the machine would see the key.
        settings.adminKey =
            adminKey ?? ProcessInfo.processInfo.environment["KAKAO_ADMIN_KEY"] ?? settings.adminKey
        settings.appID = appID
        settings.tls = tls
        settings.certificateFile = certificateFile
        settings.tokenLifetimeDays = tokenLifetimeDays
        settings.callbackURL = callbackURL
        settings.callbackCertificateFile = callbackCertificateFile
        settings.seed = seed
        settings.markerField = markerField
        return settings
    }

    // Off the main actor: what a task of the main actor starts would crawl.
    @concurrent
    func run() async throws {
        var logger = Logger(label: "kakao-sandbox", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = logLevel
        let loops = try EventLoopGroup()
        let sandbox = try KakaoSandbox(settings: settings, loops: loops, logger: logger)
        try await sandbox.serveUntilSignal {
            print("kakao-sandbox is ready at \(sandbox.url)")
            // Whoever waits for the line may read it from a pipe.
            fflush(nil)
        }
    }
}

private func parseLevel(_ text: String) throws -> Logger.Level {
    guard let level = Logger.Level(rawValue: text) else { throw ValidationError("There is no log level \(text).") }
    return level
}
