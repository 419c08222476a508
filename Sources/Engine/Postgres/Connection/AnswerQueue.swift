import DequeModule

/// The outcome of a command.
enum Outcome<Rows> {
    case rows(Rows)
    case failed(PostgresError)
    /// The command was not run because an earlier command in its sync group failed.
    case aborted
}

extension Outcome {
    /// The outcome of a command whose group could not be committed.
    fileprivate func rolledBack(by error: PostgresError) -> Outcome {
        switch self {
        case .rows: .failed(error)
        case .failed, .aborted: self
        }
    }
}

extension Outcome: Sendable where Rows: Sendable {}
extension Outcome: Equatable where Rows: Equatable {}

/// The commands that a connection has in flight, in order: the protocol of `PQgetResult` in pipeline mode.
///
/// libpq returns the results of each command and then a NULL. It returns one `PGRES_PIPELINE_SYNC` for each sync,
/// without a NULL (libpq manual, "Processing Results"). After a command has failed, the later ones of its sync group
/// return `PGRES_PIPELINE_ABORTED`. The statements of a group are committed at its sync, not at their results, so
/// results are reported only after the sync. If the commit fails, libpq returns the error and a NULL before the sync.
/// Pure: it holds no connection and reads no clock.
struct AnswerQueue<Command, Rows> {
    /// A command and its outcome.
    struct Answer {
        let command: Command
        let outcome: Outcome<Rows>
    }

    enum Action {
        /// Continue reading.
        case wait
        /// These commands have ended, in this order.
        case deliver([Answer])
        /// The connection is lost, for this reason.
        case lost(PostgresError)
        /// libpq returned something that is impossible in this state. The connection cannot be used any more.
        case desynchronized
    }

    private enum Entry {
        case command(Command)
        case sync
    }

    private var entries = Deque<Entry>()
    /// The outcome of the first entry so far.
    private var outcome: Outcome<Rows>?
    /// The failure of the commit of the current group, and whether its NULL was received.
    private var commitFailure: (error: PostgresError, hasEnded: Bool)?
    /// The commands that have a result and wait for the sync of their group.
    private var uncommitted: [Answer] = []
    /// The number of commands that have not ended.
    private(set) var commandCount = 0
    /// The time since which the server is to respond to the first entry, in milliseconds.
    private(set) var waitingSince: UInt64 = 0

    /// Whether no result is expected. `PQgetResult` must not be called then.
    var isEmpty: Bool { entries.isEmpty }

    /// The command at the head of the queue; `nil` if there is none or a sync.
    var first: Command? {
        if case .command(let command) = entries.first { command } else { nil }
    }

    mutating func sent(_ command: Command, at now: UInt64) {
        append(.command(command), at: now)
        commandCount += 1
    }

    mutating func sentSync(at now: UInt64) {
        append(.sync, at: now)
    }

    /// Restarts the server's time to respond to the first command.
    mutating func resume(at now: UInt64) {
        waitingSince = now
    }

    /// Records a result of the first command, or the failure of the commit of its group. A script has several results:
    /// the first failure counts, else the last result.
    mutating func received(_ outcome: Outcome<Rows>, at now: UInt64) -> Action {
        waitingSince = now
        switch (entries.first, outcome) {
        case (.command, _):
            if case .failed = self.outcome { return .wait }
            self.outcome = outcome
        case (.sync, .failed(let error)) where error.sqlState == nil:
            // An error of libpq itself, which has no SQLSTATE: no sync will follow.
            return .lost(commitFailure?.error ?? error)
        case (.sync, .failed(let error)):
            guard commitFailure == nil else { return .desynchronized }
            commitFailure = (error, hasEnded: false)
        case (.sync, _), (nil, _):
            return .desynchronized
        }
        return .wait
    }

    /// Records the NULL after the results of the first command. The command ends at its group's sync, or now if it is a
    /// script and has no group.
    mutating func receivedEnd(at now: UInt64) -> Action {
        if case .sync = entries.first, let failure = commitFailure, !failure.hasEnded {
            commitFailure = (failure.error, hasEnded: true)
            return .wait
        }
        guard case .command(let command) = entries.first, let outcome else { return .desynchronized }
        entries.removeFirst()
        waitingSince = now
        self.outcome = nil
        uncommitted.append(Answer(command: command, outcome: outcome))
        return hasSync ? .wait : deliverUncommitted()
    }

    private var hasSync: Bool {
        entries.contains { if case .sync = $0 { true } else { false } }
    }

    private mutating func deliverUncommitted() -> Action {
        guard !uncommitted.isEmpty else { return .wait }
        defer { uncommitted = [] }
        commandCount -= uncommitted.count
        return .deliver(uncommitted)
    }

    /// Records a `PGRES_PIPELINE_SYNC`, the end of a sync group.
    mutating func receivedSync(at now: UInt64) -> Action {
        guard case .sync = entries.first else { return .desynchronized }
        entries.removeFirst()
        waitingSince = now
        if let error = commitFailure.take()?.error {
            uncommitted = uncommitted.map { Answer(command: $0.command, outcome: $0.outcome.rolledBack(by: error)) }
        }
        return deliverUncommitted()
    }

    /// Removes and returns all commands that have not ended, oldest first, after the connection is lost.
    mutating func drain() -> [Command] {
        let commands =
            uncommitted.map(\.command)
            + entries.compactMap { entry -> Command? in
                if case .command(let command) = entry { command } else { nil }
            }
        self = AnswerQueue()
        return commands
    }

    private mutating func append(_ entry: Entry, at now: UInt64) {
        if entries.isEmpty { waitingSince = now }
        entries.append(entry)
    }
}

extension AnswerQueue.Answer: Equatable where Command: Equatable, Rows: Equatable {}
extension AnswerQueue.Action: Equatable where Command: Equatable, Rows: Equatable {}
