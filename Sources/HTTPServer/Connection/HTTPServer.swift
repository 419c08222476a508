internal import CLinux
package import EventLoop
internal import Glibc
package import Logging

/// A server for HTTP/1.1 on POSIX sockets: one listener, one set of connections and one set of handlers per loop.
///
/// The listeners share a port by `SO_REUSEPORT`: the kernel spreads connections over them, and a request is read, handled and
/// answered on one loop.
package final class HTTPServer: Sendable {
    let loopServers: [LoopServer]
    private let budget: BodyBudget
    /// The bytes of bodies that are held in memory, beyond the first 4 KiB of each.
    var heldBytes: Int { budget.count }
    /// The port it listens on: the kernel's choice, if the settings said 0.
    package let port: Int

    /// Binds and listens; requests are taken up by ``start()``.
    ///
    /// - Parameter makeApplication: Called once for each loop, so that what a handler needs can live on its loop.
    /// - Throws: ``SystemError`` when the address cannot be listened on, and whatever `makeApplication` throws.
    package init(
        settings: HTTPServerSettings,
        loops: EventLoopGroup,
        logger: Logger,
        makeApplication: (EventLoop) throws -> Application
    ) throws {
        if settings.port != 0 { try FileDescriptor.checkIsFree(settings.host, port: settings.port) }
        let limit = ConnectionLimit(
            maximum: settings.maximumConnections,
            perAddress: settings.maximumConnectionsPerAddress,
            proxies: settings.trustedProxies
        )
        let budget = BodyBudget(limit: max(settings.maximumHeldBytes, settings.maximumBodyBytes))
        var port = settings.port
        var loopServers: [LoopServer] = []
        for loop in loops.loops {
            let listener = try FileDescriptor.listening(on: settings.host, port: port)
            port = try listener.boundPort()
            let loopServer = LoopServer(
                loop: loop,
                listener: listener,
                settings: settings,
                application: try makeApplication(loop),
                limit: limit,
                budget: budget,
                logger: logger
            )
            loopServers.append(loopServer)
        }
        self.loopServers = loopServers
        self.budget = budget
        self.port = port
    }

    /// Begins to accept connections.
    package func start() {
        for server in loopServers {
            server.loop.execute { [loopServers] in
                server.others = loopServers.filter { $0 !== server }
                // The loop has a descriptor table of its own and this listener is new in it: epoll can only be out of memory.
                do { try server.start() } catch { preconditionFailure("a listener cannot be watched: \(error)") }
            }
        }
    }

    /// Has new connections use another certificate and key; those that are open keep theirs. Of a server for plain HTTP it is an
    /// error to ask.
    package func use(_ tls: TLSContext) {
        for server in loopServers {
            server.loop.execute { server.use(tls) }
        }
    }

    /// Stops accepting, lets every connection finish the request it has in hand, and closes what is left after `limit`.
    package func shutdown(within limit: Duration) async {
        await withTaskGroup(of: Void.self) { group in
            for server in loopServers {
                group.addTask { await Self.shutdown(server, within: limit) }
            }
        }
    }

    private static func shutdown(_ server: LoopServer, within limit: Duration) async {
        await withCheckedContinuation { continuation in
            server.loop.execute {
                let timer = server.loop.schedule(after: limit) { server.closeAll() }
                server.shutDown {
                    server.loop.cancel(timer)
                    continuation.resume()
                }
            }
        }
    }
}
