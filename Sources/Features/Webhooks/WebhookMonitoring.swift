import FoundationEssentials
import Postgres
import Runtime

/// The report on webhooks for operators.
struct WebhookMonitoring: Sendable {
    private static let lag = Metric(
        "kakao_push_webhook_lag_seconds",
        .gauge,
        "Time for which the oldest event of a source has waited for its webhook."
    )
    private static let requests = Metric(
        "kakao_push_webhook_requests_total",
        .counter,
        "Requests of this server to the webhook endpoint, by outcome."
    )

    /// For how long the oldest event of each source has waited, in seconds; `nil` without an endpoint.
    let lags: CachedQuery<[SourceLag]>?
    let outcomes: LoopCounts<WebhookOutcome>

    func report() async -> Monitoring.Report {
        let outcomes = await outcomes.sums()
        let requests = Self.requests.reading(
            "outcome",
            WebhookOutcome.allCases.map { ($0.rawValue, Double(outcomes[$0] ?? 0)) }
        )
        guard let lags else { return Monitoring.Report(metrics: [requests]) }
        guard let values = await lags.value() else {
            return Monitoring.Report(metrics: [requests], isDatabaseUp: false)
        }
        return Monitoring.Report(metrics: [
            Self.lag.reading("source", values.map { ($0.source.name, $0.seconds) }), requests,
        ])
    }
}

/// For how long the oldest event of a source has waited.
struct SourceLag: Sendable {
    /// The id of a transaction after all others.
    private static let lastXID = String(UInt64.max)

    let source: WebhookSource
    /// 0 if none waits.
    let seconds: Double

    /// Reads the lags of sources, also due to events that cannot be read before an older transaction has ended.
    static func read(_ sources: [WebhookSource], _ pool: PostgresPool) async throws -> [SourceLag] {
        let cursors = try await pool.read(ListCursors())
        guard let now = try await pool.read(ReadTransactionTime()).first else { throw PostgresError(.decoding) }
        var lags: [SourceLag] = []
        for source in sources {
            var oldest: WebhookEvent?
            if let cursor = cursors.first(where: { $0.source == source.name }) {
                let range = WebhookRange(from: cursor.position, before: lastXID, limit: 2)
                oldest = try await source.events(in: range, pool).first { $0.position != cursor.position }
            }
            lags.append(
                SourceLag(source: source, seconds: oldest.map { max(0, now.timeIntervalSince($0.storedAt)) } ?? 0)
            )
        }
        return lags
    }
}
