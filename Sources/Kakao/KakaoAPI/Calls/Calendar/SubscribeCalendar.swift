import HTTPTypes
import Schemas

/// Subscribes a user to a calendar of a KakaoTalk channel. (Kakao, "Talk Calendar: REST API", "Subscribe to calendar".)
///
/// Needs the scope `talk_calendar`. Not idempotent, since Kakao does not say what a second call does.
package struct SubscribeCalendar: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    /// The calendar, unless ``channelID`` names its channel. Sources differ in which of the two Kakao reads.
    package var calendarID: String?
    package var channelID: String?

    package static let operation = KakaoOperation<Self>(
        "calendar_subscribe",
        [.post],
        "/v2/api/calendar/subscribe",
        .calendar,
        [.userToken],
        "Subscribes the user to a calendar of a KakaoTalk channel.",
        parameters: Record(
            .calendarID(\.calendarID, "The calendar."),
            .optional("channel_id", \.channelID, .calendarID, "The channel with the calendar."),
            make: Self.init,
            check: { call throws(Record<Self>.InvalidMember) in
                try Record<Self>.requireCalendar(call.calendarID, ofChannel: call.channelID)
            }
        ),
        answer: CalendarChangeAnswer.calendar
    )
}
