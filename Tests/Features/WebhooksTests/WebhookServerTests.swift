import Endpoints
import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Runtime
@testable import Webhooks

/// Tests of several servers, of claims and leases, of replays, and of what removes webhooks.
@Suite(.timeLimit(.minutes(5))) struct WebhookServerTests {
    // MARK: Servers

    @Test("Servers that stop and start deliver each callback of any of them once")
    func restarts() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            // No lease ends, however slow the machine is.
            settings.webhooks.intervals.work = WorkIntervals()
            try await RunningServer.run(settings) { steady in
                for round in 0..<3 {
                    try await RunningServer.run(settings) { other in
                        try await withThrowingTaskGroup(of: Void.self) { group in
                            for number in 0..<100 {
                                let server = number % 2 == 0 ? steady : other
                                group.addTask {
                                    try await TestClient(url: server.url).linkCallback("\(round)-\(number)")
                                }
                            }
                            try await group.waitForAll()
                        }
                    }
                }
                try await eventually("all callbacks arrive") { kakao.callbackWebhooks.count == 300 }
            }
            #expect(kakao.sandbox.webhooks().count == 300)
            #expect(try await database.count("webhook_events WHERE state = 'delivered'") == 300)
            #expect(try await database.count("work_leases WHERE queue = 'webhooks'") == 0)
        }
    }

    @Test("Claimed webhooks of a server that was killed are sent by another one, with the same ids and bodies")
    func takeover() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            try await RunningServer.with(settings) { api in
                for number in 1...3 { try await api.linkCallback("\(number)") }
                _ = try await kakao.webhooks(.linkCallbackReceived, count: 3)
            }
            // As a server leaves them that is killed after its requests.
            let lease = UUID()
            try await database.pool.write(
                "INSERT INTO work_leases (id, queue, ends_at) VALUES ($1, 'webhooks', now() + interval '1 s')",
                [.uuid(lease)]
            )
            try await database.pool.write("UPDATE webhook_events SET state = 'sending', lease = $1", [.uuid(lease)])
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("4")
                try await eventually("all are delivered") {
                    try await database.count("webhook_events WHERE state = 'delivered'") == 4
                }
            }
            #expect(kakao.webhookBodies.count == 4)
            #expect(kakao.sandbox.webhooks().count == 7)
            #expect(kakao.webhookBodies.values.allSatisfy { Set($0).count == 1 })
        }
    }

    @Test("Webhooks of a server whose lease is lost while it waits for the endpoint are sent again, and none is lost")
    func lostLease() async throws {
        try await withWebhooks {
            $0.webhooks.intervals.request = .seconds(600)
        } _: { service in
            let (api, kakao, database) = (service.api, service.kakao, service.database)
            let hold = kakao.holdWebhooks()
            for number in 1...20 { try await api.linkCallback("\(number)") }
            try await eventually("requests are in flight") { kakao.sandbox.webhooks().count == 8 }
            let claims = try await database.integer("SELECT max(claims) FROM webhook_events")
            try await database.pool.write("DELETE FROM work_leases WHERE queue = 'webhooks'")
            try await eventually("they are reclaimed") {
                try await database.integer("SELECT max(claims) FROM webhook_events") > claims
            }
            #expect(service.log.messages.contains("Lease lost: another server has reclaimed the work of this one"))
            kakao.release(hold)
            try await eventually("all are delivered") {
                try await database.count("webhook_events WHERE state = 'delivered'") == 20
            }
            #expect(kakao.callbackWebhooks.count == 20)
            #expect(kakao.webhookBodies.values.allSatisfy { Set($0).count == 1 })
        }
    }

    @Test("A server has at most eight requests in flight to an endpoint, and another one has eight of its own")
    func requestsInFlight() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            settings.webhooks.intervals.work = WorkIntervals()
            settings.webhooks.intervals.request = .seconds(600)
            let hold = kakao.holdWebhooks()
            try await RunningServer.with(settings) { first in
                for number in 1...50 { try await first.linkCallback("\(number)") }
                try await eventually("eight are in flight") { kakao.webhookRequests >= 8 }
                try await eventually("it has claimed more") {
                    try await database.count("webhook_events WHERE state = 'sending'") > 8
                }
                #expect(kakao.webhookRequests == 8)
                try await RunningServer.with(settings) { second in
                    try await second.linkCallback("51")
                    try await eventually("the other one sends too") { kakao.webhookRequests >= 16 }
                    #expect(kakao.webhookRequests == 16)
                    kakao.release(hold)
                    try await eventually("all arrive") { kakao.callbackWebhooks.count == 51 }
                }
            }
            #expect(kakao.sandbox.webhooks().count == 51)
        }
    }

    @Test("While an endpoint is failing, two servers probe it with one request at a time")
    func probes() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            settings.webhooks.intervals.request = .seconds(600)
            let fault = kakao.failWebhooks(status: 503)
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    for number in 0..<20 { try await [first, second][number % 2].linkCallback("\(number)") }
                    for server in [first, second] {
                        try await eventually("the endpoint is failing") {
                            try await server.endpointState() == "failing"
                        }
                    }
                    try await eventually("nothing else is in flight") {
                        try await database.count("webhook_events WHERE state = 'sending'") <= 1
                    }
                    let hold = kakao.holdWebhooks()
                    kakao.sandbox.removeFault(fault)
                    try await eventually("a probe is in flight") { kakao.sandbox.timesApplied(hold) == 1 }
                    // Both servers look for webhooks meanwhile: after each event, and whenever they have renewed their leases.
                    for number in 20..<40 { try await [first, second][number % 2].linkCallback("\(number)") }
                    let leases = "FROM work_leases WHERE queue = 'webhooks'"
                    let before = try await database.text("SELECT max(ends_at)::text \(leases)")
                    try await eventually("both have renewed their leases more than once") {
                        let renewed = "ends_at > '\(before)'::timestamptz + interval '1 second'"
                        return try await database.text("SELECT count(*)::text \(leases) AND \(renewed)") == "2"
                    }
                    #expect(kakao.sandbox.timesApplied(hold) == 1)
                    kakao.release(hold)
                    try await eventually("all arrive") { kakao.callbackWebhooks.count == 40 }
                    #expect(try await second.endpointState() == "delivering")
                }
            }
        }
    }

    @Test("A webhook that has waited too long for its request is claimed again, so that nothing erased is sent")
    func freshness() async throws {
        try await withWebhooks {
            $0.webhooks.intervals.request = .seconds(600)
            $0.webhooks.intervals.freshness = .seconds(1)
        } _: { service in
            let (api, kakao, database) = (service.api, service.kakao, service.database)
            let hold = kakao.holdWebhooks()
            for number in 1...8 { try await api.linkCallback("\(number)") }
            try await eventually("eight are in flight") { kakao.webhookRequests == 8 }
            for user in [1, 2] as [Int64] {
                #expect(try await api.register(user, "token-\(user)").status == 200)
                #expect(try await api.deregister(user).status == 200)
            }
            try await eventually("the next ones are claimed") {
                try await database.count("webhook_events WHERE state = 'sending'") == 10
            }
            #expect(try await api.delete("/v1/users/1").status == 204)
            try await Task.sleep(for: .milliseconds(1100))
            kakao.release(hold)
            #expect(try await kakao.webhooks(.deviceWithdrawn, count: 1).map { $0["user_id"] } == ["2"])
            try await eventually("all are delivered") {
                try await database.count("webhook_events WHERE state <> 'delivered'") == 0
            }
            #expect(kakao.webhooks(.deviceWithdrawn).count == 1)
        }
    }

    // MARK: Replay

    @Test("A replay delivers the webhooks of a time again, with the same ids, and one by its id")
    func replay() async throws {
        try await withWebhooks { service in
            let (api, kakao) = (service.api, service.kakao)
            try await api.linkCallback("before")
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            let since = try await service.database.text(
                "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
            )
            for number in 1...3 { try await api.linkCallback("\(number)") }
            _ = try await service.push([1])
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 4)
            _ = try await kakao.webhooks(.pushDone, count: 1)
            try await eventually("all are delivered") {
                try await service.database.count("webhook_events WHERE state <> 'delivered'") == 0
            }
            let first = kakao.webhookBodies
            let before = try #require(kakao.webhooks(.linkCallbackReceived).first)
            let pushed = kakao.webhooks(.pushDone)[0]
            kakao.sandbox.deleteWebhooks()
            let body: JSONValue = ["since": .string(since), "types": ["link.*"]]
            #expect(try await api.post("/v1/webhooks/replay", json: body).status == 202)
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 3)
            try await eventually("the replay has ended") {
                try await service.database.count("webhook_replays") == 0
            }
            try await eventually("none waits") { try await api.endpoint()?["pending"] == 0 }
            #expect(kakao.webhookBodies == first.filter { $0.key != before.id && $0.key != pushed.id })
            let id: JSONValue = ["id": .string(pushed.id)]
            #expect(try await api.post("/v1/webhooks/replay", json: id).status == 202)
            _ = try await kakao.webhooks(.pushDone, count: 1)
            #expect(kakao.webhooks(.pushDone)[0].body == pushed.body)
            for id in ["msg_pushes_1_2", "msg_\(UUID().lowercased)", "x", pushed.id + "0"] {
                #expect(try await api.post("/v1/webhooks/replay", json: ["id": .string(id)]).status == 404, "\(id)")
            }
            let invalid: [JSONValue] = [
                [:], ["until": "2026-01-01T00:00:00Z"], ["id": "x", "since": "2026-01-01T00:00:00Z"],
                ["since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"],
                ["since": "2026-01-01T00:00:00Z", "types": ["unknown"]],
            ]
            for body in invalid {
                #expect(try await api.post("/v1/webhooks/replay", json: body).status == 400, "\(body)")
            }
        }
    }

    @Test("A replay makes webhooks pending in steps, new ones come first, and its cancellation restores the others")
    func replaySteps() async throws {
        try await withWebhooks { service in
            let (api, kakao, database) = (service.api, service.kakao, service.database)
            kakao.failWebhooks(status: 410)
            try await api.linkCallback("first")
            try await eventually("the endpoint is gone") { try await api.endpointState() == "gone" }
            try await database.pool.write(
                """
                INSERT INTO webhook_events (id, endpoint, type, stored_at, user_id, subject, data, state, attempts)
                SELECT overlay(gen_random_uuid()::text PLACING substr(uuid_v7_floor(at)::text, 1, 15) FROM 1)::uuid, 'default',
                    'device.withdrawn', at, n, 'devices/' || n || '/fcm/phone',
                    jsonb_build_object(
                        'user_id', n, 'device_id', 'phone', 'push_type', 'fcm', 'cause', 'deregistered', 'withdrawn_at', at
                    ),
                    CASE WHEN n BETWEEN 5001 AND 5005 THEN 'failed' WHEN n BETWEEN 5006 AND 5010 THEN 'dropped' ELSE 'delivered' END,
                    CASE WHEN n BETWEEN 5001 AND 5005 THEN 10 ELSE 0 END
                FROM generate_series(1, 15000) AS n, LATERAL (SELECT now() - n * interval '1 ms' AS at) AS stored
                """
            )
            let body: JSONValue = ["since": "2026-01-01T00:00:00Z", "types": ["device.*"]]
            #expect(try await api.post("/v1/webhooks/replay", json: body).status == 202)
            let replayed = "webhook_events WHERE state = 'pending' AND replayed_from IS NOT NULL"
            try await eventually("the first step is made") { try await database.count(replayed) > 0 }
            try await api.linkCallback("live")
            #expect(try await database.count(replayed) == 10_000)
            let shown = try await api.webhookStatus()["replays"]?.array ?? []
            #expect(shown.map { $0["endpoint"] } == ["default"] && shown.map { $0["types"] } == [["device.withdrawn"]])
            kakao.sandbox.removeFaults()
            #expect(try await api.post("/v1/webhooks/test").json?["delivered"] == true)
            try await eventually("webhooks are delivered again") { !kakao.webhooks(.deviceWithdrawn).isEmpty }
            #expect(try await api.delete("/v1/webhooks/replay").status == 204)
            #expect(try await api.webhookStatus()["replays"] == [])
            try await eventually("all others are what they were") {
                try await database.count("webhook_events WHERE state IN ('pending', 'sending')") == 0
            }
            #expect(try await database.count("webhook_events WHERE replayed_from IS NOT NULL") == 0)
            #expect(kakao.webhooks(.deviceWithdrawn).count < 15_000)
            for state in ["failed", "dropped"] {
                #expect(try await database.count("webhook_events WHERE state = '\(state)'") == 5, "\(state)")
            }
            // The first claim has the new ones; those that are in flight at the same time have no order.
            let arrived = kakao.sandbox.webhooks().map(\.type).filter { $0 != "webhook.test" }
            #expect(arrived.prefix(24).count { $0 == "link.callback.received" } == 2)
        }
    }

    // MARK: Removal

    @Test("A webhook is deleted after its time, but not while it waits")
    func retention() async throws {
        try await withWebhooks {
            $0.webhooks.retentionDays = 30
            $0.webhooks.intervals.cleanup = .milliseconds(500)
        } _: { service in
            let database = service.database
            try await database.pool.write(
                """
                INSERT INTO webhook_events (id, endpoint, type, stored_at, subject, state, due_at)
                SELECT uuid_v7_floor(at), 'none', 'user.unlinked', at, state || days, state, now() + interval '1 day'
                FROM unnest('{29,31,32}'::int[]) AS days,
                    LATERAL (SELECT now() - days * interval '1 day' - interval '1 s' AS at) AS stored,
                    LATERAL (SELECT CASE days WHEN 32 THEN 'pending' ELSE 'failed' END AS state) AS stated
                """
            )
            try await eventually("the old one is deleted") {
                try await database.count("webhook_events WHERE subject = 'failed31'") == 0
            }
            #expect(try await database.count("webhook_events WHERE subject IN ('failed29', 'pending32')") == 2)
        }
    }
}
