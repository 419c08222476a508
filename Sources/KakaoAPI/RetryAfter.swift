internal import Glibc

/// The header field `Retry-After` (RFC 9110 §10.2.3).
enum RetryAfter {
    /// The longest wait that is believed: a day, in seconds.
    private static let maximum = 24 * 60 * 60
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Reads seconds, or a date; `nil` for anything else. A date that has passed is no wait.
    ///
    /// - Parameter now: Seconds since 1970.
    static func duration(_ value: String, now: Int = time(nil)) -> Duration? {
        guard let seconds = number(value) ?? date(value).map({ $0 - now }) else { return nil }
        return .seconds(min(max(0, seconds), maximum))
    }

    /// Reads the one form of a date that is to be sent, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7), in seconds
    /// since 1970.
    private static func date(_ value: String) -> Int? {
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

    /// Reads digits and nothing else; more than nine of them count as nine nines.
    private static func number(_ digits: some StringProtocol) -> Int? {
        guard !digits.isEmpty else { return nil }
        var number = 0
        for byte in digits.utf8 {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            number = min(number * 10 + Int(byte - UInt8(ascii: "0")), 999_999_999)
        }
        return number
    }
}
