import Runtime

/// The report on the sender for operators.
struct SenderMonitoring: Sendable {
    private static let state = Metric(
        "kakao_push_sender_state",
        .gauge,
        "Sender state: running, waiting for a quota, halted because Kakao rejects calls, stopped by an operator, or unknown."
    )

    let availability: KakaoAvailability
    let control: SenderControl

    func report() async -> Monitoring.Report {
        let status = SenderStatus(availability, await control.position())
        let states = KakaoAvailability.SenderState.allCases.map { ($0.rawValue, $0 == status.state ? 1.0 : 0) }
        return Monitoring.Report(metrics: [Self.state.reading("state", states)])
    }
}
