package import EventLoop
import Locking
package import Logging
import Synchronization

/// The connections of one loop to the database. Tasks on other loops may use them too.
///
/// Reads share a connection in pipeline mode, writes share others, and each transaction leases its own
/// (``PostgresSettings``). A call suspends its task and blocks no thread. Lost connections reconnect by themselves;
/// while that fails, calls fail at once with ``PostgresError/Code/unavailable``.
///
/// A cancelled task gets `CancellationError` at once. A statement that it has sent is run nevertheless: a write may be
/// committed.
package final class PostgresPool: Sendable {
    package let loop: EventLoop
    private let settings: PostgresSettings
    private let reads: [PipelinedConnection]
    private let writes: [PipelinedConnection]
    private let exclusive: ExclusivePool
    private let logger: Logger
    /// The pool of a replica, which starts and ends with this one: see ``withReplica(_:)``. `nil` if there is none.
    package let replica: PostgresPool?
    /// Until when the replica is read: see ``useReplica(until:)``.
    let replicaEnd = Locked<MonotonicTime?>(nil)
    let replicaFailureCount = Atomic<Int>(0)
    let counts = PoolCounts()
    private let statements = Atomic<Int>(0)

    /// The number of statements that were submitted to the shared connections. Those of transactions and scripts are
    /// not counted, and coalesced items count as one statement. Callable from any thread.
    package var statementCount: Int { statements.load(ordering: .relaxed) }

    /// Creates a pool without connections. ``start()`` connects it. A started pool lives until ``shutdown(within:)``.
    ///
    /// - Parameters:
    ///   - settings: Those of a replica (``PostgresSettings/isReplica``) make a pool that rejects all writes.
    ///   - places: The places that its transactions share with those of other pools; `nil` for places of its own.
    ///   - replica: The pool of a replica of the same database, on the same loop.
    package init(
        settings: PostgresSettings,
        loop: EventLoop,
        places: ExclusivePlaces? = nil,
        replica: PostgresPool? = nil,
        logger: Logger
    ) {
        self.loop = loop
        self.settings = settings
        self.replica = replica
        self.logger = logger
        let counts = counts
        func pipelines(_ kind: PipelinedConnection.Kind) -> [PipelinedConnection] {
            var settings = settings
            if kind == .reads { settings.isReadOnly = true }
            settings.plansOnce = kind == .writes
            let count = kind == .reads ? settings.readConnections : settings.writeConnections
            return (0..<max(1, count)).map { _ in
                PipelinedConnection(kind: kind, settings: settings, loop: loop, counts: counts, logger: logger)
            }
        }
        reads = pipelines(.reads)
        writes = settings.isReplica ? [] : pipelines(.writes)
        exclusive = ExclusivePool(
            settings: settings,
            places: places ?? ExclusivePlaces(settings.exclusiveConnections),
            loop: loop,
            counts: counts,
            logger: logger
        )
    }

    /// Returns the pool's numbers. Callable from any thread.
    package func statistics() async -> PoolStatistics {
        await loop.result { [self] in
            var statistics = PoolStatistics()
            statistics.durations = counts.durations
            statistics.waiting = counts.waitingItems + exclusive.assumeIsolated { $0.waitingCount }
            for pipeline in reads + writes {
                statistics.waiting += pipeline.assumeIsolated { $0.waitingCount }
                statistics.reconnections += pipeline.assumeIsolated { $0.reconnections }
            }
            return statistics
        }
    }

    /// Returns the number of connections that this program gets through a pooler at the same time, with those that are open, but no more
    /// than `count`; `nil` without a pooler. Opens the others for a moment: if the pooler gives fewer, for as long as an attempt to connect
    /// may take.
    package func connectionsThroughPooler(upTo count: Int) async -> Int? {
        await PoolerCheck.shared.connections(upTo: count, settings, on: loop, logger: logger)
    }

    /// Starts to connect. Callable from any thread; returns at once. Earlier calls wait for the connections.
    package func start() {
        replica?.start()
        loop.execute {
            for pipeline in self.reads + self.writes { pipeline.assumeIsolated { $0.start() } }
        }
    }

    /// Lets pending work finish for at most `limit`, then closes every connection. Rejects later calls.
    ///
    /// A transaction that is still open then loses its connection and is rolled back.
    package func shutdown(within limit: Duration = .seconds(5)) async {
        async let shutdownOfReplica: Void? = replica?.shutdown(within: limit)
        // The promise cannot fail.
        try? await Promise<Void>.uninterruptedValue(on: loop) { promise in
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
        await shutdownOfReplica
    }

    /// Runs a statement that changes nothing, on a connection that the loop's reads share.
    ///
    /// All reads of one tick of the loop are sent together. If one fails, the others are run again. A statement that
    /// changes something could therefore be run twice, or be rolled back by another's failure. The server rejects such
    /// statements (SQLSTATE 25006): use ``write(_:)``.
    ///
    /// - Throws: ``PostgresError``.
    package func read<Statement: PostgresStatement>(_ statement: Statement) async throws -> [Statement.Row] {
        try Statement.decode(await run(StatementText(Statement.self), statement.parameters, on: reads))
    }

    /// Runs a text made at run time as ``read(_:)`` runs a declared statement. For tools and tests.
    package func read(text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await run(StatementText(text: text), parameters, on: reads)
    }

    /// Runs one statement as a transaction of its own.
    ///
    /// - Throws: ``PostgresError``. After ``PostgresError/Code/connectionLost``, and after
    ///   ``PostgresError/Code/timedOut`` without an SQLSTATE, the statement may have been committed.
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

    /// Runs a text made at run time as ``write(_:)`` runs a declared statement. For tools and tests.
    @discardableResult
    package func write(text: String, _ parameters: [PostgresValue] = []) async throws -> PostgresRows {
        try await run(StatementText(text: text), parameters, on: writes)
    }

    /// Runs a read or a write for a caller on the loop. Calls `callback` on the loop, possibly before this returns.
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
        try await Promise.value(on: loop) { promise in
            self.submit(statement, parameters, .task(promise), to: pipelines)
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
        guard var pipeline = pipelines.first else { return command.fail(.unavailable, "a replica accepts no changes") }
        // Chooses the connection with the lowest load.
        for other in pipelines.dropFirst() {
            let isLighter = pipeline.assumeIsolated { $0.load } > other.assumeIsolated { $0.load }
            if isLighter { pipeline = other }
        }
        pipeline.assumeIsolated { $0.submit(command) }
    }

    // MARK: Exclusive connections

    /// Leases a connection until ``release(_:)``.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/unavailable`` at once while the shared connections cannot be
    ///   opened.
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

    /// Rejects further calls, and calls `body` on the loop as soon as no part of the pool has pending work.
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

/// A counter that calls `body` when `count` events have happened.
private final class Countdown: @unchecked Sendable {
    // Only used on the pool's loop: created there, and passed to actors of that loop.
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
