import HTTPTypes
import Schemas

/// Deletes an event of a user. (Kakao, "Talk Calendar: REST API", "Delete event".)
///
/// Needs the scope `talk_calendar`. Not idempotent: a second call is error -520. Each event of a series has an id of its own. Kakao's
/// answer about a series is empty.
package struct DeleteEvent: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    package let eventID: String
    package var recurrenceUpdate: RecurrenceUpdate?

    package static let operation = KakaoOperation<Self>(
        "calendar_event_delete",
        [.delete],
        "/v2/api/calendar/delete/event",
        .calendar,
        [.userToken],
        isIdempotent: false,
        "Deletes an event of the user.",
        parameters: Record(
            .eventID(\.eventID),
            .recurrenceUpdate(\.recurrenceUpdate),
            make: Self.init
        ),
        answer: CalendarChangeAnswer.event
    )
}
