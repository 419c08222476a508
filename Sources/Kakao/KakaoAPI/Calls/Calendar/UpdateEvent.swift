import HTTPTypes
package import JSON
import Schemas

/// Changes an event of which the user is the host. (Kakao, "Talk Calendar: REST API", "Edit event for host".)
///
/// Needs the scope `talk_calendar`. Not idempotent: `THIS_AND_FOLLOWING` divides a series, whose events get other ids, and
/// guests may be notified of each change. Of a series, Kakao's answer is empty. Error -520 means that there is no such event.
package struct UpdateEvent: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    /// The id of the event itself, also of one in a series.
    package let eventID: String
    /// The calendar to which the event moves.
    package var calendarID: String?
    package var recurrenceUpdate: RecurrenceUpdate?
    /// The members of ``CalendarEventDetails`` to change.
    package let event: JSONObject

    package static let operation = KakaoOperation<Self>(
        "calendar_event_update",
        [.post],
        "/v2/api/calendar/update/event/host",
        .calendar,
        [.userToken],
        "Changes an event of which the user is the host.",
        parameters: Record(
            .eventID(\.eventID),
            .calendarID(\.calendarID, "The calendar to which the event moves."),
            .recurrenceUpdate(\.recurrenceUpdate),
            .event(\.event, "The members to change, as JSON."),
            make: Self.init
        ),
        answer: CalendarChangeAnswer.event
    )
}
