import CLibpq
import DequeModule
import Dispatch
import EventLoop
import Locking
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
        /// Host name look-ups and handshakes are in progress, with one address after another. Can transition to `pipeline`,
        /// `closed`.
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
    let notices: NoticeLog

    var phase = Phase.new
    var handle: OpaquePointer?
    var registration: Registration?
    /// The address of the present attempt, or of the open connection.
    private(set) var address = PostgresAddress()
    /// The addresses that this round of attempts has not tried yet, and the failures at those that it has tried.
    private var remaining = Deque<PostgresAddress>()
    private var failures: [PostgresError] = []
    var answers = AnswerQueue<Sent, PostgresRows>()
    var statements = StatementCache()
    /// The facts of the session; `nil` before it has begun.
    var session: SessionFacts?
    /// The timer of the attempt to connect, and later of the next check of a server that is to respond.
    var timer: TimerID?
    /// The time at which ``timer`` fires for that check, in the loop's milliseconds.
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

    /// Tries each address once: a round, which ends with the first that accepts the connection. The owner decides when the
    /// next round begins.
    func connect() {
        guard case .new = phase else { return }
        phase = .connecting
        timer = loop.schedule(after: settings.connectTimeout) {
            self.assumeIsolated {
                $0.close(PostgresError(.unavailable, detail: "the look-up of the host names took too long"))
            }
        }
        settings.resolve(on: loop) { found in self.assumeIsolated { $0.resolved(found) } }
    }

    private func resolved(_ found: Swift.Result<[PostgresAddress], PostgresError>) {
        guard isConnecting else { return }
        switch found {
        case .failure(let error):
            closeSoon(error)
        case .success(let addresses):
            remaining = Deque(settings.addresses.withLock { $0.round(of: addresses, at: loop.now) })
            connectToNextAddress()
        }
    }

    private func connectToNextAddress() {
        loop.cancel(timer.take())
        guard let next = remaining.popFirst() else { return close(failure) }
        address = next
        timer = loop.schedule(after: settings.connectTimeout) { self.assumeIsolated { $0.addressTimedOut() } }
        let parameters = settings.parameters(next)
        handle = withCStrings(parameters.map(\.keyword)) { keywords in
            withCStrings(parameters.map(\.value)) { values in PQconnectStartParams(keywords, values, 0) }
        }
        guard let handle, PQstatus(handle) != CONNECTION_BAD else { return failAddressSoon(connectionError()) }
        // Verbose messages contain the SQLSTATE of a rejected connection, which libpq reports in no other way.
        _ = PQsetErrorVerbosity(handle, PQERRORS_VERBOSE)
        _ = PQsetNoticeReceiver(handle, NoticeLog.receiver, Unmanaged.passUnretained(notices).toOpaque())
        // The first wait is for writability, as if `PQconnectPoll` had asked for it (libpq manual,
        // "PQconnectStartParams").
        watch(.write)
    }

    /// Ends the attempt at the present address, and begins one at the next.
    private func failAddress(_ error: PostgresError) {
        guard isConnecting else { return }
        failures.append(error)
        loop.deregister(registration.take())
        PQfinish(handle)
        handle = nil
        connectToNextAddress()
    }

    /// Ends the attempt after the current call has returned.
    private func failAddressSoon(_ error: PostgresError) {
        loop.cancel(timer.take())
        loop.schedule(after: .zero) { self.assumeIsolated { $0.failAddress(error) } }
    }

    private func addressTimedOut() {
        settings.addresses.withLock { $0.isSilent(address, at: loop.now) }
        let seconds = settings.connectTimeout.wholeMilliseconds / 1000
        let error = PostgresError(
            .unavailable,
            detail: "connection to server at \(address) failed: no response within \(seconds) s"
        )
        // A session that has begun ends with the connection. The next round leaves its address out.
        if isConnecting { failAddress(error) } else { close(error) }
    }

    /// The failures at all addresses as one error.
    private var failure: PostgresError {
        guard failures.count > 1 else { return failures.first ?? PostgresError(.unavailable) }
        return PostgresError(
            .unavailable,
            sqlState: failures.compactMap(\.sqlState).last,
            detail: failures.compactMap(\.detail).joined(separator: "; ")
        )
    }

    /// Waits for the readiness that `PQconnectPoll` asked for. Registers each time, since the socket may be another
    /// one.
    private func watch(_ interest: Interest) {
        do {
            registration = try loop.register(PQsocket(handle), interest: interest) { _ in
                self.assumeIsolated { $0.poll() }
            }
        } catch {
            failAddressSoon(PostgresError(.unavailable, detail: "\(error)"))
        }
    }

    private func poll() {
        guard isConnecting else { return }
        // libpq closes the socket when it tries again, such as without TLS, so the loop must have released it before.
        loop.deregister(registration.take())
        switch PQconnectPoll(handle) {
        case PGRES_POLLING_READING: watch(.read)
        case PGRES_POLLING_WRITING: watch(.write)
        case PGRES_POLLING_OK:
            if let readOnlyRefusal { return reject(readOnlyRefusal) }
            settings.addresses.withLock { $0.reached(address) }
            connected()
        default: reject(connectionError())
        }
    }

    private func reject(_ error: PostgresError) {
        settings.addresses.withLock { $0.rejected(address) }
        failAddress(error)
    }

    /// The reason why the server accepts no changes, as it reported with the connection; `nil` if it accepts them, and on a
    /// connection for reads. A pooler may not pass the report on: the first change then fails. The session finds out whether
    /// the server is a standby.
    private var readOnlyRefusal: PostgresError? {
        guard !settings.isReadOnly,
            PQparameterStatus(handle, "default_transaction_read_only").map({ String(cString: $0) == "on" }) ?? false
        else { return nil }
        return PostgresError(
            .unavailable,
            sqlState: PostgresError.readOnlyTransaction,
            detail: """
                connection to server at \(address) cannot be used: the database is read-only: free its disk if it is full, \
                or turn default_transaction_read_only off for the role and the database
                """
        )
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
    /// pending, the server is therefore asked to cancel, unless it ended the connection itself or did not respond: its own timeout
    /// has ended the statement then, or it hangs, and the request would wait for it.
    ///
    /// - Parameter error: The error for the commands without a result.
    func close(_ error: PostgresError) {
        guard !isClosed else { return }
        if !answers.isEmpty, error.code != .timedOut, PQstatus(handle) == CONNECTION_OK {
            CancelRequest(handle)?.send()
        }
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
