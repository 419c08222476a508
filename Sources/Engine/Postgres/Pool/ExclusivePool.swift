import DequeModule
import EventLoop
import Logging

/// The connections of a loop that transactions and scripts lease, each by one caller at a time.
///
/// Connections are opened on demand up to a limit, of this pool and of the server (``ExclusivePlaces``). They are kept for a
/// while if they are clean when released, and closed otherwise. Callers that find no free connection wait in a queue that is
/// bounded in length and in time.
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
    private let places: ExclusivePlaces
    private let counts: PoolCounts
    private let logger: Logger

    /// All connections: free, leased, or being opened.
    private var connections: [ExclusiveConnection] = []
    /// The free connections, the one that was released last at the end, and the times since which they are.
    private var free: [(connection: ExclusiveConnection, since: UInt64)] = []
    private var idleTimer: TimerID?
    /// Whether this pool is a member of ``places``, from the first lease to ``close()``.
    private var isMember = false
    private var opening = 0
    private var leased = 0
    private var waiters = Deque<Waiter>()
    private var waitTimer: TimerID?
    private var isClosing = false
    private var isClosed = false
    private var whenIdle: [@Sendable () -> Void] = []

    /// The number of callers that wait for a connection.
    var waitingCount: Int { waiters.count }

    /// - Parameters:
    ///   - places: The places that the pools of a server share.
    ///   - counts: The counts of the pool.
    init(settings: PostgresSettings, places: ExclusivePlaces, loop: EventLoop, counts: PoolCounts, logger: Logger) {
        self.settings = settings
        self.places = places
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
        join()
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
        if isReusable, !places.isClaimed(isNeeded: !waiters.isEmpty, at: loop.now) {
            keep(connection)
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
        (isClosing, isClosed) = (true, true)
        places.remove(ObjectIdentifier(self))
        loop.cancel(waitTimer.take())
        loop.cancel(idleTimer.take())
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
            } else if let (connection, _) = free.popLast() {
                waiters.removeFirst()
                leased += 1
                waiter.promise.complete(.success(session(connection)))
            } else {
                break
            }
        }
        // One connection for each waiting caller, up to the limits.
        while mayOpen, places.acquire(ObjectIdentifier(self), at: loop.now) { open() }
    }

    private var mayOpen: Bool {
        opening < waiters.count && connections.count < settings.exclusiveConnections && !isClosed
    }

    private func join() {
        guard !isMember else { return }
        isMember = true
        let loop = loop
        places.add(
            ObjectIdentifier(self),
            ExclusivePlaces.Member(
                closeIdle: { loop.execute { self.assumeIsolated { $0.closeIdle(since: .max) } } },
                placeGranted: { loop.execute { self.assumeIsolated { $0.placeGranted() } } }
            )
        )
    }

    private func placeGranted() {
        guard mayOpen else { return places.release() }
        open()
        serveWaiters()
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
            keep(connection)
        case .closed(let error, let wasOpen):
            connections.removeAll { $0 === connection }
            free.removeAll { $0.connection === connection }
            if !wasOpen {
                opening -= 1
                logger.debug(
                    "Database connection failed",
                    metadata: ["loop": "\(loop.label)", "error": "\(String(reflecting: error))"]
                )
                // The longest waiting caller gets the error, for its log. The others wait for another attempt.
                waiters.popFirst()?.promise.complete(.failure(error.ofUnavailability))
            }
            places.release()
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

    /// Adds a connection to the free ones.
    private func keep(_ connection: ExclusiveConnection) {
        free.append((connection, loop.now))
        watchIdle()
    }

    private func watchIdle() {
        guard idleTimer == nil, let since = free.first?.since, !isClosed else { return }
        let end = since + settings.exclusiveIdleTime.wholeMilliseconds
        idleTimer = loop.schedule(after: .milliseconds(end - min(loop.now, end))) {
            self.assumeIsolated { pool in
                pool.idleTimer = nil
                let idleTime = pool.settings.exclusiveIdleTime.wholeMilliseconds
                pool.closeIdle(since: pool.loop.now - min(pool.loop.now, idleTime))
                pool.watchIdle()
            }
        }
    }

    /// Closes the connections that have been free since `limit` or longer.
    private func closeIdle(since limit: UInt64) {
        for (connection, since) in free where since <= limit { connection.assumeIsolated { $0.close() } }
    }

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
