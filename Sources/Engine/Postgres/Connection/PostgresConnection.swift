import CLibpq
import Dispatch
import EventLoop
import Logging

/// One non-blocking libpq connection in pipeline mode, driven by its loop.
///
/// The loop is the actor's executor, so everything that uses the `PGconn` runs on it; readiness callbacks enter with
/// `assumeIsolated`. ``AnswerQueue`` holds the commands in flight, ``StatementCache`` the prepared statements. This
/// file connects and closes, `PostgresConnection+Session.swift` begins the session, `PostgresConnection+Commands.swift`
/// sends commands and reads results, and `PostgresConnection+Copy.swift` sends the data of a `COPY`. A connection is
/// used once: after ``Event/closed(_:unanswered:)`` its owner creates another one.
actor PostgresConnection {
    /// An event for the owner, reported on the loop. A call of the owner reports, before it returns, only results that
    /// had arrived already and the end of the connection.
    enum Event: Sendable {
        /// The session has begun, and accepts commands.
        case opened
        case answered(PostgresCommand, Outcome<PostgresRows>)
        /// A `NOTIFY` on a channel that this connection listens on.
        case notified(channel: String, payload: String)
        /// The connection could not be opened, or was lost or closed. The last event.
        case closed(PostgresError, unanswered: [PostgresCommand])
    }

    enum Phase {
        /// Can transition to `connecting`, `closed`.
        case new
        /// Host name look-ups and handshakes are in progress. Can transition to `pipeline`, `closed`.
        case connecting
        /// Statements may be sent. Can transition to `script`, `closed`.
        case pipeline
        /// A script is in flight, in the simple protocol. Nothing else may be sent. Can transition to `copying`,
        /// `pipeline`, `closed`.
        case script
        /// The server accepts the data of a `COPY` until its end. Can transition to `script`, `closed`.
        case copying(PostgresCopy)
        case closed
    }

    /// An entry in flight: a command of the owner, the preparation of a statement for one, or a command of the
    /// connection itself.
    enum Sent: Sendable {
        case command(PostgresCommand, StatementCache.Key?)
        case preparation(StatementCache.Key)
        case own(PostgresCommand)
    }

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    let settings: PostgresSettings
    let logger: Logger
    /// Whether the connection is to change nothing: see ``PoolerCheck``.
    let isProbe: Bool
    /// Released with the last event: until then the owner and the connection retain each other. A weak reference would
    /// make every retain of either slow.
    private var handler: (@Sendable (Event) -> Void)?
    private let notices: NoticeLog

    var phase = Phase.new
    var handle: OpaquePointer?
    var registration: Registration?
    var answers = AnswerQueue<Sent, PostgresRows>()
    var statements = StatementCache()
    /// The facts of the session; `nil` before it has begun.
    var session: SessionFacts?
    /// The timer of the attempt to connect, and later of the server's next response.
    var timer: TimerID?
    /// The time at which ``timer`` fires for the server's next response, in the loop's milliseconds.
    var timerTime: UInt64 = 0

    init(
        settings: PostgresSettings,
        loop: EventLoop,
        logger: Logger,
        isProbe: Bool = false,
        handler: @escaping @Sendable (Event) -> Void
    ) {
        self.settings = settings
        self.loop = loop
        self.logger = logger
        self.isProbe = isProbe
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

    /// Whether no transaction is open, as of the server's last response.
    var isOutsideTransaction: Bool { PQtransactionStatus(handle) == PQTRANS_IDLE }

    // MARK: Connecting

    func connect() {
        guard case .new = phase else { return }
        phase = .connecting
        timer = loop.schedule(after: settings.connectTimeout) {
            self.assumeIsolated { $0.close(PostgresError(.unavailable, detail: "the attempt to connect timed out")) }
        }
        PostgresSettings.resolve(settings.hostsToResolve, on: loop) { found in
            self.assumeIsolated { $0.resolved(found) }
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
            // Verbose messages contain the SQLSTATE of a rejected connection, which libpq reports in no other way.
            _ = PQsetErrorVerbosity(handle, PQERRORS_VERBOSE)
            _ = PQsetNoticeProcessor(handle, NoticeLog.processor, Unmanaged.passUnretained(notices).toOpaque())
            // The first wait is for writability, as if `PQconnectPoll` had asked for it (libpq manual,
            // "PQconnectStartParams").
            watch(.write)
        }
    }

    /// Waits for the readiness that `PQconnectPoll` asked for. Registers each time, since the socket may be another
    /// one.
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
        // libpq closes the socket when it tries the next address, so the loop must have released it before.
        loop.deregister(registration.take())
        switch PQconnectPoll(handle) {
        case PGRES_POLLING_READING: watch(.read)
        case PGRES_POLLING_WRITING: watch(.write)
        case PGRES_POLLING_OK: connected()
        default: close(connectionError())
        }
    }

    private func connected() {
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
        openSession()
    }

    // MARK: Closing

    /// Closes the connection and reports this to the owner.
    ///
    /// The server notices the end only after its current statement, and holds its locks until then. If results are
    /// pending, the server is therefore asked to cancel, unless it ended the connection itself.
    ///
    /// - Parameter error: The error for the commands without a result.
    func close(_ error: PostgresError) {
        guard !isClosed else { return }
        if !answers.isEmpty, PQstatus(handle) == CONNECTION_OK { CancelRequest(handle)?.send() }
        phase = .closed
        if let session { PoolerCheck.shared.remove(session.process, of: self) }
        loop.cancel(timer.take())
        loop.deregister(registration.take())
        PQfinish(handle)
        handle = nil
        var unanswered: [PostgresCommand] = []
        for sent in answers.drain() {
            switch sent {
            case .command(let command, _): unanswered.append(command)
            case .own(let command): command.complete(.failure(error))
            case .preparation: break
            }
        }
        let handler = handler
        self.handler = nil
        handler?(.closed(error, unanswered: unanswered))
    }

    func emit(_ event: Event) {
        handler?(event)
    }

    /// Closes the connection after the current call has returned.
    func closeSoon(_ error: PostgresError) {
        loop.schedule(after: .zero) { self.assumeIsolated { $0.close(error) } }
    }

    /// Returns libpq's message about the connection as an error, for the log.
    func connectionError() -> PostgresError {
        let text = PQerrorMessage(handle).map { String(cString: $0) } ?? "out of memory"
        // While connecting, messages contain the line of PostgreSQL's source that raised the error. It is of no use to
        // an operator.
        let lines = text.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("LOCATION:") }
        return PostgresError(
            isConnecting ? .unavailable : .connectionLost,
            sqlState: isConnecting ? lines.compactMap(Self.sqlState).last : nil,
            detail: settings.explaining(lines.joined(separator: " "))
        )
    }

    /// Returns the SQLSTATE in a line of a verbose message: `… failed: FATAL:  3D000: database "x" does not exist`.
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

/// A request to cancel the statement of a connection. It is sent over another connection, which is then closed.
private struct CancelRequest: @unchecked Sendable {
    // Sent and freed once. A `PGcancel` may be used on any thread, even after its connection is closed (libpq manual,
    // "Canceling Queries in Progress").
    private let request: OpaquePointer

    init?(_ handle: OpaquePointer?) {
        guard let request = PQgetCancel(handle) else { return nil }
        self.request = request
    }

    func send() {
        EventLoop.blocking.async {
            var message = [CChar](repeating: 0, count: 256)
            // Best effort: without it, the server's own timeout ends the statement.
            _ = PQcancel(self.request, &message, Int32(message.count))
            PQfreeCancel(self.request)
        }
    }
}

/// A logger of the server's notices, which libpq would print otherwise.
private final class NoticeLog: Sendable {
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    static let processor: @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>?) -> Void = { log, message in
        guard let log, let message else { return }
        let text = String(cString: message)
        Unmanaged<NoticeLog>.fromOpaque(log).takeUnretainedValue().logger.debug(
            "PostgreSQL notice received",
            metadata: ["notice": "\(text.split(whereSeparator: \.isNewline).joined(separator: " "))"]
        )
    }
}
