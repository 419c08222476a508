internal import FoundationEssentials

/// Says when a token is registered again, before Kakao drops it.
struct RenewalTime: Sendable {
    private static let secondsPerDay = 86_400.0

    /// Days before the token expires, 1 to 365.
    let daysBeforeExpiry: Int

    /// When a token is registered again that Kakao has just taken for so many days; `nil` for one that expires at once.
    func date(after now: Date, lifetimeDays: Int) -> Date? {
        date(after: now, expiresAt: now + Double(lifetimeDays) * Self.secondsPerDay)
    }

    /// When a token is registered again that expires then; `nil` for one that has expired.
    ///
    /// Up to a day earlier at random: devices that were registered in one hour are not renewed in one hour. A token that lives hardly
    /// longer than the days before its expiry is renewed after half of its life, not all the time.
    func date(after now: Date, expiresAt: Date) -> Date? {
        let lifetime = expiresAt.timeIntervalSince(now)
        guard lifetime > 0 else { return nil }
        let wait = max(lifetime - Double(daysBeforeExpiry) * Self.secondsPerDay, lifetime / 2)
        return now + wait - Double.random(in: 0...min(Self.secondsPerDay, wait / 4))
    }
}
