import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes

/// Tests of the search for a user in pushes, and of the export of users.
@Suite(.timeLimit(.minutes(5))) struct PushUserTests {
    private static func user(_ id: Int64, _ push: String, _ service: TestService) async throws -> JSONValue {
        let answer = try await service.api.get("\(push)/users/\(id)")
        return try #require(answer.status == 200 ? answer.json : nil, "\(answer.text)")
    }

    private static func id(_ push: String) -> String { push.split(separator: "/").last.map(String.init) ?? "" }

    private static func pushes(
        _ user: Int64,
        _ service: TestService,
        _ query: KeyValuePairs<String, String> = [:]
    ) async throws -> (ids: [String], next: String?) {
        let answer = try await service.api.get("/v1/users/\(user)/pushes", query)
        let items = try #require(answer.json?["items"]?.array, "\(answer.text)")
        return (items.compactMap { $0["push_id"]?.string }, answer.json?["next"]?.string)
    }

    /// Returns the number of rows of each table. The server adds to `kakao_calls` in the background.
    private static func rows(_ database: TestDatabase) async throws -> [String: Int] {
        let names = try await database.pool.read(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        var rows: [String: Int] = [:]
        // Calls to Kakao are counted, and look-ups are recorded.
        let others = ["kakao_calls", "audit_records"]
        for name in try names.map({ try $0.decode(String.self) }) where !others.contains(name) {
            rows[name] = try await database.count(name)
        }
        return rows
    }

    // MARK: Audiences

    /// Users whose ids have one to eight bytes.
    private static let users = (1...2400).map { Int64($0 * 3) } + (1...100).map { Int64.max - 1000 + $0 * 3 }

    @Test(
        "Each user of an audience of any kind is found in its batch, other users are not, and nothing is stored",
        arguments: ["everyone", "tags_any", "tags_all", "stored", "stored and unknown", "uuids"]
    )
    func audiences(kind: String) async throws {
        try await withService { service in
            try await service.database.addPhones(Self.users)
            try await service.database.pool.write("UPDATE devices SET tags = '{a,b}'")
            // Two phones of a user are one user.
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, tags)
                SELECT user_id, 'tablet', 'fcm', 'tablet-' || user_id, 1, '{a}' FROM devices WHERE user_id % 2 = 0
                """
            )
            var (audience, more): (JSONValue, JSONObject) = (["everyone": true], [:])
            switch kind {
            case "tags_any": audience = ["tags_any": ["b", "c"]]
            case "tags_all": audience = ["tags_all": ["a", "b"]]
            case "uuids": audience = uuids(Self.users.reversed() + [1, 2])
            case "stored", "stored and unknown":
                let lines = Self.users.reversed().map { "\($0)\n" }.joined()
                #expect(try await service.api.put("/v1/audiences/a", Array(lines.utf8)).status == 201)
                audience = ["audience": "a"]
                if kind == "stored and unknown" { more = ["skip_unknown": false] }
            default: break
            }
            let push = try await service.api.create(audience, gcm(), more)
            try await service.api.waitUntilDone(push)
            let before = try await Self.rows(service.database)

            let batches = try await service.api.get("\(push)/batches", ["limit": "1000"]).json?["items"]?.array ?? []
            let sent = batches.flatMap { $0["uuids"]?.array ?? [] }.compactMap { $0.string.flatMap { Int64($0) } }
            // The order on which the search relies.
            #expect(sent == Self.users)
            #expect(try await service.database.count("push_parts") > (kind == "uuids" ? 0 : 1))
            for batch in batches {
                let users = (batch["uuids"]?.array ?? []).compactMap { $0.string.flatMap { Int64($0) } }
                for id in [users.first, users.last].compactMap(\.self) {
                    let user = try await Self.user(id, push, service)
                    #expect(user["batch"] == batch["number"], "\(id)")
                    #expect(user["state"] == "sent")
                    #expect(user["push_id"]?.string == Self.id(push))
                    #expect(user["finished_at"] == batch["finished_at"])
                }
            }
            for id in [1, 2, 4, 7201, Int64.max - 998, Int64.max] {
                let answer = try await service.api.get("\(push)/users/\(id)")
                #expect(answer.status == 404, "\(id)")
                #expect(answer.json?["detail"]?.string?.contains("skipped, left out, or not in its audience") == true)
            }
            #expect(try await Self.pushes(3, service).ids == [Self.id(push)])
            #expect(try await Self.pushes(4, service).ids == [])
            #expect(try await Self.rows(service.database) == before)
        }
    }

    @Test("A user is found although the numbers of batches that were split lie between the parts of the push")
    func gaps() async throws {
        try await TestDatabase.with { database in
            let id = UUID.v7()
            try await database.pool.write(
                """
                WITH push AS (
                    INSERT INTO pushes (id, state, audience, message, message_version, prepared_at, users, next_number)
                    VALUES ($1, 'sending', '{}', '{}', 'v1', now(), 7, 9)
                )
                INSERT INTO push_parts (push_id, number, batch_users, batches, ids, id_bytes)
                VALUES ($1, 1, 2, 2, '\\x0a141e28', 1), ($1, 7, 2, 2, '\\x0100010a0114', 2)
                """,
                [.uuid(id)]
            )
            let store = PushUserStore(pool: database.pool)
            func batch(_ user: Int64) async throws -> Int32? {
                guard case .found(let found) = try await store.find(user, in: id) else { return nil }
                return found.batch
            }
            let users: [Int64] = [10, 20, 30, 40, 256, 266, 276]
            #expect(try await users.asyncMap(batch) == [1, 1, 2, 2, 7, 7, 8])
            let others: [Int64] = [1, 15, 25, 41, 255, 257, 277, .max]
            #expect(try await others.asyncMap(batch).allSatisfy { $0 == nil })
        }
    }

    @Test("The user of a push of a single batch is found, with the members of the result")
    func single() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 3])
            service.kakao.fail("send", status: 404, code: -404) { $0.message = "words" }
            let push = try await service.api.create(uuids([1, 2, 3]), gcm(), ["name": "sale"])
            try await service.api.waitUntilDone(push)
            let user = try await Self.user(3, push, service)
            #expect(
                user.object?.members.map(\.name) == [
                    "push_id", "name", "first_words", "created_at", "push_state", "batch", "state", "attempts",
                    "may_repeat", "status", "code", "message", "finished_at",
                ]
            )
            #expect(user["name"] == "sale")
            #expect(user["first_words"] == (try await service.api.shown(push)["first_words"]))
            #expect(user["created_at"] == (try await service.api.shown(push)["created_at"]))
            #expect(user["push_state"] == "done")
            #expect(user["batch"] == 1)
            #expect(user["state"] == "failed")
            #expect(user["attempts"] == 1)
            #expect(user["may_repeat"] == false)
            #expect(user["status"] == 404)
            #expect(user["code"] == -404)
            #expect(user["message"] == "words")
            // User 2 was skipped.
            #expect(try await service.api.get("\(push)/users/2").status == 404)
            #expect(try await service.api.get("\(push)/users/none").status == 400)
            #expect(try await service.api.get("/v1/pushes/\(UUID.v7().lowercased)/users/1").status == 404)
        }
    }

    // MARK: Results

    @Test("Each user of a split batch has the result of its own part, and the rejected users are exported")
    func split() async throws {
        try await withService { service in
            try await service.database.addPhones(1...1000)
            let bad: [Int64] = [1, 2, 3, 99, 100, 101, 500, 777, 999]
            service.kakao.fail("send", status: 400, code: -2) { $0.userIDs = Set(bad) }
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            for id in bad {
                let user = try await Self.user(id, push, service)
                #expect(user["state"] == "failed")
                #expect(user["code"] == -2)
            }
            for id in [4, 98, 102, 150, 499, 501, 776, 1000] as [Int64] {
                #expect(try await Self.user(id, push, service)["state"] == "sent", "\(id)")
            }
            let export = try await service.api.get("\(push)/users?state=failed&format=text&reason=Test")
            #expect(export.headerFields[.contentType] == "text/plain;charset=UTF-8")
            #expect(export.text == bad.map { "\($0)\n" }.joined())
            let audience = try await service.api.put("/v1/audiences/failed", export.body)
            #expect(audience.json?["users"] == .integer(bad.count))
            #expect(try await service.api.get("\(push)/users?state=uncertain&format=text&reason=Test").text == "")
            for query in [["reason": "Test"], ["state": "sent", "reason": "Test"]] as [KeyValuePairs<String, String>] {
                #expect(try await service.api.get("\(push)/users", query).field == "state")
            }
            #expect(
                try await service.api.get("/v1/pushes/\(UUID.v7().lowercased)/users?state=failed&reason=Test").status
                    == 404
            )
        }
    }

    @Test("A single batch that is split has a result for each user")
    func splitSingle() async throws {
        try await withService { service in
            service.kakao.fail("send", status: 400, code: -2) { $0.userIDs = [3] }
            let push = try await service.push([1, 2, 3, 4, 5])
            try await service.api.waitUntilDone(push)
            let states = try await [1, 2, 3, 4, 5].asyncMap { try await Self.user($0, push, service)["state"] }
            #expect(states == ["sent", "sent", "failed", "sent", "sent"])
            #expect(try await service.api.get("\(push)/users/6").status == 404)
        }
    }

    @Test("Many failed users are exported over several pages, in ascending order and each once")
    func manyFailed() async throws {
        try await withService { service in
            try await service.database.addPhones(1...25_000)
            service.kakao.fail("send", status: 404, code: -404)
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            let lines = try await service.api.get("\(push)/users?state=failed&format=text&reason=Test").text
                .split(separator: "\n")
            #expect(lines.compactMap { Int64($0) } == Array(1...25_000))
        }
    }

    @Test("Uncertain users are exported, and a retry that includes them counts them as possibly reached twice")
    func uncertain() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            service.kakao.fail("send", .dropAfterBody) {
                $0.isCarriedOut = true
                $0.userIDs = [150]
            }
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            #expect(try await Self.user(150, push, service)["state"] == "uncertain")
            let lines = try await service.api.get("\(push)/users?state=uncertain&format=text&reason=Test").text
                .split(separator: "\n")
            #expect(lines.compactMap { Int64($0) } == Array(101...200))
            #expect(try await service.api.users(push) == counts(250, sent: 150, uncertain: 100))

            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.post("\(push)/retry", json: ["uncertain": true]).status == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(250, sent: 250, mayRepeat: 100))
            let user = try await Self.user(150, push, service)
            #expect(user["state"] == "sent")
            #expect(user["may_repeat"] == true)
            #expect(try await Self.user(100, push, service)["may_repeat"] == false)
        }
    }

    @Test("A batch that may repeat counts once, even if it fails and is retried")
    func mayRepeat() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 2])
            service.kakao.fail("send", .dropAfterBody, times: 1) { $0.isCarriedOut = true }
            service.kakao.fail("send", status: 404, code: -404, times: 1)
            let push = try await service.api.create(uuids([1, 2]))
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(2, failed: 2, mayRepeat: 2))
            #expect(try await service.api.control(push, "retry") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(2, sent: 2, mayRepeat: 2))
        }
    }

    @Test("Users who were not sent to when their push was canceled are waiting, in a canceled push")
    func waiting() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            let push = try await service.api.create(["everyone": true], gcm(), ["users_per_second": 1])
            try await eventually("the first user is sent to") {
                try await service.api.get("\(push)/users/1").json?["state"] == "sent"
            }
            #expect(try await service.api.control(push, "cancel") == 200)
            let user = try await Self.user(250, push, service)
            #expect(user["state"] == "waiting")
            #expect(user["push_state"] == "canceled")
            #expect(user["attempts"] == 0)
            #expect(user["finished_at"] == .null)
        }
    }

    @Test("A user in flight is sending, and a user of a push that is not prepared is not in it so far")
    func unfinished() async throws {
        try await withService { service in
            try await service.database.addPhones(1...200)
            _ = service.kakao.hold("send")
            let push = try await service.api.create()
            try await eventually("both batches are in flight") { service.kakao.requests("send") == 2 }
            let user = try await Self.user(150, push, service)
            #expect(user["state"] == "sending")
            #expect(user["attempts"] == 1)
            let later = try await service.api.create(["everyone": true], gcm(), ["send_at": time(in: 3600)])
            let answer = try await service.api.get("\(later)/users/1")
            #expect(answer.status == 404)
            #expect(answer.json?["detail"]?.string?.contains("still being prepared") == true)
        }
    }

    @Test("Users of a push whose batches retention deletes are answered 410, and the push is not among a user's pushes")
    func removed() async throws {
        try await withService { service in
            let push = try await service.push([1])
            try await service.api.waitUntilDone(push)
            #expect(try await Self.pushes(1, service).ids == [Self.id(push)])
            try await service.database.pool.write("UPDATE pushes SET finished_at = now() - interval '31 days'")
            let store = HousekeepingStore(pool: service.database.pool)
            #expect(try await store.expiredPush(retentionDays: 30) != nil)
            for path in ["\(push)/users/1", "\(push)/users/2", "\(push)/users?state=failed&reason=Test"] {
                let answer = try await service.api.get(path)
                #expect(answer.status == 410)
                #expect(answer.problem == "push-removed")
            }
            #expect(try await Self.pushes(1, service).ids == [])
        }
    }

    // MARK: The pushes of a user

    @Test("The pushes of a user are listed page by page, the latest first, as far back as 31 days")
    func pushesOfUser() async throws {
        try await withService { service in
            try await service.database.addPhones(1...150)
            var mine: [String] = []
            for audience in [["everyone": true], uuids([7]), uuids([8]), uuids(1...150)] as [JSONValue] {
                let push = try await service.api.create(audience)
                try await service.api.waitUntilDone(push)
                if audience != uuids([8]) { mine.insert(Self.id(push), at: 0) }
            }
            #expect(try await Self.pushes(7, service).ids == mine)
            var (pages, cursor): ([[String]], String?) = ([], nil)
            repeat {
                let page =
                    if let cursor {
                        try await Self.pushes(7, service, ["limit": "1", "cursor": cursor])
                    } else {
                        try await Self.pushes(7, service, ["limit": "1"])
                    }
                pages.append(page.ids)
                cursor = page.next
            } while cursor != nil
            #expect(pages.flatMap(\.self) == mine)
            #expect(pages.prefix(3).allSatisfy { $0.count == 1 })

            let last = try #require(try await service.api.shown("/v1/pushes/\(mine[0])")["created_at"]?.string)
            #expect(try await Self.pushes(7, service, ["since": last]).ids == [mine[0]])
            try await service.database.pool.write(
                "UPDATE pushes SET created_at = now() - interval '31 days 1 s' WHERE id = '\(mine[1])'"
            )
            #expect(try await Self.pushes(7, service, ["since": "2026-01-01T00:00:00Z"]).ids == [mine[0], mine[2]])
            #expect(try await service.api.get("/v1/users/0/pushes").status == 400)
        }
    }

    @Test("A page of a user's pushes ends early after a thousand pushes without the user, and the next one continues")
    func boundedWork() async throws {
        try await withService { service in
            let push = try await service.push([7])
            try await service.api.waitUntilDone(push)
            try await service.database.pool.write(
                """
                INSERT INTO pushes (id, state, audience, message, message_version, prepared_at, finished_at)
                SELECT overlay(uuid_v7_floor(now() + interval '1 minute')::text PLACING lpad(n::text, 12, '0') FROM 25)::uuid,
                    'done', '{}', '{}', 'v1', now(), now()
                FROM generate_series(1, 1000) AS n
                """
            )
            let first = try await Self.pushes(7, service)
            #expect(first.ids == [])
            let second = try await Self.pushes(7, service, ["cursor": try #require(first.next)])
            #expect(second.ids == [Self.id(push)])
            #expect(second.next == nil)
        }
    }
}
