import Glibc
import Net

/// The wall-clock time, for the timestamps in Kakao's responses.
enum WallClock {
    /// Korea Standard Time is nine hours ahead of UTC, the whole year.
    static let seoulOffsetSeconds = 9 * 3600

    /// Milliseconds since 1970-01-01T00:00:00Z.
    static var unixMilliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Formats a time as `2014-07-29T06:24:12Z`, as in Kakao's responses.
    static func text(unixMilliseconds: Int64) -> String {
        CivilDate(unixSeconds: Int(unixMilliseconds / 1000)).rfc3339 + "Z"
    }
}
