import JSON
import KakaoAPI
import Locking
import Net
import Schemas

/// The calendars, events and tasks of the app's users, and those that its channels publish.
final class CalendarStore: Sendable {
    /// The maximum number of events or tasks of a user, and of public events.
    static let maximumEntries = 10_000

    private struct State {
        var users: [Int64: User] = [:]
        var published = Published()
    }

    private let state = Locked(State())

    /// Returns a user.
    func user(_ userID: Int64) -> User { update(userID) { user, _ in user } }

    /// The events and calendars of channels.
    var published: Published { state.withLock { $0.published } }

    /// Changes a user, and returns the result of the change, which may depend on the events and calendars of channels.
    @discardableResult
    func update<Result, Failure: Error>(
        _ userID: Int64,
        _ change: (inout User, Published) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try state.withLock { state throws(Failure) in
            let published = state.published
            return try change(&state.users[userID, default: User(id: userID)], published)
        }
    }

    /// Changes the events and calendars of channels, and returns the result of the change.
    @discardableResult
    func updatePublished<Result, Failure: Error>(
        _ change: (inout Published) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try state.withLock { state throws(Failure) in try change(&state.published) }
    }

    /// Error -520: there is no such event.
    static let unknownEvent = KakaoRefusal.error(.eventMissing, "the event does not exist.")
}

extension CalendarStore {
    /// An event as it was stored.
    struct Event: Sendable {
        let id: String
        /// The calendar of a user's event, or the channel of a public event.
        var owner: String
        /// The members of `event`, also undeclared ones.
        var members: JSONObject
        /// Whether the user has created the event; `false` for a public event that the user follows.
        var isHosted = true

        /// Whether it stands for a series, all of whose events are this one in the sandbox.
        var isSeries: Bool { members["rrule"]?.string != nil }

        /// The id of the event in a user's calendar. A series is known by that of its first event, and not by the id that its
        /// creation returned.
        var listedID: String {
            guard isSeries, let start = seconds?.start else { return id }
            return "\(id)_\(CivilDate(unixSeconds: start).rfc3339.filter { $0 != "-" && $0 != ":" })Z"
        }

        /// The beginning and the end in Unix seconds; `nil` if the times are invalid.
        var seconds: (start: Int, end: Int)? {
            guard let time = members["time"],
                let start = time["start_at"]?.string.flatMap({ CalendarTimestamp.unixSeconds(of: $0) }),
                let end = time["end_at"]?.string.flatMap({ CalendarTimestamp.unixSeconds(of: $0) }), start <= end
            else { return nil }
            return (start, end)
        }

        /// Returns an event with its changes.
        ///
        /// - Throws: Error -2 if it has no title or no valid time.
        func changed(by changes: JSONObject) throws(KakaoRefusal) -> Event {
            var event = self
            for (name, value) in changes.members { event.members[name] = value }
            guard event.members["title"]?.string?.isEmpty == false else {
                throw .badParameter("failed to parse parameter. name=event, it has no title")
            }
            guard event.seconds != nil else {
                throw .badParameter("failed to parse parameter. name=event, it has no valid time")
            }
            return event
        }
    }

    /// A task of a user.
    struct Task: Sendable {
        let id: String
        var isCompleted = false
        /// The members of `task`.
        var members: JSONObject
    }

    /// A calendar of a channel, to which users can subscribe.
    struct ChannelCalendar: Sendable {
        let channelID: String?
        let calendar: SubscribableCalendar

        static let record = Record<ChannelCalendar>(
            .optional("channel_id", \.channelID, .text, "The channel with the calendar."),
            .members(of: SubscribableCalendar.record, \.calendar),
            make: ChannelCalendar.init
        )
    }

    /// The events and calendars of the app's channels.
    struct Published: Sendable {
        var events: [Event] = []
        var calendars = AppDefinition.channels.map { channel in
            ChannelCalendar(
                channelID: channel.publicID,
                calendar: SubscribableCalendar(
                    id: "subscribe\(channel.publicID)",
                    name: "Calendar of \(channel.searchID)",
                    description: "The days of a channel of the sandbox.",
                    options: CalendarOptions(color: "GREEN", reminder: 15),
                    profileImageURL: "",
                    thumbnailURL: "https://example.com/calendar.png"
                )
            )
        }
        private var lastNumber = 0

        /// Publishes an event of a channel, and returns its id.
        mutating func add(_ event: JSONObject, of channel: String) throws(KakaoRefusal) -> String {
            guard events.count < maximumEntries else {
                throw .full("the sandbox stores \(maximumEntries) public events.")
            }
            lastNumber += 1
            let id = "public_\(lastNumber)"
            events.append(try Event(id: id, owner: channel, members: JSONObject()).changed(by: event))
            return id
        }

        /// Returns the index of an event.
        ///
        /// - Throws: Error -520 if there is no such event.
        func index(of id: String) throws(KakaoRefusal) -> Int {
            guard let index = events.firstIndex(where: { $0.id == id }) else { throw unknownEvent }
            return index
        }

        /// Returns the calendar that a call names by its id or by its channel.
        ///
        /// - Throws: Error -2 if there is none.
        func calendar(_ id: String?, ofChannel channel: String?) throws(KakaoRefusal) -> String {
            let found = calendars.first { entry in
                id.map { entry.calendar.id == $0 } ?? (entry.channelID == channel)
            }
            guard let found else { throw .badParameter("there is no such calendar") }
            return found.calendar.id
        }
    }

    /// A user of Talk Calendar.
    struct User: Sendable {
        /// The sub-calendars that one app may create for a user.
        private static let maximumOwn = 3
        /// The sub-calendars that a user may have.
        private static let maximumCalendars = 99

        let id: Int64
        /// The sub-calendars. Those that other services have created have no name here.
        var calendars: [TalkCalendar] = []
        var events: [Event] = []
        var tasks: [Task] = []
        /// The ids of the public events that the user has added to the calendar.
        var following: [String] = []
        /// The ids of the calendars that the user has subscribed to.
        var subscriptions: [String] = []
        private var lastNumber = 0

        init(id: Int64) {
            self.id = id
        }

        private mutating func newID(_ kind: String) -> String {
            lastNumber += 1
            return "\(kind)_\(String(id, radix: 36))_\(lastNumber)"
        }

        // MARK: Calendars

        /// - Throws: Error -2 if the app or the user has too many, or the name is used.
        mutating func createCalendar(_ name: String, _ options: CalendarOptions) throws(KakaoRefusal) -> String {
            guard calendars.count < Self.maximumCalendars else {
                throw .badParameter("a user has at most \(Self.maximumCalendars) sub-calendars")
            }
            guard calendars.count(where: { $0.name != nil }) < Self.maximumOwn else {
                throw .badParameter("a service creates at most \(Self.maximumOwn) sub-calendars for a user")
            }
            try checkIsFree(name)
            let id = newID("user")
            calendars.append(TalkCalendar(id: id, name: name, options: options))
            return id
        }

        /// - Throws: Error -2 if the app has created no such calendar, or the name is used.
        mutating func updateCalendar(
            _ id: String,
            _ name: String?,
            _ options: CalendarOptions
        ) throws(KakaoRefusal) {
            let index = try ownCalendar(id)
            if let name, name != calendars[index].name {
                try checkIsFree(name)
                calendars[index].name = name
            }
            if let color = options.color { calendars[index].options.color = color }
            if let reminder = options.reminder { calendars[index].options.reminder = reminder }
            if let reminder = options.reminderAllDay { calendars[index].options.reminderAllDay = reminder }
        }

        /// Deletes a calendar with its events.
        ///
        /// - Throws: Error -2 if the app has created no such calendar.
        mutating func deleteCalendar(_ id: String) throws(KakaoRefusal) {
            calendars.remove(at: try ownCalendar(id))
            events.removeAll { $0.owner == id }
        }

        private func checkIsFree(_ name: String) throws(KakaoRefusal) {
            guard !calendars.contains(where: { $0.name == name }) else {
                throw .badParameter("the service has a sub-calendar of this name already")
            }
        }

        private func ownCalendar(_ id: String) throws(KakaoRefusal) -> Int {
            guard let index = calendars.firstIndex(where: { $0.id == id && $0.name != nil }) else {
                throw .badParameter("the service has created no calendar with this id")
            }
            return index
        }

        // MARK: Events

        /// The user's events, and the public ones that the user follows, which are in the primary calendar.
        func allEvents(_ published: Published) -> [Event] {
            let following = Set(following)
            return events
                + published.events.filter { following.contains($0.id) }.map { event in
                    var event = event
                    event.owner = TalkCalendar.primary
                    event.isHosted = false
                    return event
                }
        }

        /// - Throws: Error -2 if the calendar is not the app's, or the event has no title or no time.
        mutating func createEvent(_ event: JSONObject, in calendar: String?) throws(KakaoRefusal) -> String {
            guard events.count < maximumEntries else {
                throw .full("the sandbox stores at most \(maximumEntries) events of a user.")
            }
            let calendar = calendar ?? TalkCalendar.primary
            if calendar != TalkCalendar.primary { _ = try ownCalendar(calendar) }
            let new = try Event(id: newID("event"), owner: calendar, members: JSONObject()).changed(by: event)
            events.append(new)
            return new.id
        }

        /// Changes an event, and returns its id, or `nil` for a series.
        ///
        /// - Throws: Error -520 if there is no such event, -2 if the changes are invalid or do not say which events of a series
        ///   they concern.
        mutating func updateEvent(
            _ id: String,
            _ changes: JSONObject,
            to calendar: String?,
            _ recurrence: RecurrenceUpdate?
        ) throws(KakaoRefusal) -> String? {
            let index = try event(id, recurrence)
            if let calendar, calendar != TalkCalendar.primary { _ = try ownCalendar(calendar) }
            let isSeries = events[index].isSeries
            events[index] = try events[index].changed(by: changes)
            if let calendar { events[index].owner = calendar }
            return isSeries ? nil : id
        }

        /// Deletes an event, and returns its id, or `nil` if the call says which events of a series it concerns.
        ///
        /// - Throws: Error -520 if there is no such event, -2 if the call does not say which events of a series it concerns.
        mutating func deleteEvent(_ id: String, _ recurrence: RecurrenceUpdate?) throws(KakaoRefusal) -> String? {
            events.remove(at: try event(id, recurrence))
            return recurrence == nil ? id : nil
        }

        private func event(_ id: String, _ recurrence: RecurrenceUpdate?) throws(KakaoRefusal) -> Int {
            guard let index = events.firstIndex(where: { $0.listedID == id }) else { throw unknownEvent }
            guard recurrence != nil || !events[index].isSeries else {
                throw .badParameter("The Parameter [recur_update_type] cannot be null.")
            }
            return index
        }

        // MARK: Tasks

        /// - Throws: Error -2 if the task has no content.
        mutating func createTask(_ task: JSONObject) throws(KakaoRefusal) -> String {
            guard tasks.count < maximumEntries else {
                throw .full("the sandbox stores at most \(maximumEntries) tasks of a user.")
            }
            guard task["content"]?.string?.isEmpty == false else {
                throw .badParameter("failed to parse parameter. name=task, it has no content")
            }
            let id = newID("task")
            tasks.append(Task(id: id, members: task))
            return id
        }

        /// Returns the index of a task.
        ///
        /// - Throws: Error -2 if there is no such task.
        func task(_ id: String) throws(KakaoRefusal) -> Int {
            guard let index = tasks.firstIndex(where: { $0.id == id }) else {
                throw .badParameter("the task does not exist")
            }
            return index
        }
    }
}
