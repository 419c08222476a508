import Endpoints
import FoundationEssentials
import HTTPClient
import Identity
import JSON
import KakaoSandbox
import Postgres
import PrivatePostgres
import Pushes
import Server
import ServiceTesting
import Settings
import TestSupport
import Testing

@testable import Callbacks
@testable import Runtime
@testable import Webhooks

/// Tests of the events that become webhooks, and of their form.
@Suite(.timeLimit(.minutes(5))) struct WebhookTests {
    @Test("A webhook has the headers, the body and the signatures of Standard Webhooks, under both secrets")
    func form() async throws {
        try await withWebhooks {
            $0.webhooks.nextSecret = WebhookSecret(WebhookSecrets.second)
        } _: { service in
            try await TestClient(url: service.server.url).linkCallback("call-1")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            let webhook = try #require(service.kakao.webhooks(.linkCallbackReceived).first)
            #expect(webhook.header("content-type") == "application/json")
            let timestamp = try #require(webhook.header("webhook-timestamp").flatMap { Double($0) })
            #expect(abs(timestamp - Date().timeIntervalSince1970) < 60)
            #expect(webhook.isSigned(by: WebhookSecrets.first, WebhookSecrets.second))
            let body = try #require(webhook.json?.object)
            #expect(body.members.map(\.name) == ["type", "timestamp", "subject", "revision", "data"])
            let stored = try #require(try await service.api.get("/v1/link/callbacks").json?["items"]?.array?.first)
            #expect(body["data"] == stored)
            #expect(body["timestamp"] == stored["received_at"])
            #expect(webhook.subject == "callbacks/\(stored["id"]?.string ?? "")")
            #expect(abs(Double(webhook.revision) / 1_000_000 - Date().timeIntervalSince1970) < 60)
            let row = try await service.database.text("SELECT id::text FROM webhook_events")
            #expect(webhook.id == "msg_\(row)")
            // Neither the secret nor the query of the address appears anywhere.
            let shown = try await service.api.webhookStatus().description + service.log.lines.map { "\($0)" }.joined()
            for secret in ["hidden", "MfKQ9r8G", "C2FVsBQI"] { #expect(!shown.contains(secret)) }
        }
    }

    @Test("Callbacks, unlinks, account events, changes of channels, withdrawn devices and pushes become webhooks")
    func events() async throws {
        try await withWebhooks { service in
            let (kakao, api) = (service.kakao, service.api)
            #expect(try await api.register(7, "token-7").status == 200)
            #expect(try await api.register(8, "token-7").status == 200)
            let moved = try await kakao.webhooks(.deviceWithdrawn, count: 1)[0]
            #expect(moved["user_id"] == "7" && moved["cause"] == "token_moved" && moved["push_type"] == "fcm")
            #expect(kakao.webhooks(.deviceWithdrawn)[0].subject.hasPrefix("devices/7/fcm/"))
            #expect(await kakao.sandbox.unlink(UnlinkNotice(userID: 8)).isSent)
            let unlinked = try await kakao.webhooks(.userUnlinked, count: 1)[0]
            #expect(unlinked["user_id"] == "8" && unlinked["type"] == "unlink")
            #expect(kakao.webhooks(.userUnlinked)[0].subject == "events/\(unlinked["id"]?.string ?? "")")
            let left = try await kakao.webhooks(.deviceWithdrawn, count: 2)[1]
            #expect(left["user_id"] == "8" && left["cause"] == "user_left")
            #expect(try await kakao.sandbox.send(AccountEvent(userID: 9)).isSent)
            #expect(try await kakao.webhooks(.accountEventReceived, count: 1)[0]["user_id"] == "9")
            #expect(await kakao.send(ChannelEvent(.user(11))).status == 200)
            let added = try await kakao.webhooks(.channelAdded, count: 1)[0]
            #expect(added["user_id"] == "11" && added["payload"]?["channel_public_id"] == "_ZeUTxl")
            var blocked = ChannelEvent(.openID("12"))
            blocked.kind = .blocked
            #expect(await kakao.send(blocked).status == 200)
            #expect(try await kakao.webhooks(.channelBlocked, count: 1)[0]["user_id"] == .null)
            let push = try await service.push([10], marker: "done")
            let done = try await kakao.webhooks(.pushDone, count: 1)[0]
            #expect(done == (try await api.summary(push)))
            #expect(kakao.webhooks(.pushDone)[0].subject == "pushes/\(done["id"]?.string ?? "")")
            // The device's id is not reported before a device exists, nor is an unknown device that is withdrawn.
            #expect(try await api.deregister(77).status == 200)
            #expect(try await api.deregister(10).status == 200)
            let deregistered = try await kakao.webhooks(.deviceWithdrawn, count: 3)
            #expect(deregistered[2]["user_id"] == "10" && deregistered[2]["cause"] == "deregistered")
            #expect(deregistered.count == 3)
        }
    }

    @Test("A push that waits for an approval is reported")
    func proposed() async throws {
        try await withWebhooks {
            $0.pushes.approvalAboveUsers = 0
        } _: { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(["uuids": [1]])
            let proposed = try await service.kakao.webhooks(.pushProposed, count: 1)[0]
            #expect(proposed == (try await service.api.summary(push)))
            #expect(proposed["awaits_approval"] == true)
        }
    }

    @Test("A push that Kakao halts, and the sender with it, are reported; so are a stop and a start by an operator")
    func halts() async throws {
        try await withWebhooks { service in
            let (kakao, api) = (service.kakao, service.api)
            kakao.fail("send", status: 401, code: -401)
            let push = try await service.push([1], marker: "halted")
            let halted = try await kakao.webhooks(.pushHalted, count: 1)[0]
            #expect(halted["id"]?.string.map { push.hasSuffix($0) } == true && halted["state"] == "halted")
            let sender = try await kakao.webhooks(.senderHalted, count: 1)[0]
            #expect(sender["state"] == "halted" && sender["reason"]?.string?.contains("-401") == true)
            kakao.sandbox.removeFaults()
            #expect(try await api.control(push, "resume") == 200)
            #expect(try await kakao.webhooks(.pushDone, count: 1)[0]["id"] == halted["id"])
            #expect(try await kakao.webhooks(.senderResumed, count: 1)[0]["state"] == "resumed")
            #expect(try await api.post("/v1/sender/stop", json: ["reason": "Wrong text"]).status == 200)
            let stopped = try await kakao.webhooks(.senderStopped, count: 1)[0]
            #expect(stopped["reason"] == "Wrong text" && stopped["by"] == "operator.key")
            #expect(try await api.post("/v1/sender/start").status == 200)
            _ = try await kakao.webhooks(.senderResumed, count: 2)
            // The same push has ended twice, and each end has its own id and a later revision.
            let (first, second) = (kakao.webhooks(.pushHalted)[0], kakao.webhooks(.pushDone)[0])
            #expect(first.id != second.id && first.subject == second.subject && first.revision < second.revision)
        }
    }

    @Test("A type that no endpoint wants is not stored, and events from before the endpoint are not sent")
    func choice() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.run(settings) { server in
                let api = TestClient(url: server.url)
                #expect(try await api.webhookStatus()["endpoints"] == [])
                try await api.linkCallback("before")
                _ = try await TestClient(url: server.url).push([1])
                #expect(try await database.count("webhook_events") == 0)
                for path in ["test", "replay"] {
                    let body: JSONValue = path == "test" ? [:] : ["since": "2026-01-01T00:00:00Z"]
                    #expect(try await api.post("/v1/webhooks/\(path)", json: body).status == 409)
                }
            }
            settings.sendWebhooks(to: kakao)
            settings.webhooks.types = try #require(WebhookTypes(["link.*", "push.halted"]))
            try await RunningServer.run(settings) { server in
                let api = TestClient(url: server.url)
                let push = try await api.push([1], marker: "done")
                try await api.waitUntilDone(push)
                try await api.linkCallback("after")
                let callbacks = try await kakao.webhooks(.linkCallbackReceived, count: 1)
                #expect(callbacks.map { $0["resource_id"] } == ["after"])
                #expect(try await database.count("webhook_events") == 1)
                #expect(try await api.endpoint()?["types"] == ["link.callback.received", "push.halted"])
            }
        }
    }

    @Test("An event is stored with its change: one that is rolled back has no webhook, and a repeated call has one")
    func transactions() async throws {
        try await withWebhooks { service in
            let (database, kakao) = (service.database, service.kakao)
            let callback = LinkCallback(
                id: .v7(),
                resourceID: "rolled back",
                chatType: "MemoChat",
                hashChatID: "chat",
                templateID: nil,
                args: Array("{}".utf8),
                signature: nil,
                raw: nil,
                receivedAt: .now
            )
            await #expect(throws: RolledBack.self) {
                try await database.pool.withTransaction { transaction in
                    try await transaction.query(
                        "UPDATE sender SET stopped_at = now(), reason = 'x', stopped_by = 'kim'"
                    )
                    let insert = InsertLinkCallbacks(callbacks: [callback], statisticsArgs: [])
                    _ = try await transaction.query(insert) as [Bool]
                    let stored = try await transaction.query("SELECT type FROM webhook_events ORDER BY type")
                    #expect(
                        try stored.map { try $0.decode(String.self) } == ["link.callback.received", "sender.stopped"]
                    )
                    throw RolledBack()
                }
            }
            #expect(try await database.count("webhook_events") == 0)
            for _ in 0..<3 { try await service.api.linkCallback("call") }
            for _ in 0..<2 { #expect(await kakao.sandbox.unlink(UnlinkNotice(userID: 8)).isSent) }
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            _ = try await kakao.webhooks(.userUnlinked, count: 1)
            #expect(try await database.count("webhook_events WHERE type = 'link.callback.received'") == 1)
            #expect(
                try await database.count("webhook_events WHERE type = 'user.unlinked'") == database.count("events")
            )
        }
    }

    private struct RolledBack: Error {}

    @Test("A call that waited in the journal has its webhook, once")
    func journal() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            var settings = Settings.test(url, kakao: kakao.sandbox.url)
            settings.kakao.appID = 123_456
            settings.journal.directory = "\(try TemporaryFolder.make())/journal"
            settings.sendWebhooks(to: kakao)
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("before")
                _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
                await cluster.stop(.fast)
                try await eventually("the status reports it") {
                    try await api.get("/v1/status").json?["database"]?["up"] == false
                }
                for number in 0..<20 { try await api.linkCallback("during-\(number / 2)") }
                try await api.linkCallback("before")
                try await cluster.start()
                let callbacks = try await kakao.webhooks(.linkCallbackReceived, count: 11)
                #expect(Set(callbacks.map { $0["resource_id"]?.string }).count == 11)
                try await eventually("all are replayed") {
                    try await api.get("/v1/status").json?["journal"]?["records"] == 0
                }
                let pool = try await Shared.pool(url)
                let stored = try await pool.read("SELECT count(*) FROM webhook_events").first?.decode(Int64.self)
                await pool.shutdown()
                #expect(stored == 11)
            }
        }
    }

    @Test("A webhook always has the same body: after its object has changed, after a replay, after a restart")
    func sameBody() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.appID = 123_456
            settings.pushes.approvalAboveUsers = 0
            settings.sendWebhooks(to: kakao)
            settings.webhooks.intervals.retries = Array(repeating: .milliseconds(100), count: 100)
            try await RunningServer.run(settings) { server in
                let api = TestClient(url: server.operatorURL)
                kakao.sandbox.sendCallbacks(to: server.url)
                // Each is received, but not accepted at first.
                kakao.failWebhooks(status: 500) { $0.isCarriedOut = true }
                #expect(try await api.register(1, "token").status == 200)
                let key = try await OperatorKeyStore(pool: database.pool).create(
                    name: "made",
                    scopes: [.send],
                    expiresAt: nil
                )
                let push = try await api.with("Bearer \(key)").create(["uuids": [1]])
                let proposed = try await kakao.webhooks(.pushProposed, count: 1)[0]
                #expect(proposed == (try await api.summary(push)))
                #expect(try await api.control(push, "approve") == 200)
                try await api.waitUntilDone(push)
                let done = try await api.summary(push)
                try await api.linkCallback("call")
                #expect(await kakao.sandbox.unlink(UnlinkNotice(userID: 1)).isSent)
                try await eventually("the proposal is sent again") {
                    kakao.sandbox.webhooks().count { $0.type == "push.proposed" } > 1
                }
                kakao.sandbox.removeFaults()
                #expect(try await kakao.webhooks(.pushDone, count: 1)[0] == done)
                try await eventually("all are delivered") {
                    try await database.count("webhook_events WHERE state <> 'delivered'") == 0
                }
            }
            let bodies = kakao.webhookBodies
            #expect(bodies.count == 5, "two of the push, and those of the callback, the unlink and the device")
            // What is shown of pushes depends on these settings.
            settings.pushes.approvalAboveUsers = nil
            settings.pushes.advertisingHours = AdvertisingHours()
            settings.pushes.timeZone = "UTC"
            kakao.sandbox.deleteWebhooks()
            try await RunningServer.with(settings) { api in
                let body: JSONValue = ["since": "2026-01-01T00:00:00Z"]
                #expect(try await api.post("/v1/webhooks/replay", json: body).status == 202)
                try await eventually("all arrive again") { kakao.webhookBodies.count == bodies.count }
            }
            for (id, again) in kakao.webhookBodies { #expect(Set(again) == Set(bodies[id]?.prefix(1) ?? [])) }
            for (id, first) in bodies { #expect(Set(first).count == 1, "\(id)") }
        }
    }

    @Test("The revision of an object never goes back, also if the clock does")
    func revisions() async throws {
        try await withWebhooks { service in
            let (kakao, database) = (service.kakao, service.database)
            kakao.fail("send", status: 401, code: -401)
            let push = try await service.push([1])
            _ = try await kakao.webhooks(.pushHalted, count: 1)
            // As if the clock had been ahead then.
            let revision: Int64 = 9_000_000_000_000_000
            try await database.pool.write(
                "UPDATE webhook_events SET revision = $1 WHERE subject LIKE 'pushes/%'",
                [.int64(revision)]
            )
            kakao.sandbox.removeFaults()
            #expect(try await service.api.control(push, "resume") == 200)
            _ = try await kakao.webhooks(.pushDone, count: 1)
            #expect(kakao.webhooks(.pushDone)[0].revision == revision + 1)
            // Other objects have the time.
            _ = try await kakao.webhooks(.senderResumed, count: 1)
            #expect(kakao.webhooks(.senderResumed)[0].revision < revision)
        }
    }

    @Test("A webhook whose object has been deleted is dropped")
    func objectGone() async throws {
        try await withWebhooks { service in
            let (kakao, database) = (service.kakao, service.database)
            kakao.failWebhooks(status: 503)
            for id in ["deleted", "kept"] { try await service.api.linkCallback(id) }
            try await eventually("the endpoint is failing") {
                try await service.api.endpointState() == "failing"
            }
            try await database.pool.write("DELETE FROM link_callbacks WHERE key = 'deleted'")
            kakao.sandbox.removeFaults()
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            try await eventually("the other one is dropped") {
                try await database.count("webhook_events WHERE state = 'dropped'") == 1
            }
            #expect(kakao.callbackWebhooks == ["kept"])
            let metrics = try await service.api.metrics()
            #expect(metrics.value("kakao_push_webhooks_dropped_total", ["cause": "object_gone"]) == 1)
        }
    }
}
