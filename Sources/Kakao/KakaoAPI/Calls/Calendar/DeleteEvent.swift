import HTTPTypes
import Schemas

/// Deletes an event of a user. (Kakao, "Talk Calendar: REST API", "Delete event".)
///
/// Needs the scope `talk_calendar`. A second call is error -520: each event has an id of its own, also in a series, of which
/// Kakao's answer is empty.
package struct DeleteEvent: KakaoCall {
    package typealias Answer = CalendarIDAnswer?

    package let eventID: String
    package var recurrenceUpdate: RecurrenceUpdate?

    package static let operation = KakaoOperation<Self>(
        "calendar_event_delete",
        [.delete],
        "/v2/api/calendar/delete/event",
        .calendar,
        [.userToken],
        "Deletes an event of the user.",
        parameters: Record(
            .eventID(\.eventID),
            .recurrenceUpdate(\.recurrenceUpdate),
            make: Self.init
        ),
        answer: CalendarIDAnswer.changedEvent
    )
}
