import EventLoop

// Exclusive connections.
extension PostgresPool {
    /// Runs `body` in a transaction, in which each statement sees what is committed when it starts (`READ COMMITTED`).
    /// Commits when `body` returns; rolls back when it throws or the task is cancelled.
    ///
    /// The transaction holds one of the loop's ``PostgresSettings/exclusiveConnections``, which the loops of a server share.
    /// Therefore `body` must do nothing slow outside the database, and must never wait for another transaction.
    ///
    /// - Parameter statementTimeout: The timeout of each statement and of the commit; `nil` for
    ///   ``PostgresSettings/statementTimeout``.
    /// - Throws: Errors of `body`; ``PostgresError``; `CancellationError`. ``PostgresError/Code/overloaded`` and
    ///   ``PostgresError/Code/timedOut`` also if no connection becomes free. If the response to the commit is lost
    ///   (``PostgresError/Code/connectionLost``), the transaction may have been committed.
    package func withTransaction<Result: Sendable>(
        statementTimeout: Duration? = nil,
        _ body: (PostgresTransaction) async throws -> Result
    ) async throws -> Result {
        var session = try await lease()
        do {
            _ = try await session.uninterruptedQuery("BEGIN")
            if let statementTimeout {
                session.statementTimeout = statementTimeout
                try await session.setStatementTimeout(statementTimeout, isLocal: true)
            }
            let result = try await body(PostgresTransaction(session: session))
            try Task.checkCancellation()
            let commit = try await session.uninterruptedQuery("COMMIT")
            // After a failed statement, `COMMIT` rolls back and still succeeds.
            guard commit.commandTag == "COMMIT" else {
                throw PostgresError(
                    .server,
                    sqlState: "25P02",
                    detail: "an earlier statement of the transaction failed"
                )
            }
            release(session)
            return result
        } catch {
            await rollBack(session)
            release(session)
            throw error
        }
    }

    /// Runs one statement on an exclusive connection, because it reads or writes so much that others would wait behind
    /// it.
    ///
    /// - Throws: As ``withTransaction(statementTimeout:_:)``.
    package func queryAlone<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        let session = try await lease()
        defer { release(session) }
        return try await session.query(statement)
    }

    /// Runs `body` with an exclusive connection and no transaction: for scripts, and for statements that cannot run in
    /// a transaction.
    ///
    /// The connection is closed afterwards, and with it everything that `body` leaves behind: settings, temporary
    /// tables, locks.
    ///
    /// - Parameter statementTimeout: The timeout of each statement; `nil` for ``PostgresSettings/statementTimeout``.
    /// - Throws: Errors of `body`; ``PostgresError``; `CancellationError`.
    package func withConnection<Result: Sendable>(
        statementTimeout: Duration? = nil,
        _ body: (PostgresSession) async throws -> Result
    ) async throws -> Result {
        var session = try await lease()
        loop.execute { [connection = session.connection] in connection.assumeIsolated { $0.mark() } }
        defer { release(session) }
        if let statementTimeout {
            session.statementTimeout = statementTimeout
            try await session.setStatementTimeout(statementTimeout, isLocal: false)
        }
        return try await body(session)
    }

    /// Rolls back, so that the connection can be leased again. A busy connection is left as it is: it is closed when it
    /// is released, and the server then rolls back.
    private func rollBack(_ session: PostgresSession) async {
        let isBusy = await loop.result { session.connection.assumeIsolated { $0.isBusy } }
        // The statement of a cancelled task is still in flight. Do not wait for it.
        guard !isBusy else { return }
        _ = try? await session.uninterruptedQuery("ROLLBACK")
    }
}
