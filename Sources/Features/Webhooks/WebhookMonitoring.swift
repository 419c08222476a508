import Runtime

/// The report on webhooks for operators.
struct WebhookMonitoring: Sendable {
    private static let lag = Metric(
        "kakao_push_webhook_lag_seconds",
        .gauge,
        "Time for which the oldest webhook of an endpoint has been due."
    )
    private static let up = Metric(
        "kakao_push_webhook_endpoint_up",
        .gauge,
        "Whether an endpoint accepts webhooks: 0 if it is failing or gone."
    )
    private static let requests = Metric(
        "kakao_push_webhook_requests_total",
        .counter,
        "Requests of this server to webhook endpoints, by outcome."
    )
    private static let drops = Metric(
        "kakao_push_webhooks_dropped_total",
        .counter,
        "Webhooks that this server dropped, because their endpoint was removed or their object is gone."
    )

    /// The endpoints; none if there are none in the settings.
    let endpoints: CachedQuery<[EndpointState]>
    let outcomes: LoopCounts<WebhookOutcome>
    let dropped: LoopCounts<DropCause>

    func report() async -> Monitoring.Report {
        let (outcomes, dropped) = (await outcomes.sums(), await dropped.sums())
        let counts = [
            Self.requests.reading("outcome", WebhookOutcome.allCases.map { ($0.rawValue, Double(outcomes[$0] ?? 0)) }),
            Self.drops.reading("cause", DropCause.allCases.map { ($0.rawValue, Double(dropped[$0] ?? 0)) }),
        ]
        guard let states = await endpoints.value() else {
            return Monitoring.Report(metrics: counts, isDatabaseUp: false)
        }
        // A removed one gets nothing any more.
        let present = states.filter { $0.status != .removed }
        var report = Monitoring.Report(
            metrics: [
                Self.lag.reading("endpoint", present.map { ($0.name, $0.lag) }),
                Self.up.reading("endpoint", present.map { ($0.name, $0.status == .delivering ? 1 : 0) }),
            ] + counts
        )
        report.webhookEndpoints = present.map { state in
            WebhookEndpointHealth(
                name: state.name,
                state: state.status.rawValue,
                since: state.since,
                lastError: state.lastError,
                lagSeconds: state.lag
            )
        }
        return report
    }
}
