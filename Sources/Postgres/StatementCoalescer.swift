internal import DequeModule
internal import EventLoop

/// What many callers ask of the database at a time, asked by one statement.
///
/// A statement and its commit cost nearly the same for one row as for many. So items are gathered: the first of a tick goes
/// at the end of that tick, those that come while statements are under way wait for one of them and then go together as one
/// statement over arrays, `INSERT … SELECT … FROM unnest($1, $2)`. Each caller of a write is answered when its own row is
/// committed, never before, and no timer delays anyone.
///
/// If the server refuses a statement for the sake of a row, each of its items goes alone, so that a bad row fails only its
/// own caller. Items that touch the same row twice in one upsert (SQLSTATE 21000) are told apart by the same means.
package final class StatementCoalescer<Item: Sendable, Output: Sendable>: Sendable {
    /// What the statement does, and so whose connections it takes.
    package enum Access: Sendable {
        /// Changes nothing: ``PostgresPool/read(_:_:)``.
        case read
        /// A transaction of its own: ``PostgresPool/write(_:_:)``.
        case write
    }

    private let core: CoalescerCore<Item, Output>
    private let loop: EventLoop

    /// - Parameters:
    ///   - pool: whose loop it belongs to.
    ///   - access: whether the statement reads or writes.
    ///   - maximumItems: rows of one statement. Beyond some hundreds they gain nothing more and hold locks for longer.
    ///   - maximumWaiting: items that may wait.
    ///   - concurrency: statements that may be under way at a time. One for statements that may lock a row that is there already:
    ///     two that lock the same rows in different orders can deadlock. Two, the number of connections for writes, for plain
    ///     inserts and for reads: while one is under way the next is on its way, and what arrives waits for none but its own.
    ///   - statement: the SQL, over arrays.
    ///   - parameters: the arrays, in the order of the items.
    ///   - decode: one output for each item, in the order of the items; is given how many there are.
    package init(
        pool: PostgresPool,
        access: Access = .write,
        maximumItems: Int = 500,
        maximumWaiting: Int = 10_000,
        concurrency: Int = 1,
        statement: String,
        parameters: @escaping @Sendable ([Item]) -> [PostgresValue],
        decode: @escaping @Sendable (PostgresRows, Int) throws -> [Output]
    ) {
        loop = pool.loop
        core = CoalescerCore(
            pool: pool,
            connections: access == .read ? .reads : .writes,
            maximumItems: maximumItems,
            maximumWaiting: maximumWaiting,
            concurrency: concurrency,
            statement: statement,
            parameters: parameters,
            decode: decode
        )
    }

    /// Asks for `item` and returns what became of it; a write is committed then.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/overloaded`` at once when too many wait. `CancellationError`
    ///   as soon as the task is cancelled; the item may be written all the same.
    package func submit(_ item: Item) async throws -> Output {
        let core = core
        return try await Promise.value(on: loop) { promise in
            core.assumeIsolated { $0.submit(item, promise) }
        }
    }

    /// The same for `limit` at most, whether or not the task is cancelled.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/timedOut`` after `limit`; the item may be written all the same.
    package func submit(_ item: Item, within limit: Duration) async throws -> Output {
        let core = core
        return try await Promise.uninterruptedValue(on: loop, within: limit, timeout: PostgresError(.timedOut)) {
            promise in
            core.assumeIsolated { $0.submit(item, promise) }
        }
    }
}

private actor CoalescerCore<Item: Sendable, Output: Sendable> {
    private struct Entry: Sendable {
        let item: Item
        let promise: Promise<Output>
    }

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let pool: PostgresPool
    private let connections: PipelinedConnection.Kind
    private let maximumItems: Int
    private let maximumWaiting: Int
    private let concurrency: Int
    private let statement: String
    private let parameters: @Sendable ([Item]) -> [PostgresValue]
    private let decode: @Sendable (PostgresRows, Int) throws -> [Output]

    private var waiting = Deque<Entry>()
    /// Statements that are under way: `concurrency` at most, or after a failure one for each item of it.
    private var inFlight = 0
    private var hook: EndOfTickHook?

    init(
        pool: PostgresPool,
        connections: PipelinedConnection.Kind,
        maximumItems: Int,
        maximumWaiting: Int,
        concurrency: Int,
        statement: String,
        parameters: @escaping @Sendable ([Item]) -> [PostgresValue],
        decode: @escaping @Sendable (PostgresRows, Int) throws -> [Output]
    ) {
        loop = pool.loop
        self.pool = pool
        self.connections = connections
        self.maximumItems = max(1, maximumItems)
        self.maximumWaiting = maximumWaiting
        self.concurrency = max(1, concurrency)
        self.statement = statement
        self.parameters = parameters
        self.decode = decode
    }

    func submit(_ item: Item, _ promise: Promise<Output>) {
        guard waiting.count < maximumWaiting else {
            return promise.complete(.failure(PostgresError(.overloaded, detail: "\(waiting.count) items wait")))
        }
        waiting.append(Entry(item: item, promise: promise))
        sendAtEndOfTick()
    }

    /// Sends what waits at the end of this tick, unless as many statements as may be are under way then.
    private func sendAtEndOfTick() {
        guard inFlight < concurrency, hook == nil else { return }
        hook = loop.addEndOfTickHook {
            self.assumeIsolated { core in
                if let hook = core.hook { core.loop.removeEndOfTickHook(hook) }
                core.hook = nil
                if core.inFlight < core.concurrency { core.sendWaiting() }
            }
        }
    }

    private func sendWaiting() {
        var entries: [Entry] = []
        while entries.count < maximumItems, let entry = waiting.popFirst() {
            if !entry.promise.isAbandoned { entries.append(entry) }
        }
        if !entries.isEmpty { send(entries) }
    }

    private func send(_ entries: [Entry]) {
        inFlight += 1
        pool.run(statement, parameters(entries.map { $0.item }), connections) { result in
            self.assumeIsolated { $0.answered(entries, result) }
        }
    }

    private func answered(_ entries: [Entry], _ result: Swift.Result<PostgresRows, PostgresError>) {
        inFlight -= 1
        switch result {
        case .success(let rows):
            answer(entries, rows)
        case .failure(let error) where entries.count > 1 && (error.concernsTheRow || error.code == .invalidParameter):
            for entry in entries { send([entry]) }
        case .failure(let error):
            for entry in entries { entry.promise.complete(.failure(error)) }
        }
        // The callers that have just been answered may have the next item: they run before the end of the tick.
        sendAtEndOfTick()
    }

    private func answer(_ entries: [Entry], _ rows: PostgresRows) {
        do {
            let outputs = try decode(rows, entries.count)
            guard outputs.count == entries.count else {
                throw PostgresError(
                    .decoding,
                    detail: "\(outputs.count) answers for \(entries.count) items",
                    statement: statement
                )
            }
            for index in entries.indices { entries[index].promise.complete(.success(outputs[index])) }
        } catch {
            let error = error as? PostgresError ?? PostgresError(.decoding, detail: "\(error)", statement: statement)
            for entry in entries { entry.promise.complete(.failure(error)) }
        }
    }
}
