/// The failure of a database operation.
///
/// `description` is safe to show to anyone. ``detail`` has the message of the server and ``statement`` the statement;
/// both are for the log and for `debugDescription`. Neither ever contains a parameter's value or a password.
package struct PostgresError: Error, Sendable, Equatable {
    /// The kind of a failure. The raw values are stable, so that programs can act on them.
    package enum Code: String, Sendable {
        /// No connection can be used: the last attempt to connect failed, the server accepts no changes (SQLSTATE 25006), or
        /// the pool or session has ended. Nothing was changed.
        case unavailable
        /// The connection was lost. If the statement had been sent, a write may have been committed.
        case connectionLost
        /// A timeout. The statement had no effect if the server cancelled it (SQLSTATE 57014) or if it waited too long
        /// to be sent. A write may have been committed if the server did not respond.
        case timedOut
        /// Too many statements are waiting already. Nothing was sent.
        case overloaded
        /// The server rejected the statement: see ``PostgresError/sqlState``. It had no effect.
        case server
        /// A parameter cannot be sent, such as a text that contains a NUL. Nothing was sent.
        case invalidParameter
        /// The result has another shape than the caller expects. The statement had its effect.
        case decoding
        /// A migration failed, or the migration files and the database do not match.
        case migration
        /// The connection string is invalid.
        case settings
        /// The only server that was found is a standby. Nothing was sent.
        case standby
        /// The database, or the pooler in front of it, cannot serve this program until an administrator changes it.
        /// Nothing was sent.
        case unsuitable
    }

    /// The SQLSTATE of a change in a read-only transaction. Unless the transaction was made read-only on purpose, the server
    /// accepts no changes.
    package static let readOnlyTransaction = "25006"

    package private(set) var code: Code
    /// The five-character error code of PostgreSQL (PostgreSQL manual, Appendix A).
    package let sqlState: String?
    /// The violated constraint, if the server names one.
    package let constraint: String?
    /// One sentence that is safe to show to anyone.
    package private(set) var message: String
    /// The message of the server or libpq, for the log only.
    package let detail: String?
    /// The name of the statement, or the beginning of a text made at run time. For the log only.
    package let statement: String?
    /// The position of the failure in the text of the statement, in characters from 1, if the server names one.
    package let position: Int?

    /// The maximum length of ``statement``: enough to find it in the source.
    private static let excerptLength = 200

    package init(
        _ code: Code,
        sqlState: String? = nil,
        constraint: String? = nil,
        message: String? = nil,
        detail: String? = nil,
        statement: String? = nil,
        position: Int? = nil
    ) {
        self.code = code
        self.sqlState = sqlState
        self.constraint = constraint
        self.message = message ?? code.message
        self.detail = detail
        self.statement = statement.map { String($0.prefix(Self.excerptLength)) }
        self.position = position
    }

    init(_ code: Code, detail: String, statement: StatementText?) {
        self.init(code, detail: detail, statement: statement?.description)
    }

    /// The class of the SQLSTATE: its first two characters.
    package var sqlStateClass: Substring? { sqlState?.prefix(2) }

    /// The message of PostgreSQL or libpq in one line, or else that of the error, for operators.
    package var words: String {
        let words = code == .migration ? message : detail ?? message
        let line = words.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return line.hasSuffix(".") ? String(line.dropLast()) : line
    }

    /// The error with the message of PostgreSQL or libpq, for an operator's terminal.
    package var report: String { code == .migration || detail == nil ? description : "\(description) \(words)" }

    /// Returns the error of a failed statement. An error of libpq itself has no `sqlState`.
    static func fromServer(
        sqlState: String?,
        constraint: String?,
        detail: String,
        statement: String?,
        position: Int? = nil
    ) -> PostgresError {
        let code: Code =
            switch (sqlState?.prefix(2), sqlState) {
            case (_, "57014"): .timedOut
            // The server ended the session: a shutdown, the crash of another session, or the timeout of an idle session
            // or transaction. Class 08 is "connection exception".
            case (_, "57P01"), (_, "57P02"), (_, "57P03"), (_, "57P05"), (_, "25P03"), ("08", _): .connectionLost
            // An error of libpq itself: the connection is gone.
            case (nil, nil): .connectionLost
            default: .server
            }
        return PostgresError(
            code,
            sqlState: sqlState,
            constraint: constraint,
            detail: detail,
            statement: statement,
            position: position
        )
    }

    /// Whether another row, or the same row later or alone, might be accepted.
    ///
    /// These are data exceptions (22), constraints (23), the same row twice in one upsert (21), deadlocks and
    /// serialization failures (40), a value too large for an index (54), and errors raised by a trigger (P0). All other
    /// errors concern the statement or the server.
    var concernsTheRow: Bool {
        guard code == .server, let sqlStateClass else { return false }
        return ["21", "22", "23", "40", "54", "P0"].contains(sqlStateClass)
    }

    /// Whether the statement was not run because its preparation on this connection is missing or out of date.
    ///
    /// 26000: the prepared statement does not exist, because preparing it failed. 0A000: "cached plan must not change
    /// result type", after a migration has changed a table.
    var concernsThePreparedStatement: Bool {
        sqlState == "26000" || sqlState == "0A000"
    }

    /// Whether the statement had no effect and may succeed if it is run again at once: its preparation is out of date,
    /// or PostgreSQL cancelled it to end a deadlock (40P01) or because of a concurrent transaction (40001).
    var mayBeRetried: Bool { concernsThePreparedStatement || sqlState == "40P01" || sqlState == "40001" }

    /// The error of a call that finds no connection, because the latest one has failed with this error.
    var ofUnavailability: PostgresError {
        switch code {
        case .standby, .unsuitable: self
        default: with(code: .unavailable)
        }
    }

    /// Returns the error with another code, and the message of that code.
    func with(code: Code) -> PostgresError {
        var error = self
        (error.code, error.message) = (code, code.message)
        return error
    }
}

extension PostgresError.Code {
    fileprivate var message: String {
        switch self {
        case .unavailable: "The database is unavailable."
        case .connectionLost: "The connection to the database was lost."
        case .timedOut: "The database did not respond in time."
        case .overloaded: "Too many statements are waiting for the database. Try again."
        case .server: "The database rejected the statement."
        case .invalidParameter: "A value cannot be stored in the database."
        case .decoding: "The database returned an unexpected result."
        case .migration: "The database schema does not match this program."
        case .settings: "The database URL is invalid."
        case .standby: "The database is a standby."
        case .unsuitable: "The database cannot be used as it is."
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
