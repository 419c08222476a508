import Endpoints
import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import Pushes
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Runtime
@testable import Webhooks

/// Tests of several endpoints, and of settings that change.
@Suite(.timeLimit(.minutes(5))) struct WebhookEndpointTests {
    /// Runs `body` with a server that has two endpoints: `default`, the service's sandbox, and `other`.
    private static func withTwoEndpoints(
        types: [String] = [],
        _ adjust: @escaping (inout Settings) -> Void = { _ in },
        _ body: (TestService, TestKakao) async throws -> Void
    ) async throws {
        try await TestKakao.with { other in
            try await withWebhooks {
                $0.sendWebhooks(to: other, as: "other", types: types)
                adjust(&$0)
            } _: { service in
                defer { other.endFaults() }
                try await body(service, other)
            }
        }
    }

    @Test("Each endpoint gets the webhooks of its types, signed with its own secret")
    func types() async throws {
        try await Self.withTwoEndpoints(types: ["push.*"]) {
            $0.webhooks.types = WebhookTypes(["link.*", "push.done"]) ?? WebhookTypes()
            $0.pushes.approvalAboveUsers = 0
        } _: { service, other in
            let (api, kakao) = (service.api, service.kakao)
            try await service.database.addPhones([1])
            try await api.linkCallback("call")
            let creator = api.with("Bearer \(try await service.operatorKey(.send))")
            let push = try await creator.create(["uuids": [1]])
            #expect(try await api.control(push, "approve") == 200)
            let done = try await other.webhooks(.pushDone, count: 1)[0]
            #expect(try await kakao.webhooks(.pushDone, count: 1)[0] == done)
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            _ = try await other.webhooks(.pushProposed, count: 1)
            try await eventually("all are delivered") {
                try await service.database.count("webhook_events WHERE state <> 'delivered'") == 0
            }
            #expect(Set(kakao.sandbox.webhooks().map(\.type)) == ["link.callback.received", "push.done"])
            #expect(Set(other.sandbox.webhooks().map(\.type)) == ["push.proposed", "push.done"])
            #expect(kakao.sandbox.webhooks().allSatisfy { $0.isSigned(by: WebhookSecrets.first) })
            #expect(other.sandbox.webhooks().allSatisfy { $0.isSigned(by: WebhookSecrets.second) })
            // The same event has an id of its own for each endpoint.
            #expect(kakao.webhooks(.pushDone)[0].id != other.webhooks(.pushDone)[0].id)
            let endpoints = try await api.webhookStatus()["endpoints"]?.array ?? []
            #expect(endpoints.map { $0["name"] } == ["default", "other"])
            #expect(
                endpoints.map { $0["url"] } == [
                    .string(kakao.sandbox.url + "/webhooks"), .string(other.sandbox.url + "/webhooks"),
                ]
            )
            let metrics = try await api.metrics()
            for name in ["default", "other"] {
                #expect(metrics.value("kakao_push_webhook_lag_seconds", ["endpoint": name]) == 0)
            }
        }
    }

    @Test("An endpoint that hangs does not hold the other one up")
    func hanging() async throws {
        try await Self.withTwoEndpoints {
            $0.webhooks.intervals.request = .seconds(600)
        } _: { service, other in
            let (api, kakao) = (service.api, service.kakao)
            let hold = kakao.holdWebhooks()
            for number in 1...100 { try await api.linkCallback("\(number)") }
            try await eventually("all arrive at the other one") { other.callbackWebhooks.count == 100 }
            #expect(kakao.webhookRequests == 8)
            #expect(try await api.endpointState("other") == "delivering")
            try await eventually("the other one has none that waits") { try await api.webhookLag("other") == 0 }
            #expect(try await api.webhookLag() > 0)
            kakao.release(hold)
            try await eventually("all arrive") { kakao.callbackWebhooks.count == 100 }
        }
    }

    @Test("An endpoint that is gone has a state of its own, and a test and a replay name it")
    func named() async throws {
        try await Self.withTwoEndpoints { service, other in
            let (api, kakao) = (service.api, service.kakao)
            other.failWebhooks(status: 410, times: 1)
            try await api.linkCallback("call")
            try await eventually("it is gone") { try await api.endpointState("other") == "gone" }
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            #expect(try await api.endpointState() == "delivering")
            let tested = try await api.post("/v1/webhooks/test", json: ["endpoint": "other"])
            #expect(tested.json?["delivered"] == true)
            #expect(other.webhooks(.test).count == 1 && kakao.webhooks(.test).isEmpty)
            _ = try await other.webhooks(.linkCallbackReceived, count: 1)
            #expect(try await api.endpointState("other") == "delivering")
            try await eventually("all are delivered") {
                try await service.database.count("webhook_events WHERE state <> 'delivered'") == 0
            }
            for target in [kakao, other] { target.sandbox.deleteWebhooks() }
            let replay: JSONValue = ["endpoint": "other", "since": "2026-01-01T00:00:00Z"]
            #expect(try await api.post("/v1/webhooks/replay", json: replay).status == 202)
            _ = try await other.webhooks(.linkCallbackReceived, count: 1)
            try await eventually("the replay has ended") {
                try await service.database.count("webhook_replays") == 0
            }
            #expect(kakao.sandbox.webhooks().isEmpty)
            for path in ["test", "replay"] {
                var body: JSONObject = ["endpoint": "unknown"]
                if path == "replay" { body["since"] = "2026-01-01T00:00:00Z" }
                #expect(try await api.post("/v1/webhooks/\(path)", json: .object(body)).status == 400, "\(path)")
            }
        }
    }

    @Test("A reload adds the first endpoint and further ones, changes their types, and removes them")
    func reload() async throws {
        try await TestKakao.with { other in
            try await withService { service in
                let (api, kakao) = (service.api, service.kakao)
                var settings = service.settings
                settings.sendWebhooks(to: kakao)
                await service.server.reload(settings)
                try await eventually("the endpoint is stored") { try await api.endpointState() == "delivering" }
                try await api.linkCallback("first")
                _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)

                settings.sendWebhooks(to: other, as: "other", types: ["link.*"])
                settings.webhooks.types = try #require(WebhookTypes(["push.*"]))
                await service.server.reload(settings)
                try await eventually("the other one is stored") {
                    let types = try await api.endpoint()?["types"]
                    return try await api.endpoint("other") != nil && types != ["link.callback.received"]
                        && types?.array?.count == 5
                }
                try await api.linkCallback("second")
                let callbacks = try await other.webhooks(.linkCallbackReceived, count: 1)
                #expect(callbacks.map { $0["resource_id"] } == ["second"])
                try await api.waitUntilDone(service.push([1]))
                _ = try await kakao.webhooks(.pushDone, count: 1)
                #expect(kakao.callbackWebhooks == ["first"])
                #expect(other.webhooks(.pushDone).isEmpty)

                settings.webhooks.endpoints = []
                await service.server.reload(settings)
                try await api.linkCallback("third")
                try await api.waitUntilDone(service.push([2]))
                _ = try await kakao.webhooks(.pushDone, count: 2)
                #expect(other.callbackWebhooks == ["second"])
            }
        }
    }

    @Test("Webhooks of an endpoint that no server has any more are dropped and counted, and no further ones are stored")
    func removed() async throws {
        try await Self.withTwoEndpoints {
            $0.webhooks.intervals.cleanup = .milliseconds(500)
        } _: { service, other in
            let (api, kakao, database) = (service.api, service.kakao, service.database)
            other.failWebhooks(status: 503)
            for number in 1...3 { try await api.linkCallback("\(number)") }
            try await eventually("the other endpoint is failing") {
                try await api.endpointState("other") == "failing"
            }
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 3)
            var settings = service.settings
            settings.webhooks.endpoints = []
            await service.server.reload(settings)
            try await eventually("it is removed") { try await api.endpoint("other") == nil }
            #expect(try await database.count("webhook_events WHERE endpoint = 'other' AND state = 'dropped'") == 3)
            let metrics = try await api.metrics()
            #expect(metrics.value("kakao_push_webhooks_dropped_total", ["cause": "endpoint_removed"]) == 3)
            let lines = service.log.lines.filter { $0.message == "Webhooks of a removed endpoint dropped" }
            #expect(lines.compactMap { $0.metadata["webhooks"].flatMap { Int($0) } }.reduce(0, +) == 3)
            other.endFaults()
            try await api.linkCallback("4")
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 4)
            #expect(try await database.count("webhook_events WHERE endpoint = 'other'") == 3)
            #expect(other.sandbox.webhooks().isEmpty)
        }
    }

    @Test("A server without endpoints removes those of one that was killed")
    func unconfirmed() async throws {
        try await withDatabaseAndKakao { database, kakao in
            try await database.pool.write(
                """
                INSERT INTO webhook_endpoints (name, url_sha256, types, confirmed_at)
                VALUES ('default', sha256(''), '{user.unlinked}', now() - interval '1 hour')
                """
            )
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.webhooks.intervals.cleanup = .milliseconds(500)
            try await RunningServer.with(settings) { api in
                try await eventually("the endpoint is removed") {
                    try await api.webhookStatus()["endpoints"] == []
                }
            }
        }
    }

    @Test("A reload replaces the secrets that sign")
    func secrets() async throws {
        try await withWebhooks { service in
            var settings = service.settings
            settings.webhooks.nextSecret = WebhookSecret(WebhookSecrets.second)
            await service.server.reload(settings)
            try await service.api.linkCallback("1")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            let webhook = service.kakao.webhooks(.linkCallbackReceived)[0]
            #expect(webhook.isSigned(by: WebhookSecrets.first, WebhookSecrets.second))
            (settings.webhooks.secret, settings.webhooks.nextSecret) = (settings.webhooks.nextSecret, nil)
            await service.server.reload(settings)
            try await service.api.linkCallback("2")
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 2)
            #expect(service.kakao.webhooks(.linkCallbackReceived)[1].isSigned(by: WebhookSecrets.second))
        }
    }
}
