internal import Glibc
internal import HTTPServer

/// The time of day, for what Kakao shows it in.
enum WallClock {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    static var unixMilliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// `2014-07-29T06:24:12Z`, as in Kakao's answers.
    static func text(unixMilliseconds: Int64) -> String {
        CivilDate(unixSeconds: Int(unixMilliseconds / 1000)).rfc3339 + "Z"
    }
}
