import Endpoints
import KakaoAPI
import Locking

/// The counts of a server's calls to Kakao (`docs/metrics.md`).
package final class KakaoMetrics: Sendable {
    private static let duration = Metric(
        "kakao_push_kakao_request_duration_seconds",
        .histogram,
        "Duration of calls to Kakao in seconds, including the wait for a connection."
    )
    private static let requests = Metric(
        "kakao_push_kakao_requests_total",
        .counter,
        "Finished calls to Kakao, by API and outcome."
    )
    private static let foreignResponses = Metric(
        "kakao_push_kakao_foreign_responses_total",
        .counter,
        "Responses that were not Kakao's, by status and type of content."
    )
    /// The upper bounds of the durations in seconds, from 1 ms to 10 s, the time limit of most calls to Kakao. Uploads
    /// may take 30 s.
    private static let upperBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    private static let bounds = upperBounds.map(ExpositionText.number)
    private static let outcomes = KakaoOutcome.allCases.sorted { $0.rawValue < $1.rawValue }

    /// The counts of one kind of call.
    private struct Counts {
        var outcomes: [KakaoOutcome: Int] = [:]
        /// The number of durations up to each bound and above the one before; the last number is that of durations
        /// above all bounds.
        var durations = [Int](repeating: 0, count: upperBounds.count + 1)
        /// The sum of the durations in seconds.
        var seconds = 0.0
    }

    /// The counts by the names of the calls. One lock covers all, so that the numbers of a histogram describe the same calls.
    private let counts = Locked(Dictionary(uniqueKeysWithValues: KakaoCalls.all.map { ($0.name, Counts()) }))

    /// A kind of responses that are not Kakao's.
    private struct ForeignKind: Hashable {
        let status: Int
        /// `html`, `json`, `text`, `none` or `other`, so that responders cannot make new labels.
        let type: String

        init(_ response: UnrecognizedResponse) {
            status = response.status
            type =
                switch response.contentType {
                case nil: "none"
                case "text/html"?: "html"
                case let type? where type.hasSuffix("json"): "json"
                case let type? where type.hasPrefix("text/"): "text"
                default: "other"
                }
        }
    }

    private let foreign = Locked<[ForeignKind: Int]>([:])

    package init() {}

    /// Counts a call. Callable from any thread.
    package func count(_ call: KakaoCallReport) {
        let outcome = KakaoOutcome(call.error)
        if case .unrecognized(let response) = call.error?.kind {
            foreign.withLock { $0[ForeignKind(response), default: 0] += 1 }
        }
        let seconds = call.duration.inSeconds
        let bucket = Self.upperBounds.firstIndex { seconds <= $0 } ?? Self.upperBounds.count
        counts.withLock { counts in
            counts[call.name]?.outcomes[outcome, default: 0] += 1
            counts[call.name]?.durations[bucket] += 1
            counts[call.name]?.seconds += seconds
        }
    }

    /// Returns all counts, sorted by the labels.
    package func report() -> Monitoring.Report {
        let counts = counts.withLock { $0 }.sorted { $0.key < $1.key }
        let foreign = self.foreign.withLock { $0 }.sorted {
            ($0.key.status, $0.key.type) < ($1.key.status, $1.key.type)
        }
        return Monitoring.Report(metrics: [
            Self.foreignResponses.reading(
                foreign.map { ([("status", String($0.key.status)), ("type", $0.key.type)], Double($0.value)) }
            ),
            Self.duration.reading(
                counts.map { name, counts in
                    (
                        [("api", name)],
                        Metric.Histogram(bounds: Self.bounds, counts: counts.durations, sum: counts.seconds)
                    )
                }
            ),
            Self.requests.reading(
                counts.flatMap { name, counts in
                    Self.outcomes.map {
                        ([("api", name), ("outcome", $0.rawValue)], Double(counts.outcomes[$0] ?? 0))
                    }
                }
            ),
        ])
    }
}
