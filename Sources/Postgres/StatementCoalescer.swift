internal import DequeModule
internal import EventLoop

/// Writes that arrive while a write is under way, written together by the next one.
///
/// A commit costs the same for one row as for hundreds. So items are gathered: the first of a tick goes at the end of
/// that tick, those that come while a statement is under way wait for it and then go as one statement over arrays,
/// `INSERT … SELECT … FROM unnest($1, $2)`. Each caller is answered when its own row is committed, never before, and no
/// timer delays anyone.
///
/// If the server refuses a statement for the sake of a row, each of its items is written alone, so that a bad row fails
/// only its own caller. Items that touch the same row twice in one upsert (SQLSTATE 21000) are told apart by the same
/// means.
package final class WriteCoalescer<Item: Sendable, Output: Sendable>: Sendable {
    private let core: CoalescerCore<Item, Output>
    private let loop: EventLoop

    /// - Parameters:
    ///   - pool: whose loop it belongs to.
    ///   - maximumItems: rows of one statement. Beyond some hundreds they gain nothing more and hold locks for longer.
    ///   - maximumWaiting: items that may wait.
    ///   - concurrency: statements that may be under way at a time. One for statements that may lock a row that is there already:
    ///     two that lock the same rows in different orders can deadlock. Two, the number of connections for writes, for plain
    ///     inserts: while one commits the next is on its way, and what arrives waits for no commit but its own.
    ///   - statement: the SQL, over arrays.
    ///   - parameters: the arrays, in the order of the items.
    ///   - decode: one output for each item, in the order of the items; is given how many there are.
    package init(
        pool: PostgresPool,
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
            maximumItems: maximumItems,
            maximumWaiting: maximumWaiting,
            concurrency: concurrency,
            statement: statement,
            parameters: parameters,
            decode: decode
        )
    }

    /// Writes `item` and returns what became of it, once it is committed.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/overloaded`` at once when too many wait. `CancellationError`
    ///   as soon as the task is cancelled; the item may be written all the same.
    package func submit(_ item: Item) async throws -> Output {
        let core = core
        return try await Promise.value(on: loop) { promise in
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
    private let maximumItems: Int
    private let maximumWaiting: Int
    private let concurrency: Int
    private let statement: String
    private let parameters: @Sendable ([Item]) -> [PostgresValue]
    private let decode: @Sendable (PostgresRows, Int) throws -> [Output]

    private var waiting = Deque<Entry>()
    /// Statements that are under way: `concurrency` at most, or after a failure one for each item of it.
    private var underWay = 0
    private var hook: EndOfTickHook?

    init(
        pool: PostgresPool,
        maximumItems: Int,
        maximumWaiting: Int,
        concurrency: Int,
        statement: String,
        parameters: @escaping @Sendable ([Item]) -> [PostgresValue],
        decode: @escaping @Sendable (PostgresRows, Int) throws -> [Output]
    ) {
        loop = pool.loop
        self.pool = pool
        self.maximumItems = max(1, maximumItems)
        self.maximumWaiting = maximumWaiting
        self.concurrency = max(1, concurrency)
        self.statement = statement
        self.parameters = parameters
        self.decode = decode
    }

    func submit(_ item: Item, _ promise: Promise<Output>) {
        guard waiting.count < maximumWaiting else {
            return promise.answer(.failure(PostgresError(.overloaded, detail: "\(waiting.count) items wait")))
        }
        waiting.append(Entry(item: item, promise: promise))
        writeAtEndOfTick()
    }

    /// Writes what waits at the end of this tick, unless as many statements as may be are under way then.
    private func writeAtEndOfTick() {
        guard underWay < concurrency, hook == nil else { return }
        hook = loop.addEndOfTickHook {
            self.assumeIsolated { core in
                if let hook = core.hook { core.loop.removeEndOfTickHook(hook) }
                core.hook = nil
                if core.underWay < core.concurrency { core.writeWaiting() }
            }
        }
    }

    private func writeWaiting() {
        var entries: [Entry] = []
        while entries.count < maximumItems, let entry = waiting.popFirst() {
            if !entry.promise.isAbandoned { entries.append(entry) }
        }
        if !entries.isEmpty { write(entries) }
    }

    private func write(_ entries: [Entry]) {
        underWay += 1
        pool.write(statement, parameters(entries.map(\.item))) { result in
            self.assumeIsolated { $0.written(entries, result) }
        }
    }

    private func written(_ entries: [Entry], _ result: Swift.Result<PostgresRows, PostgresError>) {
        underWay -= 1
        switch result {
        case .success(let rows):
            answer(entries, rows)
        case .failure(let error) where entries.count > 1 && (error.concernsTheRow || error.code == .invalidParameter):
            for entry in entries { write([entry]) }
        case .failure(let error):
            for entry in entries { entry.promise.answer(.failure(error)) }
        }
        // The callers that have just been answered may have the next item: they run before the end of the tick.
        writeAtEndOfTick()
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
            for (entry, output) in zip(entries, outputs) { entry.promise.answer(.success(output)) }
        } catch {
            let error = error as? PostgresError ?? PostgresError(.decoding, detail: "\(error)", statement: statement)
            for entry in entries { entry.promise.answer(.failure(error)) }
        }
    }
}
