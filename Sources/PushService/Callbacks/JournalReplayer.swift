internal import EventLoop
internal import Journal
internal import Logging
internal import Postgres

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
    private let signal: Signal
    /// Ends the pause after a failure. `signal`, which appended records send, does not end it.
    private let stopping: Signal
    private var isStopping = false
    /// The last failure other than an outage, stored so that it is logged only once.
    private var lastFault: String?

    init(journal: Journal, store: ReceivedCallStore, loop: EventLoop, logger: Logger) {
        self.journal = journal
        self.store = store
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.logger = logger
        let signal = Signal(loop: loop)
        self.signal = signal
        stopping = Signal(loop: loop)
        journal.whenAppended { signal.send() }
    }

    /// Runs until it is stopped.
    func run() async {
        var nextAdoption: UInt64 = 0
        while !isStopping {
            if loop.now >= nextAdoption {
                await journal.adopt()
                nextAdoption = loop.now + Self.adoptionInterval
            }
            journal.reopen()
            await replay()
            guard !isStopping else { return }
            await signal.wait(atMost: Self.retryInterval)
        }
    }

    /// Makes ``run()`` return after the current batch.
    func stop() {
        isStopping = true
        signal.send()
        stopping.send()
    }

    /// Stores waiting records until none is left or PostgreSQL fails.
    private func replay() async {
        var stored = 0
        do {
            while !isStopping, let batch = await journal.nextBatch(limit: Self.batchSize) {
                let rejected = try await store(batch.records)
                try await journal.confirm(batch, rejected: rejected)
                stored += batch.records.count - rejected.count
            }
            lastFault = nil
        } catch {
            log(error)
            await stopping.wait(atMost: Self.retryInterval)
        }
        if stored > 0 { logger.notice("Journal replayed", metadata: ["calls": "\(stored)"]) }
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
        try await withThrowingTaskGroup(of: Int?.self) { group in
            for (index, record) in records.enumerated() {
                group.addTask(executorPreference: loop) { [store, logger] in
                    do {
                        try await store.store(ReceivedCall(record: record.payload))
                        return nil
                    } catch let error as PostgresError where error.isRejection {
                        logger.error("Journal record rejected", metadata: ["error": "\(String(reflecting: error))"])
                        return index
                    } catch let error as ReceivedCall.UnknownRecord {
                        logger.error("Journal record rejected", metadata: ["error": "\(error)"])
                        return index
                    }
                }
            }
            var rejected: [Int] = []
            for try await index in group { if let index { rejected.append(index) } }
            return rejected.sorted()
        }
    }
}
