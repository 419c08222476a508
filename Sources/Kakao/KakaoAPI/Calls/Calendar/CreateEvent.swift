import HTTPTypes
package import JSON
import Schemas

/// Adds an event to a calendar of a user. (Kakao, "Talk Calendar: REST API", "Create event".)
///
/// Needs the scope `talk_calendar`. Not idempotent: each call adds an event, and Kakao has no key that would recognize a
/// repeated one.
package struct CreateEvent: KakaoCall {
    package typealias Answer = CalendarIDAnswer

    /// The primary calendar, or a sub-calendar that the service has made; the primary one if `nil`.
    package var calendarID: String?
    /// The members of ``CalendarEventDetails``.
    package let event: JSONObject

    package static let operation = KakaoOperation<Self>(
        "calendar_event_create",
        [.post],
        "/v2/api/calendar/create/event",
        .calendar,
        [.userToken],
        "Adds an event to a calendar of the user.",
        parameters: Record(
            .calendarID(\.calendarID, "The calendar; `primary` if it is absent."),
            .event(\.event),
            make: Self.init
        ),
        answer: CalendarIDAnswer.event
    )
}
