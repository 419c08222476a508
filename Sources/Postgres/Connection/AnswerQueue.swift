internal import DequeModule

/// How a command ended.
enum Outcome<Rows> {
    case rows(Rows)
    case failed(PostgresError)
    /// Not run, because one before it in its sync group failed.
    case aborted
}

extension Outcome: Sendable where Rows: Sendable {}
extension Outcome: Equatable where Rows: Equatable {}

/// What a connection has sent and libpq has yet to answer, in order: the protocol of `PQgetResult` in pipeline mode.
///
/// Each command is answered by results and then by a NULL; each sync by one `PGRES_PIPELINE_SYNC` that no NULL follows
/// (libpq manual, "Processing Results"). After a command has failed, those behind it in the same sync group are
/// answered by `PGRES_PIPELINE_ABORTED`. The statements of a group are committed at its sync, and not when they are
/// answered: so nobody is told of an answer before the sync is. Pure: it holds no connection and reads no clock.
struct AnswerQueue<Command, Rows> {
    /// What a command came to.
    struct Answer {
        let command: Command
        let outcome: Outcome<Rows>
    }

    enum Action {
        /// Go on reading.
        case wait
        /// These commands are over, in this order.
        case finish([Answer])
        /// libpq says something that it cannot say here: the connection is of no use any more.
        case desynchronized
    }

    private enum Entry {
        case command(Command)
        case sync
    }

    private var entries = Deque<Entry>()
    /// What the first entry has come to so far.
    private var outcome: Outcome<Rows>?
    /// What has been answered of the group whose sync is still to come.
    private var uncommitted: [Answer] = []
    /// Commands that are not over.
    private(set) var commandCount = 0
    /// When the first entry became the first, in milliseconds: since then it is the server's turn.
    private(set) var waitingSince: UInt64 = 0

    /// Nothing is expected: not to ask `PQgetResult` now.
    var isEmpty: Bool { entries.isEmpty }

    /// The command whose turn it is.
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

    /// The first command goes on: it is the server's turn again.
    mutating func resume(at now: UInt64) {
        waitingSince = now
    }

    /// A result that belongs to the first command. A script has several: the first failure counts, else the last.
    mutating func received(_ outcome: Outcome<Rows>, at now: UInt64) -> Action {
        guard case .command = entries.first else { return .desynchronized }
        waitingSince = now
        if case .failed = self.outcome { return .wait }
        self.outcome = outcome
        return .wait
    }

    /// NULL: the first command has been answered. It is over at its group's sync, or now if it is in no group: a script.
    mutating func receivedEnd(at now: UInt64) -> Action {
        guard case .command(let command) = entries.first, let outcome else { return .desynchronized }
        entries.removeFirst()
        waitingSince = now
        self.outcome = nil
        uncommitted.append(Answer(command: command, outcome: outcome))
        return hasSync ? .wait : finish()
    }

    private var hasSync: Bool {
        entries.contains { if case .sync = $0 { true } else { false } }
    }

    private mutating func finish() -> Action {
        guard !uncommitted.isEmpty else { return .wait }
        defer { uncommitted = [] }
        commandCount -= uncommitted.count
        return .finish(uncommitted)
    }

    /// `PGRES_PIPELINE_SYNC`: a sync group is over.
    mutating func receivedSync(at now: UInt64) -> Action {
        guard case .sync = entries.first else { return .desynchronized }
        entries.removeFirst()
        waitingSince = now
        return finish()
    }

    /// Takes out every command that is not over, oldest first: the connection is gone.
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
