package import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import HTTPServer
internal import Locking
package import Logging

/// Kakao's side as it is documented, with faults that can be turned on: a server of its own that runs on a laptop.
///
/// It answers the Push API in both versions, logs users in, keeps what was delivered to whom, and calls the push server as Kakao does. What is
/// under `/sandbox/` is not Kakao's: there a test reads and turns it, over HTTP or by the methods of the same meaning here
/// (`docs/sandbox.md`).
package final class KakaoSandbox: Sendable {
    /// Where it is reached: `http://127.0.0.1:9090`.
    package let url: String
    /// The port it listens on: the kernel's choice, if the settings said 0.
    package let port: Int
    /// The certificate that it serves HTTPS with, as PEM; `nil` for HTTP.
    package let certificate: [UInt8]?

    let ledger: Ledger
    let faults: FaultBoard
    let link: LinkCallback
    let unlink: UnlinkCall
    let accountEvents: AccountEventCall
    let feedback: FailureFeedback
    let accessTokens = AccessTokens()
    let signingKeys = SigningKeys()
    let loginControl: LoginControl
    let logger: Logger
    private let delays = Delays()
    private let client: HTTPClient
    private let server: HTTPServer

    /// Binds and listens; requests are taken up by ``start()``.
    ///
    /// - Parameters:
    ///   - loops: What it runs on. They stay the caller's: shut them down after ``shutdown()``.
    ///   - logger: By default, it logs nothing.
    /// - Throws: `SystemError` when the address cannot be listened on, `TLSError` when no certificate can be made,
    ///   `HTTPClientError` when the certificates for callbacks cannot be read, and what writing the certificate's file throws.
    package init(
        settings: KakaoSandboxSettings = KakaoSandboxSettings(),
        loops: EventLoopGroup,
        logger: Logger = Logger(label: "kakao-sandbox", factory: { _ in SwiftLogNoOpLogHandler() })
    ) throws {
        let loop = loops.loops[0]
        let clientSettings = HTTPClientSettings(caCertificateFile: settings.callbackCertificateFile)
        client = try HTTPClient(settings: clientSettings, loop: loop)
        ledger = Ledger(settings)
        faults = FaultBoard(seed: settings.seed ?? .random(in: .min ... .max))
        link = LinkCallback(client: client, settings: settings)
        unlink = UnlinkCall(client: client, adminKey: settings.adminKey, appID: settings.appID)
        feedback = FailureFeedback(client: client, loop: loop, logger: logger)
        self.logger = logger

        var serverSettings = HTTPServerSettings()
        serverSettings.host = settings.host
        serverSettings.port = settings.port
        certificate = try Self.addTLS(to: &serverSettings, settings)
        let push = PushAPI(settings: settings, ledger: ledger, faults: faults, delays: delays, feedback: feedback)
        let login = LoginAPI(accessTokens: accessTokens, signingKeys: signingKeys, faults: faults, delays: delays)
        loginControl = LoginControl(settings: settings, accessTokens: accessTokens, signingKeys: signingKeys)
        accountEvents = AccountEventCall(
            client: client,
            restAPIKey: settings.restAPIKey,
            signingKeys: signingKeys,
            issuer: loginControl.issuer
        )
        let control = ControlAPI(
            ledger: ledger,
            faults: faults,
            link: link,
            unlink: unlink,
            accountEvents: accountEvents
        ) { [ledger, faults, link, feedback] in
            SandboxStats(ledger, faults, link, feedback)
        }
        var router = Router()
        push.addRoutes(to: &router)
        login.addRoutes(to: &router)
        control.addRoutes(to: &router)
        loginControl.addRoutes(to: &router)
        let middleware: [any Middleware] = [AccessLog(logger: logger), FaultGate(faults: faults)]
        let application = Application(router: router, middleware: middleware, logger: logger)
        server = try HTTPServer(settings: serverSettings, loops: loops, logger: logger) { _ in application }
        port = server.port
        url = "\(settings.tls ? "https" : "http")://\(Self.reachable(settings.host)):\(server.port)"
        loginControl.issuer.withLock { [url] in $0 = url }
    }

    /// Makes the certificate, and writes its file.
    private static func addTLS(
        to serverSettings: inout HTTPServerSettings,
        _ settings: KakaoSandboxSettings
    ) throws -> [UInt8]? {
        guard settings.tls else { return nil }
        let made = try SelfSignedCertificate()
        serverSettings.tls = try TLSContext(certificateChain: made.certificate, privateKey: made.privateKey)
        if let file = settings.certificateFile {
            // In one step: whoever waits for the file never sees half of it.
            try Data(made.certificate).write(to: URL(filePath: file), options: .atomic)
        }
        return made.certificate
    }

    /// The host as it is written in a URL; this machine, for an address that means all of its addresses.
    private static func reachable(_ host: String) -> String {
        switch host {
        case "0.0.0.0": "127.0.0.1"
        case "::": "[::1]"
        default: host.contains(":") ? "[\(host)]" : host
        }
    }

    /// Begins to accept connections.
    package func start() {
        server.start()
    }

    /// Stops accepting, ends answers that wait because of a fault, finishes what else is in hand within 2 seconds, and closes.
    package func shutdown() async {
        delays.end()
        await server.shutdown(within: .seconds(2))
        await client.shutdown()
    }
}
