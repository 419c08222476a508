import HTTPTypes
import Schemas

/// Lists the public events of a KakaoTalk channel in a period. (Kakao, "Talk Calendar: REST API", "Retrieve list of public events".)
package struct RetrievePublicEvents: KakaoCall {
    package typealias Answer = CalendarEvents

    package var channelPublicID: String?
    package var period = CalendarPeriod()

    package static let operation = KakaoOperation<Self>(
        "calendar_public_events",
        [.get],
        "/v2/api/calendar/public/events",
        .calendar,
        [.adminKey],
        "Lists the public events of a KakaoTalk channel.",
        parameters: Record(
            .channelPublicID(\.channelPublicID),
            .members(of: CalendarPeriod.record, \.period),
            make: Self.init
        ),
        answer: CalendarEvents.answer,
        isPaged: true
    )
}
