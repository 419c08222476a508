import ArgumentParser
import EventLoop
import FoundationEssentials
import Glibc
import KakaoSandbox
import Logging

@main
struct KakaoSandboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kakao-sandbox",
        abstract: "Simulate Kakao's APIs as documented, with injectable faults.",
        discussion: """
            Serves the Push API, Kakao Login, KakaoTalk, Talk Calendar, sharing and KakaoStory, records each delivery, and calls the \
            push server back as Kakao does. \
            Control it over HTTP under /sandbox/; docs/sandbox.md shows each call with curl.

            Prints one line with its URL when it is ready. Exits on SIGTERM or SIGINT.
            """
    )

    @Option(help: "The numeric address to listen on. Any client that can connect may control the sandbox.")
    var host = "127.0.0.1"

    @Option(help: "The host name or address by which clients reach the sandbox, in its URL. (default: that of --host)")
    var name: String?

    @Option(help: "The port to listen on; 0 for any free port.")
    var port: UInt16 = 9090

    @Option(help: "The Admin key that callers must present. (default: KAKAO_ADMIN_KEY, else sandbox-admin-key)")
    var adminKey: String?

    @Option(help: "The id of the app that the Admin key belongs to.")
    var appID = 123_456

    @Flag(
        help: """
            Serve HTTPS with a self-signed certificate for localhost, 127.0.0.1, ::1, 10.0.2.2 (this machine in Android's \
            emulator), and the addresses of --host and --name.
            """
    )
    var tls = false

    @Option(help: "The file to write that certificate to, so that clients can trust it. Requires --tls.")
    var certificateFile: String?

    @Option(
        help: """
            The file of a private key (PEM): the certificate is then read from --certificate-file, and none is generated.
            """
    )
    var privateKeyFile: String?

    // Unconditional, so that -1 is not parsed as another option.
    @Option(parsing: .unconditional, help: "Days until a push token expires; -1 for never, 0 for at once.")
    var tokenLifetimeDays = 30

    @Option(help: "The push server's base URL for callbacks: http://127.0.0.1:8080.")
    var callbackURL: String?

    @Option(help: "The file of PEM certificates to trust when calling the push server over HTTPS.")
    var callbackCertificateFile: String?

    @Option(help: "A domain that is registered at Kakao (repeatable): links of templates to others are dropped.")
    var domain: [String] = []

    @Option(help: "An argument of a custom template (repeatable): 12345:title.")
    var templateArgument: [TemplateArgument] = []

    @Option(help: "The client secret of the REST API key; empty if the key needs none.")
    var clientSecret = "sandbox-client-secret"

    @Option(
        help: """
            A redirect URI that is registered at Kakao (repeatable). The native app key always has its own, kakao{key}://oauth. \
            (default: all of http and https)
            """
    )
    var redirectURI: [String] = []

    @Option(help: "The user who logs in when login_hint names none.")
    var testUserID: Int64 = 1001

    @Option(help: "The lifetime of access tokens of Kakao Login, in seconds.")
    var accessTokenSeconds: UInt32 = 21_599

    @Option(help: "The lifetime of refresh tokens, in seconds.")
    var refreshTokenSeconds: UInt32 = 5_184_000

    @Option(help: "A refresh replaces its refresh token if fewer seconds of its lifetime are left.")
    var rotateRefreshTokensBelowSeconds: UInt32 = 2_592_000

    @Flag(help: "Do not limit the token requests of a user (KOE237).")
    var unlimitedTokens = false

    @Option(help: "The seed of the faults' random choices, to reproduce a run.")
    var seed: UInt64?

    @Option(help: "The member of custom_field that identifies a push in /sandbox/reached.")
    var markerField = "marker"

    @Option(
        help: "The lowest level to log to stderr: trace, debug, info (a line per request), notice, warning, error.",
        transform: parseLevel
    )
    var logLevel = Logger.Level.notice

    func validate() throws {
        guard (-1...36_500).contains(tokenLifetimeDays) else {
            throw ValidationError("--token-lifetime-days must be from -1 to 36500.")
        }
        guard testUserID > 0 else { throw ValidationError("--test-user-id must be positive.") }
        guard tls || certificateFile == nil else { throw ValidationError("--certificate-file requires --tls.") }
        guard certificateFile != nil || privateKeyFile == nil else {
            throw ValidationError("--private-key-file requires --certificate-file.")
        }
    }

    private var settings: KakaoSandboxSettings {
        var settings = KakaoSandboxSettings()
        settings.host = host
        settings.name = name
        settings.port = Int(port)
        // The environment is an alternative, because a key on the command line is visible to all users of the machine.
        settings.adminKey =
            adminKey ?? ProcessInfo.processInfo.environment["KAKAO_ADMIN_KEY"] ?? settings.adminKey
        settings.appID = appID
        settings.tls = tls
        settings.certificateFile = certificateFile
        settings.privateKeyFile = privateKeyFile
        settings.tokenLifetimeDays = tokenLifetimeDays
        settings.callbackURL = callbackURL
        settings.callbackCertificateFile = callbackCertificateFile
        settings.clientSecret = clientSecret.isEmpty ? nil : clientSecret
        settings.redirectURIs = Set(redirectURI)
        settings.testUserID = testUserID
        settings.accessTokenSeconds = Int64(accessTokenSeconds)
        settings.refreshTokenSeconds = Int64(refreshTokenSeconds)
        settings.rotateRefreshTokensBelowSeconds = Int64(rotateRefreshTokensBelowSeconds)
        if unlimitedTokens { (settings.tokenLimit, settings.refreshLimit) = (nil, nil) }
        settings.seed = seed
        settings.domains = Set(domain.map { $0.lowercased() })
        for argument in templateArgument {
            settings.templateArguments[argument.templateID, default: []].append(argument.name)
        }
        settings.markerField = markerField
        return settings
    }

    // Off the main actor: tasks that are started from the main actor run slowly.
    @concurrent
    func run() async throws {
        var logger = Logger(label: "kakao-sandbox", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = logLevel
        let loops = try EventLoopGroup()
        let sandbox = try KakaoSandbox(settings: settings, loops: loops, logger: logger)
        try await sandbox.serveUntilSignal {
            print("kakao-sandbox is ready at \(sandbox.url)")
            // Output to a pipe is fully buffered, and a parent process may wait for the line.
            fflush(nil)
        }
    }
}

private func parseLevel(_ text: String) throws -> Logger.Level {
    guard let level = Logger.Level(rawValue: text) else {
        throw ValidationError("Unknown log level \(text). Use trace, debug, info, notice, warning, error or critical.")
    }
    return level
}

/// An argument of a custom template: `12345:title`.
struct TemplateArgument: ExpressibleByArgument {
    let templateID: Int64
    let name: String

    init?(argument: String) {
        let parts = argument.split(separator: ":", maxSplits: 1)
        guard parts.count == 2, let templateID = Int64(parts[0]) else { return nil }
        self.templateID = templateID
        name = String(parts[1])
    }
}
