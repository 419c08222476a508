import CLinux
import EventLoop
import Glibc
import HTTPTypes
import LogOutput
import Logging
import Net

/// The part of a server that belongs to one loop: its listeners, connections and handlers.
final class LoopServer: @unchecked Sendable {
    // Confined to `loop`. The methods that others call check that; `application` never changes.

    /// The maximum number of connections accepted per tick: enough to keep up, few enough not to starve open
    /// connections.
    private static let acceptsPerTick = 32
    private static let shortestPause = Duration.milliseconds(50)
    private static let longestPause = Duration.seconds(1)
    private static let crowdedIdleTimeout = Duration.seconds(5)
    /// The interval at which the connections that may be closed are listed.
    private static let evictableInterval = Duration.milliseconds(100)
    /// The number of bytes of a header field that a log line shows.
    private static let shownOfField = 100

    /// The timeouts of the settings, in milliseconds.
    struct Timeouts {
        let header: UInt64
        let body: UInt64
        let idle: UInt64
        /// The same while the server has many connections.
        let crowdedIdle: UInt64
        let linger: UInt64
        let shortestIdle: UInt64

        fileprivate init(_ settings: HTTPServerSettings) {
            header = settings.headerTimeout.wholeMilliseconds
            body = settings.bodyTimeout.wholeMilliseconds
            idle = settings.idleTimeout.wholeMilliseconds
            crowdedIdle = min(idle, LoopServer.crowdedIdleTimeout.wholeMilliseconds)
            linger = settings.lingerTimeout.wholeMilliseconds
            shortestIdle = settings.shortestIdleTime.wholeMilliseconds
        }
    }

    let loop: EventLoop
    /// The current settings. ``apply(_:)`` replaces them.
    private(set) var settings: HTTPServerSettings
    let application: Application
    /// The requests that were answered on this loop.
    var requests: RequestCounts
    let encoder = ResponseEncoder()
    private(set) var timeouts: Timeouts
    let logger: Logger
    let budget: BodyBudget
    private let limit: ConnectionLimit
    /// The server's parts on its other loops.
    var others: [LoopServer] = []

    private let listeners: [Listener]
    /// Whether the loops take turns with the connections of these listeners, because the others have none of their own.
    private let sharesConnections: Bool
    /// The number of connections that were passed on.
    private var turn = 0
    private var isServing = false
    /// Whether the current request of each connection is its last, because the server is about to stop.
    private var isDraining = false
    private(set) var connections: [ObjectIdentifier: Connection] = [:]
    /// The connections that count towards the limit of their address. Empty without such a limit.
    private var counted: [SocketAddress.Network: [ObjectIdentifier: Connection]] = [:]
    private var unflushed: [Connection] = []
    /// The connections for whose input or requests the tick had no time.
    private var waiting = FairQueue<Connection>()
    private var pause = LoopServer.shortestPause
    private var isAccepting = false
    /// Whether the limit notifies this loop of the next free place.
    private var isWaitingForPlace = false
    /// The connections that may be closed to make room, the longest idle last, and since when each is idle. It is made when it is
    /// needed and may be out of date.
    private var evictable: [(id: ObjectIdentifier, idleSince: UInt64)] = []
    /// The time before which ``evictable`` is not made again.
    private var nextEvictable: UInt64 = 0
    /// The number of connections that were closed to make room for others.
    private(set) var evictions = 0
    /// The number of connections closed for their address since this was last logged, and the time at which it may be
    /// logged again.
    private var refused = 0
    private var nextRefusalNote: UInt64 = 0
    /// The lines about connections for which there is no memory, for example.
    private let setupFailures: RepeatedLine
    /// The lines about unreadable addresses of clients: one a minute, because such a proxy names none of its clients.
    private let unreadableAddresses: RepeatedLine
    /// Callbacks for the end of the last connection. Empty unless the server is shutting down.
    private var whenEmpty: [() -> Void] = []

    init(
        loop: EventLoop,
        listeners: [Listener],
        sharesConnections: Bool,
        settings: HTTPServerSettings,
        application: Application,
        limit: ConnectionLimit,
        budget: BodyBudget,
        logger: Logger
    ) {
        self.loop = loop
        self.listeners = listeners
        self.sharesConnections = sharesConnections
        self.settings = settings
        timeouts = Timeouts(settings)
        self.application = application
        requests = RequestCounts(routes: application.routeNames)
        self.limit = limit
        self.budget = budget
        self.logger = logger
        setupFailures = RepeatedLine(logger, .error)
        unreadableAddresses = RepeatedLine(logger, every: .seconds(60))
    }

    /// The number of bytes that a peer must send or take per body timeout, to restart that timeout.
    var bytesForBodyTime: Int { max(1, Int(timeouts.body) * settings.minimumBytesPerSecond / 1000) }

    /// The current time in seconds since 1970, for the `Date` field.
    var unixSeconds: Int { time(nil) }

    func start() throws {
        loop.preconditionOnLoop()
        isServing = true
        isAccepting = true
        for listener in listeners {
            // A retain cycle between loop and server, until `stopAccepting`.
            try listener.start(on: loop) { self.accept(listener) }
        }
    }

    // MARK: Accepting

    private func accept(_ listener: Listener) {
        for _ in 0..<Self.acceptsPerTick {
            if !limit.acquire() {
                // A place is made only for a connection that waits. The loop calls again when there is one.
                guard listener.hasWaiting else { return }
                guard evict(), limit.acquire() else { return waitForPlace() }
            }
            guard acceptOne(listener) else { return }
        }
    }

    /// Accepts a connection for a place that was acquired, or releases the place. Returns whether there may be more
    /// connections.
    private func acceptOne(_ listener: Listener) -> Bool {
        let socket: AcceptedSocket
        do throws(SystemError) {
            socket = try listener.accept()
        } catch {
            limit.release(nil)
            switch error.code {
            case EAGAIN, EINTR:
                break
            case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                pauseAccepting(error)
            default:
                // The connection ended before it was accepted (`accept(2)`). The listener is not affected.
                logger.debug("Connection not accepted", metadata: ["error": "\(error)"])
                return true
            }
            return false
        }
        pause = Self.shortestPause
        passOn(socket)
        return true
    }

    /// Starts a connection on the loop whose turn it is.
    private func passOn(_ socket: AcceptedSocket) {
        if sharesConnections { turn = (turn + 1) % (others.count + 1) }
        guard turn > 0 else { return admit(socket) }
        let server = others[turn - 1]
        server.loop.execute { server.admit(socket) }
    }

    /// Starts a connection. If its address has no place left, its longest idle connection is closed to make room. If
    /// none is idle on this loop, the other loops are asked.
    private func admit(_ socket: AcceptedSocket) {
        let address = socket.address
        if limit.assign(to: address) || closeIdle(of: address.network) && limit.assign(to: address) {
            start(socket)
        } else {
            admitWhenRoom(socket, asking: others[...])
        }
    }

    /// Starts a connection once one of the other loops has made room for it, or closes it if none can.
    private func admitWhenRoom(_ socket: AcceptedSocket, asking servers: ArraySlice<LoopServer>) {
        guard let server = servers.first else {
            limit.release(nil)
            if isServing { recordRefusal(socket.address) }
            return
        }
        server.loop.execute { [self] in
            let hasRoom = server.closeIdle(of: socket.address.network)
            loop.execute { [self] in
                // Another connection may have taken the place meanwhile.
                guard hasRoom, isServing, limit.assign(to: socket.address) else {
                    return admitWhenRoom(socket, asking: isServing ? servers.dropFirst() : [])
                }
                start(socket)
            }
        }
    }

    /// Lets new connections wait in the kernel's queue until one of this or another loop ends, or becomes idle.
    private func waitForPlace() {
        setAccepting(false)
        if !isWaitingForPlace {
            isWaitingForPlace = true
            limit.notify {
                self.loop.execute {
                    self.isWaitingForPlace = false
                    self.setAccepting(true)
                }
            }
        }
        for server in others { server.loop.execute { _ = server.evict() } }
        loop.schedule(after: Self.evictableInterval) { [weak self] in self?.setAccepting(true) }
    }

    /// Closes the connection of this loop that has been idle the longest, to make room for another. Connections of trusted proxies,
    /// and those on which Kakao has presented its key, remain. Returns whether there was one.
    private func evict() -> Bool {
        loop.preconditionOnLoop()
        while true {
            while let (id, idleSince) = evictable.last, idleSince + timeouts.shortestIdle <= loop.now {
                evictable.removeLast()
                guard let connection = connections[id], connection.isEvictable, connection.waitingSince == idleSince,
                    !connection.hasUnreadInput
                else { continue }
                evictions += 1
                connection.close()
                return true
            }
            // Sorting thousands of connections for each new one would cost more than serving it.
            guard loop.now >= nextEvictable else { return false }
            nextEvictable = loop.now + Self.evictableInterval.wholeMilliseconds
            evictable = connections.filter(\.value.isEvictable).map { ($0.key, $0.value.waitingSince) }
            evictable.sort { $0.idleSince > $1.idleSince }
        }
    }

    /// Closes a network's connection that has been idle the longest. Returns whether there was one.
    private func closeIdle(of network: SocketAddress.Network) -> Bool {
        loop.preconditionOnLoop()
        let idle = (counted[network] ?? [:]).values.filter { $0.isIdle && !$0.hasUnreadInput }
        guard let oldest = idle.min(by: { $0.waitingSince < $1.waitingSince }) else { return false }
        oldest.close()
        return true
    }

    private func start(_ socket: AcceptedSocket) {
        let address = socket.address
        guard let descriptor = socket.takeDescriptor() else { return }
        do {
            let connection = try Connection(server: self, descriptor: descriptor, remoteAddress: address)
            try connection.start()
            connections[ObjectIdentifier(connection)] = connection
            if isDraining { connection.drain() }
            if limit.counts(address) {
                counted[address.network, default: [:]][ObjectIdentifier(connection)] = connection
            }
        } catch {
            setupFailures.write("Connection setup failed", ["error": "\(error)"])
            limit.release(address)
        }
    }

    /// The idle timeout in milliseconds.
    var idleTimeout: UInt64 { limit.isCrowded ? timeouts.crowdedIdle : timeouts.idle }

    /// Removes a connection from the limit of its address, and from those that are closed to make room for others.
    func exempt(_ connection: Connection) {
        connection.isExempt = true
        guard removeCounted(connection) else { return }
        limit.exempt(connection.remoteAddress)
    }

    /// Removes a connection from ``counted``. Returns whether it was counted.
    private func removeCounted(_ connection: Connection) -> Bool {
        let network = connection.remoteAddress.network
        guard counted[network]?.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return false }
        if counted[network]?.isEmpty == true { counted[network] = nil }
        return true
    }

    /// Logs closed connections, at most once a second, because an address that opens too many usually does so often.
    private func recordRefusal(_ address: SocketAddress) {
        refused += 1
        guard loop.now >= nextRefusalNote else { return }
        nextRefusalNote = loop.now + 1000
        logger.warning(
            "Connections closed: too many from one address",
            metadata: ["remote": "\(address.host)", "closed": "\(refused)"]
        )
        refused = 0
    }

    /// Counts a request whose client a trusted proxy has not named.
    func recordUnreadableAddress(_ value: String, in field: ForwardedField, from proxy: SocketAddress) {
        requests.recordUnreadableAddress()
        unreadableAddresses.write(
            "Client address unreadable: the request counts as its proxy's. Let the proxy append the client's address to \(field.name.rawName), or set http.forwarded_field",
            [
                "remote": "\(proxy.host)",
                // The end, which the proxy wrote.
                "value": "\(String(decoding: value.utf8.suffix(Self.shownOfField), as: UTF8.self))",
            ]
        )
    }

    /// Stops accepting for a while, for lack of descriptors or memory. New connections wait in the kernel's queue; open
    /// ones are served.
    private func pauseAccepting(_ error: SystemError) {
        logger.warning("Accepting paused", metadata: ["error": "\(error)", "for": "\(pause)"])
        setAccepting(false)
        loop.schedule(after: pause) { [weak self] in self?.setAccepting(true) }
        pause = min(pause * 2, Self.longestPause)
    }

    private func setAccepting(_ accepts: Bool) {
        guard isAccepting != accepts else { return }
        isAccepting = accepts
        for listener in listeners { listener.setAccepting(accepts, on: loop) }
    }

    // MARK: Connections

    /// Flushes `connection` at the end of this tick, so that all output of the tick is sent in one system call.
    func needsFlush(_ connection: Connection) {
        if unflushed.isEmpty { loop.atEndOfTick { self.flushAll() } }
        if unflushed.last !== connection { unflushed.append(connection) }
    }

    private func flushAll() {
        var connections: [Connection] = []
        swap(&connections, &unflushed)
        for connection in connections { connection.flush() }
        // A flush may close its connection or respond to another request. That output is flushed in the next tick; the
        // array is reused.
        connections.removeAll(keepingCapacity: true)
        if unflushed.isEmpty { swap(&connections, &unflushed) }
    }

    /// The number of connections that wait for their turn.
    var waitingCount: Int { waiting.count }

    /// Lets a connection wait for its turn (``Connection/takeTurn()``). The networks of the clients share the loop's time.
    func letWait(_ connection: Connection, of network: SocketAddress.Network) {
        waiting.append(connection, of: network)
        loop.add(self)
    }

    func closed(_ connection: Connection) {
        guard connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        limit.release(removeCounted(connection) ? connection.remoteAddress : nil)
        if connections.isEmpty { finishShutDown() }
    }

    func apply(_ settings: HTTPServerSettings) {
        loop.preconditionOnLoop()
        precondition((settings.tls == nil) == (self.settings.tls == nil), "TLS cannot be switched on or off")
        self.settings = settings
        timeouts = Timeouts(settings)
    }

    // MARK: End

    /// Goes on accepting, and tells each client to close its connection after the current or next request.
    func drain() {
        loop.preconditionOnLoop()
        isDraining = true
        for connection in connections.values { connection.drain() }
    }

    /// Stops accepting. What waits in the queue of a listener of its own is accepted before.
    func stopAccepting() {
        loop.preconditionOnLoop()
        for listener in listeners {
            // The queue of a socket that remains waits for the next process.
            while !listener.remains, limit.acquire() { guard acceptOne(listener) else { break } }
            listener.close(on: loop)
        }
    }

    /// Lets each connection finish its current request, after ``stopAccepting()``.
    ///
    /// - Parameter done: Called once, when the last connection has ended.
    func shutDown(_ done: @escaping () -> Void) {
        loop.preconditionOnLoop()
        isServing = false
        // The parts retain each other.
        others = []
        whenEmpty.append(done)
        for connection in connections.values { connection.shutDown() }
        if connections.isEmpty { finishShutDown() }
    }

    private func finishShutDown() {
        guard !whenEmpty.isEmpty else { return }
        // A connection that closed after its last output may still be in it, and it holds this server.
        unflushed = []
        for done in whenEmpty { done() }
        whenEmpty = []
    }

    /// Closes the remaining connections.
    func closeAll() {
        loop.preconditionOnLoop()
        for connection in connections.values { connection.close() }
    }
}

extension LoopServer: WaitingWork {
    /// Lets the connection whose turn it is go on. Those that have closed meanwhile take no turn.
    func runNext() -> Bool {
        while let (connection, network) = waiting.popNext() {
            guard connection.isOpen else { continue }
            let start = ProcessorTime.ofThread
            connection.takeTurn()
            loop.runJobs()
            waiting.charge(ProcessorTime.ofThread - start, to: network)
            break
        }
        return !waiting.isEmpty
    }
}
