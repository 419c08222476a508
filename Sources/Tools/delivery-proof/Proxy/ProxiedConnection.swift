import DequeModule
import EventLoop

/// A connection from a server under test, and the corresponding connection to PostgreSQL.
///
/// The client's messages are held until a group, which ends with a sync, is complete. Its statements are known then,
/// and the proxy decides about faults. PostgreSQL's output is split at `ReadyForQuery`, which ends the response to each
/// group.
final class ProxiedConnection {
    // Used only on the proxy's loop.

    /// The part of a group's response that the client receives before its connection is reset.
    private enum Share {
        case nothing, half
    }

    /// The messages up to a sync, or to a simple query.
    private struct Group {
        var bytes: [UInt8] = []
        /// The executed statements, in order.
        var statements: [StatementKey] = []
        /// The offset of the last message, which is the sync.
        var lastMessage = 0
    }

    private enum Phase {
        /// The startup message is pending. Can transition to `open`, `closed`.
        case starting
        /// Both directions are forwarded. Can transition to `detached`, `closed`.
        case open
        /// The client is disconnected, and the commit of a group is pending. Can transition to `closed`.
        case detached
        case closed
    }

    private static let cancelRequest: UInt32 = 80_877_102
    private static let encryptionRequests: ClosedRange<UInt32> = 80_877_103...80_877_104
    private static let readyForQuery = UInt8(ascii: "Z")

    /// The number of the server under test that opened the connection.
    let server: Int
    private unowned let proxy: PostgresProxy
    private let loop: EventLoop
    private var client: ProxyStream?
    private var backend: ProxyStream?
    private var phase = Phase.starting
    private var fromClient = MessageSplitter()
    private var fromBackend = MessageSplitter()
    /// Prepared statements and portals, by name.
    private var prepared: [String: StatementKey] = [:]
    private var portals: [String: StatementKey] = [:]
    private var group = Group()
    /// The groups in flight, each with the part of its response that the client receives; `nil` for the whole response.
    private var unanswered = Deque<Share?>()
    /// The response to the first of ``unanswered``, if it is withheld.
    private var withheld: [UInt8] = []
    private var isPaused = false

    init(_ descriptor: consuming FileDescriptor, server: Int, proxy: PostgresProxy) throws {
        self.server = server
        self.proxy = proxy
        loop = proxy.loop
        let client = ProxyStream(descriptor, loop: loop)
        self.client = client
        client.onInput = { [unowned self] in self.clientSent($0) }
        try client.start()
    }

    // MARK: Control

    /// Stops or resumes both directions.
    func setPaused(_ isPaused: Bool) {
        self.isPaused = isPaused
        client?.setPaused(isPaused)
        if phase != .detached { backend?.setPaused(isPaused) }
    }

    /// Resets the client's connection, and closes the one to PostgreSQL.
    func reset() {
        resetClient()
        close()
    }

    private func resetClient() {
        client?.close(byReset: true)
        client = nil
    }

    private func close() {
        guard phase != .closed else { return }
        phase = .closed
        client?.close()
        backend?.close()
        client = nil
        backend = nil
        proxy.remove(self)
    }

    // MARK: From the client

    private func clientSent(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return close() }
        fromClient.append(bytes)
        do {
            while phase == .starting || phase == .open,
                let message = try fromClient.next(hasType: phase != .starting)
            {
                if phase == .starting { startUp(message) } else { received(message) }
            }
        } catch {
            reset()
        }
    }

    private func startUp(_ message: PostgresMessage) {
        let code = message.body.prefix(4).reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
        if Self.encryptionRequests.contains(code) {
            client?.send(CollectionOfOne(UInt8(ascii: "N")))
            return
        }
        if code == Self.cancelRequest {
            if !proxy.dropsCancelRequests { connect()?.send(message.bytes) }
            backend?.closeAfterOutput()
            backend = nil
            return close()
        }
        guard let backend = connect() else { return reset() }
        phase = .open
        unanswered.append(nil)
        backend.send(message.bytes)
    }

    private func connect() -> ProxyStream? {
        guard let descriptor = Socket.connect(path: proxy.upstream) else { return nil }
        let backend = ProxyStream(descriptor, loop: loop)
        backend.onInput = { [unowned self] in self.backendSent($0) }
        guard (try? backend.start()) != nil else { return nil }
        self.backend = backend
        return backend
    }

    private func received(_ message: PostgresMessage) {
        switch message.type {
        case UInt8(ascii: "P"):
            let strings = message.strings(2)
            if strings.count == 2 { prepared[strings[0]] = StatementKey(sql: strings[1]) }
            hold(message)
        case UInt8(ascii: "B"):
            let strings = message.strings(2)
            if strings.count == 2 { portals[strings[0]] = prepared[strings[1]] }
            hold(message)
        case UInt8(ascii: "E"):
            if let name = message.strings(1).first, let key = portals[name] { group.statements.append(key) }
            hold(message)
        case UInt8(ascii: "Q"):
            // The beginning of a session is no point: connections are opened at any time.
            group.statements += message.strings(1).map { StatementKey(sql: $0) }.filter { !$0.beginsSession }
            hold(message)
            submit()
        case UInt8(ascii: "S"):
            hold(message)
            submit()
        case UInt8(ascii: "D"), UInt8(ascii: "C"):
            hold(message)
        default:
            // COPY data, passwords, termination: messages that are not part of a group.
            forwardGroup()
            backend?.send(message.bytes)
        }
    }

    private func hold(_ message: PostgresMessage) {
        group.lastMessage = group.bytes.count
        group.bytes += message.bytes
    }

    private func forwardGroup() {
        backend?.send(group.bytes)
        group = Group()
    }

    /// Forwards a complete group, or carries out the fault that strikes at it.
    private func submit() {
        let fault = proxy.observe(group.statements, from: self)
        switch fault?.kind {
        case .cutBefore:
            reset()
        case .cutAfter:
            unanswered.append(.nothing)
            forwardGroup()
        case .cutInside:
            unanswered.append(.half)
            forwardGroup()
        case .lateCommit:
            commitLater(after: proxy.duration(of: fault))
        case .stop, .kill, .hang, .refuse, .requestBefore, .requestInside, .requestAfter, .responseInside, nil:
            // The proxy has carried out the fault, or will do so after this method returns.
            unanswered.append(nil)
            forwardGroup()
        }
    }

    /// Disconnects the client, executes the group, and sends its sync after a delay.
    ///
    /// A simple query, or a group that opens or ends a transaction, is sent as a whole after the delay.
    private func commitLater(after delay: Duration) {
        let executesLater =
            group.statements.contains(where: \.isTransactionControl) || group.bytes.first == UInt8(ascii: "Q")
        let begin = executesLater ? 0 : group.lastMessage
        backend?.send(group.bytes[..<begin])
        let rest = Array(group.bytes[begin...])
        group = Group()
        resetClient()
        phase = .detached
        unanswered.append(nil)
        loop.schedule(after: delay) { [self] in
            guard phase == .detached else { return }
            backend?.send(rest)
        }
    }

    // MARK: From PostgreSQL

    private func backendSent(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else {
            if phase == .detached { proxy.faultEnded() }
            return close()
        }
        fromBackend.append(bytes)
        do {
            while phase == .open || phase == .detached, let message = try fromBackend.next(hasType: true) {
                relay(message)
            }
        } catch {
            reset()
        }
    }

    private func relay(_ message: PostgresMessage) {
        let isEnd = message.type == Self.readyForQuery
        guard let share = unanswered.first ?? nil else {
            client?.send(message.bytes)
            if isEnd { groupAnswered() }
            return
        }
        withheld += message.bytes
        guard isEnd else { return }
        if share == .half {
            client?.send(withheld.prefix(withheld.count / 2))
            // The client must read the bytes before the reset discards them.
            return resetWhenDelivered()
        }
        proxy.faultEnded()
        reset()
    }

    private func groupAnswered() {
        _ = unanswered.popFirst()
        guard phase == .detached, unanswered.isEmpty else { return }
        proxy.faultEnded()
        close()
    }

    /// Resets the connection after 20 ms. A reset discards unread bytes, and the bytes need a moment to cross the
    /// loopback device.
    private func resetWhenDelivered() {
        let proxy = proxy
        loop.schedule(after: .milliseconds(20)) { [self] in
            proxy.faultEnded()
            reset()
        }
    }
}
