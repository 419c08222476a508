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
        "Receivers of KakaoTalk messages that this server has handled, by final outcome: sent, failed, uncertain."
    )

    private let unfinished: CachedQuery<CountUnfinishedMessages.Row>
    /// The receivers by final state.
    private let receivers: LoopCounts<ReceiverState>

    init(pool: PostgresPool, receivers: LoopCounts<ReceiverState>) {
        self.receivers = receivers
        unfinished = CachedQuery(pool) { pool in
            guard let counts = try await pool.read(CountUnfinishedMessages(limit: Backlog.limit)).first else {
                throw PostgresError(.decoding)
            }
            return counts
        }
    }

    func report() async -> Monitoring.Report {
        let receivers = await receivers.sums()
        let outcomes = Self.outcomes.reading(
            "outcome",
            [ReceiverState.sent, .failed, .uncertain].map { ($0.rawValue, Double(receivers[$0] ?? 0)) }
        )
        guard let counts = await unfinished.value() else {
            return Monitoring.Report(metrics: [outcomes], isDatabaseUp: false)
        }
        let messages = Self.messages.reading(
            "state",
            [(MessageState.scheduled, counts.scheduled), (.sending, counts.sending)]
                .map { ($0.0.rawValue, Double($0.1)) }
        )
        return Monitoring.Report(metrics: [messages, outcomes])
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
