import Testing

@testable import Net

@Suite("Dates")
struct CivilDateTests {
    @Test(
        "Dates are formatted for HTTP and RFC 3339",
        arguments: [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT", "1969-12-31T23:59:59"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT", "2000-03-01T00:00:00"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT", "2024-02-29T23:59:59"),
            (2_147_483_648, "Tue, 19 Jan 2038 03:14:08 GMT", "2038-01-19T03:14:08"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00"),
            (4_107_456_000, "Sun, 28 Feb 2100 00:00:00 GMT", "2100-02-28T00:00:00"),
        ]
    )
    func written(unixSeconds: Int, http: String, rfc3339: String) {
        let date = CivilDate(unixSeconds: unixSeconds)
        #expect(date.httpDate == http)
        #expect(date.rfc3339 == rfc3339)
    }

    @Test("Each day of 800 years follows the previous one by the calendar's rules")
    func everyDay() {
        var previous = CivilDate(unixSeconds: -200 * 365 * 86_400)
        for day in (-200 * 365 + 1)...(600 * 365) {
            let date = CivilDate(unixSeconds: day * 86_400)
            let isLeap = previous.year % 4 == 0 && (previous.year % 100 != 0 || previous.year % 400 == 0)
            let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
            var (year, month, dayOfMonth) = (previous.year, previous.month, previous.day + 1)
            if dayOfMonth > lengths[month - 1] { (month, dayOfMonth) = (month + 1, 1) }
            if month > 12 { (year, month) = (year + 1, 1) }
            let isNext = date.year == year && date.month == month && date.day == dayOfMonth
            guard isNext, date.weekday == (previous.weekday + 1) % 7 else {
                Issue.record("day \(day) is \(date.rfc3339) after \(previous.rfc3339)")
                return
            }
            previous = date
        }
    }

    @Test("Any number of seconds gives a date", arguments: [Int.min, Int.min + 1, Int.max])
    func extremes(unixSeconds: Int) {
        let date = CivilDate(unixSeconds: unixSeconds)
        #expect((1...12).contains(date.month) && (1...31).contains(date.day) && (0...6).contains(date.weekday))
        #expect((0...23).contains(date.hour) && (0...59).contains(date.minute) && (0...59).contains(date.second))
        #expect(!date.httpDate.isEmpty && !date.rfc3339.isEmpty)
    }
}
