import Testing

@testable import Runtime

@Suite struct RecentCallsTests {
    @Test("The calls of five minutes are counted, and those before are forgotten")
    func window() {
        var calls = RecentCalls()
        #expect(calls.totals(at: 0).meanMilliseconds == nil)
        for minute in UInt64(0)..<10 {
            calls.add(.milliseconds(10 * (minute + 1)), hasFailed: minute.isMultiple(of: 2), at: minute * 60_000)
        }
        let totals = calls.totals(at: 9 * 60_000 + 59_999)
        #expect(totals == RecentCalls.Totals(calls: 5, failed: 2, milliseconds: 400))
        #expect(totals.meanMilliseconds == 80)
        #expect(calls.totals(at: 13 * 60_000).calls == 1)
        #expect(calls.totals(at: 14 * 60_000).calls == 0)
        // A minute of the same place in a later round replaces the old one.
        calls.add(.milliseconds(1), hasFailed: false, at: 14 * 60_000)
        #expect(calls.totals(at: 14 * 60_000).calls == 1)
    }
}
