import HTTPTypes
import Schemas

/// Makes a sub-calendar for a user. (Kakao, "Talk Calendar: REST API", "Create sub-calendar".)
///
/// Needs the scope `talk_calendar`. A service may make three for a user, with different names; a user has at most 99. Not
/// idempotent: each call makes a calendar.
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
        "Makes a sub-calendar for the user.",
        parameters: Record(
            .required("name", \.name, .text(1...256), "The name."),
            .members(of: CalendarOptions.record, \.options),
            make: Self.init
        ),
        answer: CalendarIDAnswer.created("calendar_id", "KakaoCalendarCreated", example: "user_6399a1c2afcec577")
    )
}
