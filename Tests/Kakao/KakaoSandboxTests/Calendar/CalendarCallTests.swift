import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

@testable import KakaoAPI

/// Talk Calendar's calls, by the client that the server has.
@Suite struct CalendarCallTests {
    private static let control = "/sandbox/users/7/calendar"
    private static let both: [JSONValue] = ["talk_calendar", "talk_calendar_task"]
    private static let october = CalendarPeriod(from: "2022-10-26T00:00:00Z", to: "2022-10-30T00:00:00Z")

    /// Runs `body` with a sandbox and a token of user 7, who has agreed to some scopes.
    private static func withCalendar(
        scopes: [JSONValue] = both,
        _ body: (Fixture, KakaoCredential) async throws -> Void
    ) async throws {
        try await withSandbox { fixture in
            let token = try fixture.token(of: 7)
            try fixture.sandbox.setUser(7, ["scopes": .array(scopes)])
            try await body(fixture, token)
        }
    }

    private static func event(_ more: JSONObject = [:]) -> JSONObject {
        var event: JSONObject = [
            "title": "Cake", "time": ["start_at": "2022-10-27T03:00:00Z", "end_at": "2022-10-27T06:00:00Z"],
        ]
        for (name, value) in more.members { event[name] = value }
        return event
    }

    // MARK: Calendars

    @Test("An app makes three sub-calendars of a user with different names, changes them, and deletes no other")
    func calendars() async throws {
        try await Self.withCalendar { fixture, token in
            let kakao = fixture.kakao
            let options = CalendarOptions(color: "RED", reminder: 15)
            let first = try await kakao.call(CreateCalendar(name: "A", options: options), as: token).id
            #expect(try await fixture.refusalCode(of: CreateCalendar(name: "A"), as: token) == "400 -2")
            for name in ["B", "C"] { _ = try await kakao.call(CreateCalendar(name: name), as: token) }
            #expect(try await fixture.refusalCode(of: CreateCalendar(name: "D"), as: token) == "400 -2")
            let update = UpdateCalendar(calendarID: first, name: "E", options: CalendarOptions(color: "MINT"))
            #expect(try await kakao.call(update, as: token)?.id == first)
            #expect(
                try await fixture.refusalCode(of: UpdateCalendar(calendarID: first, name: "B"), as: token) == "400 -2"
            )
            let listed = try #require(try await kakao.call(RetrieveCalendars(), as: token).calendars)
            #expect(listed.map(\.id).first == "primary")
            #expect(listed.map(\.name) == ["My Calendar", "E", "B", "C"])
            #expect(listed[1].options.color == "MINT" && listed[1].options.reminder == 15)
            _ = try await kakao.call(CreateEvent(calendarID: first, event: Self.event()), as: token)
            #expect(try await kakao.call(DeleteCalendar(calendarID: first), as: token)?.id == first)
            for id in [first, "primary", "unknown"] {
                #expect(try await fixture.refusalCode(of: DeleteCalendar(calendarID: id), as: token) == "400 -2")
            }
            // Its events are gone too, and there is room for another calendar.
            let events = try await kakao.call(RetrieveEvents(period: Self.october), as: token)
            #expect(events.events.isEmpty)
            _ = try await kakao.call(CreateCalendar(name: "F"), as: token)
        }
    }

    @Test("A calendar of another service has only its id, takes no events, and counts towards 99")
    func otherService() async throws {
        try await Self.withCalendar { fixture, token in
            let others = (1...98).map { JSONValue.object(["id": .string("other_\($0)")]) }
            let set = try await fixture.control(.post, Self.control, ["calendars": .array(others)])
            #expect(set.status == 200)
            let listed = try await fixture.kakao.call(RetrieveCalendars(filter: ["USER"]), as: token)
            #expect(listed.calendars?.count == 99 && listed.calendars?.last?.name == nil)
            #expect(listed.subscribedCalendars == nil)
            let create = CreateEvent(calendarID: "other_1", event: Self.event())
            #expect(try await fixture.refusalCode(of: create, as: token) == "400 -2")
            #expect(try await fixture.refusalCode(of: DeleteCalendar(calendarID: "other_1"), as: token) == "400 -2")
            _ = try await fixture.kakao.call(CreateCalendar(name: "A"), as: token)
            #expect(try await fixture.refusalCode(of: CreateCalendar(name: "B"), as: token) == "400 -2")
        }
    }

    // MARK: Events

    @Test("An event is in the list of its calendar and period, can be changed, and is -520 once it is deleted")
    func events() async throws {
        try await Self.withCalendar { fixture, token in
            let kakao = fixture.kakao
            let details = Self.event(["reminders": [15], "location": ["name": "Kakao", "latitude": 37]])
            let id = try await kakao.call(CreateEvent(event: details), as: token).id
            let event = try await kakao.call(RetrieveEvent(eventID: id), as: token)
            #expect(event.calendarID == "primary" && event.details.title == "Cake")
            #expect(event.type == "USER" && event.isHost == true && event.isRecurring == false)
            #expect(event.details.reminders == [15] && event.details.location?.name == "Kakao")
            let update = UpdateEvent(eventID: id, event: ["title": "Cakes"])
            #expect(try await kakao.call(update, as: token)?.id == id)
            _ = try await kakao.call(UpdateGuestEvent(eventID: id, event: ["color": "RED", "title": "x"]), as: token)
            let listed = try await kakao.call(RetrieveEvents(calendarID: "primary", period: Self.october), as: token)
            #expect(listed.events.map(\.details.title) == ["Cakes"])
            #expect(listed.events.map(\.details.color) == ["RED"])
            let later = CalendarPeriod(from: "2022-10-28T00:00:00Z", to: "2022-10-30T00:00:00Z")
            #expect(try await kakao.call(RetrieveEvents(period: later), as: token).events.isEmpty)
            #expect(
                try await kakao.call(RetrieveEvents(calendarID: "x", period: Self.october), as: token).events.isEmpty
            )
            // Another user has none of it.
            let other = KakaoCredential.userToken(try #require(fixture.sandbox.accessToken(of: 8)))
            try fixture.sandbox.setUser(8, ["scopes": .array(Self.both)])
            #expect(try await fixture.refusalCode(of: RetrieveEvent(eventID: id), as: other) == "400 -520")
            #expect(try await kakao.call(DeleteEvent(eventID: id), as: token)?.id == id)
            #expect(try await fixture.refusalCode(of: RetrieveEvent(eventID: id), as: token) == "400 -520")
            #expect(try await fixture.refusalCode(of: update, as: token) == "400 -520")
            #expect(try await fixture.refusalCode(of: DeleteEvent(eventID: id), as: token) == "400 -520")
        }
    }

    @Test("An event needs a title and a time, and a list a period")
    func incomplete() async throws {
        try await Self.withCalendar { fixture, token in
            let times: [JSONValue] = [
                [:], ["start_at": "2022-10-27T03:00:00Z"], ["start_at": "tomorrow", "end_at": "2022-10-27T03:00:00Z"],
                ["start_at": "2022-10-27T03:00:00Z", "end_at": "2022-10-27T02:00:00Z"],
            ]
            let untitled: [JSONObject] = [["title": "Cake"], Self.event(["title": ""])]
            for event in untitled + times.map({ Self.event(["time": $0]) }) {
                let refusal = try await fixture.refusalCode(of: CreateEvent(event: event), as: token)
                #expect(refusal == "400 -2")
            }
            #expect(try await fixture.refusalCode(of: RetrieveEvents(), as: token) == "400 -2")
        }
    }

    @Test(
        "An event of a series has an id of its own; a change says which events it concerns, and has no body as its answer"
    )
    func series() async throws {
        try await Self.withCalendar { fixture, token in
            let series = Self.event(["rrule": "FREQ=DAILY;COUNT=3"])
            let created = try await fixture.kakao.call(CreateEvent(event: series), as: token).id
            let listed = try await fixture.kakao.call(RetrieveEvents(period: Self.october), as: token).events
            let id = "\(created)_20221027T030000Z"
            #expect(listed.map(\.id) == [id] && listed.map(\.isRecurring) == [true])
            #expect(try await fixture.kakao.call(RetrieveEvent(eventID: id), as: token).id == id)
            let byCreation = UpdateEvent(eventID: created, recurrenceUpdate: .all, event: ["title": "Cakes"])
            #expect(try await fixture.refusalCode(of: byCreation, as: token) == "400 -520")
            #expect(try await fixture.refusalCode(of: RetrieveEvent(eventID: created), as: token) == "400 -520")
            let update = UpdateEvent(eventID: id, event: ["title": "Cakes"])
            #expect(try await fixture.refusalCode(of: update, as: token) == "400 -2")
            let all = UpdateEvent(eventID: id, recurrenceUpdate: .all, event: ["title": "Cakes"])
            let changed = try await fixture.kakao.call(all, as: token) == nil
            #expect(changed)
            let deletion = DeleteEvent(eventID: id, recurrenceUpdate: .thisAndFollowing)
            let deleted = try await fixture.kakao.call(deletion, as: token) == nil
            #expect(deleted)
        }
    }

    @Test("A list has pages, and a period by name has what is now")
    func pages() async throws {
        try await Self.withCalendar { fixture, token in
            for _ in 0..<3 { _ = try await fixture.kakao.call(CreateEvent(event: Self.event()), as: token) }
            var period = Self.october
            period.limit = 2
            let first = try await fixture.kakao.call(RetrieveEvents(period: period), as: token)
            #expect(first.hasNext == true)
            let address = try #require(first.afterURL)
            #expect(address.hasPrefix("\(fixture.sandbox.url)/v2/api/calendar/events?next_page_token="))
            let token2 = try #require(address.split(separator: "=").last.map(String.init))
            // The token has the period and the limit.
            let next = RetrieveEvents(period: CalendarPeriod(nextPageToken: token2))
            let second = try await fixture.kakao.call(next, as: token)
            #expect(first.events.count == 2 && second.events.count == 1)
            #expect(second.hasNext == false && second.afterURL == nil)
            #expect(Set((first.events + second.events).map(\.id)).count == 3)
            for invalid in ["", "2", "a.b.c.d", "2.1.1.0", "1.2.0.0", "1.2.1.-1", "1.2.1.0.0", "1.2.1.+1"] {
                let call = RetrieveEvents(period: CalendarPeriod(nextPageToken: invalid))
                #expect(try await fixture.refusalCode(of: call, as: token) == "400 -2", "\(invalid)")
            }
            let beyond = RetrieveEvents(period: CalendarPeriod(nextPageToken: "1.2.1.\(Int64.max)"))
            #expect(try await fixture.kakao.call(beyond, as: token).events.isEmpty)
            let now = CalendarPeriod(preset: .thisMonth)
            #expect(try await fixture.kakao.call(RetrieveEvents(period: now), as: token).events.isEmpty)
        }
    }

    // MARK: Scopes

    @Test("Calendars and events need talk_calendar, tasks talk_calendar_task")
    func scopes() async throws {
        try await Self.withCalendar(scopes: ["talk_calendar"]) { fixture, token in
            #expect(try await fixture.refusalCode(of: RetrieveTasks(), as: token) == "403 -402")
            #expect(try await fixture.refusalCode(of: CreateTask(task: ["content": "a"]), as: token) == "403 -402")
            _ = try await fixture.kakao.call(RetrieveCalendars(), as: token)
        }
        try await Self.withCalendar(scopes: ["talk_calendar_task"]) { fixture, token in
            _ = try await fixture.kakao.call(RetrieveTasks(), as: token)
            #expect(try await fixture.refusalCode(of: RetrieveCalendars(), as: token) == "403 -402")
            #expect(try await fixture.refusalCode(of: CreateEvent(event: Self.event()), as: token) == "403 -402")
            #expect(try await fixture.refusalCode(of: FollowPublicEvent(eventID: "a"), as: token) == "403 -402")
            #expect(try await fixture.refusalCode(of: SubscribeCalendar(calendarID: "a"), as: token) == "403 -402")
        }
    }

    // MARK: Tasks

    @Test("A task is listed by its state until it is deleted")
    func tasks() async throws {
        try await Self.withCalendar { fixture, token in
            let kakao = fixture.kakao
            let due: JSONValue = ["due_date": "20221027"]
            let id = try await kakao.call(CreateTask(task: ["content": "Bake", "due_info": due]), as: token).id
            func listed(_ status: String?) async throws -> [String?] {
                try await kakao.call(RetrieveTasks(status: status), as: token).map(\.details.content)
            }
            #expect(try await listed("TODO") == ["Bake"])
            #expect(try await listed("COMPLETED") == [])
            #expect(try await kakao.call(CompleteTask(taskID: id, isCompleted: true), as: token)?.id == id)
            #expect(try await listed("TODO") == [])
            #expect(try await listed("COMPLETED") == ["Bake"])
            #expect(try await kakao.call(RetrieveTasks(), as: token).first?.details.dueInfo?.date == "20221027")
            _ = try await kakao.call(DeleteTask(taskID: id), as: token)
            #expect(try await listed(nil) == [])
            #expect(try await fixture.refusalCode(of: DeleteTask(taskID: id), as: token) == "400 -2")
            #expect(try await fixture.refusalCode(of: CreateTask(task: [:]), as: token) == "400 -2")
        }
    }

    // MARK: Public events and subscriptions

    @Test("A channel publishes an event, which users add to their calendars; the Admin key is needed, and a channel")
    func publicEvents() async throws {
        try await Self.withCalendar { fixture, token in
            let kakao = fixture.kakao
            let publication = CreatePublicEvent(channelPublicID: "_ZeUTxl", event: Self.event())
            let id = try await kakao.call(publication, as: .adminKey).id
            #expect(
                try await fixture.refusalCode(of: CreatePublicEvent(event: Self.event()), as: .adminKey) == "400 -2"
            )
            let unknown = CreatePublicEvent(channelPublicID: "_none", event: Self.event())
            #expect(try await fixture.refusalCode(of: unknown, as: .adminKey) == "400 -541")
            _ = try await kakao.call(UpdatePublicEvent(eventID: id, event: ["title": "Cakes"]), as: .adminKey)
            #expect(try await kakao.call(RetrievePublicEvent(eventID: id), as: .adminKey).details.title == "Cakes")
            let listed = RetrievePublicEvents(channelPublicID: "_ZeUTxl", period: Self.october)
            #expect(try await kakao.call(listed, as: .adminKey).events.map(\.id) == [id])
            let other = RetrievePublicEvents(channelPublicID: "_xmXjjG", period: Self.october)
            #expect(try await kakao.call(other, as: .adminKey).events.isEmpty)
            for _ in 0..<2 { _ = try await kakao.call(FollowPublicEvent(eventID: id), as: token) }
            let mine = try await kakao.call(RetrieveEvents(calendarID: "primary", period: Self.october), as: token)
            #expect(mine.events.map(\.id) == [id] && mine.events.map(\.isHost) == [false])
            _ = try await kakao.call(DeletePublicEvent(eventID: id), as: .adminKey)
            #expect(try await fixture.refusalCode(of: FollowPublicEvent(eventID: id), as: token) == "400 -520")
            #expect(try await fixture.refusalCode(of: RetrievePublicEvent(eventID: id), as: .adminKey) == "400 -520")
            #expect(try await fixture.refusalCode(of: DeletePublicEvent(eventID: id), as: .adminKey) == "400 -520")
        }
    }

    @Test("A user subscribes to a calendar of a channel, named by either, and ends it; both may be repeated")
    func subscriptions() async throws {
        try await Self.withCalendar { fixture, token in
            let kakao = fixture.kakao
            let offered = try await kakao.call(RetrieveSubscribableCalendars(), as: token)
            #expect(offered.map(\.id) == ["subscribe_ZeUTxl", "subscribe_xmXjjG"])
            #expect(offered[0].options.color == "GREEN" && offered[0].thumbnailURL != nil)
            let one = try await kakao.call(RetrieveSubscribableCalendars(channelID: "_xmXjjG"), as: token)
            #expect(one.map(\.id) == ["subscribe_xmXjjG"])
            func subscribed() async throws -> [String]? {
                try await kakao.call(RetrieveCalendars(filter: ["SUBSCRIBE"]), as: token).subscribedCalendars?.map(\.id)
            }
            for _ in 0..<2 { _ = try await kakao.call(SubscribeCalendar(calendarID: offered[0].id), as: token) }
            #expect(try await kakao.call(SubscribeCalendar(channelID: "_xmXjjG"), as: token)?.id == offered[1].id)
            #expect(try await subscribed() == offered.map(\.id))
            for _ in 0..<2 { _ = try await kakao.call(UnsubscribeCalendar(channelID: "_ZeUTxl"), as: token) }
            #expect(try await subscribed() == [offered[1].id])
            #expect(try await fixture.refusalCode(of: SubscribeCalendar(calendarID: "none"), as: token) == "400 -2")
        }
    }

    @Test("Holidays are those of the period, across the end of a year too; it has up to 31 days")
    func holidays() async throws {
        try await withSandbox { fixture in
            let call = RetrieveHolidays(from: "2022-10-01T00:00:00Z", to: "2022-10-31T00:00:00Z")
            let holidays = try await fixture.kakao.call(call, as: .adminKey)
            #expect(holidays.map(\.title) == ["개천절", "한글날"])
            #expect(holidays.first?.time?.startAt == "2022-10-03T00:00:00Z")
            let winter = RetrieveHolidays(from: "2022-12-15T00:00:00Z", to: "2023-01-15T00:00:00Z")
            #expect(try await fixture.kakao.call(winter, as: .adminKey).map(\.title) == ["성탄절", "신정"])
            for (from, to) in [
                ("2022-10-01T00:00:00Z", "2022-11-01T00:00:01Z"), ("today", "2022-11-01T00:00:00Z"),
                ("2022-10-01T00:00:00Z", "tomorrow"),
            ] {
                let refusal = try await fixture.refusalCode(of: RetrieveHolidays(from: from, to: to), as: .adminKey)
                #expect(refusal == "400 -2")
            }
        }
    }

    // MARK: Controls

    @Test("The control shows what was sent, also members that Kakao does not have, and rejects what is invalid")
    func controls() async throws {
        try await Self.withCalendar { fixture, token in
            _ = try await fixture.kakao.call(CreateEvent(event: Self.event(["new": [1]])), as: token)
            let shown = try await fixture.control(.get, Self.control)
            #expect(shown.json?["events"]?[0]?["new"] == [1])
            #expect(shown.json?["events"]?[0]?["calendar_id"] == "primary")
            for body in [
                ["events": [["id": "a"]]], ["events": [["title": "a"]]], ["events": "a"], ["tasks": [1]], ["more": 1],
                ["calendars": [["name": "a"]]],
            ] as [JSONValue] {
                #expect(try await fixture.control(.post, Self.control, body).status == 400, "\(body)")
            }
            #expect(try await fixture.control(.get, Self.control).json == shown.json)
        }
    }
}
