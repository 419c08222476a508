import CLinux
package import EventLoop
import Glibc
package import Logging
import Net

/// An HTTP/1.1 server on POSIX sockets. Each loop has its own connections and handlers: a request is read, handled and answered on
/// one loop.
///
/// Each loop has a listener of its own, too. They share a port by `SO_REUSEPORT`: the kernel distributes connections over them. If a
/// service manager has passed on sockets that listen (`sd_listen_fds(3)`), which remain when this process ends, the loop that has
/// such a socket accepts its connections, and the loops take turns with them.
package final class HTTPServer: Sendable {
    let loopServers: [LoopServer]
    private let limit: ConnectionLimit
    private let budget: BodyBudget
    /// The number of bytes held in memory for requests, without the first 4 KiB of each connection.
    var heldBytes: Int { budget.count }
    /// The port it listens on: the kernel's choice if the settings say 0.
    package let port: Int

    /// Binds and listens. Connections are accepted after ``start()``.
    ///
    /// - Parameters:
    ///   - sockets: The sockets that listen at the address of the settings, of which the server becomes the owner. Empty: it
    ///     opens some itself.
    ///   - makeApplication: Called once per loop, so that a handler's dependencies can be confined to its loop.
    /// - Throws: ``SystemError`` if the server cannot listen on the address, and any error from `makeApplication`.
    package init(
        settings: HTTPServerSettings,
        sockets: [Int32] = [],
        loops: EventLoopGroup,
        logger: Logger,
        makeApplication: (EventLoop) throws -> Application
    ) throws {
        let isGiven = !sockets.isEmpty
        if settings.port != 0, !isGiven { try FileDescriptor.checkIsFree(settings.host, port: settings.port) }
        let limit = ConnectionLimit(
            maximum: settings.maximumConnections,
            perAddress: settings.maximumConnectionsPerAddress,
            proxies: settings.trustedProxies
        )
        let budget = BodyBudget(limit: settings.bodyBudget)
        var port = settings.port
        var loopServers: [LoopServer] = []
        for (index, loop) in loops.loops.enumerated() {
            var listeners: [Listener] = []
            if isGiven {
                for number in stride(from: index, to: sockets.count, by: loops.loops.count) {
                    let descriptor = try FileDescriptor.listening(sockets[number])
                    port = try descriptor.boundPort()
                    listeners.append(Listener(descriptor, remains: true))
                }
            } else {
                let descriptor = try FileDescriptor.listening(on: settings.host, port: port)
                port = try descriptor.boundPort()
                listeners.append(Listener(descriptor, remains: false))
            }
            let loopServer = LoopServer(
                loop: loop,
                listeners: listeners,
                sharesConnections: isGiven,
                settings: settings,
                application: try makeApplication(loop),
                limit: limit,
                budget: budget,
                logger: logger
            )
            loopServers.append(loopServer)
        }
        self.loopServers = loopServers
        self.limit = limit
        self.budget = budget
        self.port = port
    }

    /// Returns the requests that were answered on all loops.
    package func requests() async -> RequestCounts {
        var total = RequestCounts(routes: loopServers[0].application.routeNames)
        for server in loopServers { total += await server.loop.result { server.requests } }
        return total
    }

    /// The connections of a server at a time.
    package struct Connections: Sendable {
        package var open = 0
        package var limit = 0
        /// Those that wait because the loops have no time.
        package var waiting = 0
        /// Those that were closed to make room for others, since the start.
        package var evicted = 0
    }

    /// Returns the numbers of connections on all loops.
    package func connections() async -> Connections {
        let first = loopServers[0]
        var connections = Connections(open: limit.count)
        connections.limit = await first.loop.result { first.settings.maximumConnections }
        for server in loopServers {
            let (waiting, evicted) = await server.loop.result { (server.waitingCount, server.evictions) }
            connections.waiting += waiting
            connections.evicted += evicted
        }
        return connections
    }

    /// Returns when the certificate expires, in seconds since 1970; `nil` without one.
    package func certificateExpiry() async -> Int? {
        let server = loopServers[0]
        return await server.loop.result { server.settings.tls?.certificateValidity?.upperBound }
    }

    /// Starts to accept connections.
    package func start() {
        for server in loopServers {
            server.loop.execute { [loopServers] in
                server.others = loopServers.filter { $0 !== server }
                // The listener is new in the loop's own epoll set, so registering it only fails if epoll is out of
                // memory.
                do { try server.start() } catch { preconditionFailure("cannot watch a listener: \(error)") }
            }
        }
    }

    /// Applies other limits and timeouts, and another certificate and key. Open connections keep their certificate and the
    /// limits of their heads. Returns once all loops use them.
    ///
    /// The address and the trusted proxies remain. Switching TLS or the limit of connections per address on or off is a
    /// programming error.
    package func apply(_ settings: HTTPServerSettings) async {
        limit.apply(maximum: settings.maximumConnections, perAddress: settings.maximumConnectionsPerAddress)
        budget.apply(limit: settings.bodyBudget)
        for server in loopServers {
            await server.loop.result { server.apply(settings) }
        }
    }

    /// Tells clients to close their connections, by `Connection: close` in each response from now on. New ones are accepted, too,
    /// because a balancer needs time to notice that the server is about to stop.
    package func drain() {
        for server in loopServers { server.loop.execute { server.drain() } }
    }

    /// Stops accepting, lets every connection finish its current request, and closes the remaining ones after `limit`.
    package func shutdown(within limit: Duration) async {
        // Before any connection ends: a loop may pass its last ones on.
        for server in loopServers {
            await server.loop.result {
                server.drain()
                server.stopAccepting()
            }
        }
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
