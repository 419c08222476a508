import HTTPTypes
import Schemas

/// Lists the calendars of the app's KakaoTalk channels to which users can subscribe. (Kakao, "Talk Calendar: REST API", "Retrieve
/// list of subscribable calendars".)
///
/// Needs the scope `talk_calendar`.
package struct RetrieveSubscribableCalendars: KakaoCall {
    package typealias Answer = [SubscribableCalendar]

    /// The channel of the calendars; all of the app if `nil`.
    package var channelID: String?

    package static let operation = KakaoOperation<Self>(
        "calendar_subscribable",
        [.get],
        "/v2/api/calendar/subscribable/calendars",
        .calendar,
        [.userToken],
        "Lists the calendars of channels to which users can subscribe.",
        parameters: Record(
            .optional("channel_id", \.channelID, .calendarID, "The channel with the calendars."),
            make: Self.init
        ),
        answer: .json(SubscribableCalendar.kind.array.orMember("calendars"), example: [.example])
    )
}
