import Endpoints
import EventLoop
import HTTPServer
import Identity
import Logging
import Runtime
import ServiceKit
import Status

/// The HTTP servers, one for each port.
///
/// Without `http.operator_port`, one server serves all clients. With it, a second one serves operators at a port of their
/// own; there, all operations are offered. The first one then offers only what Kakao and apps call. Each has connections
/// and memory of its own, so that a flood at the public port leaves operators theirs.
struct HTTPServers: Sendable {
    /// The server that Kakao and apps call.
    let main: HTTPServer
    /// The server that operators call; `nil` if they call the other one.
    let operators: HTTPServer?
    private let loopCount: Int

    /// Binds the ports. Connections are accepted after ``start()``.
    ///
    /// - Throws: ``SettingsError`` for unusable files; ``SystemError`` when a server cannot listen on its address.
    init(
        _ settings: Settings,
        _ context: ServerContext,
        _ features: [any Feature],
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
        func server(_ settings: HTTPServerSettings, _ router: (Routes) -> Router) throws -> HTTPServer {
            try HTTPServer(settings: settings, loops: loops, logger: logger) { loop in
                guard let routes = routes.first(where: { $0.loop === loop })?.routes else {
                    preconditionFailure("each loop has routes")
                }
                let accessLog = AccessLog(logger: logger, quietPaths: StatusFeature.quietPaths, mask: context.mask)
                return Application(
                    router: router(routes),
                    middleware: [accessLog, context.gate],
                    logger: logger,
                    suggest: Suggestion.closest
                )
            }
        }
        main = try server(mainSettings) { operatorSettings == nil ? $0.router : $0.publicRouter }
        operators = try operatorSettings.map { try server($0, \.router) }
    }

    /// Applies reloaded settings.
    ///
    /// - Parameter server: The result of ``Settings/httpServer()``.
    func apply(_ server: HTTPServerSettings, _ settings: Settings, logger: Logger) async {
        var server = server
        Self.limitConnections(&server, settings, loopCount: loopCount, logger)
        for port in all { await port.apply(server) }
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
    var all: [HTTPServer] { [main] + [operators].compactMap(\.self) }

    /// Starts to accept connections.
    func start() {
        for server in all { server.start() }
    }

    /// Stops accepting, lets every connection finish its current request, and closes the remaining ones after `limit`.
    func shutdown(within limit: Duration) async {
        await withDiscardingTaskGroup { group in
            for server in all { group.addTask { await server.shutdown(within: limit) } }
        }
    }
}
