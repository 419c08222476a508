import HTTPTypes
package import Schemas

/// Lists a user's calendars: the primary one and the sub-calendars, and those that the user has subscribed to. (Kakao, "Talk
/// Calendar: REST API", "Retrieve list of calendars".)
///
/// Needs the scope `talk_calendar`. Of a calendar that another service has created, Kakao returns the id only.
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
    /// `nil` for a calendar that another service has created, of which Kakao returns the id only.
    package var name: String?
    package var options: CalendarOptions

    package init(id: String, name: String? = nil, options: CalendarOptions = CalendarOptions()) {
        self.id = id
        self.name = name
        self.options = options
    }

    package static let record = Record<TalkCalendar>(
        .required("id", \.id, .text(1...256), "The id; `primary` for the calendar that each user has."),
        .optional("name", \.name, .text, "The name; absent if another service has created the calendar."),
        .members(of: CalendarOptions.record, \.options),
        make: TalkCalendar.init
    )
}

/// A calendar of a KakaoTalk channel, to which users can subscribe.
package struct SubscribableCalendar: Sendable {
    package let id: String
    package let name: String?
    package let description: String?
    package let options: CalendarOptions
    package let profileImageURL: String?
    /// The image of the calendar in a chat.
    package let thumbnailURL: String?

    package init(
        id: String,
        name: String?,
        description: String?,
        options: CalendarOptions = CalendarOptions(),
        profileImageURL: String? = nil,
        thumbnailURL: String? = nil
    ) {
        self.id = id
        self.name = name
        self.description = description
        self.options = options
        self.profileImageURL = profileImageURL
        self.thumbnailURL = thumbnailURL
    }

    package static let record = Record<SubscribableCalendar>(
        .required("id", \.id, .text(1...256), "The id."),
        .optional("name", \.name, .text, "The name."),
        .optional("description", \.description, .text, "The description."),
        .members(of: CalendarOptions.record, \.options),
        .optional("profile_image_url", \.profileImageURL, .text, "The image of the calendar; empty if there is none."),
        .optional("thumbnail_url", \.thumbnailURL, .text, "The image of the calendar in a chat."),
        make: SubscribableCalendar.init
    )

    static let kind = record.kind("KakaoSubscribableCalendar")

    static let example = SubscribableCalendar(
        id: "subscribe_6399a2d1afcec577",
        name: "Cakes",
        description: "The days on which cakes are fresh.",
        options: CalendarOptions(color: "RED", reminder: 15)
    )
}
