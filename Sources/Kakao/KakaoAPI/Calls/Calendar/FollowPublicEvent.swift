import HTTPTypes
import Schemas

/// Adds a public event to a user's calendar. (Kakao, "Talk Calendar: REST API", "Follow public event".)
///
/// Needs the scope `talk_calendar`. Not idempotent, since Kakao does not say what a second call does. Error -520 means that there
/// is no such event.
package struct FollowPublicEvent: KakaoCall {
    package typealias Answer = CalendarIDAnswer

    package let eventID: String

    package static let operation = KakaoOperation<Self>(
        "calendar_public_event_follow",
        [.post],
        "/v2/api/calendar/public/follow",
        .calendar,
        [.userToken],
        "Adds a public event to the user's calendar.",
        parameters: Record(.eventID(\.eventID), make: Self.init),
        answer: CalendarIDAnswer.event
    )
}
