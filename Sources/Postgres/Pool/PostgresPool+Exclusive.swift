internal import EventLoop

// Connections of one's own.
extension PostgresPool {
    /// Runs `body` in a transaction: commits when it returns, rolls back when it throws or its task has been cancelled.
    ///
    /// The transaction has a connection to itself. There are ``PostgresSettings/exclusiveConnections`` on a loop, so
    /// `body` does nothing slow that is not the database's, and never waits for another transaction of the same loop.
    ///
    /// - Parameter statementTimeout: How long each of its statements may take, and its commit; `nil` for
    ///   ``PostgresSettings/statementTimeout``.
    /// - Throws: what `body` throws; ``PostgresError``; `CancellationError`. ``PostgresError/Code/overloaded`` and
    ///   ``PostgresError/Code/timedOut`` also when no connection becomes free. When the commit itself is not answered
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
            // A transaction in which a statement failed is rolled back by its COMMIT, which calls that a success.
            guard commit.commandTag == "COMMIT" else {
                throw PostgresError(.server, sqlState: "25P02", detail: "a statement of the transaction had failed")
            }
            release(session)
            return result
        } catch {
            await rollBack(session)
            release(session)
            throw error
        }
    }

    /// Runs one statement on a connection of its own: one that reads or writes so much that others would wait behind it.
    ///
    /// - Throws: as ``withTransaction(statementTimeout:_:)``.
    package func queryAlone<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        let session = try await lease()
        defer { release(session) }
        return try await session.query(statement)
    }

    /// Runs `body` with a connection of its own and no transaction: for scripts, and for statements that cannot be in
    /// one.
    ///
    /// The connection is closed afterwards, and with it goes whatever `body` has left behind: settings, temporary
    /// tables, locks.
    ///
    /// - Parameter statementTimeout: How long each of its statements may take; `nil` for
    ///   ``PostgresSettings/statementTimeout``.
    /// - Throws: what `body` throws; ``PostgresError``; `CancellationError`.
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

    /// Leaves a connection that can be lent out again, or one that cannot and is closed when it comes back: the server
    /// rolls back what a closed connection leaves open.
    private func rollBack(_ session: PostgresSession) async {
        let isBusy = try? await Promise<Bool>.uninterruptedValue(on: loop) { promise in
            promise.complete(.success(session.connection.assumeIsolated { $0.isBusy }))
        }
        // A statement that nobody waits for any more is still under way: do not wait for it either.
        guard isBusy == false else { return }
        _ = try? await session.uninterruptedQuery("ROLLBACK")
    }
}
