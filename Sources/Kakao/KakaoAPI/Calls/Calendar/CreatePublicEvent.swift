import HTTPTypes
package import JSON
import Schemas

/// Publishes an event of a KakaoTalk channel. Users add it to their calendars by ``FollowPublicEvent`` or by the button of a
/// calendar message. (Kakao, "Talk Calendar: REST API", "Create public event".)
///
/// Not idempotent: each call publishes an event.
package struct CreatePublicEvent: KakaoCall {
    package typealias Answer = CalendarIDAnswer

    /// The channel, which is connected to the app.
    package var channelPublicID: String?
    /// The members of ``CalendarEventDetails``.
    package let event: JSONObject

    package static let operation = KakaoOperation<Self>(
        "calendar_public_event_create",
        [.post],
        "/v2/api/calendar/public/create/event",
        .calendar,
        [.adminKey],
        "Publishes an event of a KakaoTalk channel.",
        parameters: Record(
            .channelPublicID(\.channelPublicID),
            .event(\.event),
            make: Self.init
        ),
        answer: CalendarIDAnswer.event
    )
}
