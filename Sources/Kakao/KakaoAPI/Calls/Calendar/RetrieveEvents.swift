import HTTPTypes
import Schemas

/// Lists the events of a user's calendars in a period. (Kakao, "Talk Calendar: REST API", "Retrieve list of events".)
///
/// Needs the scope `talk_calendar`. The events of a series have ids of their own.
package struct RetrieveEvents: KakaoCall {
    package typealias Answer = CalendarEvents

    /// The calendar of the events; all of the user if `nil`.
    package var calendarID: String?
    package var period = CalendarPeriod()

    package static let operation = KakaoOperation<Self>(
        "calendar_events",
        [.get],
        "/v2/api/calendar/events",
        .calendar,
        [.userToken],
        "Lists the user's events in a period.",
        parameters: Record(
            .calendarID(\.calendarID, "The calendar of the events; all if it is absent."),
            .members(of: CalendarPeriod.record, \.period),
            make: Self.init
        ),
        answer: CalendarEvents.answer,
        isPaged: true
    )
}
