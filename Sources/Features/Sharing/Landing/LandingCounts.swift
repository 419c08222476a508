import Locking
import Runtime

/// The numbers of visits that a server did not count, because the database was unavailable or slow, or because too many came
/// from one address.
final class LandingCounts: Sendable {
    private static let lost = Metric(
        "kakao_push_landings_uncounted_total",
        .counter,
        "Visits of landing addresses that were redirected but not counted, because the database did not answer in time."
    )

    private static let limited = Metric(
        "kakao_push_landings_limited_total",
        .counter,
        "Visits of landing addresses that were redirected but not counted, because too many came from their address."
    )

    private struct Counts {
        var lost = 0
        var limited = 0
    }

    private let counts = Locked(Counts())

    /// Counts a visit that the database did not store.
    func countLost() {
        counts.withLock { $0.lost += 1 }
    }

    /// Counts a visit beyond the limit of its address.
    func countLimited() {
        counts.withLock { $0.limited += 1 }
    }

    func report() -> Monitoring.Report {
        let counts = counts.withLock { $0 }
        return Monitoring.Report(metrics: [
            Self.lost.reading(Double(counts.lost)), Self.limited.reading(Double(counts.limited)),
        ])
    }
}
