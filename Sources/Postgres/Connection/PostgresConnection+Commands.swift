internal import CLibpq
internal import EventLoop

// Sending commands, and reading what comes back.
extension PostgresConnection {
    /// How the commands of one call are divided into implicit transactions.
    enum Grouping {
        /// All in one sync group: one failure aborts those behind it. For reads.
        case together
        /// Each in its own: each is its own transaction.
        case apart
    }

    /// Sends statements. Their answers come as events; if the connection breaks on the way, so do they.
    ///
    /// The caller has seen to it that none has a ``PostgresCommand/refusal``.
    func send(_ commands: [PostgresCommand], _ grouping: Grouping) {
        guard isInPipeline else {
            for command in commands { command.complete(.failure(PostgresError(.connectionLost, detail: "not open"))) }
            return
        }
        // Nothing is skipped after a failure: a command has to count as sent for the end of the connection to answer
        // it.
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
    func send(script command: PostgresCommand) {
        answers.sent(.command(command, nil), at: loop.now)
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

    /// Prepares the statement of a command, in a sync group of its own, unless this connection knows it.
    private func prepare(_ command: PostgresCommand) -> Bool {
        let (key, parameters) = key(of: command)
        guard case .prepare(let name) = statements.use(key) else { return true }
        answers.sent(.preparation(key), at: loop.now)
        let handle = handle
        return ParameterBlock.with(parameters) { block in
            PQsendPrepare(handle, name, command.statement.annotated, block.count, block.types) == 1
        } && sync()
    }

    /// Runs the statement of a command that ``prepare(_:)`` has seen. The command counts as sent even if libpq refuses
    /// it, so that it is answered when the connection is closed for that.
    private func run(_ command: PostgresCommand) -> Bool {
        let (key, parameters) = key(of: command)
        let use = statements.use(key)
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

    /// Writes what libpq has gathered. What the socket does not take now goes when it can, or when something was read:
    /// a server that is busy writing to us reads nothing (libpq manual, "PQflush").
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
        // Has libpq look at what nobody waits for: notices.
        if answers.isEmpty { _ = PQisBusy(handle) }
        deliverNotifications()
        if case .copying(let copy) = phase {
            sendData(of: copy)
        } else if !isClosed, !flush() {
            close(connectionError())
        }
    }

    /// Closes a connection that is lost. What had come before its end is an answer still.
    func closeAfterLastAnswers() {
        guard !isClosed else { return }
        let error = connectionError()
        // libpq looks for an answer only when it thinks that there is no more data.
        if case .copying(let copy) = phase { _ = endData(of: copy, failure: "the connection is lost") }
        readAnswers()
        close(error)
    }

    /// Tells the owner of every `NOTIFY` that has come. It may close the connection at any of them.
    private func deliverNotifications() {
        while !isClosed, let notification = PQnotifies(handle) {
            let channel = String(cString: notification.pointee.relname)
            let payload = String(cString: notification.pointee.extra)
            PQfreemem(notification)
            tell(.notified(channel: channel, payload: payload))
        }
    }

    /// Whether libpq is to be asked for answers: it has none while it takes data.
    private var awaitsAnswer: Bool {
        switch phase {
        case .new, .connecting, .copying, .closed: false
        case .pipeline, .script: !answers.isEmpty
        }
    }

    func readAnswers() {
        // The owner may send more, or close, at any answer.
        while awaitsAnswer, PQisBusy(handle) == 0 {
            let action: AnswerQueue<Sent, PostgresRows>.Action
            if let result = PQgetResult(handle) {
                switch ServerAnswer(owning: result, statement: firstStatement) {
                case .rows(let rows): action = answers.received(.rows(rows), at: loop.now)
                case .failed(let error): action = answers.received(.failed(error), at: loop.now)
                case .aborted: action = answers.received(.aborted, at: loop.now)
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
            case .finish(let answers):
                for answer in answers { finish(answer.command, answer.outcome) }
            case .desynchronized: close(PostgresError(.connectionLost, detail: "libpq answered out of order"))
            }
        }
    }

    private func closeForCopy() {
        close(PostgresError(.connectionLost, detail: "this COPY is not possible here", statement: firstStatement))
    }

    /// The statement at the head of the queue: its name, or its text if it has none.
    private var firstStatement: String? {
        switch answers.first {
        case .command(let command, _): "\(command.statement)"
        case .preparation(let key): "\(key.statement)"
        case nil: nil
        }
    }

    private func finish(_ sent: Sent, _ outcome: Outcome<PostgresRows>) {
        switch sent {
        case .preparation(let key):
            if case .failed(let error) = outcome { statements.failed(key, error) }
        case .command(let command, let key):
            if case .script = phase, PQenterPipelineMode(handle) == 1 { phase = .pipeline }
            tell(.answered(command, whole(outcome, key)))
            if case .script = phase { return close(connectionError()) }
        }
        // The server has said farewell: what is sent now would be lost, before the end itself is read.
        if case .failed(let error) = outcome, error.code == .connectionLost { close(error) }
    }

    /// An outcome made whole: why the statement could not be prepared, if that is what the command died of.
    private func whole(_ outcome: Outcome<PostgresRows>, _ key: StatementCache.Key?) -> Outcome<PostgresRows> {
        guard case .failed(let error) = outcome, let key, error.concernsThePreparedStatement else { return outcome }
        return .failed(statements.forget(key, after: error))
    }

    // MARK: Time

    /// Sees to it that the server does in time what it is to do next. One timer, moved on only when it fires.
    func watchServer() {
        guard let (since, limit) = serverTurn else { return }
        let due = since + limit
        if let timer {
            guard due < timerTime else { return }
            loop.cancel(timer)
        }
        timerTime = due
        timer = loop.schedule(after: .milliseconds(due - min(due, loop.now))) {
            self.assumeIsolated { $0.serverIsLate() }
        }
    }

    /// Since when it is the server's turn to answer the first command, or to take data for it, and how many
    /// milliseconds it may take: longer than the server itself allows it. `nil` when there is no limit, or when it is
    /// the caller's turn.
    private var serverTurn: (since: UInt64, limit: UInt64)? {
        guard !answers.isEmpty else { return nil }
        let timeout =
            switch answers.first {
            case .command(let command, _): command.timeout
            case .preparation, nil: settings.statementTimeout
            }
        guard let timeout else { return nil }
        let limit = (timeout + settings.answerGrace).wholeMilliseconds
        if case .copying(let copy) = phase { return copy.blockedSince.map { (since: $0, limit: limit) } }
        return (since: answers.waitingSince, limit: limit)
    }

    private func serverIsLate() {
        timer = nil
        guard let (since, limit) = serverTurn else { return }
        guard loop.now >= since + limit else { return watchServer() }
        close(PostgresError(.timedOut, detail: "the server does not answer", statement: firstStatement))
    }
}
