import DequeModule
import EventLoop

/// A statement over arrays, by which a ``StatementCoalescer`` serves many callers at once:
/// `INSERT … SELECT … FROM unnest($1, $2)`.
package protocol CoalescedStatement: PostgresStatement {
    /// The input of one caller.
    associatedtype Item: Sendable
    /// The result of one caller.
    associatedtype Output: Sendable = Void

    /// Returns the result of each of `count` items, in their order.
    ///
    /// - Throws: ``PostgresError/Code/decoding``.
    static func outputs(_ rows: PostgresRows, count: Int) throws -> [Output]
}

extension CoalescedStatement where Output == Void {
    package static func outputs(_ rows: PostgresRows, count: Int) -> [Void] { [Void](repeating: (), count: count) }
}

/// A coalescer that runs one statement for many concurrent callers.
///
/// A statement and its commit cost nearly the same for one row as for many. The first items of a tick are sent at the
/// end of that tick. Items that arrive while statements are in flight wait for one of them to end, and are then sent
/// together. A caller of a write gets its result only after its row is committed. No timer delays an item, unless the
/// coalescer has a `spacing`.
///
/// If the server rejects a statement because of a row, each of its items is sent alone, so that an invalid row fails
/// only its own caller. The same happens to items that touch one row twice in one upsert (SQLSTATE 21000).
package final class StatementCoalescer<Statement: CoalescedStatement>: Sendable {
    package typealias Item = Statement.Item
    package typealias Output = Statement.Output

    /// The connections that the statement runs on.
    package enum Access: Sendable {
        /// The connections of ``PostgresPool/read(_:)``, for a statement that changes nothing.
        case read
        /// The connections of ``PostgresPool/write(_:)``. Each statement is a transaction of its own.
        case write
    }

    private let core: CoalescerCore<Item, Output>

    /// - Parameters:
    ///   - pool: The pool whose connections and loop it uses.
    ///   - access: Whether the statement reads or writes.
    ///   - maximumItems: The maximum number of items of one statement. Beyond some hundreds they gain nothing more and
    ///     hold locks for longer.
    ///   - maximumWaiting: The maximum number of waiting items.
    ///   - concurrency: The maximum number of statements in flight. One for statements that may lock existing rows: two
    ///     that lock the same rows in different orders can deadlock. Two, the number of connections for writes, for
    ///     plain inserts and for reads: the next statement is then sent before the first has ended.
    ///   - spacing: The minimum time between the starts of two statements, unless `maximumItems` wait. For items whose callers can wait
    ///     and whose statement costs much less for each of many: they share a statement although the one before has ended.
    ///   - statement: Returns the statement for some items.
    package init(
        pool: PostgresPool,
        access: Access = .write,
        maximumItems: Int = 500,
        maximumWaiting: Int = 10_000,
        concurrency: Int = 1,
        spacing: Duration = .zero,
        statement: @escaping @Sendable ([Item]) -> Statement
    ) {
        core = CoalescerCore(
            pool: pool,
            connections: access == .read ? .reads : .writes,
            maximumItems: maximumItems,
            maximumWaiting: maximumWaiting,
            concurrency: concurrency,
            spacing: spacing,
            statement: StatementText(Statement.self),
            parameters: { statement($0).parameters },
            outputs: Statement.outputs
        )
    }

    /// Runs the statement for `item`, together with other items. Returns after a write is committed.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/overloaded`` at once when too many items wait.
    ///   `CancellationError` as soon as the task is cancelled; the item may be written nevertheless.
    package func submit(_ item: Item) async throws -> Output {
        try await core.result(of: item)
    }

    /// Runs the statement for `item` as ``submit(_:)`` does, for at most `limit` and even if the task is cancelled.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/timedOut`` after `limit`; the item may be written nevertheless.
    package func submit(_ item: Item, within limit: Duration) async throws -> Output {
        try await core.result(of: item, within: limit)
    }
}

/// The state of a coalescer. Generic over its values and not over the statement, whose associated types would be looked
/// up for each item.
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
    /// In milliseconds.
    private let spacing: UInt64
    private let statement: StatementText
    private let parameters: @Sendable ([Item]) -> [PostgresValue]
    private let outputs: @Sendable (PostgresRows, Int) throws -> [Output]

    private var waiting = Deque<Entry>()
    /// At most `concurrency`, or after a failure one for each item of the failed statement.
    private var inFlight = 0
    /// Whether the end of the tick sends the waiting items.
    private var sendsAtEndOfTick = false
    /// The time before which only a full statement is sent, by the loop's clock in milliseconds.
    private var nextStart: UInt64 = 0
    /// Whether a timer sends the waiting items at `nextStart`.
    private var hasTimer = false

    init(
        pool: PostgresPool,
        connections: PipelinedConnection.Kind,
        maximumItems: Int,
        maximumWaiting: Int,
        concurrency: Int,
        spacing: Duration,
        statement: StatementText,
        parameters: @escaping @Sendable ([Item]) -> [PostgresValue],
        outputs: @escaping @Sendable (PostgresRows, Int) throws -> [Output]
    ) {
        loop = pool.loop
        self.pool = pool
        self.connections = connections
        self.maximumItems = max(1, maximumItems)
        self.maximumWaiting = maximumWaiting
        self.concurrency = max(1, concurrency)
        self.spacing = spacing.wholeMilliseconds
        self.statement = statement
        self.parameters = parameters
        self.outputs = outputs
    }

    nonisolated func result(of item: Item) async throws -> Output {
        try await Promise.value(on: loop) { promise in
            self.assumeIsolated { $0.submit(item, promise) }
        }
    }

    nonisolated func result(of item: Item, within limit: Duration) async throws -> Output {
        try await Promise.uninterruptedValue(on: loop, within: limit, timeout: PostgresError(.timedOut)) { promise in
            self.assumeIsolated { $0.submit(item, promise) }
        }
    }

    private func submit(_ item: Item, _ promise: Promise<Output>) {
        guard waiting.count < maximumWaiting else {
            let detail = "\(waiting.count) items are waiting"
            return promise.complete(.failure(PostgresError(.overloaded, detail: detail, statement: statement)))
        }
        waiting.append(Entry(item: item, promise: promise))
        pool.counts.waitingItems += 1
        sendAtEndOfTick()
    }

    /// Sends the waiting items at the end of this tick, or when the spacing has passed, unless `concurrency` statements are in flight
    /// then.
    private func sendAtEndOfTick() {
        guard inFlight < concurrency, !sendsAtEndOfTick else { return }
        if spacing > 0, waiting.count < maximumItems {
            let now = EventLoop.milliseconds()
            guard now >= nextStart else {
                if !waiting.isEmpty { send(after: nextStart - now) }
                return
            }
        }
        sendsAtEndOfTick = true
        loop.atEndOfTick {
            self.assumeIsolated { core in
                core.sendsAtEndOfTick = false
                if core.inFlight < core.concurrency { core.sendWaiting() }
            }
        }
    }

    /// Sends the waiting items after this number of milliseconds, unless they fill a statement before.
    private func send(after wait: UInt64) {
        guard !hasTimer else { return }
        hasTimer = true
        loop.schedule(after: .milliseconds(wait)) {
            self.assumeIsolated { core in
                core.hasTimer = false
                core.sendAtEndOfTick()
            }
        }
    }

    private func sendWaiting() {
        var entries: [Entry] = []
        while entries.count < maximumItems, let entry = waiting.popFirst() {
            pool.counts.waitingItems -= 1
            if !entry.promise.isAbandoned { entries.append(entry) }
        }
        guard !entries.isEmpty else { return }
        if spacing > 0 { nextStart = EventLoop.milliseconds() + spacing }
        send(entries)
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
        // Callers that have just been answered may submit their next item before the end of the tick.
        sendAtEndOfTick()
    }

    private func answer(_ entries: [Entry], _ rows: PostgresRows) {
        do {
            let outputs = try outputs(rows, entries.count)
            guard outputs.count == entries.count else {
                throw PostgresError(.decoding, detail: "\(outputs.count) results for \(entries.count) items")
            }
            for index in entries.indices { entries[index].promise.complete(.success(outputs[index])) }
        } catch {
            let detail = (error as? PostgresError)?.detail ?? "\(error)"
            let error = PostgresError(.decoding, detail: detail, statement: statement)
            for entry in entries { entry.promise.complete(.failure(error)) }
        }
    }
}
