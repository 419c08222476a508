import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceKit
import ServiceTesting
import Settings
import TestSupport
import Testing

@testable import Channels

/// Kakao's reports that a person has added or blocked a KakaoTalk channel, and what follows from them.
@Suite(.timeLimit(.minutes(5))) struct ChannelEventTests {
    private static let path = "/kakao/channel"

    private static func withTag(_ body: (TestService) async throws -> Void) async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.channels.tag = "channel"
        }
        try await withService(adjust, body)
    }

    private static func kakao(_ service: TestService) -> TestClient { service.api.with("KakaoAK \(Keys.admin)") }

    private static func register(
        _ service: TestService,
        _ user: Int64,
        _ device: String,
        tags: [String] = []
    ) async throws {
        let answer = try await service.api.post(
            "/v1/push/register",
            form: [
                "uuid": String(user), "device_id": device, "push_type": "gcm", "push_token": device,
                "tags": JSONValue.array(tags.map { .string($0) }).description,
            ]
        )
        #expect(answer.status == 200)
    }

    private static func event(_ user: Int64, _ kind: ChannelEvent.Kind, at time: String? = nil) -> ChannelEvent {
        var event = ChannelEvent(.user(user))
        event.kind = kind
        event.updatedAt = time
        return event
    }

    private static func relations(_ service: TestService, of user: Int64) async throws -> [String] {
        let channels = try await service.api.get("/v1/users/\(user)/channels").json?["items"]?.array ?? []
        return channels.map { "\($0["channel_public_id"]?.string ?? "") \($0["relation"]?.string ?? "")" }
    }

    /// The tags of all devices, by user and device.
    private static func tags(_ service: TestService) async throws -> String? {
        try await service.database.text(
            """
            SELECT string_agg(format('%s %s %s', user_id, device_id, tags::text), ', ' ORDER BY user_id, device_id)
            FROM devices
            """
        )
    }

    @Test("A user who adds a channel has it in the look-up, an event and the tag; a user who blocks it loses the tag")
    func addedAndBlocked() async throws {
        try await Self.withTag { service in
            try await Self.register(service, 1, "a", tags: ["vip"])
            try await Self.register(service, 1, "b")
            try await Self.register(service, 2, "c")
            #expect(await service.kakao.send(Self.event(1, .added)).status == 200)
            #expect(try await Self.relations(service, of: 1) == ["_ZeUTxl ADDED"])
            #expect(try await Self.relations(service, of: 2).isEmpty)
            #expect(try await Self.tags(service) == "1 a {vip,channel}, 1 b {channel}, 2 c {}")
            let event = try #require(try await service.api.get("/v1/events").json?["items"]?[0])
            #expect(event["type"] == "channel_added")
            #expect(event["user_id"] == "1")
            #expect(event["payload"]?["channel_public_id"] == "_ZeUTxl")
            #expect(event["payload"]?["channel_uuid"] == "@sample")
            #expect(event["malformed"] == false)

            #expect(await service.kakao.send(Self.event(1, .blocked, at: "2099-01-01T00:00:00Z")).status == 200)
            #expect(try await Self.relations(service, of: 1) == ["_ZeUTxl BLOCKED"])
            #expect(try await Self.tags(service) == "1 a {vip}, 1 b {}, 2 c {}")
        }
    }

    @Test("The change with the latest time counts, however late an earlier one arrives; a repetition has no effect")
    func order() async throws {
        try await Self.withTag { service in
            try await Self.register(service, 1, "a")
            var latest = Self.event(1, .blocked, at: "2026-11-20T10:00:00.5Z")
            latest.resourceID = "id-1"
            #expect(await service.kakao.send(latest).status == 200)
            #expect(await service.kakao.send(Self.event(1, .added, at: "2026-11-20T10:00:00Z")).status == 200)
            #expect(await service.kakao.send(latest).status == 200)
            #expect(try await Self.relations(service, of: 1) == ["_ZeUTxl BLOCKED"])
            #expect(try await Self.tags(service) == "1 a {}")
            #expect(try await service.database.count("events") == 2)
            // Kakao writes the time in UTC, but any zone is read.
            #expect(await service.kakao.send(Self.event(1, .added, at: "2026-11-20T19:00:01+09:00")).status == 200)
            #expect(try await Self.tags(service) == "1 a {channel}")
        }
    }

    @Test("The tag stays as long as one channel is added, and is on devices that are registered or imported later")
    func laterDevices() async throws {
        try await Self.withTag { service in
            var other = Self.event(1, .added)
            other.channelPublicID = "_xmXjjG"
            #expect(await service.kakao.send(Self.event(1, .added)).status == 200)
            #expect(await service.kakao.send(other).status == 200)
            try await Self.register(service, 1, "a", tags: ["vip"])
            #expect(try await Self.tags(service) == "1 a {vip,channel}")
            // The app's tags replace those of before, apart from this one.
            try await Self.register(service, 1, "a", tags: ["new"])
            #expect(try await Self.tags(service) == "1 a {new,channel}")
            let line = #"{"user_id":1,"device_id":"b","push_type":"fcm","push_token":"token-b","tags":["old"]}"#
            let imported = try await service.api.post(
                "/v1/devices/import",
                Array(line.utf8),
                type: "application/x-ndjson"
            )
            #expect(imported.status == 200)
            #expect(try await Self.tags(service) == "1 a {new,channel}, 1 b {old,channel}")
            #expect(await service.kakao.send(Self.event(1, .blocked, at: "2099-01-01T00:00:00Z")).status == 200)
            #expect(try await Self.tags(service) == "1 a {new,channel}, 1 b {old,channel}")
            other.kind = .blocked
            other.updatedAt = "2099-01-01T00:00:00Z"
            #expect(await service.kakao.send(other).status == 200)
            #expect(try await Self.tags(service) == "1 a {new}, 1 b {old}")
        }
    }

    @Test("An app cannot give itself the tag")
    func claimedByApp() async throws {
        try await Self.withTag { service in
            try await Self.register(service, 1, "a", tags: ["channel", "vip"])
            try await Self.register(service, 1, "a", tags: ["vip", "channel"])
            #expect(try await Self.tags(service) == "1 a {vip}")
        }
    }

    @Test("An open_id is stored and never joined with a user, even if it is all digits")
    func openID() async throws {
        try await Self.withTag { service in
            try await Self.register(service, 1_274_364_410, "a")
            #expect(await service.kakao.send(ChannelEvent(.openID("1274364410"))).status == 200)
            #expect(try await Self.relations(service, of: 1_274_364_410).isEmpty)
            #expect(try await Self.tags(service) == "1274364410 a {}")
            let event = try #require(try await service.api.get("/v1/events").json?["items"]?[0])
            #expect(event["user_id"] == .null)
            #expect(event["payload"]?["id"] == "1274364410")
            #expect(event["payload"]?["id_type"] == "open_id")
            let stored = "channel_relations WHERE id_type = 'open_id' AND id = '1274364410'"
            #expect(try await service.database.count(stored) == 1)
        }
    }

    @Test("The names that older apps get are read, also with a time in milliseconds and a number as the id")
    func olderNames() async throws {
        try await Self.withTag { service in
            var event = Self.event(1, .added)
            event.hasOlderNames = true
            #expect(await service.kakao.send(event).status == 200)
            #expect(try await Self.relations(service, of: 1) == ["_ZeUTxl ADDED"])
            let answer = try await Self.kakao(service).post(
                Self.path,
                json: [
                    "event": "blocked", "id": 1, "id_type": "app_user_id", "plus_friend_public_id": "_ZeUTxl",
                    "plus_friend_uuid": "@sample", "timestamp": 4_070_908_800_000,
                ]
            )
            #expect(answer.status == 200)
            #expect(try await Self.relations(service, of: 1) == ["_ZeUTxl BLOCKED"])
            let events = try await service.api.get("/v1/events").json?["items"]?.array ?? []
            #expect(events.map { $0["malformed"] } == [false, false])
        }
    }

    @Test(
        "What is not understood is answered 200, kept as it was sent, and changes no relation",
        arguments: [
            #"{"event":"renamed","id":"1","id_type":"app_user_id","channel_public_id":"_Z","updated_at":"2026-11-20T10:00:00Z"}"#,
            #"{"event":"added","id":"1","id_type":"other","channel_public_id":"_Z","updated_at":"2026-11-20T10:00:00Z"}"#,
            #"{"event":"added","id":"one","id_type":"app_user_id","channel_public_id":"_Z","updated_at":"2026-11-20T10:00:00Z"}"#,
            #"{"event":"added","id":"1","id_type":"app_user_id","updated_at":"2026-11-20T10:00:00Z"}"#,
            #"{"event":"added","id":"1","id_type":"app_user_id","channel_public_id":"_Z","updated_at":"yesterday"}"#,
            #"{"event":"added","id":"1","id_type":"app_user_id","channel_public_id":"_Z"}"#,
            "[1]", "{", "",
        ]
    )
    func malformed(body: String) async throws {
        try await Self.withTag { service in
            let answer = try await Self.kakao(service).post(Self.path, Array(body.utf8), type: "application/json")
            #expect(answer.status == 200)
            let event = try #require(try await service.api.get("/v1/events").json?["items"]?[0])
            #expect(event["malformed"] == true)
            #expect(event["raw"]?.string ?? "" == body)
            #expect(try await service.database.count("channel_relations") == 0)
        }
    }

    @Test("Only Kakao can report an event")
    func credential() async throws {
        try await Self.withTag { service in
            let event: JSONValue = ["event": "added", "id": "1", "id_type": "app_user_id"]
            for authorization in [nil, "KakaoAK other"] {
                let answer = try await service.api.with(authorization).post(Self.path, json: event)
                #expect(answer.status == 401)
            }
            #expect(try await service.database.count("events") == 0)
        }
    }

    @Test("A user who unlinks the app or is erased leaves no relation")
    func departure() async throws {
        try await Self.withTag { service in
            for user: Int64 in [1, 2, 3] {
                #expect(await service.kakao.send(Self.event(user, .added)).status == 200)
            }
            #expect(await service.kakao.unlink(UnlinkNotice(userID: 1)).status == 200)
            let erased = try await service.api.delete("/v1/users/2")
            #expect(erased.status == 204)
            let left = "SELECT string_agg(id, ' ' ORDER BY id) FROM channel_relations"
            #expect(try await service.database.text(left) == "3")
            #expect(try await service.database.count("events WHERE user_id = 2") == 0)
        }
    }

    @Test("An event of before a user's departure that arrives later stores nothing; one of after it counts")
    func lateEvent() async throws {
        for userIDs in [IdentitySettings.UserIDs.kakao, .own] {
            func adjust(_ settings: inout Settings) {
                settings.kakao.appID = 123_456
                settings.identity.userIDs = userIDs
            }
            try await withService(adjust) { service in
                #expect(await service.kakao.unlink(UnlinkNotice(userID: 1)).status == 200)
                #expect(await service.kakao.send(Self.event(1, .added, at: "2026-01-01T00:00:00Z")).status == 200)
                let stored = try await service.database.count("channel_relations")
                #expect(stored == 0)
                #expect(await service.kakao.send(Self.event(1, .added, at: "2099-01-01T00:00:00Z")).status == 200)
                #expect(try await service.database.count("channel_relations") == 1)
            }
        }
    }

    @Test("A notice of a departure that arrives later deletes the relations of before, and leaves those of after")
    func lateDeparture() async throws {
        try await Self.withTag { service in
            // A clock of Kakao's that is ahead does not save a relation.
            #expect(await service.kakao.send(Self.event(1, .added, at: "2099-01-01T00:00:00Z")).status == 200)
            for (seconds, deleted) in [(-3600.0, Int64(0)), (3600, 1)] {
                let departure = UserEvent(userID: 1, kind: .left, type: "unlink", happenedAt: Date() + seconds)
                let deletion = DeleteDepartedRelations(departures: [departure])
                let rows = try await service.database.pool.write(deletion)
                #expect(rows == [deleted])
            }
        }
    }

    @Test("Events and departures of the same users at the same time are all stored, and leave no relation of before")
    func concurrentDepartures() async throws {
        try await Self.withTag { service in
            let users: ClosedRange<Int64> = 1...30
            for user in users { try await Self.register(service, user, "phone-\(user)") }
            let statuses = try await withThrowingTaskGroup(of: Int?.self) { group in
                for user in users {
                    group.addTask {
                        await service.kakao.send(Self.event(user, .added, at: "2026-01-01T00:00:00Z")).status
                    }
                    group.addTask { await service.kakao.unlink(UnlinkNotice(userID: user)).status }
                    group.addTask {
                        await service.kakao.send(Self.event(user, .blocked, at: "2026-01-02T00:00:00Z")).status
                    }
                }
                return try await group.reduce(into: [Int?]()) { $0.append($1) }
            }
            #expect(statuses == Array(repeating: 200, count: 90))
            #expect(try await service.database.count("events") == 90)
            #expect(try await service.database.count("channel_relations") == 0)
            // PostgreSQL waits a second before it looks for a deadlock.
            let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            #expect(try await service.database.integer(deadlocks) == 0)
        }
    }

    @Test("Registrations beside events of the same user leave the tag that the latest event says")
    func concurrentRegistrations() async throws {
        try await Self.withTag { service in
            try await Self.register(service, 1, "a")
            for round in 0..<10 {
                let kind = round.isMultiple(of: 2) ? ChannelEvent.Kind.added : .blocked
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<4 {
                        group.addTask { try await Self.register(service, 1, "a", tags: ["tag-\(round)-\(number)"]) }
                    }
                    group.addTask {
                        let event = Self.event(1, kind, at: "2026-11-20T10:00:0\(round)Z")
                        #expect(await service.kakao.send(event).status == 200)
                    }
                    try await group.waitForAll()
                }
                let tags = try await Self.tags(service) ?? ""
                #expect(tags.contains("channel") == (kind == .added))
            }
        }
    }

    @Test("The export of a server can be imported, also with 50 tags of an app and the one of the channel")
    func exported() async throws {
        try await Self.withTag { service in
            try await Self.register(service, 1, "a", tags: (1...50).map { "tag-\($0)" })
            #expect(await service.kakao.send(Self.event(1, .added)).status == 200)
            let export = try await service.api.get("/v1/devices/export", ["reason": "a move"])
            #expect(export.text.contains(#""channel""#))
            let imported = try await service.api.post(
                "/v1/devices/import",
                export.body,
                type: "application/x-ndjson"
            )
            #expect(imported.status == 200)
            #expect(try await Self.tags(service)?.contains("tag-50,channel}") == true)
        }
    }

    @Test("With user ids of its own, a service gets the events, and no device a tag")
    func ownUserIDs() async throws {
        func adjust(_ settings: inout Settings) { settings.identity.userIDs = .own }
        try await withService(adjust) { service in
            try await Self.register(service, 1, "a")
            #expect(await service.kakao.send(Self.event(1, .added)).status == 200)
            #expect(try await service.database.count("channel_relations") == 1)
            #expect(try await Self.tags(service) == "1 a {}")
            // The erased user is another one.
            #expect(try await service.api.delete("/v1/users/1").status == 204)
            #expect(try await service.database.count("channel_relations") == 1)
        }
    }

    @Test("Events that wait in the journal, or that PostgreSQL loses, have the same effect as others")
    func storedLater() async throws {
        let journal = "\(try TemporaryFolder.make())/journal"
        func adjust(_ settings: inout Settings) {
            settings.journal.directory = journal
            settings.channels.tag = "channel"
            settings.kakao.appID = 123_456
        }
        try await withService(adjust) { service in
            try await Self.register(service, 1, "a")
            try await service.database.pool.write("ALTER TABLE events RENAME TO unavailable_events")
            #expect(await service.kakao.send(Self.event(1, .added)).status == 200)
            #expect(try await Self.tags(service) == "1 a {}")
            try await service.database.pool.write("ALTER TABLE unavailable_events RENAME TO events")
            try await eventually("the event is stored") {
                try await Self.tags(service) == "1 a {channel}"
            }
            try await service.database.pool.write("DELETE FROM events")
            try await service.database.pool.write("DELETE FROM channel_relations")
            try await service.database.pool.write("UPDATE devices SET tags = '{}'")
            try await service.database.beginNewRun()
            try await eventually("the event is stored again") {
                try await Self.tags(service) == "1 a {channel}"
            }
            #expect(try await Self.relations(service, of: 1) == ["_ZeUTxl ADDED"])
        }
    }

    @Test(
        "An event and a departure that wait in the journal leave no relation, in whatever order they are stored",
        arguments: [true, false]
    )
    func departureInJournal(isDepartureFirst: Bool) async throws {
        let journal = "\(try TemporaryFolder.make())/journal"
        func adjust(_ settings: inout Settings) {
            settings.journal.directory = journal
            settings.channels.tag = "channel"
            settings.kakao.appID = 123_456
        }
        try await withService(adjust) { service in
            try await Self.register(service, 1, "a")
            try await service.database.pool.write("ALTER TABLE events RENAME TO unavailable_events")
            let event = Self.event(1, .added, at: "2026-01-01T00:00:00Z")
            if !isDepartureFirst { #expect(await service.kakao.send(event).status == 200) }
            #expect(await service.kakao.unlink(UnlinkNotice(userID: 1)).status == 200)
            if isDepartureFirst { #expect(await service.kakao.send(event).status == 200) }
            try await service.database.pool.write("ALTER TABLE unavailable_events RENAME TO events")
            try await eventually("both are stored") { try await service.database.count("events") == 2 }
            #expect(try await service.database.count("channel_relations") == 0)
            #expect(try await service.database.count("devices WHERE 'channel' = ANY (tags) AND NOT withdrawn") == 0)
        }
    }

    @Test("Blocked channels and people who are no users are forgotten after channels.retention_days")
    func retention() async throws {
        try await Self.withTag { service in
            #expect(await service.kakao.send(Self.event(1, .added)).status == 200)
            #expect(await service.kakao.send(Self.event(2, .blocked)).status == 200)
            #expect(await service.kakao.send(ChannelEvent(.openID("someone"))).status == 200)
            try await service.database.pool.write(
                "UPDATE channel_relations SET stored_at = now() - interval '401 days'"
            )
            let deletion = DeleteOldChannelRelations(retentionDays: 400, limit: 10)
            #expect(try await service.database.pool.write(deletion) == 2)
            #expect(try await service.database.text("SELECT string_agg(id, ' ') FROM channel_relations") == "1")
        }
    }
}
