internal import FoundationEssentials

/// Whether this machine's clock goes with another.
struct ClockCheck {
    /// Seconds. Tokens' times are taken with 30 s of leeway; a clock that is synchronized is right to a fraction of one.
    private static let tolerance = 5.0

    let subject: String
    /// Whose clock the other is.
    let other: String

    /// - Parameters:
    ///   - time: What the other clock said: the moment lies in this range.
    ///   - begin: When it was asked, by this machine's clock.
    ///   - end: When the answer was there: the other looked at its clock in between.
    func finding(_ time: ClosedRange<Date>, askedAt begin: Date, answeredAt end: Date) -> Finding {
        let ahead = begin.timeIntervalSince(time.upperBound)
        let behind = time.lowerBound.timeIntervalSince(end)
        let difference = max(ahead, behind)
        guard difference > Self.tolerance else { return Finding(.ok, subject, "goes with \(other)") }
        return Finding(
            .wrong,
            subject,
            "\(Self.text(difference)) \(ahead > behind ? "ahead of" : "behind") \(other), so that tokens are refused or "
                + "outlive themselves: synchronize this machine's (timedatectl set-ntp true)"
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
