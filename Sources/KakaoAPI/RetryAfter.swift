internal import Glibc

/// The header field `Retry-After` (RFC 9110 §10.2.3).
enum RetryAfter {
    /// The longest wait that is believed: a day, in seconds.
    private static let maximum = 24 * 60 * 60

    /// Reads seconds, or a date; `nil` for anything else. A date that has passed is no wait.
    ///
    /// - Parameter now: Seconds since 1970.
    static func duration(_ value: String, now: Int = time(nil)) -> Duration? {
        guard let seconds = HTTPDate.number(value) ?? HTTPDate.unixSeconds(value).map({ $0 - now }) else { return nil }
        return .seconds(min(max(0, seconds), maximum))
    }
}
