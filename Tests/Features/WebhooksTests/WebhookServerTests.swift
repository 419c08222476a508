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

/// Tests of the order of webhooks, of replays, and of several servers.
@Suite(.timeLimit(.minutes(5))) struct WebhookServerTests {
    /// The ids of the callbacks in the order of their transactions.
    private static func stored(_ database: TestDatabase) async throws -> [String] {
        let rows = try await database.pool.read("SELECT id::text FROM link_callbacks ORDER BY event_xid, id")
        return try rows.map { try $0.decode(String.self) }
    }

    /// The ids of the callbacks that have arrived, in the order of their first arrival.
    private static func arrived(_ kakao: TestKakao) -> [String] {
        kakao.webhooks(.linkCallbackReceived).compactMap { $0.json?["data"]?["id"]?.string }
    }

    @Test("Servers that stop and start deliver each callback of any of them, in the order of their transactions")
    func restarts() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
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
                try await eventually("all callbacks arrive") { Self.arrived(kakao).count == 300 }
            }
            #expect(try await Self.arrived(kakao) == Self.stored(database))
        }
    }

    @Test("A server takes over from one that has died, and continues where it was")
    func takeover() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("1")
                _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            }
            // As a server leaves it that is killed.
            let lease = UUID()
            try await database.pool.write(
                "INSERT INTO work_leases (id, queue, ends_at) VALUES ($1, 'webhooks', now() + interval '1 s')",
                [.uuid(lease)]
            )
            try await database.pool.write("UPDATE webhook_endpoint SET lease = $1", [.uuid(lease)])
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("2")
                let callbacks = try await kakao.webhooks(.linkCallbackReceived, count: 2)
                #expect(callbacks.map { $0["resource_id"] } == ["1", "2"])
                #expect(kakao.sandbox.webhooks().count == 2)
            }
        }
    }

    @Test("A server that has lost the endpoint without knowing it takes it again, and nothing is lost")
    func lostEndpoint() async throws {
        try await withWebhooks { service in
            try await service.api.linkCallback("1")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            try await service.database.pool.write("UPDATE webhook_endpoint SET lease = NULL")
            for number in 2...5 { try await service.api.linkCallback("\(number)") }
            let callbacks = try await service.kakao.webhooks(.linkCallbackReceived, count: 5)
            #expect(callbacks.map { $0["resource_id"] } == (1...5).map { .string("\($0)") })
            try await eventually("the server has it again, and all is delivered") {
                guard try await service.api.webhookLag() == 0 else { return false }
                return try await service.database.count("webhook_endpoint WHERE lease IS NOT NULL") == 1
            }
        }
    }

    @Test(
        "After a loss of commits, an event is delivered although its transaction has the id of a lost one that was delivered"
    )
    func lostTransactions() async throws {
        try await withWebhooks { service in
            let database = service.database
            try await service.api.linkCallback("1")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            let first = try await database.text("SELECT event_xid::text FROM link_callbacks")
            try await eventually("the cursor is stored") {
                try await database.count("webhook_cursors WHERE xid::text = '\(first)'") == 1
            }
            try await database.pool.write("CREATE TABLE saved AS SELECT * FROM webhook_cursors")
            for number in 2...3 { try await service.api.linkCallback("\(number)") }
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 3)
            try await eventually("the cursor is stored") {
                try await database.count("webhook_cursors WHERE xid > '\(first)'::xid8 AND source = 'callbacks'") == 1
            }
            // The second callback is lost, and another transaction has its id.
            try await database.pool.withTransaction { transaction in
                try await transaction.query("DELETE FROM link_callbacks WHERE key = '3'")
                try await transaction.query(
                    "UPDATE link_callbacks SET key = '4', id = gen_random_uuid() WHERE key = '2'"
                )
                try await transaction.query("DELETE FROM webhook_cursors")
                try await transaction.query("INSERT INTO webhook_cursors SELECT * FROM saved")
            }
            try await database.beginNewRun()
            let callbacks = try await service.kakao.webhooks(.linkCallbackReceived, count: 4)
            #expect(callbacks.map { $0["resource_id"] } == ["1", "2", "3", "4"])
        }
    }

    @Test("An event waits for older transactions, which the lag shows")
    func olderTransaction() async throws {
        try await withWebhooks { service in
            try await service.database.pool.withConnection { session in
                try await session.execute(script: "BEGIN; SELECT pg_current_xact_id()")
                try await service.api.linkCallback("waits")
                try await eventually("the lag is seen") { try await service.api.webhookLag() > 0 }
                #expect(service.kakao.sandbox.webhooks().isEmpty)
                try await session.execute(script: "COMMIT")
            }
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
        }
    }

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
            let first = kakao.webhooks(.linkCallbackReceived)
            let pushed = kakao.webhooks(.pushDone)
            kakao.sandbox.deleteWebhooks()
            let body: JSONValue = ["since": .string(since), "types": ["link.*"]]
            #expect(try await api.post("/v1/webhooks/replay", json: body).status == 202)
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 3)
            try await eventually("the replay has ended") {
                try await service.database.count("webhook_replays") == 0
            }
            let again = kakao.webhooks(.linkCallbackReceived)
            #expect(
                again.map(\.id) == first.dropFirst().map(\.id) && again.map(\.body) == first.dropFirst().map(\.body)
            )
            #expect(kakao.webhooks(.pushDone).isEmpty)
            #expect(try await api.post("/v1/webhooks/replay", json: ["id": .string(pushed[0].id)]).status == 202)
            _ = try await kakao.webhooks(.pushDone, count: 1)
            #expect(kakao.webhooks(.pushDone)[0].body == pushed[0].body)
            for id in ["msg_pushes_1_2", "msg_unknown_1_2", "x", pushed[0].id + "0"] {
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

    @Test("After a dump is restored in another cluster, old and new events are delivered, in their order, and replayed")
    func restoration() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("1")
                _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
                // Unlike one that hangs or closes connections, this endpoint lets webhooks wait in their order.
                var fault = Fault(.status)
                fault.status = 503
                kakao.sandbox.add(fault)
                try await api.linkCallback("2")
            }
            kakao.sandbox.removeFaults()
            // The ids of transactions begin anew, far below those in the tables.
            for (table, column) in [
                ("link_callbacks", "event_xid"), ("webhook_cursors", "xid"), ("webhook_marks", "oldest_xid"),
                ("webhook_marks", "next_xid"),
            ] {
                try await database.pool.write(
                    "UPDATE \(table) SET \(column) = (\(column)::text::bigint + 1000000000)::text::xid8"
                )
            }
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("3")
                let callbacks = try await kakao.webhooks(.linkCallbackReceived, count: 3)
                #expect(callbacks.map { $0["resource_id"] } == ["1", "2", "3"])
                try await eventually("none waits") { try await api.webhookLag() == 0 }
                kakao.sandbox.deleteWebhooks()
                let body: JSONValue = ["since": "2026-01-01T00:00:00Z"]
                #expect(try await api.post("/v1/webhooks/replay", json: body).status == 202)
                let again = try await kakao.webhooks(.linkCallbackReceived, count: 3)
                #expect(again.map { $0["resource_id"] } == ["1", "2", "3"])
            }
            let offset = try await database.integer("SELECT xid_offset FROM webhook_endpoint")
            try await RunningServer.with(settings) { _ in }
            #expect(try await database.integer("SELECT xid_offset FROM webhook_endpoint") == offset)
        }
    }

    @Test("Without an endpoint, the one of a server that was killed is removed, and old failed webhooks are deleted")
    func removal() async throws {
        try await withDatabaseAndKakao { database, kakao in
            try await database.pool.write(
                "INSERT INTO work_leases (id, queue, ends_at) VALUES (gen_random_uuid(), 'webhooks', now() + interval '1 hour')"
            )
            try await database.pool.write("INSERT INTO webhook_endpoint (url_sha256) VALUES (sha256(''))")
            try await database.pool.write(
                """
                INSERT INTO webhook_deliveries (id, webhook_id, type, happened_at, user_id, data, state, attempts, next_attempt_at)
                SELECT uuid_v7_floor(now() - make_interval(days => days)), days::text, 'user.unlinked', now(), 1, '{}', 'failed', 1, now()
                FROM unnest('{1,31}'::int[]) AS days
                """
            )
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.webhooks.intervals.cleanup = .milliseconds(100)
            try await RunningServer.with(settings) { _ in
                try await eventually("the old webhook is deleted") {
                    try await database.count("webhook_deliveries") == 1
                }
                #expect(try await database.count("webhook_endpoint") == 1)
                try await database.pool.write("UPDATE work_leases SET ends_at = now()")
                try await eventually("the endpoint is removed") { try await database.count("webhook_endpoint") == 0 }
            }
        }
    }

    @Test("A reload that removes the endpoint, which takes a restart, leaves webhooks signed")
    func removedSecret() async throws {
        try await withWebhooks { service in
            var settings = service.settings
            settings.webhooks = WebhookSettings()
            await service.server.reload(settings)
            try await service.api.linkCallback("call")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            let webhook = try #require(service.kakao.webhooks(.linkCallbackReceived).first)
            let signed = Array("\(webhook.id).\(webhook.header("webhook-timestamp") ?? "").\(webhook.body)".utf8)
            #expect(webhook.header("webhook-signature") == WebhookSecret(WebhookSecrets.first)?.signature(of: signed))
        }
    }

    @Test("A reload replaces the secrets that sign")
    func reload() async throws {
        try await withWebhooks { service in
            var settings = service.settings
            settings.webhooks.secret = WebhookSecret(WebhookSecrets.second)
            await service.server.reload(settings)
            try await service.api.linkCallback("call")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            let webhook = try #require(service.kakao.webhooks(.linkCallbackReceived).first)
            let signed = Array("\(webhook.id).\(webhook.header("webhook-timestamp") ?? "").\(webhook.body)".utf8)
            #expect(webhook.header("webhook-signature") == WebhookSecret(WebhookSecrets.second)?.signature(of: signed))
        }
    }
}
