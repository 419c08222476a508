import FoundationEssentials
import HTTPServer
import Testing

@testable import PushService

/// How times are written.
@Suite struct FormatsTests {
    @Test("A time is written alike before it was stored, which rounds it to a microsecond, and after")
    func stored() {
        for _ in 0..<10_000 {
            let microseconds = Int.random(in: 1_700_000_000_000_000..<2_000_000_000_000_000)
            let stored = Date(timeIntervalSinceReferenceDate: Double(microseconds - 978_307_200_000_000) / 1_000_000)
            let exact = Date(
                timeIntervalSinceReferenceDate: stored.timeIntervalSinceReferenceDate + .random(in: -4e-7...4e-7)
            )
            let milliseconds = (microseconds / 1000 % 1000).padded(3)
            #expect(stored.rfc3339.hasSuffix(".\(milliseconds)Z"), "\(microseconds)")
            #expect(exact.rfc3339 == stored.rfc3339, "\(microseconds)")
            #expect(stored.rfc3339Microseconds.hasSuffix(".\((microseconds % 1_000_000).padded(6))Z"))
        }
    }

    @Test("Times are written to the digits that are asked for, also those before 1970")
    func digits() {
        let time = Date(timeIntervalSince1970: 1_794_988_800.123456)
        #expect(time.rfc3339 == "2026-11-18T08:00:00.123Z")
        #expect(time.rfc3339Microseconds == "2026-11-18T08:00:00.123456Z")
        #expect(time.rfc3339Seconds == "2026-11-18T08:00:00Z")
        #expect(Date(timeIntervalSince1970: -0.25).rfc3339 == "1969-12-31T23:59:59.750Z")
    }
}
