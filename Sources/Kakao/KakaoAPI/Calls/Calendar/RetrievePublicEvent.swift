import HTTPTypes
import Schemas

/// Returns a public event of a KakaoTalk channel. (Kakao, "Talk Calendar: REST API", "Retrieve public event details".)
///
/// Error -520 means that there is no such event.
package struct RetrievePublicEvent: KakaoCall {
    package typealias Answer = CalendarEvent

    package let eventID: String
    package var channelPublicID: String?

    package static let operation = KakaoOperation<Self>(
        "calendar_public_event",
        [.get],
        "/v2/api/calendar/public/event",
        .calendar,
        [.adminKey],
        "Returns a public event of a KakaoTalk channel.",
        parameters: Record(.eventID(\.eventID), .channelPublicID(\.channelPublicID), make: Self.init),
        answer: CalendarEvent.answer
    )
}
