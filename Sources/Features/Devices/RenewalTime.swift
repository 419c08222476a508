import FoundationEssentials

/// The schedule by which push tokens are renewed before they expire at Kakao.
struct RenewalTime: Sendable {
    private static let secondsPerDay = 86_400.0

    /// The number of days before the expiry, 1 to 365.
    let daysBeforeExpiry: Int

    /// Returns the renewal time of a token that expires at `expiresAt`; `nil` if it has expired.
    ///
    /// A token whose lifetime is hardly longer than `daysBeforeExpiry` is renewed after half of its lifetime, not all
    /// the time.
    ///
    /// - Parameter jitter: From 0 to 1: the time is up to a day earlier, so that devices registered within an hour are
    ///   not renewed within an hour.
    func date(after now: Date, expiresAt: Date, jitter: Double = .random(in: 0...1)) -> Date? {
        let lifetime = expiresAt.timeIntervalSince(now)
        guard lifetime > 0 else { return nil }
        let wait = max(lifetime - Double(daysBeforeExpiry) * Self.secondsPerDay, lifetime / 2)
        return now + wait - jitter * min(Self.secondsPerDay, wait / 4)
    }
}
