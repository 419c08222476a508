import JSON
import KakaoAPI
import Locking
import Net
import Schemas

/// Talk Calendar: the calls, which read and change ``CalendarStore``.
struct CalendarCalls: Sendable {
    /// The number of events on a page, where Kakao's documents name none.
    private static let pageSize: Int64 = 100

    let users: AppUsers
    let calendars: CalendarStore
    /// The URL of the sandbox, which the addresses of pages begin with.
    let url: Locked<String>

    func add(to server: inout KakaoCallServer) {
        addCalendars(to: &server)
        addEvents(to: &server)
        addPublicEvents(to: &server)
        addSubscriptions(to: &server)
        addTasks(to: &server)
        server.on(RetrieveHolidays.self) { call, _ throws(KakaoRefusal) in try Self.holidays(call) }
    }

    // MARK: Calendars

    private func addCalendars(to server: inout KakaoCallServer) {
        add(RetrieveCalendars.self, to: &server) { call, user, published throws(KakaoRefusal) in
            let filter = Set(call.filter ?? ["ALL"])
            guard filter.isSubset(of: ["ALL", "USER", "SUBSCRIBE"]) else {
                throw .badParameter("failed to parse parameter. name=filter")
            }
            let primary = TalkCalendar(
                id: TalkCalendar.primary,
                name: "My Calendar",
                options: CalendarOptions(color: "BLUE", reminder: 15)
            )
            let subscribed = published.calendars.map(\.calendar).filter { user.subscriptions.contains($0.id) }
            return RetrieveCalendars.Answer(
                calendars: filter == ["SUBSCRIBE"] ? nil : [primary] + user.calendars,
                subscribedCalendars: filter == ["USER"] ? nil : subscribed
            )
        }
        add(CreateCalendar.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            CalendarIDAnswer(id: try user.createCalendar(call.name, call.options))
        }
        add(UpdateCalendar.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            try user.updateCalendar(call.calendarID, call.name, call.options)
            return CalendarChangeAnswer(id: call.calendarID)
        }
        add(DeleteCalendar.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            try user.deleteCalendar(call.calendarID)
            return CalendarChangeAnswer(id: call.calendarID)
        }
    }

    // MARK: Events

    private func addEvents(to server: inout KakaoCallServer) {
        add(CreateEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            CalendarIDAnswer(id: try user.createEvent(call.event, in: call.calendarID))
        }
        add(RetrieveEvents.self, to: &server) { call, user, published throws(KakaoRefusal) in
            let events = user.allEvents(published).filter { call.calendarID == nil || $0.owner == call.calendarID }
            return try page(events, call.period, ("calendar_id", call.calendarID), RetrieveEvents.operation.path) {
                $0.userAnswer
            }
        }
        add(RetrieveEvent.self, to: &server) { call, user, published throws(KakaoRefusal) in
            guard let event = user.allEvents(published).first(where: { $0.listedID == call.eventID }) else {
                throw CalendarStore.unknownEvent
            }
            return event.userAnswer
        }
        add(UpdateEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            try user.updateEvent(call.eventID, call.event, to: call.calendarID, call.recurrenceUpdate)
                .map { CalendarChangeAnswer(id: $0) }
        }
        add(UpdateGuestEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            // Kakao's documents do not say which members a guest may change. These two only the guest sees.
            var changes = JSONObject()
            for name in ["color", "reminders"] { changes[name] = call.event?[name] }
            return try user.updateEvent(call.eventID, changes, to: call.calendarID, call.recurrenceUpdate)
                .map { CalendarChangeAnswer(id: $0) }
        }
        add(DeleteEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            try user.deleteEvent(call.eventID, call.recurrenceUpdate).map { CalendarChangeAnswer(id: $0) }
        }
    }

    /// A page of a list.
    private struct Page {
        /// The period in Unix seconds.
        let period: Range<Int>
        let limit: Int
        /// The number of events on the pages before it.
        var start: Int

        /// The text that names the page in an address.
        var token: String { "\(period.lowerBound).\(period.upperBound).\(limit).\(start)" }

        /// - Throws: Error -2 for a token that is not ``token``, and for a call that names no period.
        init(_ call: CalendarPeriod) throws(KakaoRefusal) {
            guard let token = call.nextPageToken else {
                period = try CalendarCalls.range(of: call)
                limit = Int(call.limit ?? CalendarCalls.pageSize)
                start = 0
                return
            }
            let parts = token.split(separator: ".", omittingEmptySubsequences: false)
            let numbers = parts.compactMap { Int64(decimal: String($0)).map { Int($0) } }
            guard parts.count == 4, numbers.count == 4, numbers[0] <= numbers[1], numbers[2] > 0, numbers[3] >= 0 else {
                throw .badParameter("failed to parse parameter. name=next_page_token")
            }
            period = numbers[0]..<numbers[1]
            limit = numbers[2]
            start = numbers[3]
        }
    }

    /// Returns a page of the events of a period, by their beginnings.
    ///
    /// - Parameters:
    ///   - owner: The parameter of the call that names the calendar or the channel, which the address of the next page repeats.
    ///   - path: The path of the call.
    ///   - answer: Returns an event of the answer.
    /// - Throws: Error -2 if the call names neither a period nor a page.
    private func page(
        _ events: [CalendarStore.Event],
        _ call: CalendarPeriod,
        _ owner: (name: String, id: String?),
        _ path: String,
        answer: (CalendarStore.Event) -> CalendarEvent
    ) throws(KakaoRefusal) -> CalendarEvents {
        var page = try Page(call)
        let found = events.compactMap { event in event.seconds.map { (event: event, seconds: $0) } }
            .filter { $0.seconds.start < page.period.upperBound && $0.seconds.end >= page.period.lowerBound }
            .sorted { ($0.seconds.start, $0.event.id) < ($1.seconds.start, $1.event.id) }
            .map(\.event)
        let rest = found.dropFirst(page.start)
        let shown = rest.prefix(page.limit)
        guard shown.count < rest.count else { return CalendarEvents(events: shown.map(answer), hasNext: false) }
        page.start += shown.count
        var query = FormBody()
        if let id = owner.id { query.append(owner.name, id) }
        query.append("next_page_token", page.token)
        let address = "\(url.withLock { $0 })\(path)?\(String(decoding: query.bytes, as: UTF8.self))"
        return CalendarEvents(events: shown.map(answer), hasNext: true, afterURL: address)
    }

    /// Returns the period of a call in Unix seconds.
    private static func range(of period: CalendarPeriod) throws(KakaoRefusal) -> Range<Int> {
        guard let preset = period.preset else { return try range(from: period.from, to: period.to) }
        // The sandbox knows the time zone Asia/Seoul only.
        let offset = WallClock.seoulOffsetSeconds
        let now = Int(WallClock.unixMilliseconds / 1000) + offset
        let date = CivilDate(unixSeconds: now)
        let day = now - now % 86_400
        let (start, end) =
            switch preset {
            case .today: (day, day + 86_400)
            case .thisWeek: (day - date.weekday * 86_400, day + (7 - date.weekday) * 86_400)
            case .thisMonth: (Self.month(date, after: 0), Self.month(date, after: 1))
            }
        return start - offset..<max(start, end) - offset
    }

    private static func range(from: String?, to: String?) throws(KakaoRefusal) -> Range<Int> {
        func seconds(_ name: String, _ text: String?) throws(KakaoRefusal) -> Int {
            guard let text else { throw .badParameter("The Parameter [\(name)] cannot be null.") }
            guard let seconds = CalendarTimestamp.unixSeconds(of: text) else {
                throw .badParameter("failed to parse parameter. name=\(name), it must be a time in UTC")
            }
            return seconds
        }
        let start = try seconds("from", from)
        return start..<max(start, try seconds("to", to))
    }

    /// Returns the first second of a month: that of a date, or a number of months after it.
    private static func month(_ date: CivilDate, after months: Int) -> Int {
        let index = date.month - 1 + months
        let (year, month) = (date.year + index / 12, index % 12 + 1)
        return CivilDate.unixSeconds(year: year, month: month, day: 1, hour: 0, minute: 0, second: 0) ?? 0
    }

    // MARK: Public events

    private func addPublicEvents(to server: inout KakaoCallServer) {
        server.on(CreatePublicEvent.self) { call, _ throws(KakaoRefusal) in
            let channel = try Self.channel(call.channelPublicID)
            let id = try calendars.updatePublished { published throws(KakaoRefusal) in
                try published.add(call.event, of: channel)
            }
            return CalendarIDAnswer(id: id)
        }
        server.on(RetrievePublicEvents.self) { call, _ throws(KakaoRefusal) in
            let channel = try call.channelPublicID.map { id throws(KakaoRefusal) in try Self.channel(id) }
            let events = calendars.published.events.filter { channel == nil || $0.owner == channel }
            let path = RetrievePublicEvents.operation.path
            return try page(events, call.period, ("channel_public_id", call.channelPublicID), path) { $0.publicAnswer }
        }
        server.on(RetrievePublicEvent.self) { call, _ throws(KakaoRefusal) in
            let published = calendars.published
            return try published.events[try published.index(of: call.eventID)].publicAnswer
        }
        server.on(UpdatePublicEvent.self) { call, _ throws(KakaoRefusal) in
            try calendars.updatePublished { published throws(KakaoRefusal) in
                let index = try published.index(of: call.eventID)
                published.events[index] = try published.events[index].changed(by: call.event)
            }
            return CalendarIDAnswer(id: call.eventID)
        }
        server.on(DeletePublicEvent.self) { call, _ throws(KakaoRefusal) in
            try calendars.updatePublished { published throws(KakaoRefusal) in
                _ = published.events.remove(at: try published.index(of: call.eventID))
            }
            return CalendarChangeAnswer(id: call.eventID)
        }
        add(FollowPublicEvent.self, to: &server) { call, user, published throws(KakaoRefusal) in
            _ = try published.index(of: call.eventID)
            if !user.following.contains(call.eventID) { user.following.append(call.eventID) }
            return CalendarIDAnswer(id: call.eventID)
        }
    }

    /// - Throws: Error -2 if a call names no channel, -541 if the channel is none of the app's.
    private static func channel(_ id: String?) throws(KakaoRefusal) -> String {
        guard let id else { throw .badParameter("The Parameter [channel_public_id] cannot be null.") }
        guard AppDefinition.channels.contains(where: { $0.publicID == id }) else {
            throw .error(.channelMissing, "the channel [\(id)] does not exist.")
        }
        return id
    }

    // MARK: Subscriptions

    private func addSubscriptions(to server: inout KakaoCallServer) {
        add(RetrieveSubscribableCalendars.self, to: &server) { call, _, published throws(KakaoRefusal) in
            published.calendars.filter { call.channelID == nil || $0.channelID == call.channelID }.map(\.calendar)
        }
        add(SubscribeCalendar.self, to: &server) { call, user, published throws(KakaoRefusal) in
            let id = try published.calendar(call.calendarID, ofChannel: call.channelID)
            if !user.subscriptions.contains(id) { user.subscriptions.append(id) }
            return CalendarChangeAnswer(id: id)
        }
        add(UnsubscribeCalendar.self, to: &server) { call, user, published throws(KakaoRefusal) in
            let id = try published.calendar(call.calendarID, ofChannel: call.channelID)
            user.subscriptions.removeAll { $0 == id }
            return CalendarChangeAnswer(id: id)
        }
    }

    // MARK: Tasks

    private func addTasks(to server: inout KakaoCallServer) {
        let scope = AppDefinition.talkCalendarTask
        add(CreateTask.self, needing: scope, to: &server) { call, user, _ throws(KakaoRefusal) in
            CalendarIDAnswer(id: try user.createTask(call.task))
        }
        add(RetrieveTasks.self, needing: scope, to: &server) { call, user, _ throws(KakaoRefusal) in
            let status = call.status ?? "ALL"
            guard ["TODO", "COMPLETED", "ALL"].contains(status) else {
                throw .badParameter("failed to parse parameter. name=task_status")
            }
            return user.tasks.filter { status == "ALL" || $0.isCompleted == (status == "COMPLETED") }.map(\.answer)
        }
        add(CompleteTask.self, needing: scope, to: &server) { call, user, _ throws(KakaoRefusal) in
            user.tasks[try user.task(call.taskID)].isCompleted = call.isCompleted
            return CalendarChangeAnswer(id: call.taskID)
        }
        add(DeleteTask.self, needing: scope, to: &server) { call, user, _ throws(KakaoRefusal) in
            user.tasks.remove(at: try user.task(call.taskID))
            return CalendarChangeAnswer(id: call.taskID)
        }
    }

    // MARK: Users

    /// Serves a call about a user, who has agreed to a scope.
    ///
    /// - Throws: Error -402 if the user has not.
    private func add<Call: KakaoCall>(
        _: Call.Type,
        needing scope: String = AppDefinition.talkCalendar,
        to server: inout KakaoCallServer,
        _ handle:
            @escaping @Sendable (Call, inout CalendarStore.User, CalendarStore.Published) throws(KakaoRefusal) ->
            Call.Answer
    ) {
        server.on(Call.self, for: users) { call, user, _ throws(KakaoRefusal) in
            guard user.scopes.contains(scope) else { throw .missingScopes([scope], allowed: user.scopes) }
            return try calendars.update(user.id) { stored, published throws(KakaoRefusal) in
                try handle(call, &stored, published)
            }
        }
    }

    // MARK: Holidays

    /// The holidays that have the same date each year.
    private static let fixedHolidays: [(month: Int, day: Int, name: String)] = [
        (1, 1, "신정"), (3, 1, "삼일절"), (5, 5, "어린이날"), (6, 6, "현충일"), (8, 15, "광복절"), (10, 3, "개천절"),
        (10, 9, "한글날"), (12, 25, "성탄절"),
    ]

    /// Returns the holidays of a period.
    ///
    /// - Throws: Error -2 for a text that is no time.
    private static func holidays(_ call: RetrieveHolidays) throws(KakaoRefusal) -> [RetrieveHolidays.Holiday] {
        let period = try range(from: call.from, to: call.to)
        let years = CivilDate(unixSeconds: period.lowerBound).year...CivilDate(unixSeconds: period.upperBound).year
        return years.flatMap { year in
            fixedHolidays.compactMap { holiday -> RetrieveHolidays.Holiday? in
                let start = CivilDate.unixSeconds(
                    year: year,
                    month: holiday.month,
                    day: holiday.day,
                    hour: 0,
                    minute: 0,
                    second: 0
                )
                guard let start, (period.lowerBound...period.upperBound).contains(start) else { return nil }
                let date = CivilDate(unixSeconds: start)
                let text = "\(date.rfc3339)Z"
                return RetrieveHolidays.Holiday(
                    id: "holiday-\(date.year)\(date.month.padded(2))\(date.day.padded(2))",
                    title: holiday.name,
                    time: CalendarTime(
                        startAt: text,
                        endAt: "\(CivilDate(unixSeconds: start + 86_400).rfc3339)Z",
                        timeZone: "Asia/Seoul",
                        isAllDay: true,
                        isLunar: false
                    ),
                    isHoliday: true
                )
            }
        }
    }
}

extension CalendarStore.Event {
    private var details: CalendarEventDetails { CalendarEventDetails.record.readOptionals(members) }

    /// The event in an answer to a call of a user.
    fileprivate var userAnswer: CalendarEvent {
        CalendarEvent(
            id: listedID,
            calendarID: owner,
            type: isHosted ? "USER" : nil,
            isHost: isHosted,
            isRecurring: isSeries,
            details: details
        )
    }

    /// The event in an answer to a call of the app.
    fileprivate var publicAnswer: CalendarEvent {
        CalendarEvent(id: id, calendarID: nil, type: nil, isHost: nil, isRecurring: nil, details: details)
    }
}

extension CalendarStore.Task {
    /// The task in an answer of a call.
    fileprivate var answer: CalendarTask {
        CalendarTask(
            id: id,
            isCompleted: isCompleted,
            details: CalendarTaskDetails.record.readOptionals(members)
        )
    }
}

extension Record {
    /// Reads an object of which no member is required. An invalid member is absent.
    fileprivate func readOptionals(_ object: JSONObject) -> Whole {
        do {
            return try readLeniently(object)
        } catch {
            preconditionFailure("a member is required: \(error.name)")
        }
    }
}
