import HTTPTypes
package import JSON
import Schemas

/// Changes an event of which the user is a guest, such as its color and its reminders for this user. (Kakao, "Talk Calendar: REST
/// API", "Edit event for attendee".)
///
/// Needs the scope `talk_calendar`. Not idempotent, for the reason of ``UpdateEvent``. We have found no source with its parameters:
/// those of ``UpdateEvent`` are accepted.
package struct UpdateGuestEvent: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    package let eventID: String
    package var calendarID: String?
    package var recurrenceUpdate: RecurrenceUpdate?
    package var event: JSONObject?

    package static let operation = KakaoOperation<Self>(
        "calendar_event_update_guest",
        [.post],
        "/v2/api/calendar/update/event/guest",
        .calendar,
        [.userToken],
        "Changes an event of which the user is a guest.",
        parameters: Record(
            .eventID(\.eventID),
            .calendarID(\.calendarID, "The calendar to which the event moves."),
            .recurrenceUpdate(\.recurrenceUpdate),
            .optional(
                "event",
                \.event,
                .object(like: CalendarEventDetails.record),
                "The members to change, as JSON."
            ),
            make: Self.init
        ),
        answer: CalendarChangeAnswer.event
    )
}
