internal import DequeModule
internal import EventLoop
internal import Logging

/// A connection that all callers of a loop share, in pipeline mode, and that is made again whenever it is lost.
///
/// A pipeline of reads gathers what is asked for during a tick and sends it at the end of the tick with one sync. A pipeline of
/// writes sends each at once with a sync of its own, for statements between two syncs are one transaction.
actor PipelinedConnection {
    enum Kind {
        case reads
        case writes
    }

    /// Reads that are under way at once. Deeper pipelines gain nothing, and what has not been sent can still be refused
    /// or dropped.
    private static let readsInFlight = 256
    /// Writes that are under way at once: enough to hide the way to the server behind its commits.
    private static let writesInFlight = 16
    /// Commands that may wait to be sent.
    private static let maximumWaiting = 10_000
    /// A read is sent again when another's failure aborted it. From this many times on it has a sync group of its own,
    /// so that it cannot happen again.
    private static let attemptsInCompany = 2
    /// Times that a command is sent at most: in company, alone, and once more if its prepared statement has become
    /// useless.
    private static let maximumAttempts = 4

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let kind: Kind
    private let logger: Logger

    private var waiting = Deque<PostgresCommand>()
    private var inFlight = 0
    private let connection: ReconnectingConnection
    private var lastError = PostgresError(.unavailable)
    private var hook: EndOfTickHook?
    private var waitTimer: TimerID?
    private var isDraining = false
    private var whenIdle: [@Sendable () -> Void] = []

    init(kind: Kind, settings: PostgresSettings, loop: EventLoop, resolver: HostResolver, logger: Logger) {
        self.kind = kind
        self.loop = loop
        self.logger = logger
        connection = ReconnectingConnection(settings: settings, loop: loop, resolver: resolver, logger: logger)
    }

    /// How long a further statement would wait, compared with other pipelines. A pipeline that is reconnecting is the last choice.
    var load: Int { unanswered + (connection.isOpen ? 0 : Self.reconnectingLoad) }
    private static let reconnectingLoad = 1 << 30
    /// Statements that wait or are in flight.
    private var unanswered: Int { waiting.count + inFlight }

    /// Why statements are refused now, if they are.
    var refusal: PostgresError? { connection.mayWait ? nil : lastError }

    // MARK: Life

    func start() {
        if kind == .reads, hook == nil {
            hook = loop.addEndOfTickHook { self.assumeIsolated { $0.sendWaiting() } }
        }
        connection.start { event in self.assumeIsolated { $0.happened(event) } }
    }

    /// Refuses what comes from now on, and calls `body` as soon as nothing is in hand.
    func whenIdle(_ body: @escaping @Sendable () -> Void) {
        isDraining = true
        whenIdle.append(body)
        checkIdle()
    }

    func close() {
        connection.close(PostgresError(.connectionLost, detail: "the pool has been shut down"))
        lastError = PostgresError(.unavailable, detail: "the pool has been shut down")
        if let hook { loop.removeEndOfTickHook(hook) }
        if let waitTimer { loop.cancel(waitTimer) }
        (hook, waitTimer) = (nil, nil)
        failWaiting(lastError)
    }

    // MARK: Commands

    /// Answers the command sooner or later.
    func submit(_ command: PostgresCommand) {
        if let refusal = command.refusal { return command.complete(.failure(refusal)) }
        if let refusal { return command.complete(.failure(refusal)) }
        guard !isDraining else {
            return command.complete(.failure(PostgresError(.unavailable, detail: "the pool is shutting down")))
        }
        guard waiting.count < Self.maximumWaiting else {
            return command.complete(.failure(PostgresError(.overloaded, detail: "\(waiting.count) statements wait")))
        }
        waiting.append(command)
        if kind == .writes { sendWaiting() }
        watchWaiting()
    }

    /// Sends what waits, as far as the pipeline has room.
    private func sendWaiting() {
        guard !waiting.isEmpty, let current = connection.current, connection.isOpen else { return }
        let limit = kind == .reads ? Self.readsInFlight : Self.writesInFlight
        var together: [PostgresCommand] = []
        var apart: [PostgresCommand] = []
        while inFlight < limit, let command = waiting.popFirst() {
            guard !command.isAbandoned else { continue }
            if kind == .reads, command.attempts < Self.attemptsInCompany {
                together.append(command)
            } else {
                apart.append(command)
            }
            command.attempts += 1
            inFlight += 1
        }
        current.assumeIsolated { connection in
            if !together.isEmpty { connection.send(together, .together) }
            if !apart.isEmpty { connection.send(apart, .apart) }
        }
    }

    private func answered(_ command: PostgresCommand, _ outcome: Outcome<PostgresRows>) {
        inFlight -= 1
        switch outcome {
        case .rows(let rows):
            command.complete(.success(rows))
        case .failed(let error) where error.mayBeRetried && command.attempts < Self.maximumAttempts:
            // It had no effect, and its sync group is its own or made of reads.
            waiting.prepend(command)
        case .failed(let error):
            command.complete(.failure(error))
        case .aborted where command.attempts < Self.maximumAttempts:
            waiting.prepend(command)
        case .aborted:
            command.complete(.failure(PostgresError(.connectionLost, detail: "aborted", statement: command.statement)))
        }
        if kind == .writes { sendWaiting() }
        checkIdle()
    }

    private func failWaiting(_ error: PostgresError) {
        let commands = waiting
        waiting = []
        for command in commands { command.complete(.failure(error)) }
        checkIdle()
    }

    private func checkIdle() {
        guard unanswered == 0, !whenIdle.isEmpty else { return }
        let bodies = whenIdle
        whenIdle = []
        for body in bodies { body() }
    }

    // MARK: Connection

    private func happened(_ event: PostgresConnection.Event) {
        switch event {
        case .opened:
            // Loud only where it ends what was said loudly.
            logger.log(
                level: connection.mayWait ? .debug : .notice,
                "connected to PostgreSQL",
                metadata: ["pipeline": "\(kind)", "loop": "\(loop.label)"]
            )
            connection.opened()
            sendWaiting()
        case .answered(let command, let answer):
            answered(command, answer)
        case .notified:
            // Nobody listens on a connection that is shared.
            break
        case .closed(let error, let unanswered):
            closed(error, unanswered)
        }
    }

    private func closed(_ error: PostgresError, _ unanswered: [PostgresCommand]) {
        inFlight = 0
        lastError = error.with(code: .unavailable)
        if !connection.isClosed {
            // Once, not with every attempt.
            logger.log(
                level: connection.mayWait ? .warning : .debug,
                "no connection to PostgreSQL",
                metadata: ["pipeline": "\(kind)", "loop": "\(loop.label)", "error": "\(String(reflecting: error))"]
            )
        }
        connection.lost()
        if !connection.mayWait { failWaiting(lastError) }
        // The first was the one that the server did not answer in time, if that is why; the others only lost the
        // connection.
        for (index, command) in unanswered.enumerated() {
            command.complete(.failure(index == 0 ? error : error.with(code: .connectionLost)))
        }
        checkIdle()
    }

    // MARK: Time

    /// Sees to it that nothing waits longer than it may. One timer, for the oldest.
    private func watchWaiting() {
        guard waitTimer == nil, let deadline = waiting.first?.deadline else { return }
        waitTimer = loop.schedule(after: .milliseconds(deadline - min(loop.now, deadline))) {
            self.assumeIsolated { pipeline in
                pipeline.waitTimer = nil
                pipeline.dropLate()
            }
        }
    }

    private func dropLate() {
        while let command = waiting.first, command.deadline <= loop.now {
            waiting.removeFirst()
            command.complete(
                .failure(PostgresError(.timedOut, detail: "waited too long to be sent", statement: command.statement))
            )
        }
        watchWaiting()
        checkIdle()
    }
}
