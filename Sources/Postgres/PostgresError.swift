/// Why something that was asked of the database did not happen.
///
/// `description` is safe to show to anyone. What the server said and the text of the statement are in ``detail`` and
/// ``statement``, for the log, and in `debugDescription`. Neither ever holds a parameter's value or a password of ours.
package struct PostgresError: Error, Sendable, Equatable {
    /// What kind of failure it is: stable, for programs to decide by.
    package enum Code: String, Sendable {
        /// There is no connection, and the last attempt to make one failed. Nothing was sent.
        case unavailable
        /// The connection was lost after the statement had been sent. A write may have been committed or not.
        case connectionLost
        /// The server cancelled the statement (SQLSTATE 57014: it had no effect); or it waited too long to be sent (no
        /// effect either); or the server did not answer (a write may have been committed or not).
        case timedOut
        /// Too many statements wait already. Nothing was sent.
        case overloaded
        /// The server refused the statement: see ``PostgresError/sqlState``. It had no effect.
        case server
        /// A parameter cannot be sent, such as a text with a NUL in it. Nothing was sent.
        case invalidParameter
        /// What came back has another shape than the caller expects. The statement had its effect.
        case decoding
        /// The migrations on disk and in the database do not agree.
        case migration
        /// The connection string cannot be understood.
        case settings
    }

    package let code: Code
    /// The five characters by which PostgreSQL names the error (PostgreSQL manual, Appendix A).
    package let sqlState: String?
    /// The constraint that was violated, when the server names one.
    package let constraint: String?
    /// One sentence that may be shown to anyone.
    package let message: String
    /// What the server or libpq said: for the log only.
    package let detail: String?
    /// The name of the statement, or the beginning of a text that was made at run time. For the log only.
    package let statement: String?

    /// Enough of a statement to find it in the source.
    private static let excerptLength = 200

    package init(
        _ code: Code,
        sqlState: String? = nil,
        constraint: String? = nil,
        message: String? = nil,
        detail: String? = nil,
        statement: String? = nil
    ) {
        self.code = code
        self.sqlState = sqlState
        self.constraint = constraint
        self.message = message ?? code.message
        self.detail = detail
        self.statement = statement.map { String($0.prefix(Self.excerptLength)) }
    }

    init(_ code: Code, detail: String, statement: StatementText) {
        self.init(code, detail: detail, statement: statement.description)
    }

    /// The first two characters of the SQLSTATE: its class.
    package var sqlStateClass: Substring? { sqlState?.prefix(2) }

    /// The error of a statement that the server answered with `sqlState`, or libpq with none.
    static func fromServer(
        sqlState: String?,
        constraint: String?,
        detail: String,
        statement: String?
    ) -> PostgresError {
        let code: Code =
            switch (sqlState?.prefix(2), sqlState) {
            case (_, "57014"): .timedOut
            // The server ends the session: shutdown, crash of a neighbour, idle too long in a transaction; class 08 is
            // "connection exception".
            case (_, "57P01"), (_, "57P02"), (_, "57P03"), (_, "57P05"), (_, "25P03"), ("08", _): .connectionLost
            // libpq's own words: the server is gone.
            case (nil, nil): .connectionLost
            default: .server
            }
        return PostgresError(code, sqlState: sqlState, constraint: constraint, detail: detail, statement: statement)
    }

    /// Whether another row, or the same row at another moment or by itself, might have been accepted.
    ///
    /// Data exceptions (22), constraints (23), the same row twice in one upsert (21), deadlocks and serialization (40),
    /// a value too large for an index (54), and what a trigger raises (P0). Everything else concerns the statement or
    /// the server.
    var concernsTheRow: Bool {
        guard code == .server, let sqlStateClass else { return false }
        return ["21", "22", "23", "40", "54", "P0"].contains(sqlStateClass)
    }

    /// Whether the statement, as this connection prepared it, is of no use any more, and was not run.
    ///
    /// 26000: it does not exist, because what prepared it failed. 0A000: "cached plan must not change result type",
    /// after a migration has changed a table.
    var concernsThePreparedStatement: Bool {
        sqlState == "26000" || sqlState == "0A000"
    }

    /// Whether the statement had no effect and may succeed at once if it is run again: its preparation is out of date, or PostgreSQL cancelled
    /// it to end a deadlock (40P01).
    var mayBeRetried: Bool { concernsThePreparedStatement || sqlState == "40P01" }

    func with(code: Code) -> PostgresError {
        PostgresError(
            code,
            sqlState: sqlState,
            constraint: constraint,
            detail: detail,
            statement: statement
        )
    }
}

extension PostgresError.Code {
    fileprivate var message: String {
        switch self {
        case .unavailable: "The database cannot be reached."
        case .connectionLost: "The connection to the database was lost."
        case .timedOut: "The database did not answer in time."
        case .overloaded: "Too many requests wait for the database."
        case .server: "The database refused the statement."
        case .invalidParameter: "A value cannot be stored."
        case .decoding: "The database answered with something unexpected."
        case .migration: "The database schema is not the one that this program expects."
        case .settings: "The database URL cannot be understood."
        }
    }
}

extension PostgresError: CustomStringConvertible, CustomDebugStringConvertible {
    package var description: String {
        sqlState.map { "\(message) (\(code.rawValue), SQLSTATE \($0))" } ?? "\(message) (\(code.rawValue))"
    }

    package var debugDescription: String {
        var text = description
        if let detail { text += " \(detail)" }
        if let constraint { text += " [constraint \(constraint)]" }
        if let statement { text += " [statement \(statement)]" }
        return text
    }
}
