package import FoundationEssentials
import Glibc
import Net
package import Schemas

extension UUID {
    /// The first UUID in order: all bits are zero (RFC 9562 §5.9).
    package static let zero = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    /// Creates a UUID of version 7. Its first 48 bits are the time in milliseconds, so ids sort by creation time
    /// (RFC 9562 §5.7).
    package static func v7() -> UUID {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        // A clock that was never set may be before 1970, which an unsigned number cannot represent.
        let milliseconds = UInt64(clamping: now.tv_sec) &* 1000 &+ UInt64(clamping: now.tv_nsec) / 1_000_000
        // The 12 bits after the version hold the fraction of the millisecond, as the RFC allows (§6.2, method 3).
        let fraction = UInt64(clamping: now.tv_nsec) % 1_000_000 * 4096 / 1_000_000
        let high = milliseconds << 16 | 0x7000 | fraction
        let low = UInt64.random(in: .min ... .max) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        func byte(_ word: UInt64, _ index: Int) -> UInt8 { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * index)) }
        return UUID(
            uuid: (
                byte(high, 0), byte(high, 1), byte(high, 2), byte(high, 3), byte(high, 4), byte(high, 5), byte(high, 6),
                byte(high, 7), byte(low, 0), byte(low, 1), byte(low, 2), byte(low, 3), byte(low, 4), byte(low, 5),
                byte(low, 6),
                byte(low, 7)
            )
        )
    }
}

extension Date {
    /// Parses RFC 3339 strictly (§5.6), with any number of digits of the second.
    package init?(rfc3339 text: String) {
        let bytes = Array(text.utf8)
        func number(_ start: Int, digits: Int) -> Int? {
            var number = 0
            for byte in bytes[start..<start + digits] {
                guard (0x30...0x39).contains(byte) else { return nil }
                number = number * 10 + Int(byte - 0x30)
            }
            return number
        }
        guard bytes.count > 19, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes[10] == UInt8(ascii: "T"), bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            let year = number(0, digits: 4), let month = number(5, digits: 2), let day = number(8, digits: 2),
            let hour = number(11, digits: 2), let minute = number(14, digits: 2), let second = number(17, digits: 2),
            let local = CivilDate.unixSeconds(
                year: year,
                month: month,
                day: day,
                hour: hour,
                minute: minute,
                second: second
            )
        else { return nil }
        var zone = bytes[19...]
        var fraction = 0.0
        if zone.first == UInt8(ascii: ".") {
            let digits = zone.dropFirst().prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty else { return nil }
            for digit in digits.reversed() { fraction = (fraction + Double(digit - 0x30)) / 10 }
            zone = zone[digits.endIndex...]
        }
        guard let offset = Self.offset(Array(zone)) else { return nil }
        let seconds = local - offset
        // The years 0000 to 9999 in UTC.
        guard seconds >= -62_167_219_200, seconds < 253_402_300_800 else { return nil }
        self.init(timeIntervalSinceReferenceDate: Double(seconds - 978_307_200) + fraction)
    }

    /// Returns the seconds by which a zone, such as `Z` or `+09:00`, is ahead of UTC, or `nil` for an invalid zone.
    private static func offset(_ zone: [UInt8]) -> Int? {
        if zone == [UInt8(ascii: "Z")] { return 0 }
        guard zone.count == 6, zone[0] == UInt8(ascii: "+") || zone[0] == UInt8(ascii: "-"),
            zone[3] == UInt8(ascii: ":"), [1, 2, 4, 5].allSatisfy({ (0x30...0x39).contains(zone[$0]) })
        else { return nil }
        func number(_ index: Int) -> Int { Int(zone[index] - 0x30) * 10 + Int(zone[index + 1] - 0x30) }
        guard number(1) < 24, number(4) < 60 else { return nil }
        return (zone[0] == UInt8(ascii: "+") ? 1 : -1) * (number(1) * 60 + number(4)) * 60
    }

    /// The date in RFC 3339 in UTC with milliseconds: `2026-11-21T08:15:30.123Z`.
    package var rfc3339: String { rfc3339(places: 3) }

    /// The date in RFC 3339 in UTC with microseconds, the precision of PostgreSQL: `2026-11-21T08:15:30.123456Z`.
    package var rfc3339Microseconds: String { rfc3339(places: 6) }

    /// Rounds to a microsecond before it cuts off digits. Cutting a binary fraction directly would sometimes lose a
    /// millisecond.
    private func rfc3339(places: Int) -> String {
        let microseconds = units(perSecond: 1_000_000, .toNearestOrAwayFromZero)
        let fraction = (microseconds % 1_000_000 + 1_000_000) % 1_000_000
        let seconds = (microseconds - fraction) / 1_000_000
        let digits = fraction.padded(6).prefix(places)
        return "\(CivilDate(unixSeconds: seconds).rfc3339).\(digits)Z"
    }

    /// The date in RFC 3339 in UTC to the second, as Kakao writes times: `2014-07-29T06:24:12Z`.
    package var rfc3339Seconds: String {
        "\(CivilDate(unixSeconds: units(perSecond: 1, .down)).rfc3339)Z"
    }

    /// Returns the time since 1970 in units of 1/`perSecond` seconds, clamped to the years 0000 to 9999 of RFC 3339.
    ///
    /// Never traps. A date after these years, or not a number, becomes the last unit of 9999; an earlier one becomes
    /// the first unit of 0000.
    private func units(perSecond: Double, _ rule: FloatingPointRoundingRule) -> Int {
        let (first, end) = (-62_167_219_200 * perSecond, 253_402_300_800 * perSecond)
        let units = (timeIntervalSince1970 * perSecond).rounded(rule)
        guard units >= first, units < end else { return units < first ? Int(first) : Int(end) - 1 }
        return Int(units)
    }
}

extension UUID {
    /// The UUID in lowercase, as PostgreSQL writes it.
    package var lowercased: String { uuidString.lowercased() }
}

extension Kind where Value == UUID {
    /// A UUID, lowercase in responses.
    package static var uuid: Kind {
        Kind(
            text: .text(format: "uuid"),
            allowed: "a UUID such as 01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f",
            parse: { UUID(uuidString: $0) },
            format: \.lowercased
        )
    }
}

extension Kind where Value == Date {
    /// A time in RFC 3339, in UTC in responses.
    package static var time: Kind {
        Kind(
            text: .text(format: "date-time"),
            allowed: "a time such as 2026-11-21T08:15:30Z or 2026-11-21T17:15:30.500+09:00",
            parse: { $0.utf8.count <= 40 ? Date(rfc3339: $0) : nil },
            format: \.rfc3339
        )
    }
}

extension Duration {
    /// The number of seconds.
    package var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
