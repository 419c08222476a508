import JSON
package import Schemas

// The parameters that calls of Talk Calendar have in common.

extension Kind where Value == String {
    /// The id of a calendar, an event or a task. Kakao documents no length.
    static var calendarID: Kind { .text(1...256) }
}

/// The events of a series that an update or a deletion concerns. A series needs it.
package enum RecurrenceUpdate: String, CaseIterable, Sendable {
    case all = "ALL"
    case this = "THIS"
    case thisAndFollowing = "THIS_AND_FOLLOWING"
}

/// The time and the page of a list of events.
package struct CalendarPeriod: Sendable {
    /// A period that begins and ends with a day, week or month. Kakao ignores ``from`` and ``to`` beside it.
    package enum Preset: String, CaseIterable, Sendable {
        case today = "TODAY"
        case thisWeek = "THIS_WEEK"
        case thisMonth = "THIS_MONTH"
    }

    package var preset: Preset?
    /// The beginning in UTC: `2022-10-27T03:00:00Z`.
    package var from: String?
    /// The end in UTC, at most 31 days after ``from``.
    package var to: String?
    /// The time zone of ``preset``; Asia/Seoul if `nil`.
    package var timeZone: String?
    /// The number of events of a page.
    package var limit: Int64?
    /// The page: the parameter `next_page_token` of ``CalendarEvents/afterURL``. It also has the period and the limit.
    package var nextPageToken: String?

    package init(
        preset: Preset? = nil,
        from: String? = nil,
        to: String? = nil,
        timeZone: String? = nil,
        limit: Int64? = nil,
        nextPageToken: String? = nil
    ) {
        self.preset = preset
        self.from = from
        self.to = to
        self.timeZone = timeZone
        self.limit = limit
        self.nextPageToken = nextPageToken
    }

    package static let record = Record<CalendarPeriod>(
        .optional("preset", \.preset, .choice, "The period, in place of `from` and `to`."),
        .optional("from", \.from, .text(1...64), "The beginning in UTC, such as `2022-10-27T03:00:00Z`."),
        .optional("to", \.to, .text(1...64), "The end in UTC, at most 31 days after `from`."),
        .optional("time_zone", \.timeZone, .text(1...64), "The time zone of `preset`; `Asia/Seoul` if it is absent."),
        .optional("limit", \.limit, Kind<Int64>.integer(1...1000), "The number of events of a page."),
        .optional(
            "next_page_token",
            \.nextPageToken,
            .text(1...4096),
            "The page, as in `after_url` of the answer before it, in place of `preset` and the period."
        ),
        make: CalendarPeriod.init,
        check: { period throws(Record<Self>.InvalidMember) in
            guard period.preset == nil, period.nextPageToken == nil else { return }
            try Record<Self>.checkPeriod(from: period.from, to: period.to)
        }
    )
}

extension Record {
    /// Checks that a period has at most 31 days. Texts that are no times are left to Kakao.
    static func checkPeriod(from: String?, to: String?) throws(InvalidMember) {
        guard let from = from.flatMap({ CalendarTimestamp.unixSeconds(of: $0) }),
            let to = to.flatMap({ CalendarTimestamp.unixSeconds(of: $0) })
        else { return }
        guard (0...31 * 86_400).contains(to - from) else {
            throw InvalidMember("to", allowed: "at most 31 days after from, and not before it")
        }
    }

    /// Checks that a call names a calendar of a channel, by the calendar or by the channel.
    static func requireCalendar(_ calendarID: String?, ofChannel channelID: String?) throws(InvalidMember) {
        guard calendarID != nil || channelID != nil else {
            throw InvalidMember("calendar_id", isMissing: true, allowed: "given, unless channel_id is")
        }
    }
}

extension RecordMember where Value == String {
    static func eventID(_ get: @escaping @Sendable (Whole) -> String) -> RecordMember {
        .required("event_id", get, .calendarID, "The id of the event.")
    }

    static func taskID(_ get: @escaping @Sendable (Whole) -> String) -> RecordMember {
        .required("task_id", get, .calendarID, "The id of the task.")
    }

    static func calendarID(_ get: @escaping @Sendable (Whole) -> String) -> RecordMember {
        .required("calendar_id", get, .calendarID, "The id of the calendar.")
    }
}

extension RecordMember where Value == String? {
    static func calendarID(
        _ get: @escaping @Sendable (Whole) -> String?,
        _ description: String
    ) -> RecordMember {
        .optional("calendar_id", get, .calendarID, description)
    }

    static func channelPublicID(_ get: @escaping @Sendable (Whole) -> String?) -> RecordMember {
        .optional("channel_public_id", get, .text(1...64), "The public id of the KakaoTalk channel.")
    }
}

extension RecordMember where Value == RecurrenceUpdate? {
    static func recurrenceUpdate(_ get: @escaping @Sendable (Whole) -> RecurrenceUpdate?) -> RecordMember {
        .optional("recur_update_type", get, .choice, "The events of a series that are meant. A series needs it.")
    }
}

extension RecordMember where Value == JSONObject {
    /// A new event, or the changes of one.
    static func event(
        _ get: @escaping @Sendable (Whole) -> JSONObject,
        _ description: String = "The event, as JSON."
    ) -> RecordMember {
        .required("event", get, .object(like: CalendarEventDetails.record), description)
    }
}
