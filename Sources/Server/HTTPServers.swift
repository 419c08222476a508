import Endpoints
import EventLoop
import HTTPServer
import Identity
import Locking
import Logging
package import Net
import Runtime
import ServiceKit
import Settings
import Status

/// The HTTP servers, one for each port.
///
/// Without `http.operator_port`, one server serves all clients. With it, a second one serves operators at a port of their
/// own; there, all operations are offered. The first one then offers only what Kakao and apps call. Each has connections
/// and memory of its own, so that a flood at the public port leaves operators theirs. A development
/// server has a further port, over HTTPS, since phones call no other.
struct HTTPServers: Sendable {
    /// The server that Kakao and apps call.
    let main: HTTPServer
    /// The server that operators call; `nil` if they call the other one.
    let operators: HTTPServer?
    /// The server that answers over HTTPS what ``main`` answers; `nil` if there is none.
    let secure: HTTPServer?
    private let secureTLS: TLSContext?
    private let loopCount: Int
    private let hasStarted = Locked(false)

    /// Binds the ports. Connections are accepted after ``start()``.
    ///
    /// - Parameters:
    ///   - securePort: A further port; `nil` for none.
    ///   - serviceManager: The service manager, whose sockets are used instead of ports that it listens on.
    /// - Throws: ``SettingsError`` for unusable files, and for an address on which a server cannot listen.
    init(
        _ settings: Settings,
        _ context: ServerContext,
        _ features: [any Feature],
        securePort: SecurePort?,
        serviceManager: ServiceManager,
        loops: EventLoopGroup,
        logger: Logger
    ) throws {
        var mainSettings = try settings.httpServer()
        loopCount = loops.loops.count
        Self.limitConnections(&mainSettings, settings, loopCount: loopCount, logger)
        let operatorSettings = settings.operatorServer(mainSettings)
        let routes = context.loops.map { loop in
            var routes = Routes(
                context.identity.authenticator(loop),
                public: operatorSettings == nil ? nil : context.identity.authenticator(loop, admitsOperators: false),
                recordingIn: loop.audit
            )
            for feature in features { feature.addRoutes(to: &routes, loop) }
            return (loop: loop.loop, routes: routes)
        }
        let logins = "Logins and tokens stay at \(settings.kakao.authURL), with Kakao's keys."
        func server(_ settings: HTTPServerSettings, _ router: (Routes) -> Router) throws -> HTTPServer {
            let sockets = serviceManager.sockets(at: settings.port)
            return try HTTPServer(settings: settings, sockets: sockets, loops: loops, logger: logger) { loop in
                guard let routes = routes.first(where: { $0.loop === loop })?.routes else {
                    preconditionFailure("each loop has routes")
                }
                let accessLog = AccessLog(logger: logger, quietPaths: StatusFeature.quietPaths, mask: context.mask)
                return Application(
                    router: router(routes),
                    middleware: [accessLog, context.gate],
                    logger: logger,
                    suggest: Suggestion.closest,
                    elsewhere: { Self.pathsOfLogins.contains($0) ? logins : nil }
                )
            }
        }
        let mainRouter = { (routes: Routes) in operatorSettings == nil ? routes.router : routes.publicRouter }
        main = try settings.listeningAddress.reportingFailures { try server(mainSettings, mainRouter) }
        operators = try operatorSettings.flatMap { operatorSettings in
            try settings.operatorListeningAddress?.reportingFailures { try server(operatorSettings, \.router) }
        }
        secureTLS = securePort?.tls
        secure = try securePort.map { securePort in
            var secureSettings = mainSettings
            secureSettings.port = securePort.port
            secureSettings.tls = securePort.tls
            return try securePort.address(settings.http.host).reportingFailures {
                try server(secureSettings, mainRouter)
            }
        }
    }

    /// The paths of Kakao's authorization server, which clients may ask for here after all hosts were replaced by this server's.
    private static let pathsOfLogins: Set = [
        "/oauth/authorize", "/oauth/token", "/oauth/logout", "/oauth/tokeninfo", "/.well-known/jwks.json",
        "/.well-known/openid-configuration",
    ]

    /// Applies reloaded settings.
    ///
    /// - Parameter server: The result of ``Settings/httpServer()``.
    func apply(_ server: HTTPServerSettings, _ settings: Settings, logger: Logger) async {
        var server = server
        Self.limitConnections(&server, settings, loopCount: loopCount, logger)
        for port in [main] + [operators].compactMap(\.self) { await port.apply(server) }
        server.tls = secureTLS
        await secure?.apply(server)
    }

    /// Lowers the number of connections to what the limit of open files allows, which is raised as far as necessary.
    private static func limitConnections(
        _ server: inout HTTPServerSettings,
        _ settings: Settings,
        loopCount: Int,
        _ logger: Logger
    ) {
        let files = settings.openFiles(loopCount: loopCount)
        let limit = files.raiseLimit()
        server.maximumConnections = files.connections(limit: limit)
        guard limit < files.needed else { return }
        logger.warning(
            "The limit of open files is low: raise it (ulimit -Hn, LimitNOFILE=)",
            metadata: [
                "limit": "\(limit)", "needed": "\(files.needed)", "max_connections": "\(server.maximumConnections)",
            ]
        )
    }

    /// The servers of all ports.
    var all: [HTTPServer] { [main] + [operators, secure].compactMap(\.self) }

    /// Starts to accept connections, once. Returns whether this call did.
    func start() -> Bool {
        let isFirst = hasStarted.withLock { hasStarted in
            defer { hasStarted = true }
            return !hasStarted
        }
        if isFirst { for server in all { server.start() } }
        return isFirst
    }

    /// Tells clients to close their connections. New ones are accepted, too.
    func drain() {
        for server in all { server.drain() }
    }

    /// Stops accepting, lets every connection finish its current request, and closes the remaining ones after `limit`.
    func shutdown(within limit: Duration) async {
        await withDiscardingTaskGroup { group in
            for server in all { group.addTask { await server.shutdown(within: limit) } }
        }
    }
}

/// A further port, which answers over HTTPS what the port answers that Kakao and apps call.
package struct SecurePort: Sendable {
    let port: Int
    let tls: TLSContext
    private let option: String

    /// - Parameters:
    ///   - port: The port at `http.host`; 0 for any free one.
    ///   - option: The option that chooses it, for messages.
    ///   - tls: The certificate and its key, which a reload does not change.
    package init(port: Int, option: String, tls: TLSContext) {
        self.port = port
        self.option = option
        self.tls = tls
    }

    func address(_ host: String) -> ListeningAddress {
        ListeningAddress(host: host, port: port, hostSetting: "http.host", portSetting: option)
    }
}
