import FoundationEssentials
import HTTPServer
import Net
import Postgres
import ServiceTesting
import Testing

@testable import Endpoints

/// Tests of parsing and formatting times.
@Suite struct FormatsTests {
    @Test("A time is formatted alike before and after it is stored")
    func stored() {
        for _ in 0..<100_000 {
            let microseconds = Int.random(in: 1_700_000_000_000_000..<2_000_000_000_000_000)
            let time = Date(timeIntervalSinceReferenceDate: Double(microseconds - 978_307_200_000_000) / 1_000_000)
            #expect(time.rfc3339.hasSuffix(".\((microseconds / 1000 % 1000).padded(3))Z"), "\(microseconds)")
            #expect(time.rfc3339Microseconds.hasSuffix(".\((microseconds % 1_000_000).padded(6))Z"))
            // A time of a clock, close to the boundary between two milliseconds.
            let exact = Date(timeIntervalSinceReferenceDate: 817_000_000.0009995 + .random(in: -2e-7...2e-7)).asStored
            #expect(exact.asStored.rfc3339 == exact.rfc3339)
            #expect(exact.asStored == exact)
        }
    }

    @Test("Times, also those before 1970, are formatted with the requested number of digits")
    func digits() {
        let time = Date(timeIntervalSince1970: 1_794_988_800.123456)
        #expect(time.rfc3339 == "2026-11-18T08:00:00.123Z")
        #expect(time.rfc3339Microseconds == "2026-11-18T08:00:00.123456Z")
        #expect(time.rfc3339Seconds == "2026-11-18T08:00:00Z")
        #expect(Date(timeIntervalSince1970: -0.25).rfc3339 == "1969-12-31T23:59:59.750Z")
    }

    @Test(
        "A date outside the years of RFC 3339 is formatted as the nearest date within them",
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
        "A time whose year in UTC or as written has more than four digits is rejected",
        arguments: ["10000-01-01T00:00:00Z", "999999999999999-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"]
    )
    func longYears(text: String) {
        #expect(Date(rfc3339: text) == nil)
    }

    @Test("The last second of the year 9999 and fractions before 1970 are parsed")
    func read() {
        #expect(Date(rfc3339: "9999-12-31T23:59:59Z")?.rfc3339Seconds == "9999-12-31T23:59:59Z")
        #expect(Date(rfc3339: "1969-12-31T23:59:59.250Z")?.timeIntervalSince1970 == -0.75)
    }

    @Test("A formatted time is parsed to the microsecond, in any zone")
    func parsed() {
        for _ in 0..<100_000 {
            let exact = Date(timeIntervalSince1970: .random(in: 0..<2_000_000_000)).rfc3339Microseconds
            #expect(Date(rfc3339: exact)?.rfc3339Microseconds == exact)
            let second = Date(timeIntervalSince1970: .random(in: -62_167_219_200..<253_402_300_800)).rfc3339Seconds
            #expect(Date(rfc3339: second)?.rfc3339Seconds == second)
        }
        let time = Date(rfc3339: "2026-03-01T08:30:00.5+09:30")
        #expect(time?.rfc3339 == "2026-02-28T23:00:00.500Z")
        #expect(time == Date(rfc3339: "2026-02-28T22:59:00.50000-00:01"))
        #expect(Date(rfc3339: "2024-02-29T00:00:00Z")?.rfc3339Seconds == "2024-02-29T00:00:00Z")
    }

    @Test(
        "A text that is not a time of RFC 3339 is rejected",
        arguments: [
            "", "2026-11-21", "2026-11-21T08:15:30", "2026-11-21T08:15:30.Z", "2026-11-21T08:15:30.5",
            "2026-11-21 08:15:30Z", "2026-11-21t08:15:30Z", "2026-11-21T08:15:30z", "2026-11-21T08:15:30ZZ",
            "2026-11-21T08:15:30+0900",
            "2026-11-21T08:15:30+24:00", "2026-11-21T08:15:30+09:60", "2026-02-29T00:00:00Z", "2026-02-30T00:00:00Z",
            "2026-04-31T00:00:00Z", "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-00T00:00:00Z",
            "2026-11-21T24:00:00Z", "2026-11-21T08:60:00Z", "2026-11-21T08:15:60Z", "+026-11-21T08:15:30Z",
            "2026-11-21T08:15:3٣Z", "0000-01-01T00:00:00+00:01",
        ]
    )
    func invalid(text: String) {
        #expect(Date(rfc3339: text) == nil)
    }
}
