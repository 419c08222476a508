import Endpoints
import EventLoop
import Journal
import Logging
import Postgres
import Runtime

/// A background worker that stores the calls in the journal as soon as PostgreSQL is available.
actor JournalReplayer {
    /// How often an unavailable PostgreSQL and a failed disk are tried again.
    private static let retryInterval = Duration.seconds(1)
    /// How often the journal files of dead servers are taken over, in milliseconds.
    private static let adoptionInterval: UInt64 = 10_000
    /// The number of records that are stored together.
    private static let batchSize = 250

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let journal: Journal
    private let store: ReceivedCallStore
    private let loop: EventLoop
    private let logger: Logger
    /// When the files of dead servers are taken over next, by the loop's clock.
    private var nextAdoption: UInt64 = 0
    /// The last failure other than an outage, stored so that it is logged only once.
    private var lastFault: String?

    init(journal: Journal, store: ReceivedCallStore, loop: EventLoop, logger: Logger) {
        self.journal = journal
        self.store = store
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.logger = logger
    }

    nonisolated func worker() -> BackgroundWorker {
        let signal = Signal(loop: loop)
        journal.whenAppended { signal.send() }
        return BackgroundWorker(
            "replay-journal",
            on: loop,
            every: Self.retryInterval,
            signal: signal,
            retryAfter: Self.retryInterval,
            pace: nil,
            failure: "Journal not replayed",
            logger: logger
        ) { worker in
            try await self.replay(worker)
            return nil
        }
    }

    /// Stores waiting records until none is left or PostgreSQL fails.
    private func replay(_ worker: BackgroundWorker) async throws {
        if loop.now >= nextAdoption {
            await journal.adopt()
            nextAdoption = loop.now + Self.adoptionInterval
        }
        journal.reopen()
        var stored = 0
        defer { if stored > 0 { logger.notice("Journal replayed", metadata: ["calls": "\(stored)"]) } }
        do {
            while !worker.isStopping, let batch = await journal.nextBatch(limit: Self.batchSize) {
                let rejected = try await store(batch.records)
                try await journal.confirm(batch, rejected: rejected)
                stored += batch.records.count - rejected.count
            }
            lastFault = nil
        } catch {
            log(error)
            throw error
        }
    }

    /// Logs a failure, once. Outages are skipped, since the connections log them. Any other failure, such as a full
    /// disk, lasts until an operator acts.
    private func log(_ error: any Error) {
        if error is CancellationError { return }
        if let error = error as? PostgresError, error.isOutage { return }
        let fault = String(reflecting: error)
        guard fault != lastFault else { return }
        lastFault = fault
        logger.error("Journal replay failed; it is retried every second", metadata: ["error": "\(fault)"])
    }

    /// Stores records, many in a statement.
    ///
    /// - Returns: The indices of the records that the database rejects.
    /// - Throws: The error that kept some records from being stored. All records are then retried, without effect on
    ///   those already stored.
    private func store(_ records: [JournalRecord]) async throws -> [Int] {
        var rejected: [Int] = []
        var calls: [(index: Int, call: ReceivedCall)] = []
        for (index, record) in records.enumerated() {
            do {
                calls.append((index, try ReceivedCall(record: record.payload)))
            } catch {
                logger.error("Journal record rejected", metadata: ["error": "\(error)"])
                rejected.append(index)
            }
        }
        let outcomes = try await store.store(calls.map(\.call), on: loop, logger)
        for (call, outcome) in zip(calls, outcomes) where outcome == .rejected { rejected.append(call.index) }
        return rejected.sorted()
    }
}
