import HTTPTypes
import Schemas

/// Returns an event of a user. (Kakao, "Talk Calendar: REST API", "Retrieve event details".)
///
/// Needs the scope `talk_calendar`. Error -520 means that there is no such event.
package struct RetrieveEvent: KakaoCall {
    package typealias Answer = CalendarEvent

    package let eventID: String

    package static let operation = KakaoOperation<Self>(
        "calendar_event",
        [.get],
        "/v2/api/calendar/event",
        .calendar,
        [.userToken],
        "Returns an event of the user.",
        parameters: Record(.eventID(\.eventID), make: Self.init),
        answer: CalendarEvent.answer
    )
}
