internal import EventLoop
internal import Postgres

/// The numbers of pending batches, pending devices and unfinished pushes in the database, for all servers together.
///
/// Each server has one instance. It queries the database at most once in each ``lifetime``, however often it is asked.
actor QueueDepth {
    struct Counts: Sendable {
        /// Batches that wait to be sent, of pushes that are not stopped. ``QueueDepth/limit`` means at least that many,
        /// as in each count of batches or devices.
        let waitingBatches: Int64
        /// Batches that a server is sending, or was sending when it stopped.
        let sendingBatches: Int64
        /// The seconds for which the oldest due batch has been due; 0 if none is due.
        let oldestWaitingSeconds: Double
        /// Devices with a change that is pending at Kakao.
        let pendingDevices: Int64
        /// The number of unfinished pushes in each state.
        let pushes: [PushState: Int64]
    }

    /// The number at which counting stops. An operator would not act differently on a higher one, and the limit bounds
    /// the index entries that the database reads.
    static let limit = 100_000
    /// The time for which counts are cached. Prometheus scrapes about every 15 s.
    private static let lifetime = Duration.seconds(5)

    /// The timeout of the database's response. Prometheus waits for ten seconds.
    private static let timeout = Duration.seconds(4)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let pool: PostgresPool
    /// The latest query, finished or in flight, and the time of the next one in the loop's milliseconds.
    private var latest: (reading: Task<Counts?, Never>, end: UInt64)?

    init(pool: PostgresPool) {
        self.pool = pool
        unownedExecutor = pool.loop.asUnownedSerialExecutor()
    }

    /// Returns counts that are at most ``lifetime`` old; `nil` if the database does not respond.
    func counts() async -> Counts? {
        if let latest, pool.loop.now < latest.end { return await latest.reading.value }
        // A task of its own, since the first caller may be cancelled.
        let reading = Task(executorPreference: pool.loop) { [pool] in
            (try? await pool.loop.run(within: Self.timeout) { try await Self.read(pool) }) ?? nil
        }
        latest = (reading, pool.loop.now + Self.lifetime.wholeMilliseconds)
        return await reading.value
    }

    private static func read(_ pool: PostgresPool) async throws -> Counts? {
        let depth = try await pool.read(ReadQueueDepth(limit: limit)).first
        var pushes: [PushState: Int64] = [:]
        for (state, count) in try await pool.read(CountUnfinishedPushes()) {
            if let state { pushes[state] = count }
        }
        guard let depth else { return nil }
        return Counts(
            waitingBatches: depth.waitingBatches,
            sendingBatches: depth.sendingBatches,
            oldestWaitingSeconds: depth.oldestWaitingSeconds,
            pendingDevices: depth.pendingDevices,
            pushes: pushes
        )
    }
}

// MARK: Statements

/// Counts waiting and sending batches and pending devices, each up to a limit, and computes for how many seconds the
/// oldest waiting batch has been due.
///
/// Reads only partial indexes, which contain no finished batches. Rows of single batches and of devices are read only
/// up to the limit; parts and claims hold many batches each.
struct ReadQueueDepth: PostgresStatement {
    static let sql: SQL = """
        SELECT
            LEAST(
                $1,
                (
                    SELECT count(*)
                    FROM (
                        SELECT
                        FROM pushes
                        JOIN push_batches AS batch ON batch.push_id = pushes.id
                        WHERE pushes.state IN ('scheduled', 'preparing', 'sending')
                            AND batch.state = 'waiting'
                        LIMIT $1
                    ) AS again
                ) + (
                    SELECT COALESCE(sum(part.batches - part.claimed), 0)
                    FROM pushes
                    JOIN push_parts AS part ON part.push_id = pushes.id
                    WHERE pushes.state IN ('scheduled', 'preparing', 'sending')
                        AND part.claimed < part.batches
                )
            ),
            LEAST(
                $1,
                (
                    SELECT count(*)
                    FROM (
                        SELECT
                        FROM push_batches
                        WHERE state = 'sending'
                        LIMIT $1
                    ) AS again
                ) + (
                    SELECT COALESCE(sum(length(settled) - bit_count(settled)), 0)::bigint
                    FROM push_claims
                    WHERE lease IS NOT NULL
                )
            ),
            (
                SELECT greatest(0, extract(epoch FROM now() - min(first.next_attempt_at)))::float8
                FROM pushes
                CROSS JOIN LATERAL (
                    (
                        SELECT next_attempt_at
                        FROM push_batches
                        WHERE push_id = pushes.id
                            AND state = 'waiting'
                        ORDER BY next_attempt_at
                        LIMIT 1
                    )
                    UNION ALL
                    (
                        SELECT created_at
                        FROM push_parts
                        WHERE push_id = pushes.id
                            AND claimed < batches
                        ORDER BY number
                        LIMIT 1
                    )
                ) AS first
                WHERE pushes.state IN ('scheduled', 'preparing', 'sending')
            ),
            (
                SELECT count(*)
                FROM (
                    SELECT
                    FROM devices
                    WHERE kakao_revision < revision
                    ORDER BY next_attempt_at
                    LIMIT $1
                ) AS unsettled
            )
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
    static func decode(
        _ row: PostgresRow
    ) throws -> (waitingBatches: Int64, sendingBatches: Int64, oldestWaitingSeconds: Double, pendingDevices: Int64) {
        try row.decode(Int64.self, Int64.self, Double.self, Int64.self)
    }
}

/// Counts the unfinished pushes of each state. The state is `nil` if this version does not know it.
struct CountUnfinishedPushes: PostgresStatement {
    static let sql: SQL = """
        SELECT state, count(*)
        FROM pushes
        WHERE state IN ('scheduled', 'preparing', 'sending')
        GROUP BY state
        UNION ALL
        SELECT state, count(*)
        FROM pushes
        WHERE state IN ('paused', 'halted')
        GROUP BY state
        """

    static func decode(_ row: PostgresRow) throws -> (state: PushState?, count: Int64) {
        let (state, count) = try row.decode(String.self, Int64.self)
        return (PushState(rawValue: state), count)
    }
}
