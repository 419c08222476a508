internal import EventLoop

/// A connection that is the caller's alone, for as long as the call that lent it lasts.
///
/// Statements run one after another, in the order in which they are asked for. Used after its time it throws
/// ``PostgresError/Code/unavailable``: somebody else may have the connection then.
package struct PostgresSession: Sendable {
    let connection: ExclusiveConnection
    let lease: Int
    /// What the server, and with some grace the client, allows each statement; `nil` for ever.
    var statementTimeout: Duration?

    /// Runs one statement.
    ///
    /// - Throws: ``PostgresError``; `CancellationError` as soon as the task is cancelled, whatever becomes of the
    ///   statement.
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

    /// Runs a text that was made at run time. For tools and tests.
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

    /// Runs a text of one statement or several, separated by semicolons, without parameters.
    ///
    /// Outside a transaction they are one transaction, unless the text itself begins and ends others (PostgreSQL
    /// manual, "Multiple Statements in a Simple Query").
    ///
    /// - Throws: ``PostgresError``, for the first statement that fails; those behind it are not run.
    package func execute(script: SQL) async throws {
        try await execute(text: script.text)
    }

    /// Runs a script that was read from a file, as ``execute(script:)`` runs one of our source.
    package func execute(text: String) async throws {
        let (connection, lease) = (connection, lease)
        let script = StatementText(text: text)
        _ = try await Promise.value(on: connection.loop) { promise in
            connection.assumeIsolated { $0.submit(command(script, .script, .task(promise)), lease: lease) }
        }
    }

    /// Runs one statement even for a task that has been cancelled.
    func uninterruptedQuery(_ text: String) async throws -> PostgresRows {
        let (connection, lease) = (connection, lease)
        return try await Promise.uninterruptedValue(on: connection.loop) { promise in
            connection.assumeIsolated {
                $0.submit(command(StatementText(text: text), .statement([]), .task(promise)), lease: lease)
            }
        }
    }

    /// Has the server cancel a statement after `timeout`; `nil` for never.
    ///
    /// - Parameter isLocal: Until the end of the transaction, and not of the session.
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
        // The server would count from the first byte to the last.
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

    /// Runs one `COPY … FROM STDIN`. Whatever becomes of it, the connection is out of it afterwards, or closed.
    private func copyRows(
        _ statement: StatementText,
        writing body: (PostgresCopyWriter) async throws -> Void
    ) async throws -> PostgresRows {
        let (connection, lease) = (connection, lease)
        let copy = PostgresCopy(loop: connection.loop)
        let early = try await Promise<PostgresRows?>.value(on: connection.loop) { promise in
            _ = copy.wait(promise)
            let command = command(statement, .copy(copy), .callback { copy.end($0) })
            connection.assumeIsolated { $0.submit(command, lease: lease) }
        }
        guard early == nil else {
            throw PostgresError(.unavailable, detail: "no COPY FROM STDIN", statement: statement)
        }
        do {
            try await body(PostgresCopyWriter(connection: connection, copy: copy))
        } catch {
            // Nothing is kept of what has been written; what the server says to that is not what went wrong.
            _ = try? await Promise<PostgresRows?>.uninterruptedValue(on: connection.loop) { promise in
                connection.assumeIsolated { $0.end(copy, failure: "the data is not complete", promise) }
            }
            throw error
        }
        let rows = try await Promise<PostgresRows?>.value(on: connection.loop) { promise in
            connection.assumeIsolated { $0.end(copy, failure: nil, promise) }
        }
        guard let rows else {
            throw PostgresError(.decoding, detail: "a COPY ended without an answer", statement: statement)
        }
        return rows
    }
}

private struct SetStatementTimeout: PostgresStatement {
    static let sql: SQL = """
        SELECT set_config('statement_timeout', $1, $2)
        """

    /// `nil` for none.
    let timeout: Duration?
    let isLocal: Bool

    var parameters: [PostgresValue] { [.text("\(timeout?.wholeMilliseconds ?? 0)"), .bool(isLocal)] }
}

/// Takes the data of a `COPY … FROM STDIN`.
package struct PostgresCopyWriter: Sendable {
    let connection: ExclusiveConnection
    let copy: PostgresCopy

    /// Sends a piece of the data, in the format that the statement names; where it is cut makes no difference.
    ///
    /// Suspends until the connection has taken all of it, so that a writer costs no more memory than one piece and a
    /// little. One task writes at a time.
    ///
    /// - Throws: ``PostgresError`` when the connection is lost; `CancellationError` as soon as the task is cancelled.
    ///   What the server finds wrong with the data is thrown by ``PostgresTransaction/copy(_:writing:)`` when all of
    ///   it has been written, since libpq does not look for it before.
    package func write(_ piece: [UInt8]) async throws {
        let (connection, copy) = (connection, copy)
        let rows = try await Promise<PostgresRows?>.value(on: connection.loop) { promise in
            connection.assumeIsolated { $0.write(piece, to: copy, promise) }
        }
        guard rows == nil else { throw PostgresError(.unavailable, detail: "written after the end of the COPY") }
    }
}

/// A transaction, open for as long as the call that began it lasts: see
/// ``PostgresPool/withTransaction(statementTimeout:_:)``.
package struct PostgresTransaction: Sendable {
    let session: PostgresSession

    /// Runs one statement of the transaction.
    ///
    /// After one has failed, PostgreSQL refuses all that follow (SQLSTATE 25P02) but a rollback.
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

    /// Runs a text that was made at run time. For tools and tests.
    @discardableResult
    package func query(text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await session.query(text: text, parameters)
    }

    /// Runs a text of one statement or several, separated by semicolons, without parameters.
    ///
    /// It is not to contain `COMMIT` or `ROLLBACK`.
    ///
    /// - Throws: ``PostgresError``, for the first statement that fails.
    package func execute(script: SQL) async throws {
        try await session.execute(script: script)
    }

    /// Runs a `COPY … FROM STDIN` whose data `body` writes, and returns how many rows that were.
    ///
    /// It may take as long as `body` does: of the server only progress is asked, some of the data within the time that
    /// a statement has. While it lasts no other statement can be run. If `body` throws, PostgreSQL is told that the
    /// data is not complete, and keeps none of it.
    ///
    /// - Throws: what `body` throws; ``PostgresError``, also for data that the server refuses; `CancellationError`. In
    ///   each case the transaction can only be rolled back.
    package func copy(_ sql: SQL, writing body: (PostgresCopyWriter) async throws -> Void) async throws -> Int {
        try await session.copy(sql, isLocal: true, writing: body)
    }
}
