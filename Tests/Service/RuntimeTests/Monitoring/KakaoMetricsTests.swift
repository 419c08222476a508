import ServiceTesting
import Testing

@testable import KakaoAPI
@testable import Runtime
@testable import ServiceKit

/// Tests of the counts of calls to Kakao.
@Suite struct KakaoMetricsTests {
    private static let requests = "kakao_push_kakao_requests_total"
    private static let duration = "kakao_push_kakao_request_duration_seconds"

    private static func report(_ duration: Duration, error: KakaoError? = nil) -> KakaoCallReport {
        KakaoCallReport(
            name: "push_send",
            family: .push,
            budget: .requests,
            credential: .adminKey,
            duration: duration,
            error: error
        )
    }

    private static func exposition(_ metrics: KakaoMetrics) throws -> Exposition {
        var text = ExpositionText()
        for reading in metrics.report().metrics { text.write(reading) }
        return try Exposition(text.bytes)
    }

    @Test("Each call has a count for each outcome and a histogram, also before the first one")
    func labels() throws {
        let exposition = try Self.exposition(KakaoMetrics())
        #expect(exposition.families.mapValues(\.kind) == [Self.requests: "counter", Self.duration: "histogram"])
        let counts = exposition.families[Self.requests]?.samples ?? []
        #expect(counts.count == KakaoCalls.all.count * KakaoOutcome.allCases.count)
        let labels = counts.map { ($0.labels["api"] ?? "", $0.labels["outcome"] ?? "") }
        #expect(zip(labels, labels.dropFirst()).allSatisfy { $0 < $1 })
        #expect(counts.allSatisfy { $0.value == 0 })
        for call in KakaoCalls.all {
            #expect(exposition.value("\(Self.duration)_count", ["api": call.name]) == 0)
        }
    }

    @Test("A histogram's buckets are cumulative, and the last one equals its count")
    func histogram() throws {
        let metrics = KakaoMetrics()
        // A value equal to a bound counts in that bucket.
        let milliseconds = [0, 1, 2, 3, 250, 251, 9999, 10_000, 10_001, 60_000]
        for duration in milliseconds { metrics.count(Self.report(.milliseconds(duration))) }
        let family = try #require(try Self.exposition(metrics).families[Self.duration])
        let samples = family.samples.filter { $0.labels["api"] == "push_send" }
        let buckets = samples.filter { $0.name == "\(Self.duration)_bucket" }
        #expect(
            buckets.map { $0.labels["le"] } == [
                "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10",
                "+Inf",
            ]
        )
        #expect(buckets.map(\.value) == [2, 3, 4, 4, 4, 4, 4, 5, 6, 6, 6, 6, 8, 10])
        let sum = samples.first { $0.name == "\(Self.duration)_sum" }?.value ?? 0
        #expect(abs(sum - Double(milliseconds.reduce(0, +)) / 1000) < 1e-6)
        #expect(samples.first { $0.name == "\(Self.duration)_count" }?.value == 10)
    }

    @Test("Concurrent calls are not lost, and a concurrent scrape is consistent")
    func concurrent() async throws {
        let metrics = KakaoMetrics()
        let refusal = KakaoError(kind: .unrecognized(UnrecognizedResponse(status: 200)), credential: .adminKey)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for index in 0..<5000 {
                        metrics.count(Self.report(.seconds(1), error: index % 2 == 0 ? refusal : nil))
                    }
                }
            }
            group.addTask {
                for _ in 0..<50 {
                    let exposition = try Self.exposition(metrics)
                    let count = exposition.value("\(Self.duration)_count", ["api": "push_send"])
                    #expect(exposition.value("\(Self.duration)_sum", ["api": "push_send"]) == count)
                    let outcomes = exposition.families[Self.requests]?.samples ?? []
                    #expect(outcomes.reduce(0) { $0 + $1.value } == count)
                }
            }
            try await group.waitForAll()
        }
        let exposition = try Self.exposition(metrics)
        #expect(exposition.value(Self.requests, ["api": "push_send", "outcome": "ok"]) == 10_000)
        #expect(exposition.value(Self.requests, ["api": "push_send", "outcome": "bad_answer"]) == 10_000)
        #expect(exposition.value("\(Self.duration)_count", ["api": "push_send"]) == 20_000)
    }
}
