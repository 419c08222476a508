import JSON
import KakaoAPI
import Net
import Schemas

/// Talk Calendar: the calls, which read and change ``CalendarStore``.
struct CalendarCalls: Sendable {
    /// The number of events on a page, where Kakao's documents name none.
    private static let pageSize: Int64 = 100

    let users: AppUsers
    let calendars: CalendarStore

    func add(to server: inout KakaoCallServer) {
        addCalendars(to: &server)
        addEvents(to: &server)
        addPublicEvents(to: &server)
        addSubscriptions(to: &server)
        addTasks(to: &server)
        server.on(RetrieveHolidays.self) { call, _ in Self.holidays(call) }
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
            let subscribed = published.calendars.filter { user.subscriptions.contains($0.id) }
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
            return CalendarIDAnswer(id: call.calendarID)
        }
        add(DeleteCalendar.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            try user.deleteCalendar(call.calendarID)
            return CalendarIDAnswer(id: call.calendarID)
        }
    }

    // MARK: Events

    private func addEvents(to server: inout KakaoCallServer) {
        add(CreateEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            CalendarIDAnswer(id: try user.createEvent(call.event, in: call.calendarID))
        }
        add(RetrieveEvents.self, to: &server) { call, user, published throws(KakaoRefusal) in
            let events = user.allEvents(published).filter { call.calendarID == nil || $0.owner == call.calendarID }
            return try page(events, call.period, showsCalendar: true)
        }
        add(RetrieveEvent.self, to: &server) { call, user, published throws(KakaoRefusal) in
            guard let event = user.allEvents(published).first(where: { $0.id == call.eventID }) else {
                throw CalendarStore.unknownEvent
            }
            return try event.answer(showsCalendar: true)
        }
        add(UpdateEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            try user.updateEvent(call.eventID, call.event, to: call.calendarID, call.recurrenceUpdate)
                .map { CalendarIDAnswer(id: $0) }
        }
        add(UpdateGuestEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            // A guest sets what only the guest sees.
            var changes = JSONObject()
            for name in ["color", "reminders"] { changes[name] = call.event?[name] }
            return try user.updateEvent(call.eventID, changes, to: call.calendarID, call.recurrenceUpdate)
                .map { CalendarIDAnswer(id: $0) }
        }
        add(DeleteEvent.self, to: &server) { call, user, _ throws(KakaoRefusal) in
            try user.deleteEvent(call.eventID, call.recurrenceUpdate).map { CalendarIDAnswer(id: $0) }
        }
    }

    /// Returns a page of the events of a period, by their beginnings.
    ///
    /// - Parameter showsCalendar: Whether the events name their calendars.
    /// - Throws: Error -2 if the call names no period.
    private func page(
        _ events: [CalendarStore.Event],
        _ period: CalendarPeriod,
        showsCalendar: Bool
    ) throws(KakaoRefusal) -> CalendarEvents {
        let range = try Self.range(of: period)
        let found = events.compactMap { event in event.seconds.map { (event: event, seconds: $0) } }
            .filter { $0.seconds.start < range.upperBound && $0.seconds.end >= range.lowerBound }
            .sorted { ($0.seconds.start, $0.event.id) < ($1.seconds.start, $1.event.id) }
        let start = period.nextPageToken.map { Int($0) ?? found.count } ?? 0
        guard (0...found.count).contains(start) else {
            throw .badParameter("failed to parse parameter. name=next_page_token")
        }
        let end = min(start + Int(period.limit ?? Self.pageSize), found.count)
        var answers: [CalendarEvent] = []
        for entry in found[start..<end] { answers.append(try entry.event.answer(showsCalendar: showsCalendar)) }
        return CalendarEvents(events: answers, nextPageToken: end < found.count ? String(end) : nil)
    }

    /// Returns the period of a call in Unix seconds.
    private static func range(of period: CalendarPeriod) throws(KakaoRefusal) -> Range<Int> {
        if let preset = period.preset {
            // The sandbox knows the time zone Asia/Seoul only, which is 9 hours ahead of UTC all year.
            let offset = 9 * 3600
            let now = Int(WallClock.unixMilliseconds / 1000) + offset
            let date = CivilDate(unixSeconds: now)
            let day = now - now % 86_400
            let (start, end) =
                switch preset {
                case .today: (day, day + 86_400)
                case .thisWeek: (day - date.weekday * 86_400, day + (7 - date.weekday) * 86_400)
                case .thisMonth: (Self.month(date, after: 0), Self.month(date, after: 1))
                }
            return start - offset..<end - offset
        }
        func seconds(_ name: String, _ text: String?) throws(KakaoRefusal) -> Int {
            guard let text else { throw .badParameter("The Parameter [\(name)] cannot be null.") }
            guard let seconds = CalendarTimestamp.unixSeconds(of: text) else {
                throw .badParameter("failed to parse parameter. name=\(name), it must be a time in UTC")
            }
            return seconds
        }
        let start = try seconds("from", period.from)
        return start..<max(start, try seconds("to", period.to))
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
            return try page(events, call.period, showsCalendar: false)
        }
        server.on(RetrievePublicEvent.self) { call, _ throws(KakaoRefusal) in
            let published = calendars.published
            return try published.events[try published.index(of: call.eventID)].answer(showsCalendar: false)
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
            return CalendarIDAnswer(id: call.eventID)
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
            published.calendars.filter { call.channelID == nil || $0.channelID?.anyText == call.channelID }
        }
        add(SubscribeCalendar.self, to: &server) { call, user, published throws(KakaoRefusal) in
            let id = try published.calendar(call.calendarID, ofChannel: call.channelID)
            if !user.subscriptions.contains(id) { user.subscriptions.append(id) }
            return CalendarIDAnswer(id: id)
        }
        add(UnsubscribeCalendar.self, to: &server) { call, user, published throws(KakaoRefusal) in
            let id = try published.calendar(call.calendarID, ofChannel: call.channelID)
            user.subscriptions.removeAll { $0 == id }
            return CalendarIDAnswer(id: id)
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
            return CalendarIDAnswer(id: call.taskID)
        }
        add(DeleteTask.self, needing: scope, to: &server) { call, user, _ throws(KakaoRefusal) in
            user.tasks.remove(at: try user.task(call.taskID))
            return CalendarIDAnswer(id: call.taskID)
        }
    }

    // MARK: Users

    /// Serves a call that concerns a user, who has agreed to a scope.
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

    /// Returns the holidays of a period, or of this year.
    private static func holidays(_ call: RetrieveHolidays) -> [RetrieveHolidays.Holiday] {
        let now = Int(WallClock.unixMilliseconds / 1000)
        let from = call.from.flatMap { CalendarTimestamp.unixSeconds(of: $0) }
        let to = call.to.flatMap { CalendarTimestamp.unixSeconds(of: $0) }
        let first = CivilDate(unixSeconds: from ?? now).year
        // More than two years are not asked for.
        let years = first...max(first, min(CivilDate(unixSeconds: to ?? from ?? now).year, first + 1))
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
                guard let start, from.map({ start >= $0 }) ?? true, to.map({ start <= $0 }) ?? true else { return nil }
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
    /// The event in an answer of a call.
    ///
    /// - Throws: Error -1 if a control has stored one that cannot be shown.
    fileprivate func answer(showsCalendar: Bool) throws(KakaoRefusal) -> CalendarEvent {
        guard let details else { throw .error(.internalError, "the event cannot be read.") }
        return CalendarEvent(id: id, calendarID: showsCalendar ? owner : nil, details: details)
    }
}

extension CalendarStore.Task {
    /// The task in an answer of a call.
    fileprivate var answer: CalendarTask {
        let details = try? CalendarTaskDetails.record.readLeniently(members)
        return CalendarTask(
            id: id,
            isCompleted: isCompleted,
            details: details ?? CalendarTaskDetails(content: nil, dueInfo: nil, recurrence: nil)
        )
    }
}
