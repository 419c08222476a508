import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Locking
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes
@testable import Settings

/// Tests of the rules for advertising.
@Suite(.timeLimit(.minutes(5))) struct AdvertisingTests {
    static func message(_ text: String, _ marker: String = "m") -> JSONValue {
        ["for_gcm": ["notification": ["body": .string(text)], "custom_field": ["marker": .string(marker)]]]
    }

    private static let advertising: JSONObject = ["kind": "advertising"]

    /// The whole day.
    static var open: AdvertisingHours {
        var hours = AdvertisingHours()
        (hours.begins, hours.ends) = (0, 86_400)
        return hours
    }

    /// An hour that begins half a day from now, by the database's clock.
    private static func closed(_ database: TestDatabase) async throws -> AdvertisingHours {
        try await hours(12 * 3600, 13 * 3600, database)
    }

    /// Hours that begin and end so many seconds from now, by the database's clock. They may have begun or ended when they are
    /// used.
    static func hours(_ begins: Int, _ ends: Int, _ database: TestDatabase) async throws -> AdvertisingHours {
        let now = try await database.integer(
            "SELECT extract(epoch FROM (clock_timestamp() AT TIME ZONE 'Asia/Seoul')::time)::bigint"
        )
        func time(_ seconds: Int) -> Int { ((Int(now) + seconds) % 86_400 + 86_400) % 86_400 }
        var hours = AdvertisingHours()
        (hours.begins, hours.ends) = (time(begins), time(ends))
        return hours
    }

    @Test(
        "The hours end and begin at these times, over midnight too, and in zones with summer time",
        arguments: [
            ("08:00-21:00", "2026-11-23 07:59:59", nil, "2026-11-23 08:00:00"),
            ("08:00-21:00", "2026-11-23 08:00:00", "2026-11-23 21:00:00", nil),
            ("08:00-21:00", "2026-11-23 20:59:59", "2026-11-23 21:00:00", nil),
            ("08:00-21:00", "2026-11-23 21:00:00", nil, "2026-11-24 08:00:00"),
            ("20:00-02:00", "2026-11-23 01:59:59", "2026-11-23 02:00:00", nil),
            ("20:00-02:00", "2026-11-23 02:00:00", nil, "2026-11-23 20:00:00"),
            ("20:00-02:00", "2026-11-23 23:00:00", "2026-11-24 02:00:00", nil),
            ("00:00-24:00", "2026-11-23 23:59:59", "2026-11-24 00:00:00", nil),
            ("09:00-09:00", "2026-11-23 08:00:00", "2026-11-23 09:00:00", nil),
        ] as [(String, String, String?, String?)]
    )
    func times(hours: String, now: String, ends: String?, begins: String?) async throws {
        try await TestDatabase.with { database in
            let parameter = try #require(AdvertisingHours(hours)).parameter(in: "Asia/Seoul")
            let row = try #require(
                try await database.pool.read(
                    """
                    SELECT (advertising_ends($1, moment) AT TIME ZONE 'Asia/Seoul')::text,
                        (advertising_begins($1, moment) AT TIME ZONE 'Asia/Seoul')::text
                    FROM (SELECT $2::timestamp AT TIME ZONE 'Asia/Seoul' AS moment) AS clock
                    """,
                    [parameter, .text(now)]
                ).first
            )
            let (foundEnd, foundBegin) = try row.decode(String?.self, String?.self)
            #expect(foundEnd == ends)
            #expect(foundBegin == begins)
        }
    }

    @Test("Hours of the settings are two times of the day")
    func setting() {
        #expect(AdvertisingHours("08:00-21:00") == AdvertisingHours())
        #expect(AdvertisingHours("00:00-24:00")?.text == "00:00-24:00")
        for text in [
            "", "08:00", "8:00-21:00", "08:00-24:01", "08:60-21:00", "08:00-21:00-22:00", "08:00–21:00", "aa:00-21:00",
        ] {
            #expect(AdvertisingHours(text) == nil, "\(text)")
        }
    }

    /// Runs `body` with a server, a push of advertising to 5,000 users, and the hold of its requests, two of which are in flight.
    private static func withAdvertising(
        _ body: (TestService, _ push: String, _ hold: Int) async throws -> Void
    ) async throws {
        try await withService {
            $0.pushes.advertisingHours = open
            $0.kakao.maximumConcurrentRequests = 2
        } _: { service in
            try await service.database.addPhones(1...5000)
            // Two batches are answered at once.
            let hold = service.kakao.hold("send", of: Set(201...5000))
            let push = try await service.api.create(["everyone": true], message("(광고) Sale"), advertising)
            try await eventually("some batches are sent, and two are in flight") {
                service.kakao.sandbox.reached(marker: "m").sends == 4
            }
            #expect(try await service.api.shown(push)["waits_until"] == .null)
            try await body(service, push, hold)
        }
    }

    /// Applies other hours by a reload.
    private static func reload(_ hours: AdvertisingHours, _ service: TestService) async {
        var settings = service.settings
        settings.pushes.advertisingHours = hours
        await service.server.reload(settings)
    }

    /// Waits until the only batches that are claimed are those of the two requests in flight.
    private static func waitForRelease(_ service: TestService) async throws {
        try await eventually("what was claimed is released") {
            try await service.database.count("\(claimedBatches) WHERE state = 'sending'") == 2
        }
    }

    @Test("Advertising stops when its hours end, except for requests in flight, and resumes when they begin")
    func pauses() async throws {
        try await Self.withAdvertising { service, push, hold in
            let (api, database) = (service.api, service.database)
            await Self.reload(try await Self.closed(database), service)
            #expect(try await api.shown(push)["waits_until"] != .null)
            try await Self.waitForRelease(service)
            service.kakao.release(hold)
            try await eventually("no batch is in flight") {
                try await database.count("push_claims WHERE lease IS NOT NULL") == 0
            }
            #expect(try await api.users(push)?["sent"] == 400)
            #expect(try await api.state(push) == "sending")
            // It does not go on at its rate so far.
            #expect(try await api.shown(push)["estimated_end"] == .null)
            // What waits for its hours is not late.
            #expect(try await api.get("/v1/status").json?["backlog"]?["batches"] == 0)
            // Other pushes are sent meanwhile.
            let other = try await api.create(uuids(1...10), Self.message("Your order", "other"))
            try await api.waitUntilDone(other)
            #expect(try await api.users(push)?["sent"] == 400)
            // A server that starts then waits too.
            var settings = service.settings
            settings.pushes.advertisingHours = try await Self.closed(database)
            try await RunningServer.with(settings) { server in
                let late = try await server.create(uuids(1...10), Self.message("Your order", "late"))
                try await server.waitUntilDone(late)
                #expect(try await server.shown(push)["waits_until"] != .null)
                #expect(try await server.users(push)?["sent"] == 400)
            }
            await Self.reload(Self.open, service)
            try await api.waitUntilDone(push)
            #expect(service.kakao.reachedOnce(1...5000))
        }
    }

    @Test("A server notices by itself that the hours for advertising end, and that they begin")
    func clock() async throws {
        try await Self.withAdvertising { service, push, hold in
            await Self.reload(try await Self.hours(-3600, 2, service.database), service)
            try await Self.waitForRelease(service)
            // The server's clock may be a moment ahead of the database's.
            try await eventually("the push waits for its hours") {
                try await service.api.shown(push)["waits_until"] != .null
            }
            await Self.reload(try await Self.hours(2, 12 * 3600, service.database), service)
            service.kakao.release(hold)
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.reachedOnce(1...5000))
        }
    }

    @Test("Advertising begins with its mark on each platform, or in the text that the setting names")
    func mark() async throws {
        try await withService {
            $0.pushes.advertisingText = MemberPath("aps.title")
        } _: { service in
            let marked: JSONValue = ["custom_field": ["aps": ["title": "(광고) Sale"]]]
            let shown: JSONValue = ["notification": ["title": "(광고) Shop", "body": "Sale"]]
            let messages: [(message: JSONValue, isValid: Bool)] = [
                (["for_gcm": marked], true),
                (["for_fcm": marked], true),
                (["for_fcm": shown], true),
                (["for_apns": ["message": "(광고) Sale"], "for_gcm": marked], true),
                (["for_apns": ["message": ["title": "(광고) Sale"]]], true),
                (["for_gcm": ["custom_field": ["text": "(광고) Sale"]]], false),
                (["for_gcm": ["notification": ["title": "Sale"], "custom_field": ["aps": ["title": "(광고)"]]]], false),
                (["for_apns": ["message": "Sale (광고)"]], false),
                (["for_apns": ["message": ["loc-key": "(광고)"]]], false),
                (["for_gcm": ["collapse": "(광고)"]], false),
                (["for_apns": ["message": "Sale"], "for_gcm": marked], false),
                (["for_apns": ["custom_field": ["a": "(광고)"]]], false),
            ]
            for (message, isValid) in messages {
                for kind in ["advertising", "informational"] {
                    let body = pushBody(["everyone": true], message, ["kind": .string(kind), "dry_run": true])
                    let answer = try await service.api.post("/v1/pushes", json: body)
                    let isAccepted = isValid || kind == "informational"
                    #expect(answer.status == (isAccepted ? 200 : 400), "\(message)")
                    #expect(answer.field == (isAccepted ? nil : "message"))
                }
            }
        }
    }

    @Test("The mark is needed in the members of both versions of Kakao's API, since both are passed on")
    func markInBothVersions() async throws {
        try await withService { service in
            let (marked, unmarked) = (Self.field("(광고) Sale"), Self.field("Sale"))
            let messages: [(message: JSONValue, isValid: Bool)] = [
                (["for_gcm": marked], true),
                (["for_fcm": unmarked], false),
                (["for_gcm": marked, "for_fcm": unmarked], false),
                (["for_gcm": unmarked, "for_fcm": marked], false),
            ]
            for (message, isValid) in messages {
                for path in ["/v1/push/send", "/v2/push/send"] {
                    let body: JSONValue = ["uuids": [1], "push_message": message, "kind": "advertising"]
                    let answer = try await service.api.post(path, json: body)
                    #expect(answer.status == (isValid ? 200 : 400), "\(path) \(message)")
                    #expect(answer.field == (isValid ? nil : "push_message"))
                }
            }
        }
    }

    @Test("A reload applies another setting for the text of apps, and without it apps cannot show the mark")
    func advertisingText() async throws {
        try await withService { service in
            let message: JSONValue = ["for_gcm": ["custom_field": ["text": "(광고) Sale"]]]
            let body = pushBody(["everyone": true], message, ["kind": "advertising", "dry_run": true])
            let refused = try await service.api.post("/v1/pushes", json: body)
            #expect(refused.field == "message")
            for (path, status) in [("text", 200), ("title", 400)] {
                var settings = service.settings
                settings.pushes.advertisingText = MemberPath(path)
                await service.server.reload(settings)
                let answer = try await service.api.post("/v1/pushes", json: body)
                #expect(answer.status == status)
            }
        }
    }

    private static func field(_ text: String) -> JSONValue { ["notification": ["body": .string(text)]] }

    @Test("A consent that is withdrawn before the hours begin counts")
    func withdrawnConsent() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.pushes.advertisingTag = "ads"
            settings.pushes.advertisingHours = try await Self.closed(database)
            try await database.addPhones(1...3)
            try await database.pool.write("UPDATE devices SET tags = '{ads}'")
            try await RunningServer.run(settings) { running in
                let server = TestClient(url: running.operatorURL)
                let push = try await server.create(["everyone": true], Self.message("(광고) Sale"), Self.advertising)
                // Another push is prepared and sent meanwhile.
                let other = try await server.create(["everyone": true], Self.message("a", "other"))
                try await server.waitUntilDone(other)
                #expect(try await server.shown(push)["waits_until"] != .null)
                // No alert about a preparation that does not proceed.
                try await eventually("it counts as scheduled") {
                    let metrics = try await server.metrics()
                    return metrics.value("kakao_push_pushes", ["state": "scheduled"]) == 1
                        && metrics.value("kakao_push_pushes", ["state": "preparing"]) == 0
                }
                try await database.pool.write("UPDATE devices SET tags = '{}' WHERE user_id = 2")
                settings.pushes.advertisingHours = Self.open
                await running.reload(settings)
                try await server.waitUntilDone(push)
                #expect((1...3).filter { kakao.sandbox.timesReached($0, marker: "m") == 1 } == [1, 3])
            }
        }
    }

    @Test("With require_kind, each request says what it is, in Kakao's format too")
    func required() async throws {
        try await withService {
            $0.pushes.requiresKind = true
        } _: { service in
            let push = pushBody(["everyone": true], Self.message("(광고) Sale"), [:])
            #expect(try await service.api.post("/v1/pushes", json: push).field == "kind")
            let native: JSONValue = ["uuids": [1], "push_message": Self.message("(광고) Sale")]
            #expect(try await service.api.post("/v1/push/send", json: native).field == "kind")
            var said = try #require(native.object)
            said["kind"] = "informational"
            #expect(try await service.api.post("/v1/push/send", json: .object(said)).status == 200)
            let created = try await service.api.create(["everyone": true], Self.message("a"), ["kind": "informational"])
            #expect(try await service.api.shown(created)["kind"] == "informational")
            said["kind"] = "advertisement"
            #expect(try await service.api.post("/v1/push/send", json: .object(said)).field == "kind")
        }
    }

    @Test(
        "Advertising is sent only to users who have consented on each device that it addresses",
        arguments: [uuids(1...6), ["everyone": true], ["tags_any": ["sale"]]]
    )
    func consent(audience: JSONValue) async throws {
        try await withService {
            $0.pushes.advertisingTag = "ads"
            $0.pushes.advertisingHours = Self.open
        } _: { service in
            try await service.database.addPhones(1...5)
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
                VALUES (3, 'tablet', 'fcm', 'tablet-3', 1), (4, 'iphone', 'apns', 'iphone-4', 1)
                """
            )
            try await service.database.pool.write("UPDATE devices SET tags = '{sale}'")
            try await service.database.pool.write(
                "UPDATE devices SET tags = '{ads,sale}' WHERE user_id IN (1, 3, 4) AND device_id = 'phone'"
            )
            let push = try await service.api.create(audience, Self.message("(광고) Sale"), Self.advertising)
            try await service.api.waitUntilDone(push)
            // 3 has a tablet without consent; 4 has an iPhone, which the message does not address.
            #expect((1...6).filter { service.kakao.sandbox.timesReached($0, marker: "m") == 1 } == [1, 4])
            let dry = pushBody(audience, Self.message("(광고) Sale"), ["kind": "advertising", "dry_run": true])
            let users = try await service.api.post("/v1/pushes", json: dry).json?["users"]
            #expect(users?["excluded"] == 0 && users?["without_consent"] == 3)
            let except: JSONObject = ["kind": "advertising", "dry_run": true, "except": ["tags_any": ["ads"]]]
            let rest = pushBody(audience, Self.message("(광고) Sale"), except)
            let others = try await service.api.post("/v1/pushes", json: rest).json?["users"]
            // Those who have consented are left out for the tag, the others for their consent.
            #expect(others?["excluded"] == 3 && others?["without_consent"] == 2)
        }
    }

    @Test(
        "The consent that the present settings name counts, also for advertising that was scheduled before",
        arguments: [uuids(1...3), ["everyone": true]]
    )
    func laterConsent(audience: JSONValue) async throws {
        try await withService { service in
            try await service.database.addPhones(1...3)
            try await service.database.pool.write("UPDATE devices SET tags = '{ads}' WHERE user_id = 2")
            var settings = service.settings
            settings.pushes.advertisingHours = try await Self.closed(service.database)
            await service.server.reload(settings)
            // One that would be a single batch, sent at once, within the hours.
            let push = try await service.api.create(audience, Self.message("(광고) Sale"), Self.advertising)
            #expect(try await service.api.shown(push)["waits_until"] != .null)
            settings.pushes.advertisingTag = "ads"
            await service.server.reload(settings)
            settings.pushes.advertisingHours = Self.open
            await service.server.reload(settings)
            try await service.api.waitUntilDone(push)
            #expect((1...3).filter { service.kakao.sandbox.timesReached($0, marker: "m") == 1 } == [2])
        }
    }

    @Test("A consent that is demanded while a push is being prepared counts for the users who are prepared afterwards")
    func consentMeanwhile() async throws {
        try await TestDatabase.with { database in
            try await database.addPhones(1...3000)
            try await database.pool.write("UPDATE devices SET tags = '{ads}' WHERE user_id % 2 = 0")
            let id = UUID()
            try await database.pool.write(
                """
                INSERT INTO pushes (id, state, audience, message, message_version, kind, platforms)
                VALUES ($1, 'preparing', '{"everyone": true}', '{}', 'v1', 'advertising', '{}')
                """,
                [.uuid(id)]
            )
            var settings = PushSettings()
            settings.advertisingHours = Self.open
            let present = Locked(settings)
            let store = PreparationStore(pool: database.pool, settings: present)
            let first = try #require(try await store.due(limit: 1).first)
            let page = try #require(try await store.page(first))
            _ = try #require(try await store.store(page, of: first))
            present.withLock { $0.advertisingTag = "ads" }
            let second = first.moved(past: page)
            let rest = try #require(try await store.page(second))
            #expect(rest.isLast)
            _ = try #require(try await store.store(rest, of: second))
            #expect(try await database.integer("SELECT users FROM pushes") == 1000 + 1000)
        }
    }

    @Test("Advertising says when it goes out, after its send_at and while it is proposed, and nothing within the hours")
    func waitsUntil() async throws {
        try await withService {
            $0.pushes.approvalAboveUsers = 2
        } _: { service in
            let (api, database) = (service.api, service.database)
            try await database.addPhones(1...3)
            // Open from an hour ago until in an hour.
            await Self.reload(try await Self.hours(-3600, 3600, database), service)
            func created(_ more: JSONObject, _ audience: JSONValue = uuids([1])) async throws -> JSONValue {
                let json = pushBody(audience, Self.message("(광고) Sale"), Self.advertising.merging(more))
                let created = try #require(try await api.post("/v1/pushes", json: json).json)
                let shown = try await api.shown("/v1/pushes/\(created["id"]?.string ?? "?")")
                #expect(shown["waits_until"] == created["waits_until"], "\(created) \(shown)")
                return created
            }
            let within = try await created(["send_at": time(in: 1800)])
            #expect(within["waits_until"] == .null && within["state"] == "scheduled", "\(within)")
            let outside = try await created(["send_at": time(in: 7200)])
            let begin = try #require(outside["waits_until"]?.string.flatMap { Date(rfc3339: $0) }, "\(outside)")
            // A day after the beginning an hour ago.
            #expect(abs(begin.timeIntervalSinceNow - 23 * 3600) < 300)
            let proposed = try await created(["send_at": time(in: 7200)], ["everyone": true])
            #expect(proposed["state"] == "proposed" && proposed["waits_until"] == outside["waits_until"], "\(proposed)")
            let more: JSONObject = ["kind": "advertising", "send_at": time(in: 7200), "dry_run": true]
            let dry = try await api.post("/v1/pushes", json: pushBody(uuids([1]), Self.message("(광고) Sale"), more))
            #expect(dry.json?["waits_until"] == outside["waits_until"], "\(dry.text)")
        }
    }

    @Test("Advertising that expires before its hours is refused with both times, and a late approval gets a warning")
    func expiry() async throws {
        try await withService {
            $0.pushes.approvalAboveUsers = 2
        } _: { service in
            let (api, database) = (service.api, service.database)
            try await database.addPhones(1...3)
            await Self.reload(try await Self.hours(-3600, 3600, database), service)
            let early: JSONObject = ["kind": "advertising", "send_at": time(in: 7200), "expires_at": time(in: 10_800)]
            for more in [early, early.merging(["dry_run": true])] {
                let body = pushBody(uuids([1]), Self.message("(광고) Sale"), more)
                let refused = try await api.post("/v1/pushes", json: body)
                #expect(refused.status == 400 && refused.field == "expires_at", "\(refused.text)")
                let detail = refused.json?["detail"]?.string ?? ""
                let times = [early["expires_at"]?.string, refused.json?["waits_until"]?.string]
                #expect(times.allSatisfy { detail.contains($0 ?? "?") }, "\(detail)")
            }
            #expect(try await database.count("pushes") == 0)
            // Informational pushes, and those that expire later, are stored.
            for change in [["kind": "informational"], ["expires_at": time(in: 48 * 3600)]] as [JSONObject] {
                let body = pushBody(uuids([1]), Self.message("(광고) Sale"), early.merging(change))
                #expect(try await api.post("/v1/pushes", json: body).status == 202)
            }
            // Proposed within the hours, and not approved before they end.
            let caller = api.with(idempotencyKey: "late")
            let proposal = pushBody(
                ["everyone": true],
                Self.message("(광고) Sale"),
                ["kind": "advertising", "expires_at": time(in: 7200)]
            )
            let proposed = try await caller.post("/v1/pushes", json: proposal)
            let push = try #require(proposed.headerFields[.location], "\(proposed.text)")
            let before = try await api.shown(push)["warnings"]?.array ?? []
            #expect(!before.contains { $0["code"] == "expires-before-hours" })
            await Self.reload(try await Self.closed(database), service)
            let warnings = try await api.shown(push)["warnings"]?.array
            #expect(warnings?.dropLast() == before[...] && warnings?.last?["code"] == "expires-before-hours")
            // A repetition gets the first response.
            let again = try await caller.post("/v1/pushes", json: proposal)
            #expect(again.status == 202 && again.text == proposed.text, "\(again.text)")
        }
    }

    @Test("An approver who is asked too late reads, in the times of the zone, that nothing can be sent")
    func tooLate() async throws {
        try await withService {
            $0.pushes.approvalAboveUsers = 0
        } _: { service in
            try await service.database.addPhones([1])
            await Self.reload(try await Self.hours(-3600, 3600, service.database), service)
            let more: JSONObject = ["kind": "advertising", "expires_at": time(in: 7200)]
            let push = try await service.api.create(uuids([1]), Self.message("(광고) Sale"), more)
            await Self.reload(try await Self.closed(service.database), service)
            let key = try await service.operatorKey(.approve, .read)
            let pushes = OperatorCommand("pushes", service.api.url, key: key)
            let id = push.split(separator: "/").last.map(String.init) ?? "?"
            for arguments in [["approve", id], ["show", id]] {
                let shown = try await pushes.runOnTerminal(arguments, columns: 200, input: "n\n")
                let time = /[-0-9]{10} [:0-9]{8} \+09:00/
                #expect(shown.output.contains(/The push expires at/) && shown.output.contains(time), "\(shown)")
                #expect(!shown.output.contains(/T[:.0-9]+Z/), "\(shown)")
                guard arguments[0] == "approve" else { continue }
                let words = /Time: never, since it expires at .* \+09:00 \(Asia\/Seoul\), and the hours/
                #expect(shown.output.contains(words), "\(shown)")
            }
        }
    }

    @Test("Advertising that waits for its hours is scheduled: in its response, in lists, when shown, and in the status")
    func waitingState() async throws {
        try await withService { service in
            let api = service.api
            try await service.database.addPhones(1...3)
            await Self.reload(try await Self.closed(service.database), service)
            let body = pushBody(["everyone": true], Self.message("(광고) Sale"), Self.advertising)
            let created = try await api.post("/v1/pushes", json: body)
            let push = try #require(created.headerFields[.location])
            #expect(created.json?["state"] == "scheduled", "\(created.text)")
            #expect(try await api.summary(push) == created.json)
            func listed(_ state: String) async throws -> Int? {
                try await api.get("/v1/pushes", ["state": "\(state)"]).json?["items"]?.array?.count
            }
            #expect(try await listed("scheduled") == 1)
            #expect(try await listed("preparing") == 0)
            #expect(try await api.get("/v1/status").json?["pushes"]?["states"]?["scheduled"] == 1)
            await Self.reload(Self.open, service)
            try await api.waitUntilDone(push)
            #expect(try await listed("scheduled") == 0)
        }
    }
}

extension JSONObject {
    /// Returns the object with the members of another one.
    fileprivate func merging(_ other: JSONObject) -> JSONObject {
        var merged = self
        for (name, value) in other.members { merged[name] = value }
        return merged
    }
}
