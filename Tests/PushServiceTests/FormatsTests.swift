import FoundationEssentials
import HTTPServer
import Postgres
import Testing

@testable import PushService

/// How times are written.
@Suite struct FormatsTests {
    @Test("A time that was stored is written as the one that is stored")
    func stored() {
        for _ in 0..<100_000 {
            let microseconds = Int.random(in: 1_700_000_000_000_000..<2_000_000_000_000_000)
            let time = Date(timeIntervalSinceReferenceDate: Double(microseconds - 978_307_200_000_000) / 1_000_000)
            #expect(time.rfc3339.hasSuffix(".\((microseconds / 1000 % 1000).padded(3))Z"), "\(microseconds)")
            #expect(time.rfc3339Microseconds.hasSuffix(".\((microseconds % 1_000_000).padded(6))Z"))
            // A clock's, close to where two milliseconds meet.
            let exact = Date(timeIntervalSinceReferenceDate: 817_000_000.0009995 + .random(in: -2e-7...2e-7)).asStored
            #expect(exact.asStored.rfc3339 == exact.rfc3339)
            #expect(exact.asStored == exact)
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

    @Test(
        "A date beyond the years that RFC 3339 can write is written as the nearest that it can",
        arguments: [
            (1e30, "9999-12-31T23:59:59.999Z"), (.infinity, "9999-12-31T23:59:59.999Z"),
            (.nan, "9999-12-31T23:59:59.999Z"), (Double(Int64.max), "9999-12-31T23:59:59.999Z"),
            (253_402_300_800, "9999-12-31T23:59:59.999Z"), (253_402_300_799, "9999-12-31T23:59:59.000Z"),
            (-62_167_219_200, "0000-01-01T00:00:00.000Z"), (-62_167_219_201, "0000-01-01T00:00:00.000Z"),
            (Double(Int64.min), "0000-01-01T00:00:00.000Z"), (-.infinity, "0000-01-01T00:00:00.000Z"),
        ]
    )
    func beyond(seconds: Double, text: String) {
        let time = Date(timeIntervalSince1970: seconds)
        #expect(time.rfc3339 == text)
        #expect(time.rfc3339Microseconds.prefix(23) == text.prefix(23))
        #expect(time.rfc3339Seconds.prefix(19) == text.prefix(19))
    }

    @Test(
        "A text whose year has more than four digits is no time",
        arguments: ["10000-01-01T00:00:00Z", "999999999999999-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"]
    )
    func longYears(text: String) {
        #expect(Date(rfc3339: text) == nil)
    }

    @Test("The last second of the year 9999 and fractions before 1970 are read")
    func read() {
        #expect(Date(rfc3339: "9999-12-31T23:59:59Z")?.rfc3339Seconds == "9999-12-31T23:59:59Z")
        #expect(Date(rfc3339: "1969-12-31T23:59:59.250Z")?.timeIntervalSince1970 == -0.75)
    }
}
