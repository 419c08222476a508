import EventLoop

/// A connection that is leased to one caller for the duration of a call.
///
/// Statements run one after another, in the order in which they are submitted. A session that is used after its lease
/// throws ``PostgresError/Code/unavailable``, since another caller may have the connection then.
package struct PostgresSession: Sendable {
    let connection: ExclusiveConnection
    let lease: Int
    /// The server's timeout of each statement; `nil` for no limit. The client waits a little longer.
    var statementTimeout: Duration?

    /// Runs one statement.
    ///
    /// - Throws: ``PostgresError``; `CancellationError` as soon as the task is cancelled, whether or not the statement
    ///   runs.
    @discardableResult
    package func query<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        try Statement.decode(await run(StatementText(Statement.self), statement.parameters))
    }

    /// Runs one statement that returns no rows. Returns the number of rows that it wrote.
    ///
    /// - Throws: As ``query(_:)`` for statements with rows.
    @discardableResult
    package func query<Statement: PostgresStatement>(_ statement: Statement) async throws -> Int
    where Statement.Row == Never {
        try await run(StatementText(Statement.self), statement.parameters).affectedRows
    }

    /// Runs a text made at run time. For tools and tests.
    @discardableResult
    package func query(text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await run(StatementText(text: text), parameters)
    }

    private func run(_ statement: StatementText, _ parameters: [PostgresValue]) async throws -> PostgresRows {
        let (connection, lease) = (connection, lease)
        return try await Promise.value(on: connection.loop) { promise in
            connection.assumeIsolated {
                $0.submit(command(statement, .statement(parameters), .task(promise)), lease: lease)
            }
        }
    }

    /// Runs a text of one or more statements, separated by semicolons, without parameters.
    ///
    /// Outside a transaction they form one transaction, unless the text itself begins and ends others (PostgreSQL
    /// manual, "Multiple Statements in a Simple Query").
    ///
    /// - Throws: ``PostgresError`` for the first statement that fails. Later statements are not run.
    package func execute(script: SQL) async throws {
        try await execute(text: script.text)
    }

    /// Runs a script that was read from a file, as ``execute(script:)`` runs a literal.
    package func execute(text: String) async throws {
        let (connection, lease) = (connection, lease)
        let script = StatementText(text: text)
        _ = try await Promise.value(on: connection.loop) { promise in
            connection.assumeIsolated { $0.submit(command(script, .script, .task(promise)), lease: lease) }
        }
    }

    /// Runs one statement even if the task has been cancelled.
    func uninterruptedQuery(_ text: String) async throws -> PostgresRows {
        let (connection, lease) = (connection, lease)
        return try await Promise.uninterruptedValue(on: connection.loop) { promise in
            connection.assumeIsolated {
                $0.submit(command(StatementText(text: text), .statement([]), .task(promise)), lease: lease)
            }
        }
    }

    /// Sets the time after which the server cancels a statement; `nil` for no limit.
    ///
    /// - Parameter isLocal: Whether it applies until the end of the transaction and not of the session.
    func setStatementTimeout(_ timeout: Duration?, isLocal: Bool) async throws {
        try await query(SetStatementTimeout(timeout: timeout, isLocal: isLocal))
    }

    /// Runs a `COPY … FROM STDIN` as a transaction of its own: see ``PostgresTransaction/copy(_:writing:)``.
    package func copy(_ sql: SQL, writing body: (PostgresCopyWriter) async throws -> Void) async throws -> Int {
        try await copy(sql, isLocal: false, writing: body)
    }

    fileprivate func copy(
        _ sql: SQL,
        isLocal: Bool,
        writing body: (PostgresCopyWriter) async throws -> Void
    ) async throws -> Int {
        // The server's timeout would include all of the data, from the first byte to the last.
        try await setStatementTimeout(nil, isLocal: isLocal)
        let rows = try await copyRows(StatementText(text: sql.text), writing: body)
        try await setStatementTimeout(statementTimeout, isLocal: isLocal)
        return rows.affectedRows
    }

    private func command(
        _ statement: StatementText,
        _ work: PostgresCommand.Work,
        _ receiver: PostgresCommand.Receiver
    ) -> PostgresCommand {
        PostgresCommand(statement, work: work, timeout: statementTimeout, receiver: receiver)
    }

    /// Runs one `COPY … FROM STDIN`. Afterwards the connection is out of copy mode, or closed.
    private func copyRows(
        _ statement: StatementText,
        writing body: (PostgresCopyWriter) async throws -> Void
    ) async throws -> PostgresRows {
        let (connection, lease) = (connection, lease)
        let copy = PostgresCopy(loop: connection.loop)
        let early = try await Promise<PostgresRows?>.value(on: connection.loop) { promise in
            _ = copy.wait(promise)
            let command = command(statement, .copy(copy), .callback { copy.complete($0) })
            connection.assumeIsolated { $0.submit(command, lease: lease) }
        }
        guard early == nil else {
            throw PostgresError(.unavailable, detail: "the statement is not a COPY … FROM STDIN", statement: statement)
        }
        do {
            try await body(PostgresCopyWriter(connection: connection, copy: copy))
        } catch {
            // The server discards the data. Its response is ignored, since `error` is the cause.
            _ = try? await Promise<PostgresRows?>.uninterruptedValue(on: connection.loop) { promise in
                connection.assumeIsolated { $0.end(copy, failure: "the data is not complete", promise) }
            }
            throw error
        }
        let rows = try await Promise<PostgresRows?>.value(on: connection.loop) { promise in
            connection.assumeIsolated { $0.end(copy, failure: nil, promise) }
        }
        guard let rows else {
            throw PostgresError(.decoding, detail: "a COPY ended without a result", statement: statement)
        }
        return rows
    }
}

private struct SetStatementTimeout: PostgresStatement {
    static let sql: SQL = """
        SELECT set_config('statement_timeout', $1, $2)
        """

    /// `nil` for no limit.
    let timeout: Duration?
    let isLocal: Bool

    var parameters: [PostgresValue] { [.text("\(timeout?.wholeMilliseconds ?? 0)"), .bool(isLocal)] }
}

/// A writer of the data of a `COPY … FROM STDIN`.
package struct PostgresCopyWriter: Sendable {
    let connection: ExclusiveConnection
    let copy: PostgresCopy

    /// Sends a piece of the data, in the format that the statement names. The data may be split anywhere.
    ///
    /// Suspends until the connection has accepted all of it, so that a writer needs little more memory than one piece.
    /// Only one task may write at a time.
    ///
    /// - Throws: ``PostgresError`` if the connection is lost; `CancellationError` as soon as the task is cancelled. The
    ///   server's errors about the data are thrown by ``PostgresTransaction/copy(_:writing:)`` after all of it is
    ///   written, since libpq does not look for them earlier.
    package func write(_ piece: [UInt8]) async throws {
        let (connection, copy) = (connection, copy)
        let rows = try await Promise<PostgresRows?>.value(on: connection.loop) { promise in
            connection.assumeIsolated { $0.write(piece, to: copy, promise) }
        }
        guard rows == nil else {
            throw PostgresError(.unavailable, detail: "data was written after the end of the COPY")
        }
    }
}

/// A transaction that is open for the duration of one call: see ``PostgresPool/withTransaction(statementTimeout:_:)``.
package struct PostgresTransaction: Sendable {
    let session: PostgresSession

    /// Runs one statement of the transaction.
    ///
    /// After one has failed, PostgreSQL rejects all later ones (SQLSTATE 25P02) except a rollback.
    ///
    /// - Throws: ``PostgresError``; `CancellationError` as soon as the task is cancelled.
    @discardableResult
    package func query<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        try await session.query(statement)
    }

    /// Runs one statement of the transaction that returns no rows. Returns the number of rows that it wrote.
    ///
    /// - Throws: As ``query(_:)`` for statements with rows.
    @discardableResult
    package func query<Statement: PostgresStatement>(_ statement: Statement) async throws -> Int
    where Statement.Row == Never {
        try await session.query(statement)
    }

    /// Runs a text made at run time. For tools and tests.
    @discardableResult
    package func query(text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await session.query(text: text, parameters)
    }

    /// Runs a text of one or more statements, separated by semicolons, without parameters.
    ///
    /// The text must not contain `COMMIT` or `ROLLBACK`.
    ///
    /// - Throws: ``PostgresError`` for the first statement that fails.
    package func execute(script: SQL) async throws {
        try await session.execute(script: script)
    }

    /// Runs a `COPY … FROM STDIN` with the data that `body` writes. Returns the number of rows.
    ///
    /// It may take as long as `body` does: the server must only make progress, accepting some of the data within the
    /// statement timeout. No other statement can run meanwhile. If `body` throws, PostgreSQL keeps none of the data.
    ///
    /// - Throws: Errors of `body`; ``PostgresError``, also for invalid data; `CancellationError`. Afterwards the
    ///   transaction can only be rolled back.
    package func copy(_ sql: SQL, writing body: (PostgresCopyWriter) async throws -> Void) async throws -> Int {
        try await session.copy(sql, isLocal: true, writing: body)
    }
}
