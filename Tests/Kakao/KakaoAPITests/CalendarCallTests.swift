import HTTPTypes
import JSON
import Schemas
import Testing

@testable import KakaoAPI

/// The parameters and the responses of Talk Calendar's calls.
@Suite struct CalendarCallTests {
    /// Returns the parameter that a call rejects, and the reason; `nil` if it accepts all.
    private static func rejected<Call: KakaoCall>(_: Call.Type, _ parameters: JSONObject) -> String? {
        do {
            _ = try Call.operation.parameters.read(parameters)
            return nil
        } catch {
            return "\(error.name) \(error.detail ?? error.allowed)"
        }
    }

    private static func event(_ members: JSONObject) -> String? {
        rejected(CreateEvent.self, ["event": .object(members)])
    }

    private static func time(_ members: JSONObject) -> String? { event(["time": .object(members)]) }

    // MARK: Parameters

    @Test("An event is a JSON object, also as text, and keeps members that Kakao has added")
    func event() throws {
        let text = #"{"title":"Cake","new":{"a":[1,null]},"time":{"start_at":"2022-10-27T03:00:00Z","zone":1}}"#
        for given in [JSONValue.string(text), try JSONValue(parsing: text)] {
            let call = try CreateEvent.operation.parameters.read(["event": given])
            #expect(CreateEvent.operation.texts(of: call).map(\.text) == [text])
        }
        for value in ["", "{", "[]", "Cake", #"{"title":1}"#] {
            #expect(Self.rejected(CreateEvent.self, ["event": .string(value)])?.hasPrefix("event ") == true)
        }
    }

    @Test("A member of another type than Kakao's is rejected with its name and what it must be")
    func types() throws {
        #expect(Self.event(["title": 1]) == "event title must be a text")
        #expect(Self.event(["time": "2022-10-27T03:00:00Z"]) == "event time must be a JSON object")
        // In JSON, a text does not stand for another value.
        for value in [1, "true", "false"] as [JSONValue] {
            #expect(Self.time(["all_day": value]) == "event time: all_day must be true or false")
        }
        #expect(Self.event(["notification_message": "{}"])?.hasPrefix("event notification_message ") == true)
        #expect(Self.event(["location": ["latitude": true]]) == "event location: latitude must be a number or a text")
        let location = try JSONValue(parsing: #"{"latitude":37.4,"longitude":"127.1","location_id":1}"#)
        #expect(Self.event(["location": location]) == nil)
        #expect(Self.rejected(CreateTask.self, ["task": ["content": []]]) == "task content must be a text")
        for (date, isValid) in [("20221027", true), ("2022-10-27", false), ("2022102", false), ("2022102x", false)] {
            let due: JSONObject = ["task": ["content": "a", "due_info": ["due_date": .string(date)]]]
            let reason = "task due_info: due_date must be a day such as 20221027"
            #expect(Self.rejected(CreateTask.self, due) == (isValid ? nil : reason))
        }
    }

    @Test("Times are in steps of 5 minutes, of whole days at midnight; forms that are unknown here are left to Kakao")
    func times() {
        for name in ["start_at", "end_at"] {
            for time in ["2022-10-27T03:05:00Z", "20221027T030500Z", "2022-10-27T03:05:00.000Z", "tomorrow", "12:03"] {
                #expect(Self.time([name: .string(time)]) == nil)
            }
            for time in ["2022-10-27T03:04:00Z", "20221027T030501Z", "2022-10-27T03:05:01.000Z"] {
                let reason =
                    "event time: \(name) must be a time in UTC in steps of 5 minutes, such as 2022-10-27T03:05:00Z"
                #expect(Self.time([name: .string(time)]) == reason)
            }
            #expect(Self.time([name: "2022-10-27T00:00:00Z", "all_day": true]) == nil)
            #expect(Self.time([name: "2022-10-27T03:00:00Z", "all_day": true])?.contains("at midnight") == true)
        }
    }

    @Test("A timestamp is in UTC, in one of two forms")
    func timestamps() {
        for (text, seconds) in [
            ("2022-10-27T03:00:00Z", 1_666_839_600), ("20221027T030000Z", 1_666_839_600),
            ("2022-10-27T03:00:00.123Z", 1_666_839_600), ("1970-01-01T00:00:01Z", 1), ("2022-02-30T00:00:00Z", nil),
            ("2022-10-27T03:00:00", nil), ("2022-10-27T03:00:00+09:00", nil), ("2022-10-27T03:00Z", nil), ("Z", nil),
            ("2022-10-27T03:00:00.Z", nil), ("2022-10-27T03:00:00.1.2Z", nil), ("", nil), ("+022-10-27T03:00:00Z", nil),
        ] as [(String, Int?)] {
            #expect(CalendarTimestamp.unixSeconds(of: text) == seconds, "\(text)")
        }
    }

    @Test("An event has up to two reminders, in steps of 5 minutes")
    func reminders() {
        for (reminders, isValid) in [
            ([], true), ([15], true), ([5, 1440], true), ([-540], true), ([1], false), ([5, 10, 15], false),
            (["a"], false), (["15"], false), ("[15]", false),
        ] as [(JSONValue, Bool)] {
            #expect((Self.event(["reminders": reminders]) == nil) == isValid, "\(reminders)")
        }
    }

    @Test("A list of events or of holidays has at most 31 days")
    func period() {
        for (to, isValid) in [
            ("2022-11-26T00:00:00Z", true), ("20221126T000000Z", true), ("2022-11-26T00:00:01Z", false),
            ("2022-10-25T23:59:59Z", false), ("2022-10-26T00:00:00Z", true), ("later", true),
        ] {
            let period: JSONObject = ["from": "2022-10-26T00:00:00Z", "to": .string(to)]
            for rejected in [
                Self.rejected(RetrieveEvents.self, period), Self.rejected(RetrievePublicEvents.self, period),
                Self.rejected(RetrieveHolidays.self, period),
            ] {
                #expect((rejected == nil) == isValid)
                #expect(rejected?.hasPrefix("to ") ?? true)
            }
        }
        for name in ["from", "to"] {
            #expect(Self.rejected(RetrieveHolidays.self, [name: "2022-10-26T00:00:00Z"])?.hasPrefix(name) == false)
        }
        #expect(Self.rejected(RetrieveEvents.self, ["preset": "TODAY"]) == nil)
        #expect(Self.rejected(RetrieveEvents.self, ["preset": "TOMORROW"])?.hasPrefix("preset ") == true)
    }

    @Test("A period that Kakao ignores is not checked", arguments: [["preset": "TODAY"], ["next_page_token": "a"]])
    func ignoredPeriod(_ other: JSONObject) {
        var parameters: JSONObject = ["from": "2022-10-26T00:00:00Z", "to": "2023-10-26T00:00:00Z"]
        #expect(Self.rejected(RetrieveEvents.self, parameters)?.hasPrefix("to ") == true)
        for (name, value) in other.members { parameters[name] = value }
        #expect(Self.rejected(RetrieveEvents.self, parameters) == nil)
        #expect(Self.rejected(RetrievePublicEvents.self, parameters) == nil)
    }

    @Test("A subscription names a calendar or a channel, as text or as number")
    func subscription() {
        #expect(Self.rejected(SubscribeCalendar.self, [:])?.hasPrefix("calendar_id ") == true)
        #expect(Self.rejected(UnsubscribeCalendar.self, [:])?.hasPrefix("calendar_id ") == true)
        for parameters in [["calendar_id": "a"], ["channel_id": "1"], ["calendar_id": "a", "channel_id": "1"]]
            as [JSONObject]
        {
            #expect(Self.rejected(SubscribeCalendar.self, parameters) == nil)
        }
    }

    // MARK: Repetition

    @Test("Of the changes, only those that set a value may be repeated")
    func idempotency() {
        func mayBeRepeated<Call: KakaoCall>(_: Call.Type) -> Bool { Call.operation.isIdempotent }
        func isChange<Call: KakaoCall>(_: Call.Type) -> Bool {
            Call.operation.family == .calendar && !Call.operation.methods.contains(.get)
        }
        let changes = KakaoCalls.all.filter { isChange($0) }
        #expect(changes.count == 16)
        #expect(changes.filter { mayBeRepeated($0) }.map { $0.name } == [UpdateCalendar.name, CompleteTask.name])
    }

    // MARK: Answers

    @Test("A creation, and a change of a public event, is answered with an id")
    func created() {
        for decode in [
            CreateEvent.operation.answer.decode, UpdatePublicEvent.operation.answer.decode,
            FollowPublicEvent.operation.answer.decode,
        ] {
            #expect(decode(Array(#"{"event_id":"a"}"#.utf8))?.id == "a")
            for body in ["", "{}", #"{"event_id":null}"#, "[]"] {
                #expect(decode(Array(body.utf8)) == nil, "\(body)")
            }
        }
    }

    @Test("What was changed or deleted may come with an id, with another member, or without a body, as in a series")
    func changed() throws {
        let decode = UpdateEvent.operation.answer.decode
        #expect(try #require(decode(Array(#"{"event_id":"a"}"#.utf8)))?.id == "a")
        #expect(try #require(decode(Array(#"{"more":1}"#.utf8)))?.id == nil)
        let empty = try #require(decode([])) == nil
        #expect(empty)
        #expect(UpdateEvent.operation.answer.encode(nil).isEmpty)
        for body in ["OK", "<html></html>", #"{"code":-520,"msg":"no"}"#] { #expect(decode(Array(body.utf8)) == nil) }
    }

    @Test("An event comes as event or bare, events as a member or as an array")
    func forms() throws {
        let event = #"{"id":"a","title":"Cake","more":1}"#
        for body in [event, #"{"event":\#(event)}"#] {
            let read = try #require(RetrieveEvent.operation.answer.decode(Array(body.utf8)))
            #expect(read.id == "a" && read.details.title == "Cake")
        }
        let next = "https://kapi.kakao.com/v2/api/calendar/events?next_page_token=2"
        for body in ["[\(event)]", #"{"events":[\#(event)],"has_next":true,"after_url":"\#(next)"}"#] {
            let read = try #require(RetrieveEvents.operation.answer.decode(Array(body.utf8)))
            #expect(read.events.map(\.id) == ["a"])
            #expect(read.hasNext == (body.hasPrefix("[") ? nil : true))
            #expect(read.afterURL == (body.hasPrefix("[") ? nil : next))
        }
        #expect(RetrieveEvents.operation.answer.decode(Array("{}".utf8))?.events.isEmpty == true)
        for body in [#"[{"content":"a"}]"#, #"{"tasks":[{"content":"a"}]}"#] {
            #expect(RetrieveTasks.operation.answer.decode(Array(body.utf8))?.map(\.details.content) == ["a"])
        }
    }

    @Test("An event with invalid optional members is still read, one without an id is not")
    func invalidMembers() throws {
        let body = #"{"id":"a","title":1,"time":{"start_at":"2022-10-27T03:01:00Z"},"reminders":"x","location":[]}"#
        let event = try #require(RetrieveEvent.operation.answer.decode(Array(body.utf8)))
        #expect(event.details.title == nil && event.details.reminders == nil && event.details.location == nil)
        #expect(RetrieveEvent.operation.answer.decode(Array(#"{"title":"a"}"#.utf8)) == nil)
    }
}
