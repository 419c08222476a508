internal import CLibpq
internal import Dispatch
internal import EventLoop
internal import Logging

/// One libpq connection, non-blocking and in pipeline mode, driven by its loop.
///
/// The loop is the actor's executor, so everything that touches the `PGconn` runs on it; readiness callbacks enter with
/// `assumeIsolated`. What is to come back is kept by ``AnswerQueue``, what is prepared by ``StatementCache``; this file
/// connects and closes, `PostgresConnection+Commands.swift` sends and reads, `PostgresConnection+Copy.swift` sends
/// the data of a `COPY`. A connection is used once: after
/// ``Event/closed(_:unanswered:)`` its owner makes another.
actor PostgresConnection {
    /// What the owner is told, on the loop. Nothing is told from inside a call of the owner's but answers that were
    /// there.
    enum Event: Sendable {
        case opened
        case answered(PostgresCommand, Outcome<PostgresRows>)
        /// A `NOTIFY` on a channel that this connection listens on.
        case notified(channel: String, payload: String)
        /// It could not be opened, or was lost. The last event.
        case closed(PostgresError, unanswered: [PostgresCommand])
    }

    enum Phase {
        /// Can transition to `connecting`, `closed`.
        case new
        /// Host names, handshakes. Can transition to `pipeline`, `closed`.
        case connecting
        /// Statements may be sent. Can transition to `script`, `closed`.
        case pipeline
        /// A script is under way, in the simple protocol: nothing else may be sent. Can transition to `copying`,
        /// `pipeline`, `closed`.
        case script
        /// The server takes the data of a `COPY` until it is told that this is all. Can transition to `script`,
        /// `closed`.
        case copying(PostgresCopy)
        case closed
    }

    /// What is sent: the caller's command, or a statement that is being prepared for one.
    enum Sent: Sendable {
        case command(PostgresCommand, StatementCache.Key?)
        case preparation(StatementCache.Key)
    }

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    let settings: PostgresSettings
    let logger: Logger
    /// Let go of with the last event: until then owner and connection hold each other. (Not by a weak reference, which
    /// would make every retain of either slow.)
    private var handler: (@Sendable (Event) -> Void)?
    private let resolver: HostResolver
    private let notices: NoticeLog

    var phase = Phase.new
    var handle: OpaquePointer?
    var registration: Registration?
    var answers = AnswerQueue<Sent, PostgresRows>()
    var statements = StatementCache()
    /// The attempt to connect, then what the server is to do next, may take no longer.
    var timer: TimerID?
    /// When ``timer`` fires, in the loop's milliseconds, while it is for the server.
    var timerTime: UInt64 = 0

    init(
        settings: PostgresSettings,
        loop: EventLoop,
        resolver: HostResolver,
        logger: Logger,
        handler: @escaping @Sendable (Event) -> Void
    ) {
        self.settings = settings
        self.loop = loop
        self.resolver = resolver
        self.logger = logger
        self.handler = handler
        notices = NoticeLog(logger: logger)
    }

    private var isConnecting: Bool {
        if case .connecting = phase { true } else { false }
    }

    /// Whether statements may be sent.
    var isInPipeline: Bool {
        if case .pipeline = phase { true } else { false }
    }

    var isClosed: Bool {
        if case .closed = phase { true } else { false }
    }

    /// Whether there is no transaction open, as far as the server has answered.
    var isOutsideTransaction: Bool { PQtransactionStatus(handle) == PQTRANS_IDLE }

    // MARK: Connecting

    func connect() {
        guard case .new = phase else { return }
        phase = .connecting
        timer = loop.schedule(after: settings.connectTimeout) {
            self.assumeIsolated { $0.close(PostgresError(.unavailable, detail: "connecting took too long")) }
        }
        resolver.assumeIsolated { resolver in
            resolver.resolve { found in self.assumeIsolated { $0.resolved(found) } }
        }
    }

    private func resolved(_ found: Swift.Result<[[String]?], PostgresError>) {
        guard isConnecting else { return }
        switch found {
        case .failure(let error):
            closeSoon(error)
        case .success(let addresses):
            let parameters = settings.parameters(addresses: addresses)
            handle = withCStrings(parameters.map(\.keyword)) { keywords in
                withCStrings(parameters.map(\.value)) { values in PQconnectStartParams(keywords, values, 0) }
            }
            guard let handle, PQstatus(handle) != CONNECTION_BAD else { return closeSoon(connectionError()) }
            // With the SQLSTATE, which libpq tells of a connection that is refused in no other way.
            _ = PQsetErrorVerbosity(handle, PQERRORS_VERBOSE)
            _ = PQsetNoticeProcessor(handle, NoticeLog.processor, Unmanaged.passUnretained(notices).toOpaque())
            // As if `PQconnectPoll` had last asked for it (libpq manual, "PQconnectStartParams").
            watch(.write)
        }
    }

    /// Waits for what `PQconnectPoll` asked for. Always anew: the socket may be another one each time.
    private func watch(_ interest: Interest) {
        do {
            registration = try loop.register(PQsocket(handle), interest: interest) { _ in
                self.assumeIsolated { $0.poll() }
            }
        } catch {
            closeSoon(PostgresError(.unavailable, detail: "\(error)"))
        }
    }

    private func poll() {
        guard isConnecting else { return }
        // libpq closes the socket when it tries the next address: the loop must have let go of it by then.
        deregister()
        switch PQconnectPoll(handle) {
        case PGRES_POLLING_READING: watch(.read)
        case PGRES_POLLING_WRITING: watch(.write)
        case PGRES_POLLING_OK: opened()
        default: close(connectionError())
        }
    }

    private func opened() {
        cancelTimer()
        _ = PQsetErrorVerbosity(handle, PQERRORS_DEFAULT)
        guard PQsetnonblocking(handle, 1) == 0, PQenterPipelineMode(handle) == 1 else {
            return close(connectionError())
        }
        do {
            registration = try loop.register(PQsocket(handle), interest: .read) { readiness in
                self.assumeIsolated { $0.ready(readiness) }
            }
        } catch {
            return close(PostgresError(.unavailable, detail: "\(error)"))
        }
        phase = .pipeline
        tell(.opened)
    }

    // MARK: Closing

    /// Closes it and tells the owner.
    ///
    /// The server does not notice until it has finished what it is doing, and keeps its locks until then: if it has not
    /// answered everything, it is asked to stop, unless it is the one that ended the connection.
    ///
    /// - Parameter error: what those whose commands have not been answered are told.
    func close(_ error: PostgresError) {
        guard !isClosed else { return }
        if !answers.isEmpty, PQstatus(handle) == CONNECTION_OK { CancelRequest(handle)?.send() }
        phase = .closed
        cancelTimer()
        deregister()
        PQfinish(handle)
        handle = nil
        let unanswered = answers.drain().compactMap { sent -> PostgresCommand? in
            if case .command(let command, _) = sent { command } else { nil }
        }
        let handler = handler
        self.handler = nil
        handler?(.closed(error, unanswered: unanswered))
    }

    func tell(_ event: Event) {
        handler?(event)
    }

    /// Closes it after whoever is calling has returned.
    func closeSoon(_ error: PostgresError) {
        loop.schedule(after: .zero) { self.assumeIsolated { $0.close(error) } }
    }

    private func deregister() {
        guard let registration else { return }
        loop.deregister(registration)
        self.registration = nil
    }

    func cancelTimer() {
        guard let timer else { return }
        loop.cancel(timer)
        self.timer = nil
    }

    /// What libpq has to say about the connection: text for the log.
    func connectionError() -> PostgresError {
        let text = PQerrorMessage(handle).map { String(cString: $0) } ?? "out of memory"
        // While connecting, messages name the line of PostgreSQL's source that raised the error: of no use to an operator.
        let lines = text.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("LOCATION:") }
        return PostgresError(
            isConnecting ? .unavailable : .connectionLost,
            sqlState: isConnecting ? lines.compactMap(Self.sqlState).last : nil,
            detail: lines.joined(separator: " ")
        )
    }

    /// The SQLSTATE in a line of a verbose message: `… failed: FATAL:  3D000: database "x" does not exist`.
    private static func sqlState(in line: Substring) -> String? {
        line.split(separator: ":").lazy
            .filter { part in
                part.utf8.count == 7 && part.hasPrefix("  ")
                    && part.utf8.dropFirst(2).allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) }
            }
            .map { String($0.dropFirst(2)) }
            .first
    }
}

/// Calls `body` with a null-terminated list of C strings.
private func withCStrings<Result>(
    _ strings: [String],
    _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
) -> Result {
    var bytes: [CChar] = []
    var starts: [Int] = []
    for string in strings {
        starts.append(bytes.count)
        bytes.append(contentsOf: string.utf8.map(CChar.init(bitPattern:)))
        bytes.append(0)
    }
    return bytes.withUnsafeBufferPointer { buffer in
        let pointers = starts.map { start in buffer.baseAddress.map { $0 + start } } + [nil]
        return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
    }
}

/// Asks a server to give up what a connection waits for: another connection, made for that and closed again.
private struct CancelRequest: @unchecked Sendable {
    // Sent, and freed, once. A `PGcancel` may be used on any thread, also after its connection is gone (libpq manual,
    // "Canceling Queries in Progress").
    private let request: OpaquePointer

    init?(_ handle: OpaquePointer?) {
        guard let request = PQgetCancel(handle) else { return nil }
        self.request = request
    }

    func send() {
        EventLoop.blocking.async {
            var message = [CChar](repeating: 0, count: 256)
            // Nothing depends on it: a server that does not listen ends the statement by its own time-out.
            _ = PQcancel(self.request, &message, Int32(message.count))
            PQfreeCancel(self.request)
        }
    }
}

/// Takes the server's notices, which libpq would print.
private final class NoticeLog: Sendable {
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    static let processor: @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>?) -> Void = { log, message in
        guard let log, let message else { return }
        let text = String(cString: message)
        Unmanaged<NoticeLog>.fromOpaque(log).takeUnretainedValue().logger.debug(
            "PostgreSQL notice",
            metadata: ["notice": "\(text.split(whereSeparator: \.isNewline).joined(separator: " "))"]
        )
    }
}
