import HTTPTypes
import Schemas

/// Lists the public holidays and commemoration days of Korea. (Kakao, "Talk Calendar: REST API", "Retrieve holidays".)
package struct RetrieveHolidays: KakaoCall {
    package typealias Answer = [Holiday]

    /// The beginning in UTC: `2022-10-01T00:00:00Z`.
    package let from: String
    /// The end in UTC, at most 31 days after ``from``.
    package let to: String

    package static let operation = KakaoOperation<Self>(
        "calendar_holidays",
        [.get],
        "/v2/api/calendar/holidays",
        .calendar,
        [.adminKey],
        "Lists the public holidays and commemoration days of Korea.",
        parameters: Record(
            .required("from", \.from, .text(1...64), "The beginning in UTC, such as `2022-10-01T00:00:00Z`."),
            .required("to", \.to, .text(1...64), "The end in UTC, at most 31 days after `from`."),
            make: Self.init,
            check: { call throws(Record<Self>.InvalidMember) in
                try Record<Self>.checkPeriod(from: call.from, to: call.to)
            }
        ),
        answer: .json(
            Holiday.record.kind("KakaoHoliday").array.orMember("events"),
            example: [
                Holiday(id: "holiday-20261225", title: "성탄절", time: nil, isHoliday: true)
            ]
        )
    )

    /// A holiday or a commemoration day.
    package struct Holiday: Sendable {
        package let id: String?
        package let title: String?
        package let time: CalendarTime?
        /// Whether it is a day off.
        package let isHoliday: Bool?

        package init(id: String?, title: String?, time: CalendarTime?, isHoliday: Bool?) {
            self.id = id
            self.title = title
            self.time = time
            self.isHoliday = isHoliday
        }

        fileprivate static let record = Record<Holiday>(
            .optional("id", \.id, .text, "The id."),
            .optional("title", \.title, .text, "The name."),
            .optional("time", \.time, CalendarTime.kind, "The day."),
            .optional("holiday", \.isHoliday, .boolean, "Whether it is a day off."),
            make: Holiday.init
        )
    }
}
