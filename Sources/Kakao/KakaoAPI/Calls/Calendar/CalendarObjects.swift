package import JSON
import Net
package import Schemas

// The objects that calls of Talk Calendar send as JSON in one parameter.

/// A time of Talk Calendar.
package enum CalendarTimestamp {
    /// The forms that clients of Kakao's API send, without the final `Z`: RFC 3339, and the basic form of RFC 5545 §3.3.5. A zero
    /// stands for any digit.
    private static let forms = ["0000-00-00T00:00:00", "00000000T000000"].map { Array($0.utf8) }

    /// Returns the seconds since 1970 of a time in UTC, `2022-10-27T03:00:00Z` or `20221027T030000Z`, also with a fraction of
    /// a second, which does not count; `nil` for another text.
    package static func unixSeconds(of text: String) -> Int? {
        // No valid time is longer.
        guard text.utf8.count <= 40, text.utf8.last == UInt8(ascii: "Z") else { return nil }
        func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
        let parts = text.utf8.dropLast().split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), parts.dropFirst().allSatisfy({ !$0.isEmpty && $0.allSatisfy(isDigit) }),
            forms.contains(where: { form in
                form.count == parts[0].count
                    && zip(form, parts[0]).allSatisfy { $0 == UInt8(ascii: "0") ? isDigit($1) : $0 == $1 }
            })
        else { return nil }
        let digits = parts[0].filter(isDigit).map { Int($0) - 0x30 }
        func number(_ range: Range<Int>) -> Int { digits[range].reduce(0) { $0 * 10 + $1 } }
        return CivilDate.unixSeconds(
            year: number(0..<4),
            month: number(4..<6),
            day: number(6..<8),
            hour: number(8..<10),
            minute: number(10..<12),
            second: number(12..<14)
        )
    }
}

/// The time of an event.
package struct CalendarTime: Sendable {
    /// In UTC: `2022-10-27T03:00:00Z`, in steps of 5 minutes.
    package let startAt: String?
    package let endAt: String?
    /// The time zone in which the event is shown, by its name in the database of IANA; Asia/Seoul if `nil`.
    package let timeZone: String?
    /// Whether the event lasts whole days. Both times are at midnight then: `2022-10-27T00:00:00Z`.
    package let isAllDay: Bool?
    /// Whether the date is one of the lunar calendar.
    package let isLunar: Bool?

    package init(startAt: String?, endAt: String?, timeZone: String?, isAllDay: Bool?, isLunar: Bool?) {
        self.startAt = startAt
        self.endAt = endAt
        self.timeZone = timeZone
        self.isAllDay = isAllDay
        self.isLunar = isLunar
    }

    static let kind = record.nested

    private static let record = Record<CalendarTime>(
        .optional("start_at", \.startAt, .text, "The beginning, in UTC and steps of 5 minutes."),
        .optional("end_at", \.endAt, .text, "The end, in UTC and steps of 5 minutes."),
        .optional("time_zone", \.timeZone, .text, "The time zone; `Asia/Seoul` if it is absent."),
        .optional(
            "all_day",
            \.isAllDay,
            .boolean.inJSON,
            "Whether the event lasts whole days, from and to `T00:00:00Z`."
        ),
        .optional("lunar", \.isLunar, .boolean.inJSON, "Whether the date is one of the lunar calendar."),
        make: CalendarTime.init,
        check: { time throws(Record<Self>.InvalidMember) in
            for (name, text) in [("start_at", time.startAt), ("end_at", time.endAt)] {
                // Kakao may know forms that this does not.
                guard let text, let seconds = CalendarTimestamp.unixSeconds(of: text) else { continue }
                if time.isAllDay == true, seconds % 86_400 != 0 {
                    throw Record<Self>.InvalidMember(
                        name,
                        allowed: "at midnight in UTC if all_day is true, such as 2022-10-27T00:00:00Z"
                    )
                }
                guard seconds % 300 == 0 else {
                    throw Record<Self>.InvalidMember(
                        name,
                        allowed: "a time in UTC in steps of 5 minutes, such as 2022-10-27T03:05:00Z"
                    )
                }
            }
        }
    )
}

/// The place of an event.
package struct CalendarLocation: Sendable {
    package let name: String?
    /// The id of the place in Kakao's maps.
    package let locationID: JSONValue?
    package let address: String?
    package let latitude: JSONValue?
    package let longitude: JSONValue?

    fileprivate static let record = Record<CalendarLocation>(
        .optional("name", \.name, .text, "The name."),
        .optional("location_id", \.locationID, .numberOrText, "The id of the place in Kakao's maps."),
        .optional("address", \.address, .text, "The address."),
        .optional("latitude", \.latitude, .numberOrText, "The latitude in degrees."),
        .optional("longitude", \.longitude, .numberOrText, "The longitude in degrees."),
        make: CalendarLocation.init
    )
}

/// The members of a new event, or the changes of one. Members that this server does not know are relayed unchanged.
package struct CalendarEventDetails: Sendable {
    package let title: String?
    package let time: CalendarTime?
    /// The recurrence, by RFC 5545 §3.3.10: `FREQ=DAILY;UNTIL=20221030T000000Z`.
    package let rrule: String?
    package let description: String?
    package let location: CalendarLocation?
    /// The minutes before the beginning at which the user is reminded: up to two, in steps of 5.
    package let reminders: [Int64]?
    /// The name of a color, such as `RED` or `ROYAL_BLUE`.
    package let color: String?
    /// The message with which a public event reminds its followers.
    package let notificationMessage: JSONObject?

    package static let record = Record<CalendarEventDetails>(
        .optional("title", \.title, .text, "The title."),
        .optional("time", \.time, CalendarTime.kind, "The time."),
        .optional("rrule", \.rrule, .text, "The recurrence, as a rule of RFC 5545."),
        .optional("description", \.description, .text, "The description."),
        .optional("location", \.location, CalendarLocation.record.nested, "The place."),
        .optional(
            "reminders",
            \.reminders,
            Kind<Int64>.reminder.inJSON.array(count: 0...2).inJSON,
            "The minutes before the beginning at which the user is reminded: up to two, in steps of 5."
        ),
        .optional("color", \.color, .text, "The name of a color, such as `RED`."),
        .optional(
            "notification_message",
            \.notificationMessage,
            .object.inJSON,
            "The message with which a public event reminds its followers."
        ),
        make: CalendarEventDetails.init
    )
}

/// The members of a new task.
package struct CalendarTaskDetails: Sendable {
    package let content: String?
    package let dueInfo: DueInfo?
    /// The recurrence. We have found no source with its form, so that any value is relayed.
    package let recurrence: JSONValue?

    package init(content: String?, dueInfo: DueInfo?, recurrence: JSONValue?) {
        self.content = content
        self.dueInfo = dueInfo
        self.recurrence = recurrence
    }

    /// The day at which a task is due.
    package struct DueInfo: Sendable {
        /// `20221027`.
        package let date: String?
        package let timeZone: String?
        /// The time of the day of a reminder: `0930`.
        package let alarmTime: String?

        fileprivate static let record = Record<DueInfo>(
            .optional("due_date", \.date, .day, "The day, such as `20221027`."),
            .optional("time_zone", \.timeZone, .text, "The time zone, such as `Asia/Seoul`."),
            .optional("alarm_time", \.alarmTime, .text, "The time of the day of a reminder, such as `0930`."),
            make: DueInfo.init
        )
    }

    package static let record = Record<CalendarTaskDetails>(
        .optional("content", \.content, .text, "The text."),
        .optional("due_info", \.dueInfo, DueInfo.record.nested, "The day at which it is due."),
        .optional("recur", \.recurrence, .any, "The recurrence."),
        make: CalendarTaskDetails.init
    )
}

// MARK: Kinds

extension Kind {
    /// This kind in JSON, where a text does not stand for a value of another type, as it does in a form.
    fileprivate var inJSON: Kind {
        Kind(
            input,
            output: output,
            allowed: allowed,
            read: { value throws(InvalidValue) in
                if case .string = value { throw InvalidValue() }
                return try read(value)
            },
            write: write
        )
    }
}

extension Record {
    /// Reads an object of a request.
    fileprivate func readNested(_ object: JSONObject) throws(InvalidValue) -> Whole {
        do throws(InvalidMember) {
            return try read(object)
        } catch {
            throw InvalidValue(error.detail.map { "\(error.name): \($0)" } ?? "\(error.name) must be \(error.allowed)")
        }
    }

    /// The schema of an object that may have other members too.
    fileprivate var openSchema: Schema {
        .object(members.map { ($0.name, $0.schema, $0.isRequired) }, allowingOthers: true)
    }

    /// The kind of these objects as members of another one.
    fileprivate var nested: Kind<Whole> {
        Kind<Whole>(
            openSchema,
            allowed: "a JSON object",
            read: { value throws(InvalidValue) in
                guard let object = value.object else { throw InvalidValue() }
                return try readNested(object)
            },
            write: { write($0, &$1) }
        )
    }
}

extension Kind where Value == JSONObject {
    /// A JSON object, or its text. Members that a record declares must be as it says; the others are kept.
    static func object<Whole>(like record: Record<Whole>) -> Kind {
        let object = Kind.object
        return Kind(
            record.openSchema,
            allowed: object.allowed,
            read: { value throws(InvalidValue) in
                let object = try object.read(value)
                _ = try record.readNested(object)
                return object
            },
            write: object.write
        )
    }
}

extension Kind where Value == JSONValue {
    /// A number or a text. Kakao's samples have ids and coordinates in both forms.
    static var numberOrText: Kind {
        Kind(
            .oneOf([.number, .text()]),
            allowed: "a number or a text",
            read: { value throws(InvalidValue) in
                switch value {
                case .number, .string: return value
                case .null, .bool, .array, .object: throw InvalidValue()
                }
            },
            write: { $1.value($0) },
            text: { $0.anyText }
        )
    }

    /// Any value.
    static var any: Kind {
        Kind(.any, allowed: "a value", read: { value throws(InvalidValue) in value }, write: { $1.value($0) })
    }
}

extension Kind where Value == Int64 {
    /// A number of minutes in steps of 5.
    static var reminder: Kind {
        let minutes = Kind.minutes
        return Kind(
            .integer(minutesRange, multipleOf: 5),
            allowed: "a number of minutes in steps of 5",
            read: { value throws(InvalidValue) in
                let number = try minutes.read(value)
                guard number % 5 == 0 else { throw InvalidValue() }
                return number
            },
            write: minutes.write
        )
    }

    /// A number of minutes, before or after a time.
    static var minutes: Kind { .integer(minutesRange) }

    private static let minutesRange = Int64(Int32.min)...Int64(Int32.max)
}

extension Kind where Value == String {
    /// A day: `20221027`.
    static var day: Kind {
        Kind(
            text: .text(pattern: "^[0-9]{8}$"),
            allowed: "a day such as 20221027",
            parse: { text in
                text.utf8.count == 8 && text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? text : nil
            },
            format: \.self
        )
    }
}
