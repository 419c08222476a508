package import EventLoop
package import Logging
internal import Synchronization

/// The connections of one loop to the database.
///
/// Reads share a connection in pipeline mode, writes share others, and transactions have one each while they last
/// (``PostgresSettings``). A call suspends its task and blocks nothing. Connections that are lost are made again by
/// themselves; while that fails, calls fail at once with ``PostgresError/Code/unavailable``.
///
/// A task that is cancelled is answered with `CancellationError` at once. What it has sent keeps its place and is run:
/// a write may be committed or not.
package final class PostgresPool: Sendable {
    package let loop: EventLoop
    private let settings: PostgresSettings
    private let reads: [PipelinedConnection]
    private let writes: [PipelinedConnection]
    private let exclusive: ExclusivePool
    private let statements = Atomic<Int>(0)

    /// Statements that were asked of the connections that its loop shares, so far; those of transactions and scripts are not counted.
    /// What was coalesced is one statement. Callable from anywhere.
    package var statementCount: Int { statements.load(ordering: .relaxed) }

    /// A pool without connections: see ``start()``. One that was started lives until ``shutdown(within:)``.
    package init(settings: PostgresSettings, loop: EventLoop, logger: Logger) {
        self.loop = loop
        self.settings = settings
        let resolver = HostResolver(hosts: settings.hostsToResolve, loop: loop)
        func pipelines(_ kind: PipelinedConnection.Kind) -> [PipelinedConnection] {
            var settings = settings
            settings.isReadOnly = kind == .reads
            settings.plansOnce = kind == .writes
            let count = kind == .reads ? settings.sharedConnections : settings.writeConnections
            return (0..<max(1, count)).map { _ in
                PipelinedConnection(kind: kind, settings: settings, loop: loop, resolver: resolver, logger: logger)
            }
        }
        reads = pipelines(.reads)
        writes = pipelines(.writes)
        exclusive = ExclusivePool(settings: settings, loop: loop, resolver: resolver, logger: logger)
    }

    /// Begins to connect. Callable from anywhere; returns at once. Calls may be made before: they wait.
    package func start() {
        loop.execute {
            for pipeline in self.reads + self.writes { pipeline.assumeIsolated { $0.start() } }
        }
    }

    /// Lets what is in hand finish, for `limit` at most, then closes every connection. What comes later is
    /// refused.
    ///
    /// A transaction that is open after that loses its connection and with it everything it did.
    package func shutdown(within limit: Duration = .seconds(5)) async {
        do {
            try await Promise<Void>.uninterruptedValue(on: loop) { promise in
                let timer = self.loop.schedule(after: limit) {
                    self.close()
                    promise.complete(.success(()))
                }
                self.whenIdle {
                    self.loop.cancel(timer)
                    self.close()
                    promise.complete(.success(()))
                }
            }
        } catch {
            // Nobody fails the promise.
        }
    }

    /// Runs a statement that changes nothing, on the connection that all reads of this loop share.
    ///
    /// All reads that are asked for in one tick of the loop travel together. One that fails does not disturb the
    /// others: they are run again. A statement that changes something might so be run twice, or be rolled back for
    /// another's sake, and the server refuses it (SQLSTATE 25006): use ``write(_:)``.
    ///
    /// - Throws: ``PostgresError``.
    package func read<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        try Statement.decode(await run(StatementText(Statement.self), statement.parameters, on: reads))
    }

    /// Runs a text that was made at run time, as ``read(_:)`` runs a declared statement. For tools and tests.
    package func read(text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await run(StatementText(text: text), parameters, on: reads)
    }

    /// Runs one statement as a transaction of its own.
    ///
    /// - Throws: ``PostgresError``. With ``PostgresError/Code/connectionLost`` and ``PostgresError/Code/timedOut``
    ///   without an SQLSTATE the statement may have been committed.
    @discardableResult
    package func write<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        try Statement.decode(await run(StatementText(Statement.self), statement.parameters, on: writes))
    }

    /// Runs one statement that returns no rows as a transaction of its own. Returns the number of rows that it wrote.
    ///
    /// - Throws: As ``write(_:)`` for statements with rows.
    @discardableResult
    package func write<Statement: PostgresStatement>(_ statement: Statement) async throws -> Int
    where Statement.Row == Never {
        try await run(StatementText(Statement.self), statement.parameters, on: writes).affectedRows
    }

    /// Runs a text that was made at run time, as ``write(_:)`` runs a declared statement. For tools and tests.
    @discardableResult
    package func write(text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await run(StatementText(text: text), parameters, on: writes)
    }

    /// Either for what lives on the loop: calls `callback` on it, maybe before it returns.
    func run(
        _ statement: StatementText,
        _ parameters: [PostgresValue],
        _ kind: PipelinedConnection.Kind,
        callback: @escaping @Sendable (Swift.Result<PostgresRows, PostgresError>) -> Void
    ) {
        submit(statement, parameters, .callback(callback), to: kind == .reads ? reads : writes)
    }

    private func run(
        _ statement: StatementText,
        _ parameters: [PostgresValue],
        on pipelines: [PipelinedConnection]
    ) async throws -> PostgresRows {
        try await Promise.value(on: loop) { promise in self.submit(statement, parameters, .task(promise), to: pipelines)
        }
    }

    private func submit(
        _ statement: StatementText,
        _ parameters: [PostgresValue],
        _ receiver: PostgresCommand.Receiver,
        to pipelines: [PipelinedConnection]
    ) {
        statements.wrappingAdd(1, ordering: .relaxed)
        let command = PostgresCommand(
            statement,
            work: .statement(parameters),
            timeout: settings.statementTimeout,
            deadline: loop.now + settings.waitTimeout.wholeMilliseconds,
            receiver: receiver
        )
        var pipeline = pipelines[0]
        // Only with more than one is there anything to choose.
        for other in pipelines.dropFirst() {
            let isLighter = pipeline.assumeIsolated { $0.load } > other.assumeIsolated { $0.load }
            if isLighter { pipeline = other }
        }
        pipeline.assumeIsolated { $0.submit(command) }
    }

    // MARK: Connections of one's own

    /// Lends out a connection until ``release(_:)``.
    ///
    /// - Throws: ``PostgresError``: at once with ``PostgresError/Code/unavailable`` while the shared connections cannot
    ///   be made.
    func lease() async throws -> PostgresSession {
        let (exclusive, pipeline) = (exclusive, reads[0])
        return try await Promise.value(on: loop) { promise in
            if let refusal = pipeline.assumeIsolated({ $0.refusal }) {
                promise.complete(.failure(refusal))
            } else {
                exclusive.assumeIsolated { $0.lease(promise) }
            }
        }
    }

    func release(_ session: PostgresSession) {
        let exclusive = exclusive
        loop.execute { exclusive.assumeIsolated { $0.release(session) } }
    }

    /// Calls `body` on the loop as soon as no part of the pool has anything in hand. Nothing new is taken from now on.
    fileprivate func whenIdle(_ body: @escaping @Sendable () -> Void) {
        let parts = Countdown(reads.count + writes.count + 1, body)
        exclusive.assumeIsolated { $0.whenIdle { parts.next() } }
        for pipeline in reads + writes { pipeline.assumeIsolated { $0.whenIdle { parts.next() } } }
    }

    fileprivate func close() {
        for pipeline in reads + writes { pipeline.assumeIsolated { $0.close() } }
        exclusive.assumeIsolated { $0.close() }
    }
}

/// Calls something when all of several things have happened.
private final class Countdown: @unchecked Sendable {
    // Touched on the pool's loop only: made there, and handed to actors of that loop.
    private var remaining: Int
    private let body: @Sendable () -> Void

    init(_ count: Int, _ body: @escaping @Sendable () -> Void) {
        remaining = count
        self.body = body
    }

    func next() {
        remaining -= 1
        if remaining == 0 { body() }
    }
}
