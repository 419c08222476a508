import HTTPTypes
package import JSON
import Schemas

/// Changes a public event of a KakaoTalk channel. (Kakao, "Talk Calendar: REST API", "Edit public event".)
///
/// Not idempotent: followers may be notified of each change. Error -520 means that there is no such event.
package struct UpdatePublicEvent: KakaoCall {
    package typealias Answer = CalendarIDAnswer

    package let eventID: String
    package var channelPublicID: String?
    /// The members of ``CalendarEventDetails`` to change.
    package let event: JSONObject

    package static let operation = KakaoOperation<Self>(
        "calendar_public_event_update",
        [.post],
        "/v2/api/calendar/public/update/event",
        .calendar,
        [.adminKey],
        "Changes a public event of a KakaoTalk channel.",
        parameters: Record(
            .eventID(\.eventID),
            .channelPublicID(\.channelPublicID),
            .event(\.event, "The members to change, as JSON."),
            make: Self.init
        ),
        answer: CalendarIDAnswer.event
    )
}
