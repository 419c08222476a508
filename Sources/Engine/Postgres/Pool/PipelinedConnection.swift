import DequeModule
import EventLoop
import Logging

/// A connection in pipeline mode that all callers of a loop share. It reconnects whenever it is lost.
///
/// A pipeline of reads collects the statements of a tick and sends them at the end of the tick with one sync. A
/// pipeline of writes sends each statement at once with a sync of its own, since the statements between two syncs are
/// one transaction.
actor PipelinedConnection {
    enum Kind {
        case reads
        case writes
    }

    /// The maximum number of reads in flight. Deeper pipelines gain nothing, and reads that are not sent yet can still
    /// be rejected or dropped.
    private static let readsInFlight = 256
    /// The maximum number of writes in flight: enough to hide the network round trip behind the server's commits.
    private static let writesInFlight = 16
    /// The time in milliseconds without a response after which a pipeline counts as stalled. A commit usually takes far
    /// less, so that the statement at the front probably waits for a lock, and all others behind it.
    private static let stallTime: UInt64 = 50
    /// The maximum number of commands that wait to be sent.
    private static let maximumWaiting = 10_000
    /// The number of attempts in which a read shares a sync group. A read is retried if another read's failure aborted
    /// it. After this many attempts it gets a sync group of its own, so that this cannot happen again.
    private static let attemptsInCompany = 2
    /// The maximum number of attempts of a command: in shared groups, alone, and once more if its prepared statement is
    /// out of date.
    private static let maximumAttempts = 4

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let kind: Kind
    private let isOfReplica: Bool
    /// The name in log lines.
    private var name: String { isOfReplica ? "replica" : "\(kind)" }
    private let counts: PoolCounts
    private let logger: Logger

    private var waiting = Deque<PostgresCommand>()
    private var inFlight = 0
    /// The time of the last response, or at which a command was sent while none was in flight.
    private var progressedAt: UInt64 = 0
    private let connection: ReconnectingConnection
    private var lastError = PostgresError(.unavailable)
    /// Whether the end of the tick sends the waiting commands.
    private var sendsAtEndOfTick = false
    private var waitTimer: TimerID?
    private var isDraining = false
    private var whenIdle: [@Sendable () -> Void] = []

    /// - Parameter counts: The counts of the pool.
    init(
        kind: Kind,
        settings: PostgresSettings,
        loop: EventLoop,
        counts: PoolCounts,
        logger: Logger
    ) {
        self.kind = kind
        isOfReplica = settings.isReplica
        self.loop = loop
        self.counts = counts
        self.logger = logger
        connection = ReconnectingConnection(settings: settings, loop: loop, logger: logger)
    }

    /// The wait that a further statement can expect, compared with other pipelines.
    ///
    /// A pipeline that responds comes before one that is stalled, and one that reconnects is the last resort. Of several
    /// stalled ones, the one that responded most recently comes first, whatever their statements: another may wait for a
    /// lock. A tie of others goes to the most recent one too.
    var load: (reconnecting: Int, stalledFor: UInt64, statements: Int, age: UInt64) {
        let age = inFlight > 0 ? loop.now - progressedAt : 0
        return (connection.isOpen ? 0 : 1, age < Self.stallTime ? 0 : age, unanswered, age)
    }
    /// Statements that wait or are in flight.
    private var unanswered: Int { waiting.count + inFlight }

    /// The number of statements that wait to be sent.
    var waitingCount: Int { waiting.count }
    /// See ``ReconnectingConnection/reconnections``.
    var reconnections: Int { connection.reconnections }

    /// The reason why statements are rejected now; `nil` if they are accepted.
    var refusal: PostgresError? { connection.mayWait ? nil : lastError }

    // MARK: Life

    func start() {
        connection.start { event in self.assumeIsolated { $0.happened(event) } }
    }

    /// Rejects further statements, and calls `body` as soon as none is waiting or in flight.
    func whenIdle(_ body: @escaping @Sendable () -> Void) {
        isDraining = true
        whenIdle.append(body)
        checkIdle()
    }

    func close() {
        connection.close(PostgresError(.connectionLost, detail: "the pool has been shut down"))
        lastError = PostgresError(.unavailable, detail: "the pool has been shut down")
        loop.cancel(waitTimer.take())
        failWaiting(lastError)
    }

    // MARK: Commands

    /// Enqueues a command. Each command is completed eventually.
    func submit(_ command: PostgresCommand) {
        if let refusal = command.refusal { return command.complete(.failure(refusal)) }
        if let refusal { return command.complete(.failure(refusal)) }
        guard !isDraining else {
            return command.fail(.unavailable, "the pool is shutting down")
        }
        guard waiting.count < Self.maximumWaiting else {
            return command.fail(.overloaded, "\(waiting.count) statements are waiting")
        }
        waiting.append(command)
        sendSoon()
        watchWaiting()
    }

    /// Sends waiting commands: writes now, reads at the end of the tick, together.
    private func sendSoon() {
        guard kind == .reads else { return sendWaiting() }
        guard !waiting.isEmpty, !sendsAtEndOfTick else { return }
        sendsAtEndOfTick = true
        loop.atEndOfTick {
            self.assumeIsolated { pipeline in
                pipeline.sendsAtEndOfTick = false
                pipeline.sendWaiting()
            }
        }
    }

    /// Sends waiting commands while the pipeline has room.
    private func sendWaiting() {
        guard !waiting.isEmpty, let current = connection.current, connection.isOpen else { return }
        let limit = kind == .reads ? Self.readsInFlight : Self.writesInFlight
        if inFlight == 0 { progressedAt = loop.now }
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
        progressedAt = loop.now
        counts.durations.record(milliseconds: loop.now - command.sentAt)
        switch outcome {
        case .failed(let error) where mayRetry(error) && command.attempts < Self.maximumAttempts:
            // The statement had no effect, and its sync group contains only itself or only reads.
            waiting.prepend(command)
        case .aborted where command.attempts < Self.maximumAttempts:
            waiting.prepend(command)
        case .rows, .failed, .aborted:
            command.complete(outcome)
        }
        sendSoon()
        checkIdle()
    }

    /// Whether a command may be run again at once. A replica that cancels a statement because of what it replays would cancel it
    /// again.
    private func mayRetry(_ error: PostgresError) -> Bool {
        isOfReplica ? error.concernsThePreparedStatement : error.mayBeRetried
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
            // A notice only after a failed attempt to connect.
            logger.log(
                level: connection.mayWait ? .debug : .notice,
                "Database connected",
                metadata: ["pipeline": "\(name)", "loop": "\(loop.label)"]
            )
            connection.opened()
            sendWaiting()
        case .answered(let command, let answer):
            answered(command, answer)
        case .notified:
            // A shared connection listens on no channel.
            break
        case .closed(let error, let unanswered):
            closed(error, unanswered)
        }
    }

    private func closed(_ error: PostgresError, _ unanswered: [PostgresCommand]) {
        inFlight = 0
        lastError = error.ofUnavailability
        if !connection.isClosed {
            // A warning only for the first failure, not for every attempt.
            logger.log(
                level: connection.mayWait ? .warning : .debug,
                "Database connection failed",
                metadata: ["pipeline": "\(name)", "loop": "\(loop.label)", "error": "\(String(reflecting: error))"]
            )
        }
        connection.lost()
        if !connection.mayWait { failWaiting(lastError) }
        // After a timeout, the first command is the one that timed out. The others only lost the connection.
        for (index, command) in unanswered.enumerated() {
            command.complete(.failure(index == 0 ? error : error.with(code: .connectionLost)))
        }
        checkIdle()
    }

    // MARK: Time

    /// Starts the timer that drops commands which have waited too long. There is one timer, for the oldest command.
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
            command.fail(.timedOut, "the statement waited too long to be sent")
        }
        watchWaiting()
        checkIdle()
    }
}
