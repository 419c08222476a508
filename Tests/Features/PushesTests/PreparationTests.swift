import Endpoints
import FoundationEssentials
import Glibc
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import Subprocess
import TestSupport
import Testing

@testable import Pushes
@testable import Server
@testable import Settings

/// Tests of the expansion of audiences of any size into batches, by several servers, and after a server is killed.
@Suite(.timeLimit(.minutes(5))) struct PreparationTests {
    /// Expects that exactly `users` users are in the batches of a push, each once.
    private static func expectPrepared(_ database: TestDatabase, _ push: String, users: Int) async throws {
        let id = push.split(separator: "/").last ?? ""
        let all = """
            \(claimedBatches)
            CROSS JOIN unnest(COALESCE(batch.user_ids, push_part_users(push_id, number))) AS id
            WHERE push_id = '\(id)'
            """
        #expect(try await database.count(all) == users)
        #expect(try await database.integer("SELECT count(DISTINCT id) FROM \(all)") == users)
        let numbers = try await database.text(
            "SELECT min(number) || ' ' || max(number) - count(*) FROM \(claimedBatches) WHERE push_id = '\(id)'"
        )
        #expect(numbers == "1 0", "the numbers have gaps")
    }

    @Test("Ten thousand user ids in a request reach each user once, including duplicates")
    func tenThousand() async throws {
        try await withService { service in
            try await service.database.addPhones(1...9000)
            // The ids are not sorted, and the first thousand are repeated.
            let ids = (Int64(0)..<9000).map { $0 * 7919 % 9000 + 1 }
            let push = try await service.api.create(uuids(ids + ids.prefix(1000)))
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(9000, sent: 9000))
            #expect(try await service.api.shown(push)["batches"] == batchCounts(90, sent: 90))
            let reached = service.kakao.sandbox.reached(marker: "m")
            #expect(reached.users == 9000)
            #expect(reached.times == 9000)
            #expect(reached.sends == 90)
        }
    }

    @Test("Users whose ids are duplicates are reached once")
    func duplicates() async throws {
        try await withService { service in
            try await service.database.addPhones(1...2)
            let push = try await service.api.create(["uuids": [2, 1, "1", 2, 1]])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(2, sent: 2))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2)
        }
    }

    @Test("Twenty-five thousand users are reached once each", arguments: ["everyone", "stored", "tags"])
    func many(kind: String) async throws {
        try await withService { service in
            try await service.database.addPhones(1...25_000)
            var audience: JSONValue = ["everyone": true]
            if kind == "stored" {
                let lines = (Int64(1)...25_000).map { "\($0)\n" }.joined()
                #expect(try await service.api.put("/v1/audiences/all", Array(lines.utf8)).status == 201)
                audience = ["audience": "all"]
            } else if kind == "tags" {
                try await service.database.pool.write("UPDATE devices SET tags = '{even,t}' WHERE user_id % 2 = 0")
                audience = ["tags_any": ["even", "odd"]]
            }
            let total = kind == "tags" ? 12_500 : 25_000
            let push = try await service.api.create(audience)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(total, sent: total))
            let reached = service.kakao.sandbox.reached(marker: "m")
            #expect(reached.users == total)
            #expect(reached.times == total)
            try await Self.expectPrepared(service.database, push, users: total)
            // All batches of a step are full except for the last.
            #expect(reached.sends <= total / 100 + 4)
        }
    }

    @Test(
        "Users of a stored audience without a phone that the message addresses are skipped",
        arguments: [1, 1000, 1001, 11_001]
    )
    func skipped(users: Int64) async throws {
        try await withService { service in
            // Every third user has a phone.
            try await service.database.addPhones(stride(from: 1, through: users, by: 3).map { $0 })
            let lines = (1...users).map { "\($0)\n" }.joined()
            #expect(try await service.api.put("/v1/audiences/a", Array(lines.utf8)).status == 201)
            let push = try await service.api.create(["audience": "a"])
            try await service.api.waitUntilDone(push)
            let sent = Int((users + 2) / 3)
            #expect(try await service.api.users(push) == counts(Int(users), sent: sent, skipped: Int(users) - sent))
            #expect(service.kakao.sandbox.reached(marker: "m").times == sent)
        }
    }

    @Test("A push is sent to its stored audience as of its creation, even if the audience is replaced later")
    func replaced() async throws {
        try await withService { service in
            try await service.database.addPhones(1...4)
            #expect(try await service.api.put("/v1/audiences/a", Array("1\n2\n".utf8)).status == 201)
            let push = try await service.api.create(["audience": "a"], gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            #expect(try await service.api.put("/v1/audiences/a", Array("3\n4\n".utf8)).status == 200)
            let pool = service.database.pool
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 0)
            try await service.database.pool.write("UPDATE pushes SET send_at = now()")
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.reachedOnce([1, 2]))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2)
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 1)
        }
    }

    @Test(
        "Users with many phones are reached once, wherever a step ends, if any of their phones is addressed",
        arguments: ["everyone", "tags_any"]
    )
    func manyPhones(kind: String) async throws {
        try await withService { service in
            // The first step reads 1,000 phones, later ones 50,000. The first one ends within user 1, a later one
            // within user 3. The message addresses the last phone of each user except user 4, and the first phone has
            // the tag. A step reads only 50,000 phones of user 6.
            try await service.database.withoutDeviceLimit {
                try await service.database.pool.write(
                    """
                    INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, tags)
                    SELECT user_id, 'phone-' || to_char(place, 'FM00000'), CASE WHEN place = phones AND user_id <> 4 THEN 'fcm' ELSE 'apns' END,
                        user_id || '-' || place, 1, CASE WHEN place = 1 THEN '{t}' ELSE '{}' END::text[]
                    FROM (VALUES (1, 1500), (2, 1), (3, 49998), (4, 3), (5, 2), (6, 60000), (7, 1)) AS own (user_id, phones)
                    CROSS JOIN generate_series(1, phones) AS place
                    """
                )
            }
            let push = try await service.api.create(kind == "everyone" ? ["everyone": true] : ["tags_any": ["t"]])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(7, sent: 5, skipped: 2))
            #expect(service.kakao.reachedOnce([1, 2, 3, 5, 7]))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 5)
        }
    }

    @Test("Batches that are not claimed yet are listed as waiting, with their users")
    func listed() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 1 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...1950)
            // The first request stays in flight until the pause.
            let hold = service.kakao.hold("send", times: 1)
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            try await eventually("the push is prepared") { try await service.database.count("push_parts") == 2 }
            #expect(try await service.api.control(push, "pause") == 200)
            service.kakao.release(hold)
            try await eventually("no batch is in flight") {
                try await service.database.count("\(claimedBatches) WHERE state = 'sending'") == 0
            }
            let items = try await service.api.get("\(push)/batches").json?["items"]?.array ?? []
            #expect(items.map { $0["number"] } == (1...20).map { .integer($0) })
            #expect(items.flatMap { $0["uuids"]?.array ?? [] } == (1...1950).map { .string("\($0)") })
            #expect(try await service.database.count(claimedBatches) < 20)
            // A claim that began before the pause may be committed after it.
            try await eventually("the batches that were not sent are listed as waiting, page by page") {
                let sent = try await service.database.count("\(claimedBatches) WHERE state = 'sent'")
                let first = try await service.api.get("\(push)/batches?state=waiting&limit=7").json
                let next = first?["next"]?.string ?? ""
                let rest = try await service.api.get("\(push)/batches?state=waiting&cursor=\(next)").json
                let pages = [first, rest].map { $0?["items"]?.array?.map { $0["number"] } ?? [] }
                return pages[0].count == 7 && pages[0] + pages[1] == (sent + 1...20).map { .integer($0) }
            }
            #expect(items.last?["attempts"] == 0)
        }
    }

    @Test("A push whose audience is empty or has no phones is done at once")
    func nobody() async throws {
        try await withService { service in
            for audience in [["everyone": true], ["tags_any": ["t"]], ["tags_all": ["t"]]] as [JSONValue] {
                let push = try await service.api.create(audience)
                try await service.api.waitUntilDone(push)
                #expect(try await service.api.users(push) == counts(0))
                #expect(try await service.api.shown(push)["finished_at"]?.string != nil)
            }
            let push = try await service.api.create(uuids(1...3))
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3, skipped: 3))
            #expect(try await service.api.shown(push)["batches"] == batchCounts(0))
            #expect(service.kakao.requests("send") == 0)
        }
    }

    @Test("A push that cannot be prepared does not delay later ones")
    func unpreparable() async throws {
        try await withService { service in
            try await service.database.addPhones(1...2)
            let broken = try await service.api.create(uuids([1]), gcm("broken"), ["send_at": "2099-01-01T00:00:00Z"])
            let id = broken.split(separator: "/").last ?? ""
            try await service.database.pool.write(
                "ALTER TABLE push_parts ADD CONSTRAINT broken CHECK (push_id <> '\(id)')"
            )
            try await service.database.pool.write("UPDATE pushes SET send_at = now()")
            try await service.api.waitUntilDone(service.api.create(["everyone": true]))
            try await eventually("the failure is logged") {
                service.log.messages.contains { $0.contains("Audience preparation failed") }
            }
            try await service.database.pool.write("ALTER TABLE push_parts DROP CONSTRAINT broken")
            try await service.api.waitUntilDone(broken)
            #expect(service.kakao.sandbox.timesReached(1, marker: "broken") == 1)
        }
    }

    @Test("Two servers that concurrently prepare and send the same pushes reach each user once")
    func twoServers() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.maximumConcurrentRequests = 8
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    try await database.addPhones(1...12_000)
                    var pushes: [String] = []
                    for number in 0..<3 {
                        let api = number == 1 ? second : first
                        pushes.append(try await api.create(["everyone": true], gcm("\(number)")))
                    }
                    for (number, push) in pushes.enumerated() {
                        try await first.waitUntilDone(push)
                        #expect(try await second.users(push) == counts(12_000, sent: 12_000))
                        let reached = kakao.sandbox.reached(marker: "\(number)")
                        #expect(reached.users == 12_000)
                        #expect(reached.times == 12_000)
                        try await Self.expectPrepared(database, push, users: 12_000)
                    }
                }
            }
        }
    }

    @Test("After a server is killed while it prepares and sends, another one continues, and every user is reached")
    func killed() async throws {
        // This test takes no slot for servers, because it mostly waits.
        try await TestDatabase.with { database in
            try await TestKakao.with { kakao in try await Self.killAndGoOn(database, kakao) }
        }
    }

    private static func killAndGoOn(_ database: TestDatabase, _ kakao: TestKakao) async throws {
        var environment = RunningProgram.environment(database, kakao)
        environment["KAKAO_MAX_CONCURRENT_REQUESTS"] = "2"
        environment["LOG_LEVEL"] = "warning"
        var push = ""
        let users = 15_000
        // Kakao responds to the first batches only, so that the push is not done when the server is killed.
        _ = kakao.hold("send", of: Set(301...Int64(users)))
        let process = try await RunningProgram.start(environment: environment.merging(["LOG_LEVEL": "info"]) { $1 })
        let api = TestClient(url: try await process.url())
        try await database.addPhones(1...Int64(users))
        // The last step waits for this lock, so that the server is killed before it.
        try await database.pool.withTransaction { transaction in
            push = try await api.create()
            try await eventually("some batches are sent and the preparation is not complete") {
                try await database.count("pushes WHERE prepared_up_to > 0") == 1 && kakao.requests("send") > 3
            }
            _ = try await transaction.query("SELECT 1 FROM pushes FOR UPDATE", [])
            process.send(SIGKILL)
            #expect(await process.ended() == .signaled(SIGKILL))
        }
        #expect(try await database.count("pushes WHERE state IN ('preparing', 'sending')") == 1)
        try await database.endLeases()
        kakao.endFaults()
        try await RunningServer.with(Settings.test(database.url, kakao: kakao.sandbox.url)) { api in
            try await api.waitUntilDone(push, within: .seconds(90))
            let twice = try await database.integer(
                "SELECT COALESCE(sum(users), 0)::bigint FROM \(claimedBatches) WHERE may_repeat"
            )
            #expect(try await api.users(push) == counts(users, sent: users, mayRepeat: Int(twice)))
            let reached = kakao.sandbox.reached(marker: "m")
            #expect(reached.users == users)
            #expect(reached.times - users <= Int(twice))
        }
        try await Self.expectPrepared(database, push, users: users)
    }

    @Test("users_per_second is not exceeded at any time, by all servers together", arguments: [1, 2])
    func slowly(servers: Int) async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.with(settings) { first in
                let body = { (second: TestClient) in
                    try await database.addPhones(1...600)
                    let push = try await first.create(["everyone": true], gcm(), ["users_per_second": 200])
                    let created = try #require(try await first.shown(push)["created_at"]?.string)
                    let start = try Date.ISO8601FormatStyle(includingFractionalSeconds: true).parse(created)
                    try await eventually("the push is done") {
                        // At any time since the start, no more users are reached than the rate allows.
                        let reached = kakao.sandbox.reached(marker: "m").times
                        #expect(Double(reached) <= 200 * (Date().timeIntervalSince(start) + 0.002))
                        return try await second.state(push) == "done"
                    }
                    #expect(kakao.sandbox.reached(marker: "m").users == 600)
                    #expect(kakao.sandbox.reached(marker: "m").times == 600)
                }
                if servers == 1 { try await body(first) } else { try await RunningServer.with(settings, body) }
            }
        }
    }

    @Test("A push to one user per second has batches of one user")
    func oneASecond() async throws {
        try await withService { service in
            try await service.database.addPhones(1...3)
            let push = try await service.api.create(["everyone": true], gcm(), ["users_per_second": 1])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.shown(push)["batches"] == batchCounts(3, sent: 3))
            let sends = service.kakao.sandbox.deliveries()
            #expect(sends.count == 3)
            #expect(Set(sends.map(\.send)).count == 3)
        }
    }
}
