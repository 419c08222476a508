import Endpoints
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Net
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// The relayed calls of Talk Calendar.
@Suite(.timeLimit(.minutes(5))) struct CalendarRelayTests {
    private typealias Form = KeyValuePairs<String, String>

    private static let event = #"""
        {"title":"Cake","time":{"start_at":"2022-10-27T03:00:00Z","end_at":"2022-10-27T06:00:00Z"},"new":{"a":[1]}}
        """#
    private static let create = "/v2/api/calendar/create/event"
    private static let publish = "/v2/api/calendar/public/create/event"
    private static let createTask = "/v1/api/calendar/create/task"
    private static let createCalendar = "/v2/api/calendar/create/calendar"
    private static let october: Form = ["from": "2022-10-01T00:00:00Z", "to": "2022-11-01T00:00:00Z"]
    private static let target: Form = ["target_id_type": "user_id", "target_id": "7"]
    private static let scopes: JSONValue = ["talk_calendar", "talk_calendar_task"]

    /// Runs `body` with a server and with the app of user 7, whose token is verified, and who has agreed to both scopes.
    private static func withCalendar(_ body: (TestService, TestClient) async throws -> Void) async throws {
        try await withKakaoLogin { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.get("/v1/user/access_token_info").status == 200)
            try service.kakao.sandbox.setUser(7, ["scopes": scopes])
            try await body(service, app)
        }
    }

    /// Returns what the sandbox has stored of user 7: the number of entries of a list.
    private static func stored(_ list: String, _ service: TestService) async throws -> Int? {
        let path = list == "public" ? "/sandbox/calendar" : "/sandbox/users/7/calendar"
        let json = try await service.kakao.browser.get(path).json
        return json?[list == "public" ? "events" : list]?.array?.count
    }

    /// The calls that create something: the list of the sandbox that grows, the path, the form, and whether an operator makes the call.
    private static let creations: [(list: String, path: String, form: Form, isOperators: Bool)] = [
        ("events", create, ["event": event], false),
        ("public", publish, ["channel_public_id": "_ZeUTxl", "event": event], true),
        ("tasks", createTask, ["task": #"{"content":"Bake"}"#], false),
        ("calendars", createCalendar, ["name": "Cakes"], false),
    ]

    // MARK: Use

    @Test("An app creates a calendar, an event and a task, reads them, changes and deletes them")
    func use() async throws {
        try await Self.withCalendar { service, app in
            let calendar = try await app.post(Self.createCalendar, form: ["name": "Cakes", "color": "RED"])
            let calendarID = try #require(calendar.json?["calendar_id"]?.string)
            let made = try await app.post(
                Self.create,
                json: [
                    "calendar_id": .string(calendarID), "event": try JSONValue(parsing: Self.event),
                ]
            )
            #expect(made.status == 200 && made.answerer == "kakao")
            let eventID = try #require(made.json?["event_id"]?.string)
            let shown = try await app.get("/v2/api/calendar/event", ["event_id": eventID])
            #expect(shown.json?["event"]?["calendar_id"]?.string == calendarID)
            // Members that this server does not know reach Kakao.
            let stored = try await service.kakao.browser.get("/sandbox/users/7/calendar").json
            #expect(stored?["events"]?[0]?["new"] == ["a": [1]])
            let changed = try await app.post(
                "/v2/api/calendar/update/event/host",
                form: ["event_id": eventID, "event": #"{"title":"Cakes"}"#]
            )
            #expect(changed.json == ["event_id": .string(eventID)])
            let listed = try await app.get("/v2/api/calendar/events", Self.october)
            #expect(listed.json?["events"]?.array?.map { $0["title"] } == ["Cakes"])
            #expect(try await app.delete("/v2/api/calendar/delete/event?event_id=\(eventID)").status == 200)
            let gone = try await app.get("/v2/api/calendar/event", ["event_id": eventID])
            #expect(gone.status == 400)
            #expect(gone.json?["code"] == -520)
            #expect(gone.problem == "refused-by-kakao")
            let task = try await app.post(Self.createTask, form: ["task": #"{"content":"Bake"}"#])
            let taskID = try #require(task.json?["task_id"]?.string)
            let done: Form = ["task_id": taskID, "complete": "true"]
            #expect(try await app.post("/v1/api/calendar/complete/task", form: done).status == 200)
            let tasks = try await app.get("/v1/api/calendar/tasks", ["task_status": "COMPLETED"])
            #expect(tasks.json?["tasks"]?[0]?["content"] == "Bake")
        }
    }

    @Test("Kakao's empty answer about a series comes back empty, with status 200")
    func series() async throws {
        try await Self.withCalendar { _, app in
            let series = Self.event.replacing(#""title""#, with: #""rrule":"FREQ=DAILY;COUNT=3","title""#)
            #expect(try await app.post(Self.create, form: ["event": series]).status == 200)
            let listed = try await app.get("/v2/api/calendar/events", Self.october)
            let id = try #require(listed.json?["events"]?[0]?["id"]?.string)
            let changed = try await app.post(
                "/v2/api/calendar/update/event/host",
                form: ["event_id": id, "recur_update_type": "ALL", "event": #"{"title":"Cakes"}"#]
            )
            #expect(changed.status == 200)
            #expect(changed.body.isEmpty && changed.headerFields[.contentType] == nil)
            let deleted = try await app.delete("/v2/api/calendar/delete/event?event_id=\(id)&recur_update_type=ALL")
            #expect(deleted.status == 200)
            #expect(deleted.body.isEmpty)
        }
    }

    @Test("A public event that an operator publishes is the one that a user follows; a user's token cannot publish")
    func publicEvents() async throws {
        try await Self.withCalendar { service, app in
            let form: Form = ["channel_public_id": "_ZeUTxl", "event": Self.event]
            // The token is valid: after a 401, an SDK would log its user out.
            #expect(try await app.post(Self.publish, form: form).status == 403)
            let published = try await service.api.post(Self.publish, form: form)
            let id = try #require(published.json?["event_id"]?.string)
            #expect(try await app.post("/v2/api/calendar/public/follow", form: ["event_id": id]).status == 200)
            let shown = try await service.kakao.browser.get("/sandbox/users/7/calendar")
            #expect(shown.json?["following"] == [.string(id)])
            let holidays = try await service.api.get(
                "/v2/api/calendar/holidays",
                ["from": "2022-12-01T00:00:00Z", "to": "2022-12-31T00:00:00Z"]
            )
            #expect(holidays.json?["events"]?.array?.map { $0["title"] } == ["성탄절"])
            for (scope, status) in [(Scope.talk, 200), (.sharing, 403), (.accounts, 403)] {
                let caller = service.api.with("Bearer \(try await service.operatorKey(scope))")
                #expect(try await caller.get("/v2/api/calendar/public/event", ["event_id": id]).status == status)
            }
        }
    }

    @Test("The address of the next page leads here, with the user whom an operator named")
    func pages() async throws {
        let url = "https://push.example.com"
        func adjust(_ settings: inout Settings) { settings.publicURL = .given(url) }
        try await withAccounts(adjust) { service in
            #expect(try await service.logIn(7).status == 200)
            try service.kakao.sandbox.setUser(7, ["scopes": Self.scopes])
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            for _ in 0..<3 { #expect(try await app.post(Self.create, form: ["event": Self.event]).status == 200) }
            let path = "/v2/api/calendar/events"
            let period = Self.october.map { "\($0.key)=\($0.value)" }.joined(separator: "&")
            let target = Self.target.map { "\($0.key)=\($0.value)" }.joined(separator: "&")
            for (caller, user) in [(app, ""), (service.api, "&\(target)")] {
                let query = "?calendar_id=primary&\(period)&limit=2\(user)"
                let first = try await caller.get(path + query)
                #expect(first.json?["has_next"] == true)
                let address = try #require(first.json?["after_url"]?.string)
                #expect(address.hasPrefix("\(url)\(path)?calendar_id=primary&next_page_token="))
                #expect(address.hasSuffix(user) && address.contains("target_id") == !user.isEmpty)
                let second = try await caller.get(String(address.dropFirst(url.count)))
                #expect(second.json?["has_next"] == false && second.json?["after_url"] == nil)
                let pages = [first, second].map { $0.json?["events"]?.array ?? [] }
                #expect(pages.map(\.count) == [2, 1])
                #expect(Set(pages.joined().map { $0["id"]?.string ?? "" }).count == 3)
            }
        }
    }

    // MARK: Parameters

    @Test("A wrong member of an event or a task is rejected here, with its name and what it must be")
    func invalid() async throws {
        try await Self.withCalendar { service, app in
            let time = #"{"start_at":"2022-10-27T03:01:00Z"}"#
            for (path, form, field, reason) in [
                (Self.create, ["event": #"{"title":1}"#], "event", "title must be a text"),
                (
                    Self.create, ["event": #"{"time":\#(time)}"#], "event",
                    "time: start_at must be a time in UTC in steps of 5"
                ),
                (Self.create, ["event": #"{"reminders":[1]}"#], "event", "reminders must be"),
                (Self.create, ["event": "{"], "event", "Invalid JSON"), (Self.create, [:], "event", "event must be"),
                (
                    Self.createTask, ["task": #"{"due_info":{"due_date":"1"}}"#], "task",
                    "due_info: due_date must be a day"
                ),
                ("/v2/api/calendar/subscribe", [:], "calendar_id", "unless channel_id"),
            ] as [(String, Form, String, String)] {
                let answer = try await app.post(path, form: form)
                #expect(answer.status == 400)
                #expect(answer.field == field)
                #expect(answer.json?["code"] == -2)
                #expect(answer.json?["detail"]?.string?.contains(reason) == true, "\(answer.text)")
            }
            let long: Form = ["from": "2022-10-01T00:00:00Z", "to": "2022-12-01T00:00:00Z"]
            #expect(try await app.get("/v2/api/calendar/events", long).field == "to")
            for period in [long, ["from": "2022-10-01T00:00:00Z"]] as [Form] {
                #expect(try await service.api.get("/v2/api/calendar/holidays", period).field == "to")
            }
            #expect(service.kakao.sandbox.stats.requests.keys.filter { $0.contains("/calendar/") }.isEmpty)
        }
    }

    @Test("A missing scope comes back with its name, for calendars and for tasks")
    func consent() async throws {
        try await Self.withCalendar { service, app in
            try service.kakao.sandbox.setUser(7, ["scopes": ["account_email"]])
            for (path, form, scope) in [
                (Self.create, ["event": Self.event], "talk_calendar"),
                (Self.createTask, ["task": #"{"content":"Bake"}"#], "talk_calendar_task"),
            ] as [(String, Form, String)] {
                let answer = try await app.post(path, form: form)
                #expect(answer.status == 403)
                #expect(answer.json?["code"] == -402)
                #expect(answer.problem == "consent-required")
                #expect(answer.json?["required_scopes"] == [.string(scope)])
            }
        }
    }

    // MARK: Faults

    @Test("After a lost answer, a creation is 504 outcome-unknown, and the server has sent it once")
    func lost() async throws {
        try await Self.withCalendar { service, app in
            for (list, path, form, isOperators) in Self.creations {
                service.kakao.fail(path, .dropAfterBody) {
                    $0.path = path
                    $0.isCarriedOut = true
                }
                let answer = try await (isOperators ? service.api : app).post(path, form: form)
                #expect(answer.status == 504, "\(path)")
                #expect(answer.problem == "outcome-unknown")
                #expect(answer.answerer == "server")
                // Kakao has carried it out. A second request would have made another one, or been refused.
                #expect(service.kakao.sandbox.stats.requests[path] == 1)
                #expect(try await Self.stored(list, service) == 1, "\(path)")
                service.kakao.endFaults()
            }
        }
    }

    @Test(
        "After a lost answer, a change that must not be repeated is 504 outcome-unknown, and the server has sent it once"
    )
    func lostChange() async throws {
        try await Self.withCalendar { service, app in
            // Kakao carries the calls out in this order, so that each of them would have succeeded.
            try await service.allowAllCalls(of: 7)
            let names = [
                "calendar_event_update", "calendar_event_update_guest", "calendar_event_delete", "calendar_delete",
                "calendar_task_delete", "calendar_public_event_follow", "calendar_subscribe", "calendar_unsubscribe",
                "calendar_public_event_update", "calendar_public_event_delete",
            ]
            let fixtures = try KakaoFixture.relayed()
            for name in names {
                let fixture = try #require(fixtures.first { $0.name == name })
                service.kakao.fail(fixture.path, .dropAfterBody) {
                    $0.path = fixture.path
                    $0.isCarriedOut = true
                }
                let answer = try await fixture.send(by: fixture.isOfUser ? app : service.api)
                #expect(answer.status == 504, "\(name): \(answer.text)")
                #expect(answer.problem == "outcome-unknown")
                #expect(service.kakao.sandbox.stats.requests[fixture.path] == 1)
                service.kakao.endFaults()
            }
            let user = try await service.kakao.browser.get("/sandbox/users/7/calendar").json
            for list in ["calendars", "events", "tasks"] { #expect(user?[list] == [], "\(list)") }
            #expect(try await Self.stored("public", service) == 0)
            // Repeated by the caller, a deletion that was carried out is Kakao's error.
            let deletion = try #require(fixtures.first { $0.name == "calendar_event_delete" })
            #expect(try await deletion.send(by: app).json?["code"] == -520)
        }
    }

    @Test("A creation that is repeated after 504 is carried out twice, or Kakao refuses the second")
    func repeated() async throws {
        try await Self.withCalendar { service, app in
            for (list, path, form, isOperators) in Self.creations {
                let caller = isOperators ? service.api : app
                service.kakao.fail(path, .dropAfterBody) {
                    $0.path = path
                    $0.isCarriedOut = true
                }
                #expect(try await caller.post(path, form: form).status == 504)
                service.kakao.endFaults()
                let answer = try await caller.post(path, form: form)
                // The names of calendars are unique.
                let isRefused = list == "calendars"
                #expect(answer.status == (isRefused ? 400 : 200), "\(path): \(answer.text)")
                #expect(try await Self.stored(list, service) == (isRefused ? 1 : 2), "\(path)")
            }
        }
    }

    @Test("In an outage, a creation is 504 if Kakao may have got it, and 503 if not; Kakao's own code comes back")
    func outage() async throws {
        try await Self.withCalendar { service, app in
            for (list, path, form, isOperators) in Self.creations {
                for (kind, status, code, expected, problem) in [
                    (.down, nil, nil, 504, "outcome-unknown"), (.status, 502, nil, 504, "outcome-unknown"),
                    (.status, 503, nil, 503, "kakao-unavailable"), (.status, 503, -9798, 503, "kakao-unavailable"),
                ] as [(Fault.Kind, Int?, Int?, Int, String)] {
                    service.kakao.fail(path, kind, status: status, code: code) { $0.path = path }
                    let answer = try await (isOperators ? service.api : app).post(path, form: form)
                    #expect(answer.status == expected, "\(path): \(answer.text)")
                    #expect(answer.problem == problem)
                    #expect((answer.headerFields[.retryAfter] != nil) == (expected == 503))
                    if let code { #expect(answer.json?["code"]?.integer == Int64(code)) }
                    service.kakao.endFaults()
                }
                #expect(service.kakao.sandbox.stats.requests[path] == 4)
                #expect(try await Self.stored(list, service) == 0)
            }
        }
    }

    @Test("A server that is killed before Kakao's answer leaves an audit record, and the next one sends nothing again")
    func killed() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let environment = RunningProgram.environment(database, kakao)
            let requests = { kakao.sandbox.stats.requests[Self.publish] }
            try await RunningProgram.with(environment: environment) { process, api in
                kakao.fail(Self.publish, .latency) {
                    $0.path = Self.publish
                    $0.milliseconds = 600_000
                }
                let form: Form = ["channel_public_id": "_ZeUTxl", "event": Self.event]
                async let answer = try? api.post(Self.publish, form: form)
                try await eventually("Kakao has the request") { requests() == 1 }
                process.send(SIGKILL)
                _ = await process.ended()
                #expect(await answer == nil)
            }
            kakao.endFaults()
            try await RunningProgram.with(environment: environment) { _, api in
                let audit = try await api.get("/v1/audit", ["operation": "calendarPublicEventCreate"])
                #expect(audit.json?["items"]?.array?.count == 1)
                let listed = try await api.get("/v2/api/calendar/public/events", Self.october)
                #expect(listed.json?["events"]?.array?.count == 1)
                #expect(requests() == 1)
            }
        }
    }

    @Test("After a lost answer, a change that may be repeated is 503 with Retry-After; its repetition succeeds")
    func lostUpdate() async throws {
        try await Self.withCalendar { service, app in
            let made = try await app.post(Self.createCalendar, form: ["name": "Cakes"])
            let id = try #require(made.json?["calendar_id"]?.string)
            let path = "/v2/api/calendar/update/calendar"
            let form: Form = ["calendar_id": id, "name": "More cakes"]
            service.kakao.fail(path, .dropAfterBody) {
                $0.path = path
                $0.isCarriedOut = true
            }
            let answer = try await app.post(path, form: form)
            #expect(answer.status == 503)
            #expect(answer.problem == "kakao-unavailable")
            #expect(answer.headerFields[.retryAfter] != nil)
            service.kakao.endFaults()
            #expect(try await app.post(path, form: form).status == 200)
        }
    }

    @Test("The answer of another host is not taken for Kakao's, whatever its status")
    func anotherHost() async throws {
        try await Self.withCalendar { service, app in
            for (list, path, form, isOperators) in Self.creations {
                // A page with status 200 says nothing about the call; a firewall's 403 says that it did not pass.
                for (status, expected, problem) in [(200, 504, "outcome-unknown"), (403, 502, "bad-gateway")] {
                    service.kakao.fail(path, .anotherHost, status: status) { $0.path = path }
                    let answer = try await (isOperators ? service.api : app).post(path, form: form)
                    #expect(answer.status == expected, "\(path): \(answer.text)")
                    #expect(answer.problem == problem)
                    #expect(answer.answerer == "server")
                    service.kakao.endFaults()
                }
                #expect(try await Self.stored(list, service) == 0)
            }
            let read = "/v2/api/calendar/calendars"
            service.kakao.fail(read, .anotherHost, status: 200) { $0.path = read }
            let answer = try await app.get(read)
            #expect(answer.status == 502)
            #expect(answer.answerer == "server")
        }
    }

    @Test("An answer without an id is none for a creation, whoever gives it; for a change, Kakao's may be empty")
    func empty() async throws {
        try await Self.withCalendar { service, app in
            let change: Form = ["event_id": "a", "event": "{}"]
            var cases = [(path: "/v2/api/calendar/update/event/host", form: change, isOperators: false, status: 200)]
            cases += Self.creations.map { ($0.path, $0.form, $0.isOperators, 504) }
            cases += [
                ("/v2/api/calendar/public/follow", ["event_id": "a"], false, 504),
                ("/v2/api/calendar/public/update/event", change, true, 504),
            ]
            for (path, form, isOperators, status) in cases {
                for body in ["", "{}", "[]", #"{"status":"ok"}"#] {
                    service.kakao.fail(path, .anotherHost, status: 200) {
                        $0.path = path
                        $0.page.body = body
                        $0.page.contentType = "application/json"
                    }
                    let answer = try await (isOperators ? service.api : app).post(path, form: form)
                    let expected = body == "[]" ? 504 : status
                    #expect(answer.status == expected, "\(path): \(body)")
                    #expect(answer.problem == (expected == 504 ? "outcome-unknown" : nil))
                    service.kakao.endFaults()
                }
            }
        }
    }

    @Test("A quota comes back with Kakao's code and Retry-After, and stops nothing else")
    func quota() async throws {
        try await Self.withCalendar { service, app in
            for (_, path, form, isOperators) in Self.creations {
                service.kakao.fail(path, status: 429, code: -10) {
                    $0.path = path
                    $0.retryAfterSeconds = 60
                }
                let answer = try await (isOperators ? service.api : app).post(path, form: form)
                #expect(answer.status == 429)
                #expect(answer.json?["code"] == -10)
                #expect(answer.problem == "refused-by-kakao")
                #expect(answer.headerFields[.retryAfter] == "60")
                service.kakao.endFaults()
            }
            let state = try await service.api.get("/v1/status").json?["sender"]?["state"]?.string
            #expect(state == "running")
            #expect(try await app.post(Self.create, form: ["event": Self.event]).status == 200)
        }
    }

    // MARK: Accounts

    @Test("An operator calls with the token that the server keeps; one that Kakao rejects is replaced once")
    func storedToken() async throws {
        try await withAccounts { service in
            var form: [(String, String)] = [("event", Self.event)]
            form += Self.target.map { ($0.key, $0.value) }
            var body = FormBody()
            for (name, value) in form { body.append(name, value) }
            func make() async throws -> HTTPClientResponse {
                try await service.api.post(Self.create, body.bytes, type: FormBody.contentType)
            }
            #expect(try await make().problem == "login-required")
            #expect(try await service.logIn(7).status == 200)
            try service.kakao.sandbox.setUser(7, ["scopes": Self.scopes])
            #expect(try await make().status == 200)
            let token = try #require(try await service.accessToken(of: 7).json?["access_token"]?.string)
            service.kakao.sandbox.revokeAccessToken(token)
            // A new token would not be replaced: Kakao may reject this server's address.
            try await service.database.pool.write("UPDATE accounts SET linked_at = linked_at - interval '1 minute'")
            #expect(try await make().status == 200)
            // The rejected call was repeated with another token, and made one event.
            #expect(service.kakao.sandbox.stats.requests[Self.create] == 3)
            #expect(try await Self.stored("events", service) == 2)
            #expect(service.kakao.sandbox.tokenReport(of: 7).refreshes == 1)
            // If Kakao rejects the new one too, the user has to log in.
            service.kakao.fail(Self.create, status: 401, code: -401) { $0.path = Self.create }
            let rejected = try await make()
            #expect(rejected.status == 401)
            #expect(rejected.problem == "login-required")
            #expect(service.kakao.sandbox.stats.requests[Self.create] == 5)
            #expect(try await Self.stored("events", service) == 2)
        }
    }
}
