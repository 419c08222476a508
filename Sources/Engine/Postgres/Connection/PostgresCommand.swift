import EventLoop

/// A command for a connection, and the receiver of its result.
///
/// The object is the same from the call to the result, even if the command is sent on several connections.
final class PostgresCommand: @unchecked Sendable {
    // Immutable except for `attempts` and `sentAt`, which only the connection that holds the command changes, on the
    // loop.

    enum Work: Sendable {
        /// One prepared statement with bound parameters.
        case statement([PostgresValue])
        /// One or more statements as text, in the simple protocol.
        case script
        /// One `COPY … FROM STDIN` and its data, in the simple protocol.
        case copy(PostgresCopy)
    }

    /// The receiver of a result.
    enum Receiver: Sendable {
        case task(Promise<PostgresRows>)
        case callback(@Sendable (Swift.Result<PostgresRows, PostgresError>) -> Void)
    }

    let statement: StatementText
    let work: Work
    /// The time after which the server cancels the command; `nil` for no limit. For a `COPY`, the time in which the
    /// server must accept some of the data.
    let timeout: Duration?
    /// The time after which the command is no longer sent, in the loop's milliseconds.
    let deadline: UInt64
    private let receiver: Receiver

    /// The number of times that the command was sent.
    var attempts = 0
    /// When the command was last sent, in the loop's milliseconds.
    var sentAt: UInt64 = 0

    init(_ statement: StatementText, work: Work, timeout: Duration?, deadline: UInt64 = .max, receiver: Receiver) {
        self.statement = statement
        self.work = work
        self.timeout = timeout
        self.deadline = deadline
        self.receiver = receiver
    }

    /// Whether the receiver no longer waits for the result.
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

    /// Completes the command with its outcome on a connection.
    func complete(_ outcome: Outcome<PostgresRows>) {
        switch outcome {
        case .rows(let rows): complete(.success(rows))
        case .failed(let error): complete(.failure(error))
        case .aborted: fail(.connectionLost, "aborted by the failure of an earlier command")
        }
    }

    /// Completes the command with an error that names its statement.
    func fail(_ code: PostgresError.Code, _ detail: String) {
        complete(.failure(PostgresError(code, detail: detail, statement: statement)))
    }

    /// The reason why the command cannot be sent at all; `nil` if it can.
    var refusal: PostgresError? {
        if BinaryFormat.containsNUL(statement.text) {
            return PostgresError(.invalidParameter, detail: "a statement contains a NUL character")
        }
        guard case .statement(let parameters) = work else { return nil }
        // The protocol counts parameters in 16 bits.
        guard parameters.count <= Int(UInt16.max) else {
            return PostgresError(
                .invalidParameter,
                detail: "\(parameters.count) parameters are more than the protocol allows",
                statement: statement
            )
        }
        for (index, parameter) in parameters.enumerated() {
            if case .refused(let why) = parameter.storage {
                return PostgresError(.invalidParameter, detail: "parameter $\(index + 1): \(why)", statement: statement)
            }
        }
        return nil
    }
}
