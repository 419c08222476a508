internal import EventLoop

/// A connection that is the caller's alone, for as long as the call that lent it lasts.
///
/// Statements run one after another, in the order in which they are asked for. Used after its time it throws
/// ``PostgresError/Code/unavailable``: somebody else may have the connection then.
package struct PostgresSession: Sendable {
    let connection: ExclusiveConnection
    let lease: Int

    /// Runs one statement.
    ///
    /// - Throws: ``PostgresError``; `CancellationError` as soon as the task is cancelled, whatever becomes of the
    ///   statement.
    @discardableResult
    package func query(_ sql: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        let (connection, lease) = (connection, lease)
        return try await Promise.value(on: connection.loop) { promise in
            let command = PostgresCommand(sql: sql, work: .statement(parameters), receiver: .task(promise))
            connection.assumeIsolated { $0.submit(command, lease: lease) }
        }
    }

    /// Runs a text of one statement or several, separated by semicolons, without parameters.
    ///
    /// Outside a transaction they are one transaction, unless the text itself begins and ends others (PostgreSQL
    /// manual, "Multiple Statements in a Simple Query").
    ///
    /// - Throws: ``PostgresError``, for the first statement that fails; those behind it are not run.
    package func execute(script: String) async throws {
        let (connection, lease) = (connection, lease)
        _ = try await Promise.value(on: connection.loop) { promise in
            let command = PostgresCommand(sql: script, work: .script, receiver: .task(promise))
            connection.assumeIsolated { $0.submit(command, lease: lease) }
        }
    }

    /// Runs one statement even for a task that has been cancelled.
    func uninterruptedQuery(_ sql: String) async throws -> PostgresRows {
        let (connection, lease) = (connection, lease)
        return try await Promise.uninterruptedValue(on: connection.loop) { promise in
            let command = PostgresCommand(sql: sql, work: .statement([]), receiver: .task(promise))
            connection.assumeIsolated { $0.submit(command, lease: lease) }
        }
    }
}

/// A transaction, open for as long as the call that began it lasts: see
/// ``PostgresPool/withTransaction(_:)``.
package struct PostgresTransaction: Sendable {
    let session: PostgresSession

    /// Runs one statement of the transaction.
    ///
    /// After one has failed, PostgreSQL refuses all that follow (SQLSTATE 25P02) but a rollback.
    ///
    /// - Throws: ``PostgresError``; `CancellationError` as soon as the task is cancelled.
    @discardableResult
    package func query(_ sql: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await session.query(sql, parameters)
    }

    /// Runs a text of one statement or several, separated by semicolons, without parameters.
    ///
    /// It is not to contain `COMMIT` or `ROLLBACK`.
    ///
    /// - Throws: ``PostgresError``, for the first statement that fails.
    package func execute(script: String) async throws {
        try await session.execute(script: script)
    }
}
