import HTTPTypes
import Schemas

/// Deletes a sub-calendar that the service has created for a user, with its events. (Kakao, "Talk Calendar: REST API", "Delete
/// sub-calendar".)
///
/// Needs the scope `talk_calendar`. Not idempotent: a second call is an error.
package struct DeleteCalendar: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    package let calendarID: String

    package static let operation = KakaoOperation<Self>(
        "calendar_delete",
        [.delete],
        "/v2/api/calendar/delete/calendar",
        .calendar,
        [.userToken],
        isIdempotent: false,
        "Deletes a sub-calendar of the user.",
        parameters: Record(.calendarID(\.calendarID), make: Self.init),
        answer: CalendarChangeAnswer.calendar
    )
}
