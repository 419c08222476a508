/// A point in Unix time as year, month, day, hour, minute and second in UTC, formatted for HTTP and RFC 3339.
///
/// It uses integer arithmetic (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"). Formatting a date needs
/// no library call and no locale, and allocates only the text.
package struct CivilDate: Equatable, Sendable {
    package let year: Int
    package let month: Int
    package let day: Int
    package let hour: Int
    package let minute: Int
    package let second: Int
    /// The day of the week; 0 is Sunday.
    package let weekday: Int

    /// - Parameter unixSeconds: Seconds since 1970-01-01T00:00:00Z. Any number is allowed.
    package init(unixSeconds: Int) {
        let days = unixSeconds.flooredQuotient(86_400)
        let remainder = unixSeconds % 86_400
        let secondOfDay = remainder < 0 ? remainder + 86_400 : remainder
        // Years are counted from 0000-03-01, so that the leap day is the last of its year, in eras of 400 years.
        let shifted = days + 719_468
        let era = shifted.flooredQuotient(146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        hour = secondOfDay / 3600
        minute = secondOfDay % 3600 / 60
        second = secondOfDay % 60
        weekday = (days + 4) - (days + 4).flooredQuotient(7) * 7
    }

    /// Returns the seconds from 1970-01-01T00:00:00Z to a date in UTC, or `nil` if there is no such date.
    ///
    /// - Parameter year: From 0 to 9999.
    package static func unixSeconds(
        year: Int,
        month: Int,
        day: Int,
        hour: Int,
        minute: Int,
        second: Int
    ) -> Int? {
        guard (0...9999).contains(year), (1...12).contains(month), (1...31).contains(day), (0..<24).contains(hour),
            (0..<60).contains(minute), (0..<60).contains(second)
        else { return nil }
        let yearFromMarch = month > 2 ? year : year - 1
        let monthFromMarch = month > 2 ? month - 3 : month + 9
        let era = yearFromMarch.flooredQuotient(400)
        let yearOfEra = yearFromMarch - era * 400
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        let seconds = (era * 146_097 + dayOfEra - 719_468) * 86_400 + hour * 3600 + minute * 60 + second
        // February 30 would be a day in March.
        return CivilDate(unixSeconds: seconds).day == day ? seconds : nil
    }

    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// The date for HTTP, for example `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
    package var httpDate: String {
        let date = "\(Self.weekdays[weekday]), \(day.padded(2)) \(Self.months[month - 1]) \(year.padded(4))"
        return "\(date) \(hour.padded(2)):\(minute.padded(2)):\(second.padded(2)) GMT"
    }

    /// The date by RFC 3339, without fraction and zone, for example `1994-11-06T08:49:37`.
    package var rfc3339: String {
        guard (0...9999).contains(year) else {
            return
                "\(year)-\(month.padded(2))-\(day.padded(2))T\(hour.padded(2)):\(minute.padded(2)):\(second.padded(2))"
        }
        return String(unsafeUninitializedCapacity: 19) { text in
            _ = text.initialize(from: "0000-00-00T00:00:00".utf8)
            func put(_ number: Int, _ places: Range<Int>) {
                var rest = number
                for place in places.reversed() {
                    text[place] += UInt8(rest % 10)
                    rest /= 10
                }
            }
            put(year, 0..<4)
            put(month, 5..<7)
            put(day, 8..<10)
            put(hour, 11..<13)
            put(minute, 14..<16)
            put(second, 17..<19)
            return 19
        }
    }
}

extension Int {
    /// Returns the quotient rounded towards negative infinity.
    fileprivate func flooredQuotient(_ divisor: Int) -> Int {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }

    /// Returns the number in decimal, padded with leading zeros to `width` digits.
    package func padded(_ width: Int) -> String {
        let digits = String(self)
        return String(repeating: "0", count: Swift.max(0, width - digits.utf8.count)) + digits
    }
}
