internal import FoundationEssentials
internal import Glibc
internal import HTTPServer

extension UUID {
    /// A UUID of version 7: its first 48 bits are the time in milliseconds, so that ids sort by when they were made (RFC 9562 §5.7).
    static func v7() -> UUID {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        let milliseconds = UInt64(now.tv_sec) * 1000 + UInt64(now.tv_nsec) / 1_000_000
        // The 12 bits after the version hold the fraction of the millisecond, as the RFC allows (§6.2, method 3).
        let fraction = UInt64(now.tv_nsec % 1_000_000) * 4096 / 1_000_000
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
    /// RFC 3339 in UTC with milliseconds: `2026-11-21T08:15:30.123Z`.
    var rfc3339: String {
        let milliseconds = Int((timeIntervalSince1970 * 1000).rounded(.down))
        let seconds = Int((Double(milliseconds) / 1000).rounded(.down))
        return "\(CivilDate(unixSeconds: seconds).rfc3339).\((milliseconds - seconds * 1000).padded(3))Z"
    }

    /// RFC 3339 in UTC to the second, as Kakao writes times: `2014-07-29T06:24:12Z`.
    var rfc3339Seconds: String {
        "\(CivilDate(unixSeconds: Int(timeIntervalSince1970.rounded(.down))).rfc3339)Z"
    }
}

extension UUID {
    /// As PostgreSQL and everybody else writes it.
    var lowercased: String { uuidString.lowercased() }
}
