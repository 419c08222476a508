import Glibc

/// The preferred date format of header fields: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
package enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Returns a date in seconds since 1970, or `nil` if the text has another format.
    package static func unixSeconds(_ value: String) -> Int? {
        let words = value.split(separator: " ")
        guard words.count == 6, words[5] == "GMT" else { return nil }
        let clock = words[4].split(separator: ":").compactMap { number($0) }
        guard let day = number(words[1]), let month = months.firstIndex(of: String(words[2])),
            let year = number(words[3]), clock.count == 3
        else {
            return nil
        }
        var parts = tm()
        parts.tm_year = Int32(clamping: year - 1900)
        parts.tm_mon = Int32(clamping: month)
        parts.tm_mday = Int32(clamping: day)
        parts.tm_hour = Int32(clamping: clock[0])
        parts.tm_min = Int32(clamping: clock[1])
        parts.tm_sec = Int32(clamping: clock[2])
        return timegm(&parts)
    }

    /// Parses a string of digits only. Numbers above 999,999,999 become 999,999,999.
    static func number(_ digits: some StringProtocol) -> Int? {
        guard !digits.isEmpty else { return nil }
        var number = 0
        for byte in digits.utf8 {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            number = min(number * 10 + Int(byte - UInt8(ascii: "0")), 999_999_999)
        }
        return number
    }
}

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
