import Glibc

/// The header field `Retry-After` (RFC 9110 §10.2.3).
package enum RetryAfter {
    /// The longest wait that is accepted: a day, in seconds.
    private static let maximumSeconds = 24 * 60 * 60

    /// Parses a number of seconds or a date. Returns `nil` for other text and zero for a date in the past.
    ///
    /// - Parameter now: Seconds since 1970.
    package static func duration(_ value: String, now: Int = time(nil)) -> Duration? {
        guard let seconds = HTTPDate.number(value) ?? HTTPDate.unixSeconds(value).map({ $0 - now }) else { return nil }
        return .seconds(min(max(0, seconds), maximumSeconds))
    }
}
