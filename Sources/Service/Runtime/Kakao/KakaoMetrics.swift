import CoreMetrics
import Endpoints
package import KakaoAPI
package import PrometheusMetrics

/// The counters of a server's calls to Kakao (`docs/metrics.md`).
package final class KakaoMetrics: Sendable {
    private static let requests = "kakao_push_kakao_requests_total"
    private static let duration = "kakao_push_kakao_request_duration_seconds"

    /// The counters of one call.
    private struct Counters {
        /// By the raw value of ``KakaoOutcome``.
        let outcomes: [Counter]
        let duration: Timer
    }

    private let factory = PrometheusFactory(
        help: [
            requests: "Finished calls to Kakao, by API and outcome.",
            duration: "Duration of calls to Kakao in seconds, including the wait for a connection.",
        ]
    )
    /// The counters by the names of the calls.
    private let counters: [String: Counters]

    package init() {
        let calls = KakaoCalls.all.map { [factory] call in
            let counters = Counters(
                outcomes: KakaoOutcome.allCases.map { outcome in
                    Counter(
                        label: Self.requests,
                        dimensions: [("api", call.name), ("outcome", outcome.label)],
                        factory: factory
                    )
                },
                duration: Timer(label: Self.duration, dimensions: [("api", call.name)], factory: factory)
            )
            return (call.name, counters)
        }
        counters = Dictionary(uniqueKeysWithValues: calls)
    }

    /// Counts a call. Callable from any thread.
    package func count(_ call: KakaoCallReport) {
        guard let counters = counters[call.name] else { return }
        counters.outcomes[KakaoOutcome(call.error).rawValue].increment()
        counters.duration.recordSeconds(call.duration.inSeconds)
    }

    /// Writes all counters in Prometheus's text format.
    package func write(to text: inout ExpositionText) {
        factory.write(to: &text)
    }
}
