import EventLoop
import Glibc
import Locking
import Net

/// A proxy between the servers under test and PostgreSQL that counts executed statements and injects faults.
///
/// Each server has its own port, by which the proxy knows which server to stop.
final class PostgresProxy: @unchecked Sendable {
    // `shared` is protected by its lock. All other state is used only on the loop, which every method checks or enters.

    /// The state that the driver sets and reads.
    private struct Shared {
        var counts: [String: Int] = [:]
        var total = 0
        var record: [(point: Point, key: StatementKey)] = []
        var armed: [ArmedFault] = []
        var hits: [(armed: ArmedFault, key: StatementKey)] = []
        /// The number of faults that are in progress.
        var active = 0
        var processes: [Int: pid_t] = [:]
        var lease = Duration.seconds(1)
    }

    /// The maximum number of recorded statements, far more than a run executes.
    private static let maximumRecord = 20_000

    let loop: EventLoop
    /// The path of PostgreSQL's Unix socket.
    let upstream: String
    /// Whether cancel requests are dropped. During a late commit, one would abort the commit instead of delaying it.
    private(set) var dropsCancelRequests = false

    private let shared = Locked(Shared())
    /// The listeners of the servers, by number.
    private let listeners: [ProxyListener]
    private var connections: [ObjectIdentifier: ProxiedConnection] = [:]
    /// The servers whose connections hang.
    private var hanging: Set<Int> = []
    private var isRefusing = false

    /// - Parameters:
    ///   - upstream: The path of PostgreSQL's Unix socket.
    ///   - servers: The number of servers, each of which gets its own port.
    init(loop: EventLoop, upstream: String, servers: Int) throws {
        self.loop = loop
        self.upstream = upstream
        listeners = try (0..<servers).map { _ in try ProxyListener(loop: loop) }
    }

    /// The ports of the servers, by number.
    var ports: [Int] { listeners.map(\.port) }

    /// Begins to accept connections.
    func start() {
        loop.execute {
            for (server, listener) in self.listeners.enumerated() {
                listener.start { [weak self] in self?.accept($0, from: server) }
            }
        }
    }

    /// Stops accepting connections and resets the existing ones.
    func shutdown() {
        loop.execute {
            for listener in self.listeners { listener.stop() }
            for connection in self.connections.values { connection.reset() }
        }
    }

    // MARK: The driver's side

    /// Sets the process id of a server, for SIGSTOP and SIGKILL.
    func setProcess(_ process: pid_t?, of server: Int) {
        shared.withLock { $0.processes[server] = process }
    }

    /// Starts a run: resets the counts and arms the faults.
    func startRun(lease: Duration, _ armed: [ArmedFault]) {
        shared.withLock { $0 = Shared(armed: armed, processes: $0.processes, lease: lease) }
    }

    /// Disarms the faults that were not hit.
    func disarm() {
        shared.withLock { $0.armed = [] }
    }

    /// The statements executed since the run began, in order.
    var record: [(point: Point, key: StatementKey)] { shared.withLock { $0.record } }

    /// Returns the statement at which a fault of this run struck; `nil` if it has not.
    func hit(by fault: ArmedFault) -> StatementKey? {
        shared.withLock { $0.hits.first { $0.armed == fault }?.key }
    }

    /// Whether a fault is in progress.
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

    /// Counts the statements of a group. Returns the fault that strikes at the group; the connection carries out its
    /// part of it.
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
        if let fault { inject(fault, on: connection) }
        return fault
    }

    /// Carries out the part of a fault that concerns more than one connection.
    private func inject(_ fault: ProxyFault, on connection: ProxiedConnection) {
        let process = shared.withLock { $0.processes[connection.server] }
        let duration = duration(of: fault)
        switch fault.kind {
        case .cutBefore:
            faultEnded()
        case .cutAfter, .cutInside, .requestBefore, .requestInside, .requestAfter, .responseInside:
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
            // Deferred, because the connection is in the middle of handling its group.
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

    private func accept(_ client: consuming FileDescriptor, from server: Int) {
        guard !isRefusing else { return client.resetOnClose() }
        guard let connection = try? ProxiedConnection(client, server: server, proxy: self) else { return }
        connections[ObjectIdentifier(connection)] = connection
        if hanging.contains(server) { connection.setPaused(true) }
    }
}

/// A fault, and the point at which it strikes.
struct ArmedFault: Hashable, Sendable {
    let point: Point
    let fault: ProxyFault
}
