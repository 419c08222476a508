import JSON
import Schemas

// The answers that calls of Talk Calendar have in common.

/// The answer to a call that concerns one calendar, event or task: its id.
package struct CalendarIDAnswer: Sendable {
    /// `nil` if Kakao does not return it.
    package let id: String?

    package init(id: String?) {
        self.id = id
    }

    /// The answer to a call that creates something, which has the id.
    static func created(_ name: String, _ schema: String, example: String) -> KakaoAnswer<CalendarIDAnswer> {
        .json(
            Record<CalendarIDAnswer>(
                .required(name, { @Sendable answer -> String in answer.id ?? "" }, .text, "The id."),
                make: { CalendarIDAnswer(id: $0) }
            )
            .kind(schema),
            example: CalendarIDAnswer(id: example)
        )
    }

    /// The answer to a call that changes or deletes something. Kakao returns the id, or nothing, as for an event of a series.
    static func changed(_ name: String, _ schema: String, example: String) -> KakaoAnswer<CalendarIDAnswer?> {
        .jsonOrEmpty(
            Record<CalendarIDAnswer>(
                .optional(name, \.id, .text, "The id."),
                make: CalendarIDAnswer.init
            )
            .kind(schema),
            example: CalendarIDAnswer(id: example)
        )
    }

    static let createdEvent = created("event_id", "KakaoCalendarEventCreated", example: "63996425afcec577cbe79b9b")
    static let changedEvent = changed("event_id", "KakaoCalendarEventChanged", example: "63996425afcec577cbe79b9b")
    static let changedCalendar = changed("calendar_id", "KakaoCalendarChanged", example: "user_6399a1c2afcec577")
    static let changedTask = changed("task_id", "KakaoCalendarTaskChanged", example: "6399b7d0afcec577")
}

/// An event in an answer.
package struct CalendarEvent: Sendable {
    package let id: String
    /// The calendar with the event; `nil` for a public event.
    package let calendarID: String?
    package let details: CalendarEventDetails

    package init(id: String, calendarID: String?, details: CalendarEventDetails) {
        self.id = id
        self.calendarID = calendarID
        self.details = details
    }

    static let kind = Record<CalendarEvent>(
        .required("id", \.id, .text, "The id."),
        .optional("calendar_id", \.calendarID, .text, "The calendar with the event."),
        .members(of: CalendarEventDetails.record, \.details),
        make: CalendarEvent.init
    )
    .kind("KakaoCalendarEvent")

    static let example = CalendarEvent(
        id: "63996425afcec577cbe79b9b",
        calendarID: "primary",
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
    /// The next page: ``CalendarPeriod/nextPageToken``; `nil` on the last.
    package let nextPageToken: String?
    /// The address of the previous page; `nil` on the first.
    package let beforeURL: String?
    /// The address of the next page; `nil` on the last.
    package let afterURL: String?

    package init(
        events: [CalendarEvent],
        nextPageToken: String? = nil,
        beforeURL: String? = nil,
        afterURL: String? = nil
    ) {
        self.events = events
        self.nextPageToken = nextPageToken
        self.beforeURL = beforeURL
        self.afterURL = afterURL
    }

    private static let record = Record<CalendarEvents>(
        .optional(
            "events",
            { @Sendable page -> [CalendarEvent]? in page.events },
            CalendarEvent.kind.array,
            "The events."
        ),
        .optional("next_page_token", \.nextPageToken, .text, "The next page; absent on the last."),
        .optional("before_url", \.beforeURL, .text, "The address of the previous page."),
        .optional("after_url", \.afterURL, .text, "The address of the next page."),
        make: { CalendarEvents(events: $0 ?? [], nextPageToken: $1, beforeURL: $2, afterURL: $3) }
    )

    static let answer = KakaoAnswer<CalendarEvents>.json(
        record.kind("KakaoCalendarEvents").orArray(of: CalendarEvent.kind) { CalendarEvents(events: $0) },
        example: CalendarEvents(events: [CalendarEvent.example])
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
