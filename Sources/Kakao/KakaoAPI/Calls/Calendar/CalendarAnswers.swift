import JSON
import Schemas

// The answers that calls of Talk Calendar have in common.

/// The answer to a call that creates something, or that concerns a public event: the id.
package struct CalendarIDAnswer: Sendable {
    package let id: String

    package init(id: String) {
        self.id = id
    }

    private static func answer(_ name: String, _ schema: String, example: String) -> KakaoAnswer<CalendarIDAnswer> {
        .json(
            Record<CalendarIDAnswer>(.required(name, \.id, .text, "The id."), make: CalendarIDAnswer.init).kind(schema),
            example: CalendarIDAnswer(id: example)
        )
    }

    static let calendar = answer("calendar_id", "KakaoCalendarID", example: "user_6399a1c2afcec577")
    static let event = answer("event_id", "KakaoCalendarEventID", example: "63996425afcec577cbe79b9b")
    static let task = answer("task_id", "KakaoCalendarTaskID", example: "6399b7d0afcec577")
}

/// The answer to a call that changes or deletes something. Kakao returns the id, or nothing, as for an event of a series.
package struct CalendarChangeAnswer: Sendable {
    /// `nil` if Kakao does not return it.
    package let id: String?

    package init(id: String?) {
        self.id = id
    }

    private static func answer(
        _ name: String,
        _ schema: String,
        example: String
    ) -> KakaoAnswer<CalendarChangeAnswer?> {
        .jsonOrEmpty(
            Record<CalendarChangeAnswer>(.optional(name, \.id, .text, "The id."), make: CalendarChangeAnswer.init)
                .kind(schema),
            example: CalendarChangeAnswer(id: example)
        )
    }

    static let calendar = answer("calendar_id", "KakaoCalendarChanged", example: "user_6399a1c2afcec577")
    static let event = answer("event_id", "KakaoCalendarEventChanged", example: "63996425afcec577cbe79b9b")
    static let task = answer("task_id", "KakaoCalendarTaskChanged", example: "6399b7d0afcec577")
}

/// An event in an answer.
package struct CalendarEvent: Sendable {
    package let id: String
    /// The calendar with the event; `nil` for a public event.
    package let calendarID: String?
    /// `USER` for an event of a user.
    package let type: String?
    /// Whether the user has created the event.
    package let isHost: Bool?
    /// Whether it is one of a series.
    package let isRecurring: Bool?
    package let details: CalendarEventDetails

    package init(
        id: String,
        calendarID: String?,
        type: String?,
        isHost: Bool?,
        isRecurring: Bool?,
        details: CalendarEventDetails
    ) {
        self.id = id
        self.calendarID = calendarID
        self.type = type
        self.isHost = isHost
        self.isRecurring = isRecurring
        self.details = details
    }

    static let kind = Record<CalendarEvent>(
        .required("id", \.id, .text, "The id."),
        .optional("calendar_id", \.calendarID, .text, "The calendar with the event."),
        .optional("type", \.type, .text, "`USER` for an event of a user."),
        .optional("is_host", \.isHost, .boolean, "Whether the user has created the event."),
        .optional("is_recur_event", \.isRecurring, .boolean, "Whether it is one of a series."),
        .members(of: CalendarEventDetails.record, \.details),
        make: CalendarEvent.init
    )
    .kind("KakaoCalendarEvent")

    static let example = CalendarEvent(
        id: "63996425afcec577cbe79b9b",
        calendarID: "primary",
        type: "USER",
        isHost: true,
        isRecurring: false,
        details: CalendarEventDetails(
            title: "Cake day",
            time: CalendarTime(
                startAt: "2022-10-27T03:00:00Z",
                endAt: "2022-10-27T06:00:00Z",
                timeZone: "Asia/Seoul",
                isAllDay: false,
                isLunar: false
            ),
            rrule: nil,
            description: nil,
            location: nil,
            reminders: [15],
            color: "RED",
            notificationMessage: nil
        )
    )

    /// The answer with one event: the object itself, or one that has it as `event`, since sources differ.
    static let answer = KakaoAnswer<CalendarEvent>.json(kind.orMember("event"), example: example)
}

/// A page of events in an answer.
package struct CalendarEvents: Sendable {
    package let events: [CalendarEvent]
    /// Whether there is another page.
    package let hasNext: Bool?
    /// The address of the next page, with ``CalendarPeriod/nextPageToken``; `nil` on the last.
    package let afterURL: String?

    package init(events: [CalendarEvent], hasNext: Bool? = nil, afterURL: String? = nil) {
        self.events = events
        self.hasNext = hasNext
        self.afterURL = afterURL
    }

    private static let record = Record<CalendarEvents>(
        .optional(
            "events",
            { @Sendable page -> [CalendarEvent]? in page.events },
            CalendarEvent.kind.array,
            "The events."
        ),
        .optional("has_next", \.hasNext, .boolean, "Whether there is another page."),
        .optional("after_url", \.afterURL, .text, "The address of the next page; absent on the last."),
        make: { CalendarEvents(events: $0 ?? [], hasNext: $1, afterURL: $2) }
    )

    static let answer = KakaoAnswer<CalendarEvents>.json(
        record.kind("KakaoCalendarEvents").orArray(of: CalendarEvent.kind) { CalendarEvents(events: $0) },
        example: CalendarEvents(events: [CalendarEvent.example], hasNext: false)
    )
}

extension Kind {
    /// This kind, or an object that has it as a member, which is how it is written.
    func orMember(_ name: String) -> Kind {
        Kind(
            .oneOf([input, .object([(name, input, true)], allowingOthers: true)]),
            allowed: allowed,
            read: { value throws(InvalidValue) in try read(value[name] ?? value) },
            write: { value, json in json.object { json in json.member(name) { write(value, &$0) } } }
        )
    }

    /// This kind, or the bare array that it would have as a member, since sources differ.
    func orArray<Element>(of element: Kind<Element>, _ make: @escaping @Sendable ([Element]) -> Value) -> Kind {
        let array = element.array
        return Kind(
            .oneOf([input, array.input]),
            allowed: allowed,
            read: { value throws(InvalidValue) in
                value.array == nil ? try read(value) : make(try array.read(value))
            },
            write: write
        )
    }
}
