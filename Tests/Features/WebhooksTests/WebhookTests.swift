import Crypto
import Endpoints
import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Pushes
import Server
import ServiceTesting
import TestSupport
import Testing

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
            let signed = Array("\(webhook.id).\(Int(timestamp)).\(webhook.body)".utf8)
            let signatures = [WebhookSecrets.first, WebhookSecrets.second].compactMap {
                WebhookSecret($0)?.signature(of: signed)
            }
            #expect(webhook.header("webhook-signature") == signatures.joined(separator: " "))
            let body = try #require(webhook.json?.object)
            #expect(body.members.map(\.name) == ["type", "timestamp", "data"])
            let stored = try #require(try await service.api.get("/v1/link/callbacks").json?["items"]?.array?.first)
            #expect(body["data"] == stored)
            #expect(body["timestamp"] == stored["received_at"])
            let id = stored["id"]?.string ?? ""
            #expect(webhook.id.hasPrefix("msg_callbacks_\(id)_"))
            // Neither the secret nor the query of the address appears anywhere.
            let shown = try await service.api.webhookStatus().description + service.log.lines.map { "\($0)" }.joined()
            for secret in ["hidden", "MfKQ9r8G", "C2FVsBQI"] { #expect(!shown.contains(secret)) }
        }
    }

    @Test("Callbacks, unlinks, account events, withdrawn devices and pushes become webhooks")
    func sources() async throws {
        try await withWebhooks { service in
            let (kakao, api) = (service.kakao, service.api)
            #expect(try await api.register(7, "token-7").status == 200)
            #expect(try await api.register(8, "token-7").status == 200)
            let moved = try await kakao.webhooks(.deviceWithdrawn, count: 1)[0]
            #expect(moved["user_id"] == "7" && moved["cause"] == "token_moved" && moved["push_type"] == "fcm")
            #expect(await kakao.sandbox.unlink(UnlinkNotice(userID: 8)).isSent)
            let unlinked = try await kakao.webhooks(.userUnlinked, count: 1)[0]
            #expect(unlinked["user_id"] == "8" && unlinked["type"] == "unlink")
            let left = try await kakao.webhooks(.deviceWithdrawn, count: 2)[1]
            #expect(left["user_id"] == "8" && left["cause"] == "user_left")
            #expect(try await kakao.sandbox.send(AccountEvent(userID: 9)).isSent)
            #expect(try await kakao.webhooks(.accountEventReceived, count: 1)[0]["user_id"] == "9")
            let push = try await service.push([10], marker: "done")
            let done = try await kakao.webhooks(.pushDone, count: 1)[0]
            #expect(done == (try await api.summary(of: push)))
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
            #expect(proposed == (try await service.api.summary(of: push)))
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
            // The same push has ended twice, and each end has its own id.
            #expect(kakao.webhooks(.pushHalted)[0].id != kakao.webhooks(.pushDone)[0].id)
        }
    }

    @Test("Only the chosen types are sent, and events from before the endpoint are not")
    func choice() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.run(settings) { server in
                try await TestClient(url: server.url).linkCallback("before")
                _ = try await TestClient(url: server.url).push([1])
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
                try await eventually("the push is passed over") {
                    try await api.webhookLag() == 0
                }
                #expect(Set(kakao.sandbox.webhooks().map(\.type)) == ["link.callback.received"])
                let done = try await database.text(
                    "SELECT 'msg_pushes_' || id || '_' || event_xid FROM pushes WHERE event_xid IS NOT NULL"
                )
                #expect(try await api.post("/v1/webhooks/replay", json: ["id": .string(done)]).status == 404)
                let sources = try await api.webhookStatus()["sources"]?.array?.compactMap { $0["source"]?.string }
                #expect(sources?.sorted() == ["callbacks", "pushes"])
            }
            settings.webhooks = WebhookSettings()
            try await RunningServer.run(settings) { server in
                let api = TestClient(url: server.url)
                #expect(try await api.endpointState() == "off")
                try await api.linkCallback("off")
                #expect(try await database.count("link_callbacks WHERE event_xid IS NULL") == 2)
                for path in ["test", "replay"] {
                    let refused = try await api.post("/v1/webhooks/\(path)", json: ["since": "2026-01-01T00:00:00Z"])
                    #expect(refused.status == (path == "test" ? 400 : 409))
                }
            }
        }
    }
}
