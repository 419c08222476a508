import Locking
import Runtime

/// The number of visits that a server could not count, because the database was unavailable or slow.
final class LandingCounts: Sendable {
    private static let lost = Metric(
        "kakao_push_landings_uncounted_total",
        .counter,
        "Visits of landing addresses that were redirected but not counted, because the database did not answer in time."
    )

    private let uncounted = Locked(0)

    func countLost() {
        uncounted.withLock { $0 += 1 }
    }

    func report() -> Monitoring.Report {
        Monitoring.Report(metrics: [Self.lost.reading(Double(uncounted.withLock { $0 }))])
    }
}
