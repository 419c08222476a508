import DequeModule
import EventLoop
import Logging

/// The connections of a loop that transactions and scripts lease, each by one caller at a time.
///
/// Connections are opened on demand up to a limit, kept if they are clean when released, and closed otherwise. Callers
/// that find no free connection wait in a queue that is bounded in length and in time.
actor ExclusivePool {
    /// The maximum number of callers that wait for a connection.
    private static let maximumWaiting = 1000

    private struct Waiter {
        let promise: Promise<PostgresSession>
        let deadline: UInt64
    }

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let settings: PostgresSettings
    private let counts: PoolCounts
    private let logger: Logger

    /// All connections: free, leased, or being opened.
    private var connections: [ExclusiveConnection] = []
    private var free: [ExclusiveConnection] = []
    private var opening = 0
    private var leased = 0
    private var waiters = Deque<Waiter>()
    private var waitTimer: TimerID?
    private var isClosing = false
    private var whenIdle: [@Sendable () -> Void] = []

    /// The number of callers that wait for a connection.
    var waitingCount: Int { waiters.count }

    /// - Parameter counts: The counts of the pool.
    init(settings: PostgresSettings, loop: EventLoop, counts: PoolCounts, logger: Logger) {
        self.settings = settings
        self.loop = loop
        self.counts = counts
        self.logger = logger
    }

    /// Completes `promise` with a session that the caller holds until ``release(_:)``.
    func lease(_ promise: Promise<PostgresSession>) {
        guard !isClosing else {
            return promise.complete(.failure(PostgresError(.unavailable, detail: "the pool is shutting down")))
        }
        guard waiters.count < Self.maximumWaiting else {
            return promise.complete(
                .failure(PostgresError(.overloaded, detail: "\(waiters.count) callers are waiting for a connection"))
            )
        }
        waiters.append(Waiter(promise: promise, deadline: loop.now + settings.waitTimeout.wholeMilliseconds))
        serveWaiters()
        watchWaiters()
    }

    /// Ends the lease of a session. Its connection is kept if it is clean, and closed otherwise.
    func release(_ session: PostgresSession) {
        let connection = session.connection
        leased -= 1
        let isReusable = connection.assumeIsolated { connection in
            connection.endLease()
            return connection.isReusable
        }
        if isReusable {
            free.append(connection)
            serveWaiters()
        } else {
            connection.assumeIsolated { $0.close() }
        }
        checkIdle()
    }

    /// Rejects further callers, and calls `body` as soon as no lease and no waiting caller is left.
    func whenIdle(_ body: @escaping @Sendable () -> Void) {
        isClosing = true
        whenIdle.append(body)
        checkIdle()
    }

    func close() {
        isClosing = true
        loop.cancel(waitTimer.take())
        let failed = waiters
        waiters = []
        for waiter in failed {
            waiter.promise.complete(.failure(PostgresError(.unavailable, detail: "the pool has been shut down")))
        }
        for connection in connections { connection.assumeIsolated { $0.close() } }
        checkIdle()
    }

    // MARK: Serving

    private func serveWaiters() {
        while let waiter = waiters.first {
            if waiter.promise.isAbandoned {
                waiters.removeFirst()
            } else if let connection = free.popLast() {
                waiters.removeFirst()
                leased += 1
                waiter.promise.complete(.success(session(connection)))
            } else {
                break
            }
        }
        // One connection for each waiting caller, up to the limit.
        while opening < waiters.count, connections.count < settings.exclusiveConnections { open() }
    }

    private func session(_ connection: ExclusiveConnection) -> PostgresSession {
        PostgresSession(
            connection: connection,
            lease: connection.assumeIsolated { $0.lease },
            statementTimeout: settings.statementTimeout
        )
    }

    private func open() {
        opening += 1
        let connection = ExclusiveConnection(
            settings: settings,
            loop: loop,
            counts: counts,
            logger: logger
        ) { connection, event in
            self.assumeIsolated { $0.happened(connection, event) }
        }
        connections.append(connection)
        connection.assumeIsolated { $0.connect() }
    }

    private func happened(_ connection: ExclusiveConnection, _ event: ExclusiveConnection.Event) {
        switch event {
        case .opened:
            opening -= 1
            free.append(connection)
        case .closed(let error, let wasOpen):
            connections.removeAll { $0 === connection }
            free.removeAll { $0 === connection }
            if !wasOpen {
                opening -= 1
                logger.debug(
                    "Database connection failed",
                    metadata: ["loop": "\(loop.label)", "error": "\(String(reflecting: error))"]
                )
                // The longest waiting caller gets the error, for its log. The others wait for another attempt.
                waiters.popFirst()?.promise.complete(.failure(error.ofUnavailability))
            }
        }
        serveWaiters()
        checkIdle()
    }

    private func checkIdle() {
        guard leased == 0, waiters.isEmpty, !whenIdle.isEmpty else { return }
        let bodies = whenIdle
        whenIdle = []
        for body in bodies { body() }
    }

    // MARK: Time

    private func watchWaiters() {
        guard waitTimer == nil, let deadline = waiters.first?.deadline else { return }
        waitTimer = loop.schedule(after: .milliseconds(deadline - min(loop.now, deadline))) {
            self.assumeIsolated { pool in
                pool.waitTimer = nil
                pool.dropLate()
            }
        }
    }

    private func dropLate() {
        while let waiter = waiters.first, waiter.deadline <= loop.now {
            waiters.removeFirst()
            waiter.promise.complete(.failure(PostgresError(.timedOut, detail: "no connection became free in time")))
        }
        watchWaiters()
        checkIdle()
    }
}
