internal import EventLoop
internal import Glibc
internal import Locking

/// Stands between the servers under test and PostgreSQL, counts the statements that they execute, and plays faults.
///
/// Each server has a port of its own, so that the proxy knows which one to stop.
final class PostgresProxy: @unchecked Sendable {
    // `shared` is locked. Everything else is touched on the loop only, which every method checks or enters.

    /// The state that the driver arms and reads.
    private struct Shared {
        var counts: [String: Int] = [:]
        var total = 0
        var record: [(point: Point, key: StatementKey)] = []
        var armed: [ArmedFault] = []
        var hits: [(armed: ArmedFault, key: StatementKey)] = []
        /// Faults that are going on.
        var active = 0
        var processes: [Int: pid_t] = [:]
        var lease = Duration.seconds(1)
    }

    /// Statements of a run that are recorded: far beyond what a run has.
    private static let maximumRecord = 20_000

    let loop: EventLoop
    /// PostgreSQL's Unix socket.
    let upstream: String
    /// The ports of the servers, by number.
    let ports: [Int]
    /// While a commit is late, a request to cancel it would be no delay but an end.
    private(set) var dropsCancelRequests = false

    private let shared = Locked(Shared())
    private var listeners: [ProxyListener] = []
    private var connections: [ObjectIdentifier: ProxiedConnection] = [:]
    /// Servers that cannot reach PostgreSQL, and how.
    private var hanging: Set<Int> = []
    private var isRefusing = false

    /// - Parameters:
    ///   - upstream: The path of PostgreSQL's Unix socket.
    ///   - servers: How many ports it listens on.
    init(loop: EventLoop, upstream: String, servers: Int) throws {
        self.loop = loop
        self.upstream = upstream
        listeners = try (0..<servers).map { _ in try ProxyListener() }
        ports = listeners.map(\.port)
    }

    /// Begins to accept.
    func start() {
        loop.execute {
            for (server, listener) in self.listeners.enumerated() {
                let descriptor = listener.descriptor.rawValue
                listener.registration = try? self.loop.register(descriptor, interest: .read) { [weak self] _ in
                    self?.accept(from: descriptor, server: server)
                }
            }
        }
    }

    /// Stops accepting and resets every connection.
    func shutdown() {
        loop.execute {
            for listener in self.listeners {
                if let registration = listener.registration { self.loop.deregister(registration) }
            }
            self.listeners = []
            for connection in self.connections.values { connection.reset() }
        }
    }

    // MARK: The driver's side

    /// Says which process a server is, for SIGSTOP and SIGKILL.
    func setProcess(_ process: pid_t?, of server: Int) {
        shared.withLock { $0.processes[server] = process }
    }

    /// Begins a run: counts anew, and arms its faults.
    func begin(lease: Duration, _ armed: [ArmedFault]) {
        shared.withLock { shared in
            shared.counts = [:]
            shared.total = 0
            shared.record = []
            shared.armed = armed
            shared.hits = []
            shared.active = 0
            shared.lease = lease
        }
    }

    /// Disarms the faults that were not hit.
    func disarm() {
        shared.withLock { $0.armed = [] }
    }

    /// The statements executed since the run began, in order.
    var record: [(point: Point, key: StatementKey)] { shared.withLock { $0.record } }

    /// The statement that a fault of this run befell.
    func hit(by fault: ArmedFault) -> StatementKey? {
        shared.withLock { $0.hits.first { $0.armed == fault }?.key }
    }

    /// Whether a fault is going on.
    var isActive: Bool { shared.withLock { $0.active > 0 } }

    // MARK: The connections' side

    func duration(of fault: ProxyFault?) -> Duration {
        shared.withLock { $0.lease } * (fault?.leases ?? 0)
    }

    func remove(_ connection: ProxiedConnection) {
        connections[ObjectIdentifier(connection)] = nil
    }

    func faultEnded() {
        dropsCancelRequests = false
        shared.withLock { $0.active = max(0, $0.active - 1) }
    }

    /// Counts the statements of a group. Returns the fault that befalls it, of which the connection plays its part.
    func observe(_ statements: [StatementKey], from connection: ProxiedConnection) -> ProxyFault? {
        loop.preconditionOnLoop()
        let fault = shared.withLock { shared -> ProxyFault? in
            var fault: ProxyFault?
            for key in statements {
                shared.total += 1
                let occurrence = shared.counts[key.digest, default: 0] + 1
                shared.counts[key.digest] = occurrence
                if shared.record.count < Self.maximumRecord {
                    shared.record.append((Point(digest: key.digest, occurrence: occurrence), key))
                }
                let index = shared.armed.firstIndex { armed in
                    armed.point.digest == "*"
                        ? shared.total == armed.point.occurrence
                        : armed.point == Point(digest: key.digest, occurrence: occurrence)
                }
                guard let index, fault == nil else { continue }
                let armed = shared.armed.remove(at: index)
                fault = armed.fault
                shared.hits.append((armed, key))
                shared.active += 1
            }
            return fault
        }
        if let fault { play(fault, on: connection) }
        return fault
    }

    /// Does what concerns more than the one connection.
    private func play(_ fault: ProxyFault, on connection: ProxiedConnection) {
        let process = shared.withLock { $0.processes[connection.server] }
        let duration = duration(of: fault)
        switch fault.kind {
        case .cutBefore:
            faultEnded()
        case .cutAfter, .cutInside:
            break
        case .lateCommit:
            dropsCancelRequests = true
        case .stop:
            guard let process else { return faultEnded() }
            kill(process, SIGSTOP)
            loop.schedule(after: duration) {
                kill(process, SIGCONT)
                self.faultEnded()
            }
        case .kill:
            if let process { kill(process, SIGKILL) }
            faultEnded()
        case .hang:
            setHanging(connection.server, true)
            loop.schedule(after: duration) {
                self.setHanging(connection.server, false)
                self.faultEnded()
            }
        case .refuse:
            isRefusing = true
            // The connection is in the middle of its group.
            loop.schedule(after: .zero) { for connection in self.connections.values { connection.reset() } }
            loop.schedule(after: duration) {
                self.isRefusing = false
                self.faultEnded()
            }
        }
    }

    private func setHanging(_ server: Int, _ isHanging: Bool) {
        if isHanging { hanging.insert(server) } else { hanging.remove(server) }
        for connection in connections.values where connection.server == server { connection.setPaused(isHanging) }
    }

    private func accept(from listener: Int32, server: Int) {
        while let descriptor = Socket.accept(listener) {
            if isRefusing {
                Socket.resetOnClose(descriptor.rawValue)
                continue
            }
            guard let connection = try? ProxiedConnection(descriptor, server: server, proxy: self) else { continue }
            connections[ObjectIdentifier(connection)] = connection
            if hanging.contains(server) { connection.setPaused(true) }
        }
    }
}

/// A fault, and where it strikes.
struct ArmedFault: Hashable, Sendable {
    let point: Point
    let fault: ProxyFault
}

/// A port that is listened on.
private final class ProxyListener {
    // Touched on the proxy's loop only.
    let descriptor: FileDescriptor
    let port: Int
    var registration: Registration?

    init() throws {
        descriptor = try Socket.listen()
        port = try Socket.port(of: descriptor.rawValue)
    }
}
