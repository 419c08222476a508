import FoundationEssentials

/// A comparison of this machine's clock with another clock.
struct ClockCheck {
    /// The largest difference in seconds that is acceptable.
    ///
    /// The times of tokens are checked with 30 s of leeway, and a synchronized clock is accurate to a fraction of a
    /// second.
    private static let tolerance = 5.0

    /// The name of the other clock, such as `Kakao's clock`.
    let other: String

    /// Returns whether the two clocks agree.
    ///
    /// - Parameters:
    ///   - time: The range in which the other clock's reading lies.
    ///   - begin: The time of the request by this machine's clock.
    ///   - end: The time of the response by this machine's clock. The other clock was read between the two.
    func verdict(_ time: ClosedRange<Date>, askedAt begin: Date, answeredAt end: Date) -> Verdict {
        let ahead = begin.timeIntervalSince(time.upperBound)
        let behind = time.lowerBound.timeIntervalSince(end)
        let difference = max(ahead, behind)
        guard difference > Self.tolerance else { return .ok("agrees with \(other)") }
        return .wrong(
            "\(Self.text(difference)) \(ahead > behind ? "ahead of" : "behind") \(other), so valid tokens are refused or "
                + "expired ones accepted: synchronize this machine's clock (timedatectl set-ntp true)"
        )
    }

    private static func text(_ seconds: Double) -> String {
        let seconds = Int64(seconds.rounded())
        switch seconds {
        case ..<120: return "\(seconds) s"
        case ..<7200: return "\(seconds / 60) min"
        case ..<172_800: return "\(seconds / 3600) h"
        default: return "\(seconds / 86_400) days"
        }
    }
}
