internal import EventLoop

/// What is asked of a connection, and who wants to know.
///
/// One object from the call to the answer, whatever connections it meets on the way.
final class PostgresCommand: @unchecked Sendable {
    // Immutable but for `attempts`, which is touched on the loop only, by the lane that holds the command.

    enum Work: Sendable {
        /// One statement, prepared and with bound parameters.
        case statement([PostgresValue])
        /// One statement or several, as text, in the simple protocol.
        case script
        /// One `COPY … FROM STDIN`, in the simple protocol, with the data that goes into it.
        case copy(PostgresCopy)
    }

    /// Who is told.
    enum Receiver: Sendable {
        case task(Promise<PostgresRows>)
        case callback(@Sendable (Swift.Result<PostgresRows, PostgresError>) -> Void)
    }

    let statement: StatementText
    let work: Work
    /// How long the server may take for it before it cancels it; `nil` for ever. For a `COPY`, the time in which the
    /// server has to take some of the data.
    let timeout: Duration?
    /// Milliseconds of the loop's clock after which it is not worth sending.
    let deadline: UInt64
    private let receiver: Receiver

    /// How many times it has been sent.
    var attempts = 0

    init(_ statement: StatementText, work: Work, timeout: Duration?, deadline: UInt64 = .max, receiver: Receiver) {
        self.statement = statement
        self.work = work
        self.timeout = timeout
        self.deadline = deadline
        self.receiver = receiver
    }

    /// Nobody wants the answer any more.
    var isAbandoned: Bool {
        switch receiver {
        case .task(let promise): promise.isAbandoned
        case .callback: false
        }
    }

    func complete(_ result: Swift.Result<PostgresRows, PostgresError>) {
        switch receiver {
        case .task(let promise): promise.complete(result.mapError { $0 })
        case .callback(let callback): callback(result)
        }
    }

    /// Why it cannot be sent at all, if so.
    var refusal: PostgresError? {
        if BinaryFormat.containsNUL(statement.text) {
            return PostgresError(.invalidParameter, detail: "a statement holds a NUL character")
        }
        guard case .statement(let parameters) = work else { return nil }
        // The protocol counts parameters in 16 bits.
        guard parameters.count <= Int(UInt16.max) else {
            return PostgresError(.invalidParameter, detail: "\(parameters.count) parameters", statement: statement)
        }
        for (index, parameter) in parameters.enumerated() {
            if case .refused(let why) = parameter.storage {
                return PostgresError(.invalidParameter, detail: "parameter $\(index + 1): \(why)", statement: statement)
            }
        }
        return nil
    }
}
