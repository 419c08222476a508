package import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import KakaoAPI
import Locking
package import Logging
import Net

/// A server that behaves like Kakao's documented APIs, with injectable faults. It runs on a laptop.
///
/// It serves both versions of the Push API, logs users in, records each delivery, and calls the push server as Kakao
/// does. Tests control it by the calls under `/sandbox/`, which Kakao does not have, or by the equivalent methods of
/// this class (`docs/sandbox.md`).
package final class KakaoSandbox: Sendable {
    /// The base URL of the sandbox: `http://127.0.0.1:9090`.
    package let url: String
    /// The port that the sandbox listens on. The kernel chooses it if the settings have 0.
    package let port: Int
    /// The number of open files besides the connections of clients: connections for callbacks, event loops, libraries.
    private static let otherFiles = 256

    /// The certificate for HTTPS as PEM; `nil` for HTTP.
    package let certificate: [UInt8]?

    let settings: KakaoSandboxSettings
    let ledger: Ledger
    let imageUploads = ImageUploads()
    let faults: FaultBoard
    let callbacks: CallbackSender
    let link: LinkCallback
    let unlink: UnlinkCall
    let channelEvents: ChannelEventCall
    let accountEvents: AccountEventCall
    let feedback: FailureFeedback
    let users = AppUsers()
    let tokens: TokenStore
    let signingKeys = SigningKeys()
    let loginControl: LoginControl
    let userControl: UserControl
    let talk: TalkStore
    let talkControl: TalkControl
    private let customerFiles = CustomerFiles()
    private let stories = StoryStore()
    let addresses = AddressCalls()
    private let calendars = CalendarStore()
    let webhooks: WebhookReceiver
    let logger: Logger
    let delays = Delays()
    private let client: HTTPClient
    private let server: HTTPServer

    /// Binds and listens. ``start()`` begins to accept connections.
    ///
    /// - Parameters:
    ///   - loops: The event loops of the sandbox. The caller owns them and shuts them down after ``shutdown()``.
    ///   - logger: A logger; the default one logs nothing.
    /// - Throws: `SystemError` if the sandbox cannot listen on the address, `TLSError` if no certificate can be
    ///   generated or those for callbacks cannot be read, and errors of reading and writing the certificate's files.
    package init(
        settings: KakaoSandboxSettings = KakaoSandboxSettings(),
        loops: EventLoopGroup,
        logger: Logger = Logger(label: "kakao-sandbox", factory: { _ in SwiftLogNoOpLogHandler() })
    ) throws {
        let loop = loops.loops[0]
        self.settings = settings
        let trust = try TrustStore.reading(settings.callbackCertificateFile)
        client = HTTPClient(settings: HTTPClientSettings(trust: trust), loop: loop)
        ledger = Ledger(settings)
        talk = TalkStore(settings, ledger: ledger)
        tokens = TokenStore(settings: settings)
        webhooks = WebhookReceiver(capacity: settings.maximumWebhooks)
        faults = FaultBoard(seed: settings.seed ?? .random(in: .min ... .max))
        callbacks = CallbackSender(client: client, settings: settings)
        link = LinkCallback(sender: callbacks)
        unlink = UnlinkCall(sender: callbacks, appID: settings.appID)
        channelEvents = ChannelEventCall(sender: callbacks, users: users)
        feedback = FailureFeedback(client: client, loop: loop, logger: logger)
        self.logger = logger

        var serverSettings = HTTPServerSettings()
        serverSettings.host = settings.host
        serverSettings.port = settings.port
        let files = OpenFiles(connections: serverSettings.maximumConnections, others: Self.otherFiles)
        serverSettings.maximumConnections = files.connections(limit: files.raiseLimit())
        certificate = try Self.addTLS(to: &serverSettings, settings)
        var calls = KakaoCallServer(settings: settings, tokens: tokens, faults: faults, delays: delays)
        loginControl = LoginControl(settings: settings, users: users, tokens: tokens, signingKeys: signingKeys)
        PushCalls(settings: settings, ledger: ledger, feedback: feedback).add(to: &calls)
        SharingCalls(settings: settings, uploads: imageUploads).add(to: &calls)
        LoginCalls(settings: settings, users: users, signingKeys: signingKeys, issuer: loginControl.issuer)
            .add(to: &calls)
        AuthorizationEndpoint(settings: settings, users: users, tokens: tokens).add(to: &calls)
        TokenEndpoint(settings: settings, users: users, tokens: tokens, loginControl: loginControl).add(to: &calls)
        UserCalls(settings: settings, users: users, tokens: tokens, url: loginControl.issuer).add(to: &calls)
        TalkCalls(settings: settings, users: users, talk: talk, faults: faults, url: loginControl.issuer)
            .add(to: &calls)
        let customerCalls = CustomerFileCalls(files: customerFiles, users: users)
        customerCalls.add(to: &calls)
        StoryCalls(users: users, stories: stories).add(to: &calls)
        addresses.add(to: &calls)
        CalendarCalls(users: users, calendars: calendars, url: loginControl.issuer).add(to: &calls)
        webhooks.add(to: &calls)
        calls.serveExamples(of: KakaoCalls.all)
        userControl = UserControl(users: users)
        talkControl = TalkControl(talk: talk, users: users)
        accountEvents = AccountEventCall(
            sender: callbacks,
            restAPIKey: settings.restAPIKey,
            signingKeys: signingKeys,
            issuer: loginControl.issuer
        )
        var router = calls.router
        router.control(.get, "/sandbox/stats") { [ledger, faults, link, feedback] _ in
            SandboxStats(ledger, faults, link, feedback).response
        }
        PushControl(ledger: ledger).addRoutes(to: &router)
        FaultControl(faults: faults).addRoutes(to: &router)
        CallbackControl(
            settings: settings,
            sender: callbacks,
            unlink: unlink,
            channelEvents: channelEvents,
            accountEvents: accountEvents,
            link: link
        ).addRoutes(to: &router)
        loginControl.addRoutes(to: &router)
        userControl.addRoutes(to: &router)
        talkControl.addRoutes(to: &router)
        customerCalls.addRoutes(to: &router)
        StoryControl(stories: stories).addRoutes(to: &router)
        addresses.addRoutes(to: &router)
        CalendarControl(calendars: calendars).addRoutes(to: &router)
        webhooks.addRoutes(to: &router)
        let middleware: [any Middleware] = [AccessLog(logger: logger), faults]
        let application = Application(router: router, middleware: middleware, logger: logger)
        server = try HTTPServer(settings: serverSettings, loops: loops, logger: logger) { _ in application }
        port = server.port
        url = "\(settings.tls ? "https" : "http")://\(Self.urlHost(settings)):\(server.port)"
        loginControl.issuer.withLock { [url] in $0 = url }
    }

    /// Reads the certificate and its key, or generates both and writes the certificate's file. Returns the certificate as PEM,
    /// or `nil` for HTTP.
    private static func addTLS(
        to serverSettings: inout HTTPServerSettings,
        _ settings: KakaoSandboxSettings
    ) throws -> [UInt8]? {
        guard settings.tls else { return nil }
        if let file = settings.certificateFile, let keyFile = settings.privateKeyFile {
            let certificate = Array(try Data(contentsOf: URL(filePath: file)))
            let privateKey = Array(try Data(contentsOf: URL(filePath: keyFile)))
            serverSettings.tls = try TLSContext(certificateChain: certificate, privateKey: privateKey)
            return certificate
        }
        var names = [settings.name].compactMap(\.self)
        if SocketAddress(settings.host)?.isWildcard == false { names.append(settings.host) }
        let made = try SelfSignedCertificate(names: names)
        serverSettings.tls = try TLSContext(certificateChain: made.certificate, privateKey: made.privateKey)
        if let file = settings.certificateFile {
            // Atomically, so that a process that waits for the file never reads a partial one.
            try Data(made.certificate).write(to: URL(filePath: file), options: .atomic)
        }
        return made.certificate
    }

    /// Returns the host as it is written in a URL. A wildcard address becomes the loopback address.
    private static func urlHost(_ settings: KakaoSandboxSettings) -> String {
        let host = settings.name ?? settings.host
        guard let address = SocketAddress(host) else { return host }
        guard !address.isWildcard else { return address.isV6 ? "[::1]" : "127.0.0.1" }
        return address.isV6 ? "[\(host)]" : host
    }

    /// Begins to accept connections.
    package func start() {
        server.start()
    }

    /// Stops accepting connections, aborts responses that a fault delays, completes other requests within 2 seconds,
    /// and closes all connections.
    package func shutdown() async {
        delays.cancelAll()
        await server.shutdown(within: .seconds(2))
        await client.shutdown()
    }
}
