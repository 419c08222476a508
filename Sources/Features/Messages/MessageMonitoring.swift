import FoundationEssentials
import Postgres
import Runtime

/// The report on KakaoTalk messages for operators.
struct MessageMonitoring: Sendable {
    private static let messages = Metric(
        "kakao_push_messages",
        .gauge,
        "Unfinished KakaoTalk messages of all servers, by state, each counted up to \(Backlog.limit)."
    )
    private static let outcomes = Metric(
        "kakao_push_message_receivers_total",
        .counter,
        "Receivers of KakaoTalk messages that this server has handled, or reclaimed from one that stopped, by final outcome: sent, failed, uncertain."
    )

    private let counts: CachedQuery<CountUnfinishedMessages.Row>
    /// The messages that have not ended, as an operator who has just changed one sees them.
    private let unfinished: CachedQuery<UnfinishedWork>
    /// The receivers by final state.
    private let receivers: LoopCounts<ReceiverState>

    init(pool: PostgresPool, receivers: LoopCounts<ReceiverState>) {
        self.receivers = receivers
        counts = CachedQuery(pool, Self.count)
        unfinished = CachedQuery(pool, lifetime: .zero) { pool in
            async let attention = pool.read(ListWaitingMessages(limit: ListWaitingMessages.messages))
            let states = Self.states(try await Self.count(pool))
            return UnfinishedWork(
                states: states.reduce(into: [:]) { $0[$1.0.rawValue] = $1.1 },
                attention: try await attention
            )
        }
    }

    @Sendable private static func count(_ pool: PostgresPool) async throws -> CountUnfinishedMessages.Row {
        guard let counts = try await pool.read(CountUnfinishedMessages(limit: Backlog.limit)).first else {
            throw PostgresError(.decoding)
        }
        return counts
    }

    private static func states(_ counts: CountUnfinishedMessages.Row) -> [(MessageState, Int64)] {
        [(.scheduled, counts.scheduled), (.sending, counts.sending)]
    }

    func report() async -> Monitoring.Report {
        let receivers = await receivers.sums()
        let outcomes = Self.outcomes.reading(
            "outcome",
            [ReceiverState.sent, .failed, .uncertain].map { ($0.rawValue, Double(receivers[$0] ?? 0)) }
        )
        guard let counts = await counts.value() else {
            return Monitoring.Report(metrics: [outcomes], isDatabaseUp: false)
        }
        let messages = Self.messages.reading("state", Self.states(counts).map { ($0.0.rawValue, Double($0.1)) })
        var report = Monitoring.Report(metrics: [messages, outcomes])
        report.messages = { [unfinished] in await unfinished.value() }
        return report
    }
}

// MARK: Statements

/// Counts the messages that have not ended, up to a limit in each state. Reads a partial index, which contains no other
/// messages.
struct CountUnfinishedMessages: PostgresStatement {
    static let sql: SQL = """
        SELECT
            (
                SELECT count(*)
                FROM (SELECT FROM messages WHERE state = 'active' AND send_at > now() LIMIT $1) AS later
            ),
            LEAST(
                $1,
                (
                    SELECT count(*)
                    FROM (SELECT FROM messages WHERE state = 'active' AND send_at <= now() LIMIT $1) AS begun
                ) + (
                    SELECT count(*)
                    FROM (SELECT FROM messages WHERE state = 'active' AND send_at IS NULL LIMIT $1) AS immediate
                )
            )
        """

    let limit: Int64

    var parameters: [PostgresValue] { [.int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> (scheduled: Int64, sending: Int64) {
        try row.decode(Int64.self, Int64.self)
    }
}

/// Finds the oldest message with a receiver who waits, among the oldest that are being sent. Reads at most that many messages, each
/// with an index entry for each of its receivers.
struct ListWaitingMessages: PostgresStatement {
    /// The number of the oldest messages that are looked at. Messages whose receivers do not wait end within seconds.
    static let messages: Int64 = 20

    static let sql: SQL = """
        WITH oldest AS (
            (
                SELECT id, created_at
                FROM messages
                WHERE state = 'active'
                    AND send_at <= now()
                ORDER BY send_at, id
                LIMIT $1
            )
            UNION ALL
            (
                SELECT id, created_at
                FROM messages
                WHERE state = 'active'
                    AND send_at IS NULL
                ORDER BY id
                LIMIT $1
            )
        )
        SELECT oldest.id, receiver.reason, oldest.created_at
        FROM oldest
        CROSS JOIN LATERAL (
            SELECT reason
            FROM message_receivers
            WHERE message_id = oldest.id
                AND state = 'waiting'
                AND reason IS NOT NULL
            LIMIT 1
        ) AS receiver
        ORDER BY oldest.id
        LIMIT 1
        """

    let limit: Int64

    var parameters: [PostgresValue] { [.int64(limit)] }

    static func decode(_ row: PostgresRow) throws -> UnfinishedWork.Item {
        try row.decode { column in
            let id = try column.next(UUID.self)
            let text = try column.next(String.self)
            return try UnfinishedWork.Item(
                id: id,
                name: nil,
                state: MessageState.sending.rawValue,
                reason: text,
                remedy: Reason(rawValue: text)?.remedy ?? "",
                createdAt: column.next()
            )
        }
    }
}
