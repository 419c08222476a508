import HTTPTypes
import Schemas

/// Changes a sub-calendar that the service has created for a user. (Kakao, "Talk Calendar: REST API", "Edit sub-calendar".)
///
/// Needs the scope `talk_calendar`. Idempotent: it sets values.
package struct UpdateCalendar: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    package let calendarID: String
    /// The new name; unchanged if `nil`, as each of the options.
    package var name: String?
    package var options = CalendarOptions()

    package static let operation = KakaoOperation<Self>(
        "calendar_update",
        [.post],
        "/v2/api/calendar/update/calendar",
        .calendar,
        [.userToken],
        isIdempotent: true,
        "Changes a sub-calendar of the user.",
        parameters: Record(
            .calendarID(\.calendarID),
            .optional("name", \.name, .text(1...256), "The name."),
            .members(of: CalendarOptions.record, \.options),
            make: Self.init
        ),
        answer: CalendarChangeAnswer.calendar
    )
}
