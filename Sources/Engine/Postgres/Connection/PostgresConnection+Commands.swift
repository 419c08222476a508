import CLibpq
import EventLoop
import Locking

// Sending commands and reading their results.
extension PostgresConnection {
    /// The division of the commands of one call into implicit transactions.
    enum Grouping {
        /// All commands in one sync group: a failure aborts those behind it. For reads.
        case together
        /// Each command in its own sync group, and so in its own transaction.
        case apart
    }

    /// Sends statements. Their results arrive as events, even if the connection is lost meanwhile.
    ///
    /// The caller has checked that no command has a ``PostgresCommand/refusal``.
    func send(_ commands: [PostgresCommand], _ grouping: Grouping) {
        guard isInPipeline else {
            for command in commands { command.fail(.connectionLost, "not open") }
            return
        }
        // A failure skips no command: each must count as sent to get a result when the connection closes.
        var isSent = true
        switch grouping {
        case .together:
            // Preparations have sync groups of their own, so they come before the first read.
            for command in commands { isSent = prepare(command) && isSent }
            for command in commands { isSent = run(command) && isSent }
            isSent = sync() && isSent
        case .apart:
            for command in commands {
                isSent = prepare(command) && isSent
                isSent = run(command) && isSent
                isSent = sync() && isSent
            }
        }
        guard isSent, flush() else { return closeSoon(connectionError()) }
        watchServer()
    }

    /// Sends a script or a `COPY`, on a connection with nothing else in flight.
    ///
    /// - Parameter isOwn: Whether the result is for the connection itself, and not for its owner.
    func send(script command: PostgresCommand, isOwn: Bool = false) {
        guard !isClosed else { return command.fail(.connectionLost, "not open") }
        answers.sent(isOwn ? .own(command) : .command(command, nil), at: loop.now)
        guard isIdleForScript, PQexitPipelineMode(handle) == 1, PQsendQuery(handle, command.statement.text) == 1,
            flush()
        else {
            return closeSoon(connectionError())
        }
        phase = .script
        watchServer()
    }

    private var isIdleForScript: Bool { isInPipeline && answers.commandCount == 1 }

    private func key(of command: PostgresCommand) -> (StatementCache.Key, [PostgresValue]) {
        guard case .statement(let parameters) = command.work else {
            return (StatementCache.Key(statement: command.statement, types: []), [])
        }
        return (StatementCache.Key(statement: command.statement, types: parameters.map(\.type)), parameters)
    }

    /// Prepares the statement of a command in its own sync group, unless this connection has prepared it already.
    private func prepare(_ command: PostgresCommand) -> Bool {
        let (key, parameters) = key(of: command)
        guard case .prepare(let name) = statements.use(key) else { return true }
        answers.sent(.preparation(key), at: loop.now)
        let handle = handle
        return ParameterBlock.with(parameters) { block in
            PQsendPrepare(handle, name, command.statement.annotated, block.count, block.types) == 1
        } && sync()
    }

    /// Runs the statement of a command after ``prepare(_:)``. The command counts as sent even if libpq rejects it, so
    /// that it gets a result when the connection is closed for that reason.
    private func run(_ command: PostgresCommand) -> Bool {
        let (key, parameters) = key(of: command)
        let use = statements.use(key)
        command.sentAt = loop.now
        answers.sent(.command(command, key), at: loop.now)
        let handle = handle
        return ParameterBlock.with(parameters) { block in
            switch use {
            case .prepared(let name), .prepare(let name):
                PQsendQueryPrepared(handle, name, block.count, block.values, block.lengths, block.formats, 1) == 1
            case .unprepared:
                PQsendQueryParams(
                    handle,
                    command.statement.annotated,
                    block.count,
                    block.types,
                    block.values,
                    block.lengths,
                    block.formats,
                    1
                ) == 1
            }
        }
    }

    private func sync() -> Bool {
        answers.sentSync(at: loop.now)
        return PQpipelineSync(handle) == 1
    }

    /// Writes libpq's output buffer. The socket may not accept all of it: the rest is written when the socket is
    /// writable, or after a read. A server that is busy sending does not read (libpq manual, "PQflush").
    func flush() -> Bool {
        let remains = PQflush(handle)
        guard remains >= 0 else { return false }
        if let registration { loop.setInterest(remains == 1 ? [.read, .write] : .read, of: registration) }
        return true
    }

    // MARK: Reading

    func ready(_ readiness: Readiness) {
        if readiness != .write, PQconsumeInput(handle) == 0 {
            return closeAfterLastAnswers()
        }
        readAnswers()
        guard !isClosed else { return }
        // No result is pending, so only this makes libpq process notices.
        if answers.isEmpty { _ = PQisBusy(handle) }
        deliverNotifications()
        if case .copying(let copy) = phase {
            sendData(of: copy)
        } else if !isClosed, !flush() {
            close(connectionError())
        }
    }

    /// Closes a lost connection, after reading the results that had arrived before.
    func closeAfterLastAnswers() {
        guard !isClosed else { return }
        let error = connectionError()
        // libpq reads results only after the end of the data.
        if case .copying(let copy) = phase { _ = endData(of: copy, failure: "the connection is lost") }
        readAnswers()
        close(error)
    }

    /// Reports each received `NOTIFY` to the owner, which may close the connection at any of them.
    private func deliverNotifications() {
        while !isClosed, let notification = PQnotifies(handle) {
            let channel = String(cString: notification.pointee.relname)
            let payload = String(cString: notification.pointee.extra)
            PQfreemem(notification)
            emit(.notified(channel: channel, payload: payload))
        }
    }

    /// Whether to ask libpq for results. It has none during a `COPY`.
    private var awaitsAnswer: Bool {
        switch phase {
        case .new, .connecting, .copying, .closed: false
        case .pipeline, .script: !answers.isEmpty
        }
    }

    func readAnswers() {
        // The owner may send more commands, or close the connection, at any result.
        while awaitsAnswer, PQisBusy(handle) == 0 {
            let action: AnswerQueue<Sent, PostgresRows>.Action
            if let result = PQgetResult(handle) {
                switch ServerAnswer(owning: result, statement: firstStatement) {
                case .outcome(let outcome): action = answers.received(outcome, at: loop.now)
                case .sync: action = answers.receivedSync(at: loop.now)
                case .copyIn:
                    guard case .command(let command, _) = answers.first, case .copy(let copy) = command.work else {
                        return closeForCopy()
                    }
                    phase = .copying(copy)
                    copy.proceed()
                    continue
                case .otherCopy:
                    return closeForCopy()
                }
            } else {
                action = answers.receivedEnd(at: loop.now)
            }
            switch action {
            case .wait: break
            case .deliver(let answers):
                let isUnsafe = notices.takeCancelledWait()
                var end: PostgresError?
                for answer in answers {
                    let outcome = isUnsafe ? Self.unsafe(answer.outcome) : answer.outcome
                    end = deliver(outcome, for: answer.command) ?? end
                }
                if let end { close(end) }
            case .lost(let error): close(error)
            case .desynchronized: close(PostgresError(.connectionLost, detail: "libpq returned a result out of order"))
            }
        }
    }

    /// Returns the outcome of a commit that is stored here, but perhaps not at the synchronous standby: whether it holds is
    /// unknown, as after a lost connection.
    private static func unsafe(_ outcome: Outcome<PostgresRows>) -> Outcome<PostgresRows> {
        guard case .rows = outcome else { return outcome }
        let detail = "the wait for a synchronous standby was cancelled: the commit may be lost in a failover"
        return .failed(PostgresError(.connectionLost, detail: detail))
    }

    private func closeForCopy() {
        close(PostgresError(.connectionLost, detail: "this kind of COPY is not supported", statement: firstStatement))
    }

    /// The name of the statement at the head of the queue, or its text if it has no name.
    private var firstStatement: StatementText? {
        switch answers.first {
        case .command(let command, _), .own(let command): command.statement
        case .preparation(let key): key.statement
        case nil: nil
        }
    }

    /// Reports the outcome of a command. Returns an error if the connection cannot be used after it.
    private func deliver(_ outcome: Outcome<PostgresRows>, for sent: Sent) -> PostgresError? {
        switch sent {
        case .preparation(let key):
            if case .failed(let error) = outcome { statements.failed(key, error) }
        case .command(let command, let key):
            endScript()
            emit(.answered(command, whole(outcome, key)))
            if case .script = phase { return connectionError() }
        case .own(let command):
            endScript()
            command.complete(outcome)
        }
        guard case .failed(let error) = outcome else { return nil }
        if isReadOnlyServer(error) {
            // Another address may have the primary.
            settings.addresses.withLock { $0.isReadOnly(address) }
            return error.with(code: .unavailable)
        }
        // The server has announced the end of the session. Anything sent now would be lost before that end is read.
        return error.code == .connectionLost ? error : nil
    }

    private func endScript() {
        if case .script = phase, PQenterPipelineMode(handle) == 1 { phase = .pipeline }
    }

    /// Returns the failure as callers see it: with the reason why preparing the statement failed, and as unavailable if the
    /// server accepts no changes.
    private func whole(_ outcome: Outcome<PostgresRows>, _ key: StatementCache.Key?) -> Outcome<PostgresRows> {
        guard case .failed(let error) = outcome else { return outcome }
        if isReadOnlyServer(error) { return .failed(error.with(code: .unavailable)) }
        guard let key, error.concernsThePreparedStatement else { return outcome }
        return .failed(statements.evict(key, after: error))
    }

    /// Whether a statement failed because the server accepts no changes: a demoted primary, or one whose disk is full. On a
    /// connection for reads, the statement is wrong.
    private func isReadOnlyServer(_ error: PostgresError) -> Bool {
        error.sqlState == PostgresError.readOnlyTransaction && !settings.isReadOnly
    }

    // MARK: Time

    /// The time in milliseconds after which a statement at a server that the other connections have given up fails, and
    /// between two checks of a server that is to respond.
    private static let patience: UInt64 = 1_000

    /// Starts the timer for the next check of a server that is to respond. There is one timer, which is replaced only by an
    /// earlier one.
    func watchServer() {
        guard let (since, limit) = serverTurn else { return }
        let due = min(since + limit, max(since, loop.now) + Self.patience)
        if let timer {
            guard due < timerTime else { return }
            loop.cancel(timer)
        }
        timerTime = due
        timer = loop.schedule(after: .milliseconds(due - min(due, loop.now))) {
            self.assumeIsolated { $0.checkServer() }
        }
    }

    /// The time since which the server is to respond to the first command or accept data for it, and the milliseconds
    /// that it may take. This limit is longer than the server's own timeout. `nil` without a limit, and while the
    /// caller is to continue.
    private var serverTurn: (since: UInt64, limit: UInt64)? {
        guard !answers.isEmpty else { return nil }
        let timeout =
            switch answers.first {
            case .command(let command, _), .own(let command): command.timeout
            case .preparation, nil: settings.statementTimeout
            }
        guard let timeout else { return nil }
        let limit = (timeout + settings.answerGrace).wholeMilliseconds
        if case .copying(let copy) = phase { return copy.blockedSince.map { (since: $0, limit: limit) } }
        return (since: answers.waitingSince, limit: limit)
    }

    /// Closes the connection if the server takes too long to respond.
    private func checkServer() {
        timer = nil
        guard let (since, limit) = serverTurn else { return }
        if loop.now >= since + limit {
            settings.addresses.withLock { $0.isLate(address, at: loop.now) }
            close(PostgresError(.timedOut, detail: "the server did not respond in time", statement: firstStatement))
        } else if loop.now >= since + Self.patience, settings.addresses.withLock({ $0.isAbandoned(address) }) {
            let reason = "the server did not respond, and the database was reached at another address meanwhile"
            close(PostgresError(.timedOut, detail: reason, statement: firstStatement))
        } else {
            watchServer()
        }
    }
}
