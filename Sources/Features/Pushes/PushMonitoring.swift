import Endpoints
import Postgres
import Runtime

/// The numbers of unfinished pushes and of their batches in the database, for all servers together.
struct PushQueue: Sendable {
    /// Batches that wait to be sent, of pushes that are not stopped. ``Backlog/limit`` means at least that many, as in
    /// the count of sending batches.
    let waitingBatches: Int64
    /// Batches that a server is sending, or was sending when it stopped.
    let sendingBatches: Int64
    /// The seconds for which the oldest due batch has been due; 0 if none is due.
    let oldestWaitingSeconds: Double
    /// The number of unfinished pushes in each state.
    var pushes: [PushState: Int64] = [:]

    static func read(_ pool: PostgresPool, _ hours: PostgresValue) async throws -> PushQueue {
        guard var queue = try await pool.read(ReadPushQueue(limit: Backlog.limit, hours: hours)).first else {
            throw PostgresError(.decoding)
        }
        queue.pushes = try await states(pool, hours)
        return queue
    }

    /// Reads the numbers of unfinished pushes.
    private static func states(_ pool: PostgresPool, _ hours: PostgresValue) async throws -> [PushState: Int64] {
        let counts = try await pool.read(CountUnfinishedPushes(limit: Backlog.limit, hours: hours))
        return counts.reduce(into: [:]) { states, item in
            if let state = item.state { states[state, default: 0] += item.count }
        }
    }

    /// Reads the pushes that have not ended, and the oldest of each state that waits for an operator. Both read few index entries, so
    /// that each request for the status may.
    static func unfinished(_ pool: PostgresPool, _ hours: PostgresValue) async throws -> UnfinishedWork {
        async let attention = pool.read(ListStoppedPushes())
        let states = try await states(pool, hours)
        return UnfinishedWork(
            states: states.reduce(into: [:]) { $0[$1.key.rawValue] = $1.value },
            attention: try await attention
        )
    }
}

/// The report on pushes for operators.
struct PushMonitoring: Sendable {
    private static let senderFailing = Metric(
        "kakao_push_sender_failing_seconds",
        .gauge,
        "Seconds for which each pass of the sender has failed; 0 if it works."
    )
    private static let pushes = Metric(
        "kakao_push_pushes",
        .gauge,
        "Unfinished pushes, by state, each counted up to \(Backlog.limit). A halted push waits for an operator."
    )
    private static let batches = Metric(
        "kakao_push_batches",
        .gauge,
        "Batches waiting or in flight, of all servers, counted up to \(Backlog.limit)."
    )
    private static let oldestWaitingBatchAge = Metric(
        "kakao_push_oldest_waiting_batch_age_seconds",
        .gauge,
        "Seconds by which the most overdue waiting batch is late; 0 if none is due."
    )

    private static let users = Metric(
        "kakao_push_users_total",
        .counter,
        "Users of batches that this server has sent, or reclaimed from one that stopped, by final outcome: sent, failed, uncertain."
    )

    private static let opens = Metric(
        "kakao_push_opens_total",
        .counter,
        "Reports of users' apps that a push was opened: counted, or ignored since it does not exist or was not sent to the user."
    )

    /// The users by the final state of their batch.
    let users: LoopCounts<BatchState>
    /// The reports of opened pushes.
    let opens: LoopCounts<OpenOutcome>
    let progress: WorkProgress
    let queue: CachedQuery<PushQueue>
    /// The pushes that have not ended, as an operator who has just changed one sees them.
    let unfinished: CachedQuery<UnfinishedWork>

    func report() async -> Monitoring.Report {
        let users = await users.sums()
        let opens = await opens.sums()
        let sender = [
            Self.users.reading(
                "outcome",
                [BatchState.sent, .failed, .uncertain].map { ($0.rawValue, Double(users[$0] ?? 0)) }
            ),
            Self.opens.reading("outcome", OpenOutcome.allCases.map { ($0.rawValue, Double(opens[$0] ?? 0)) }),
            Self.senderFailing.reading(progress.failingFor.inSeconds),
        ]
        guard let queue = await queue.value() else { return Monitoring.Report(metrics: sender, isDatabaseUp: false) }
        let metrics = [
            Self.pushes.reading(
                "state",
                PushState.allCases.filter { !$0.isFinal }.map { ($0.rawValue, Double(queue.pushes[$0] ?? 0)) }
            ),
            Self.batches.reading(
                "state",
                [("waiting", Double(queue.waitingBatches)), ("sending", Double(queue.sendingBatches))]
            ),
            Self.oldestWaitingBatchAge.reading(queue.oldestWaitingSeconds),
        ]
        var report = Monitoring.Report(
            metrics: sender + metrics,
            backlog: Backlog(batches: queue.waitingBatches, oldestSeconds: queue.oldestWaitingSeconds)
        )
        report.pushes = { [unfinished] in await unfinished.value() }
        return report
    }
}

// MARK: Statements

/// Counts waiting and sending batches, each up to a limit, and computes for how many seconds the oldest waiting batch has been due.
/// Waiting batches of advertising outside the hours for it are not counted.
///
/// Reads only partial indexes, which contain no finished batches. Rows of single batches are read only
/// up to the limit; parts and claims hold many batches each.
struct ReadPushQueue: PostgresStatement {
    static let sql: SQL = """
        WITH unfinished AS MATERIALIZED (
            SELECT id
            FROM pushes
            WHERE state IN ('scheduled', 'preparing', 'sending')
                AND \(AdvertisingHours.admit(hours: "$2"))
        )
        SELECT
            LEAST(
                $1,
                (
                    SELECT count(*)
                    FROM (
                        SELECT
                        FROM unfinished AS push
                        JOIN push_batches AS batch ON batch.push_id = push.id
                        WHERE batch.state = 'waiting'
                        LIMIT $1
                    ) AS again
                ) + (
                    SELECT COALESCE(sum(part.batches - part.claimed), 0)
                    FROM unfinished AS push
                    JOIN push_parts AS part ON part.push_id = push.id
                    WHERE part.claimed < part.batches
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
                FROM unfinished AS push
                CROSS JOIN LATERAL (
                    (
                        SELECT next_attempt_at
                        FROM push_batches
                        WHERE push_id = push.id
                            AND state = 'waiting'
                        ORDER BY next_attempt_at
                        LIMIT 1
                    )
                    UNION ALL
                    (
                        SELECT created_at
                        FROM push_parts
                        WHERE push_id = push.id
                            AND claimed < batches
                        ORDER BY number
                        LIMIT 1
                    )
                ) AS first
            )
        """

    let limit: Int64
    let hours: PostgresValue

    var parameters: [PostgresValue] { [.int64(limit), hours] }

    /// Decodes the queue without the numbers of pushes.
    static func decode(_ row: PostgresRow) throws -> PushQueue {
        let (waiting, sending, oldest) = try row.decode(Int64.self, Int64.self, Double.self)
        return PushQueue(waitingBatches: waiting, sendingBatches: sending, oldestWaitingSeconds: oldest)
    }
}

/// Counts the unfinished pushes of each state, up to a limit. Advertising that is to be prepared when its hours begin counts as scheduled. The
/// state is `nil` if this version does not know it.
struct CountUnfinishedPushes: PostgresStatement {
    static let sql: SQL = """
        SELECT push_shown_state(state, kind, to_testers, (SELECT advertising_ends($2) IS NOT NULL)) AS counted, count(*)
        FROM (
            SELECT state, kind, to_testers
            FROM pushes
            WHERE state IN ('scheduled', 'preparing', 'sending')
            LIMIT $1
        ) AS unfinished
        GROUP BY counted
        UNION ALL
        SELECT state, count(*)
        FROM (
            SELECT state
            FROM pushes
            WHERE state IN ('proposed', 'paused', 'halted')
            LIMIT $1
        ) AS stopped
        GROUP BY state
        """

    let limit: Int64
    let hours: PostgresValue

    var parameters: [PostgresValue] { [.int64(limit), hours] }

    static func decode(_ row: PostgresRow) throws -> (state: PushState?, count: Int64) {
        let (state, count) = try row.decode(String.self, Int64.self)
        return (PushState(rawValue: state), count)
    }
}
