import HTTPTypes
import Schemas

/// Deletes a public event of a KakaoTalk channel. (Kakao, "Talk Calendar: REST API", "Delete public event".)
///
/// Not idempotent: a second call is error -520.
package struct DeletePublicEvent: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    package let eventID: String
    package var channelPublicID: String?

    package static let operation = KakaoOperation<Self>(
        "calendar_public_event_delete",
        [.delete],
        "/v2/api/calendar/public/delete/event",
        .calendar,
        [.adminKey],
        isIdempotent: false,
        "Deletes a public event of a KakaoTalk channel.",
        parameters: Record(.eventID(\.eventID), .channelPublicID(\.channelPublicID), make: Self.init),
        answer: CalendarChangeAnswer.event
    )
}
