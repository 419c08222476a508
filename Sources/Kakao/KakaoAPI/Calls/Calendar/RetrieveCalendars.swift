import HTTPTypes
package import JSON
package import Schemas

/// Lists a user's calendars: the primary one and the sub-calendars, and those that the user has subscribed to. (Kakao, "Talk
/// Calendar: REST API", "Retrieve list of calendars".)
///
/// Needs the scope `talk_calendar`. Of a calendar that another service has made, Kakao returns the id only.
package struct RetrieveCalendars: KakaoCall {
    /// The groups of calendars to return: `ALL`, `USER` or `SUBSCRIBE`; all if `nil`.
    package var filter: [String]?

    package static let operation = KakaoOperation<Self>(
        "calendars",
        [.get],
        "/v2/api/calendar/calendars",
        .calendar,
        [.userToken],
        "Lists the user's calendars.",
        parameters: Record(
            .optional(
                "filter",
                \.filter,
                .commaList(count: 3, length: 32),
                "`USER` for the user's own calendars, `SUBSCRIBE` for those that the user has subscribed to, `ALL` for both; `ALL` if it is absent."
            ),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("KakaoCalendars"),
            example: Answer(
                calendars: [
                    TalkCalendar(
                        id: TalkCalendar.primary,
                        name: "My Calendar",
                        options: CalendarOptions(color: "BLUE", reminder: 15)
                    )
                ],
                subscribedCalendars: [.example]
            )
        )
    )

    package struct Answer: Sendable {
        package let calendars: [TalkCalendar]?
        package let subscribedCalendars: [SubscribableCalendar]?

        package init(calendars: [TalkCalendar]?, subscribedCalendars: [SubscribableCalendar]?) {
            self.calendars = calendars
            self.subscribedCalendars = subscribedCalendars
        }

        fileprivate static let record = Record<Answer>(
            .optional(
                "calendars",
                \.calendars,
                TalkCalendar.record.kind("KakaoCalendar").array,
                "The primary calendar and the sub-calendars."
            ),
            .optional(
                "subscribe_calendars",
                \.subscribedCalendars,
                SubscribableCalendar.kind.array,
                "The calendars that the user has subscribed to."
            ),
            make: Answer.init
        )
    }
}

/// A calendar of a user.
package struct TalkCalendar: Sendable {
    /// The id of the calendar that each user has, and that no service can delete.
    package static let primary = "primary"

    package var id: String
    /// `nil` for a calendar that another service has made, of which Kakao returns the id only.
    package var name: String?
    package var options: CalendarOptions

    package init(id: String, name: String? = nil, options: CalendarOptions = CalendarOptions()) {
        self.id = id
        self.name = name
        self.options = options
    }

    package static let record = Record<TalkCalendar>(
        .required("id", \.id, .text(1...256), "The id; `primary` for the calendar that each user has."),
        .optional("name", \.name, .text, "The name; absent if another service has made the calendar."),
        .members(of: CalendarOptions.record, \.options),
        make: TalkCalendar.init
    )
}

/// A calendar of a KakaoTalk channel, to which users can subscribe.
package struct SubscribableCalendar: Sendable {
    package let id: String
    /// The channel with the calendar.
    package let channelID: JSONValue?
    package let name: String?
    package let description: String?

    package init(id: String, channelID: JSONValue?, name: String?, description: String?) {
        self.id = id
        self.channelID = channelID
        self.name = name
        self.description = description
    }

    package static let record = Record<SubscribableCalendar>(
        .required("id", \.id, .text(1...256), "The id."),
        .optional("channel_id", \.channelID, .numberOrText, "The channel with the calendar."),
        .optional("name", \.name, .text, "The name."),
        .optional("description", \.description, .text, "The description."),
        make: SubscribableCalendar.init
    )

    static let kind = record.kind("KakaoSubscribableCalendar")

    static let example = SubscribableCalendar(
        id: "subscribe_6399a2d1afcec577",
        channelID: "_ZeUTxl",
        name: "Cakes",
        description: "The days on which cakes are fresh."
    )
}
