import HTTPTypes
import Schemas

/// Creates a sub-calendar for a user. (Kakao, "Talk Calendar: REST API", "Create sub-calendar".)
///
/// Needs the scope `talk_calendar`. A service may create three for a user, with different names; a user has at most 99. Not
/// idempotent: each call creates a calendar.
package struct CreateCalendar: KakaoCall {
    package typealias Answer = CalendarIDAnswer

    package let name: String
    package var options = CalendarOptions()

    package static let operation = KakaoOperation<Self>(
        "calendar_create",
        [.post],
        "/v2/api/calendar/create/calendar",
        .calendar,
        [.userToken],
        "Creates a sub-calendar for the user.",
        parameters: Record(
            .required("name", \.name, .text(1...256), "The name."),
            .members(of: CalendarOptions.record, \.options),
            make: Self.init
        ),
        answer: CalendarIDAnswer.calendar
    )
}
