import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Logging
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Callbacks
@testable import Runtime
@testable import ServiceKit
@testable import Webhooks

/// Tests of endpoints that do not accept webhooks.
@Suite(.timeLimit(.minutes(5))) struct WebhookFailureTests {
    private static let path = "/webhooks"

    private static func fault(_ kind: Fault.Kind, _ adjust: (inout Fault) -> Void = { _ in }) -> Fault {
        var fault = Fault(kind)
        fault.path = path
        adjust(&fault)
        return fault
    }

    /// The resource ids of the callbacks that have arrived, in the order of their first arrival.
    private static func callbacks(_ service: TestService) -> [String] {
        service.kakao.webhooks(.linkCallbackReceived).compactMap { $0.json?["data"]?["resource_id"]?.string }
    }

    private static func failed(_ service: TestService) async throws -> [JSONValue] {
        try await service.api.webhookStatus()["items"]?.array ?? []
    }

    @Test("A webhook that is rejected alone is retried, and those after it do not wait")
    func setAside() async throws {
        try await withWebhooks {
            $0.webhooks.intervals.retries = [.seconds(2)]
        } _: { service in
            service.kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (500, 1) })
            for number in 1...3 { try await service.api.linkCallback("\(number)") }
            try await eventually("the others arrive") { Self.callbacks(service).count == 2 }
            let failed = try #require(try await Self.failed(service).first)
            #expect(failed["state"] == "pending" && failed["attempts"] == 1 && failed["last_status"] == 500)
            #expect(failed["last_error"]?.string?.hasPrefix("HTTP 500: <html>") == true)
            #expect(try await service.api.endpointState() == "delivering")
            try await eventually("it arrives too") { Self.callbacks(service).count == 3 }
            try await eventually("it is no failed webhook any more") { try await Self.failed(service).isEmpty }
            let metrics = try await service.api.metrics()
            #expect(metrics.value("kakao_push_webhook_requests_total", ["outcome": "rejected"]) == 1)
            #expect(metrics.value("kakao_push_webhook_requests_total", ["outcome": "delivered"]) == 3)
            #expect(metrics.value("kakao_push_webhook_lag_seconds", ["source": "callbacks"]) == 0)
        }
    }

    @Test("A webhook whose attempts are used up is kept until it is replayed, with the same id")
    func usedUp() async throws {
        try await withWebhooks { service in
            service.kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (400, 4) })
            try await service.api.linkCallback("call")
            try await eventually("all attempts are used up") {
                try await Self.failed(service).first?["state"] == "failed"
            }
            let failed = try #require(try await Self.failed(service).first)
            #expect(failed["attempts"] == 4 && failed["next_attempt_at"] == .null)
            let id = try #require(failed["id"]?.string)
            #expect(try await service.api.post("/v1/webhooks/replay", json: ["id": .string(id)]).status == 202)
            _ = try await service.kakao.webhooks(.linkCallbackReceived, count: 1)
            #expect(service.kakao.webhooks(.linkCallbackReceived).map(\.id) == [id])
            try await eventually("it is no failed webhook any more") { try await Self.failed(service).isEmpty }
        }
    }

    @Test("While the endpoint is unavailable the events wait in their tables; then they arrive in order")
    func unavailable() async throws {
        try await withWebhooks { service in
            service.kakao.sandbox.add(Self.fault(.status) { $0.status = 503 })
            let ids = (1...20).map { "\($0)" }
            for id in ids { try await service.api.linkCallback(id) }
            let push = try await service.push([1])
            try await service.api.waitUntilDone(push)
            try await eventually("the endpoint is failing") { try await service.api.endpointState() == "failing" }
            let status = try await service.api.webhookStatus()
            #expect(status["last_error"]?.string?.hasPrefix("HTTP 503") == true && status["items"] == [])
            try await eventually("the lag is seen") { try await service.api.webhookLag() > 0 }
            #expect(service.log.messages.contains { $0.contains("Webhook endpoint does not accept webhooks") })
            service.kakao.sandbox.removeFaults()
            try await eventually("all arrive") { Self.callbacks(service).count == ids.count }
            #expect(Self.callbacks(service) == ids)
            _ = try await service.kakao.webhooks(.pushDone, count: 1)
            #expect(try await service.api.endpointState() == "delivering")
            #expect(service.log.messages.contains { $0.contains("Webhook endpoint accepts webhooks again") })
        }
    }

    @Test("While the endpoint is unavailable, replays can be canceled, and webhooks about an erased user are not kept")
    func erased() async throws {
        try await withWebhooks {
            $0.webhooks.intervals.freshness = .milliseconds(100)
        } _: { service in
            let (api, kakao) = (service.api, service.kakao)
            try await api.linkCallback("first")
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            kakao.sandbox.deleteWebhooks()
            kakao.sandbox.add(Self.fault(.status) { $0.status = 503 })
            for user in [1, 2] as [Int64] {
                #expect(try await api.register(user, "token-\(user)").status == 200)
                #expect(try await api.deregister(user).status == 200)
            }
            let since: JSONValue = ["since": "2026-01-01T00:00:00Z", "types": ["link.*"]]
            #expect(try await api.post("/v1/webhooks/replay", json: since).status == 202)
            try await eventually("webhooks and the replay wait") {
                let status = try await api.webhookStatus()
                let replays = status["replays"]?.array ?? []
                return status["state"] == "failing" && replays.map { $0["source"] } == ["callbacks"]
            }
            #expect(try await api.delete("/v1/users/1").status == 204)
            #expect(try await api.delete("/v1/webhooks/replay").status == 204)
            #expect(try await api.webhookStatus()["replays"] == [])
            // Until what was read before is stale, and is read again.
            try await Task.sleep(for: .milliseconds(200))
            kakao.sandbox.removeFaults()
            let withdrawn = try await kakao.webhooks(.deviceWithdrawn, count: 1)
            #expect(withdrawn.map { $0["user_id"] } == ["2"])
            try await api.linkCallback("second")
            let callbacks = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            #expect(callbacks.map { $0["resource_id"] } == ["second"])
            #expect(kakao.webhooks(.deviceWithdrawn).count == 1)
        }
    }

    @Test(
        "An endpoint that hangs, closes connections or fails turns few events into rows, and none is lost",
        arguments: [
            Fault.Kind.latency, .dropAfterBody, .down, .status,
        ]
    )
    func failing(kind: Fault.Kind) async throws {
        try await withWebhooks {
            // Only an endpoint that hangs is to reach the time limit.
            if kind == .latency { $0.webhooks.intervals.request = .seconds(1) }
            // So many that none is used up, however long the test takes.
            $0.webhooks.intervals.retries = Array(repeating: .milliseconds(100), count: 10_000)
        } _: { service in
            let fault = try #require(
                service.kakao.sandbox.add(
                    Self.fault(kind) {
                        if kind == .latency { $0.milliseconds = 600_000 }
                        if kind == .status { $0.status = 500 }
                    }
                )
            )
            let ids = Set((1...50).map { "\($0)" })
            for id in ids { try await service.api.linkCallback(id) }
            try await eventually("the endpoint is failing") { try await service.api.endpointState() == "failing" }
            let rows = try await Self.failed(service).count
            let requests = try #require(service.kakao.sandbox.timesApplied(fault))
            #expect(rows < EndpointCondition.failureLimit + requests / EndpointCondition.attemptLimit)
            service.kakao.sandbox.removeFaults()
            service.kakao.sandbox.skipDelays()
            try await eventually("all arrive") { Set(Self.callbacks(service)) == ids }
            try await eventually("no failed webhook is left") { try await Self.failed(service).isEmpty }
        }
    }

    @Test("An endpoint that is gone gets nothing, also after a restart, until a test succeeds")
    func gone() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (410, 1) })
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("1")
                try await eventually("the endpoint is gone") { try await api.endpointState() == "gone" }
            }
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("2")
                #expect(try await api.endpointState() == "gone")
                let failed = kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (500, 1) })
                let refused = try await api.post("/v1/webhooks/test")
                #expect(refused.json?["delivered"] == false && refused.json?["status"] == 500)
                #expect(failed.flatMap(kakao.sandbox.timesApplied) == 1)
                #expect(try await api.endpointState() == "gone")
                #expect(kakao.sandbox.webhooks().isEmpty)
                let accepted = try await api.post("/v1/webhooks/test")
                #expect(accepted.json?["delivered"] == true && accepted.json?["status"] == 200)
                #expect(accepted.json?["text"]?.string == "received ")
                let callbacks = try await kakao.webhooks(.linkCallbackReceived, count: 2)
                #expect(callbacks.map { $0["resource_id"] } == ["1", "2"])
                #expect(kakao.webhooks(.test).first?.id == accepted.json?["id"]?.string)
                #expect(try await api.endpointState() == "delivering")
            }
            // Another address is another endpoint.
            kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (410, 1) })
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("3")
                try await eventually("the endpoint is gone") { try await api.endpointState() == "gone" }
            }
            settings.sendWebhooks(to: kakao, path: "/webhooks?token=other")
            try await RunningServer.with(settings) { api in
                _ = try await kakao.webhooks(.linkCallbackReceived, count: 3)
                #expect(try await api.endpointState() == "delivering")
            }
        }
    }

    @Test("An endpoint that is gone gets nothing, even if its state cannot be stored at first")
    func goneBeforeStored() async throws {
        try await withWebhooks { service in
            let (api, kakao, database) = (service.api, service.kakao, service.database)
            try await api.linkCallback("first")
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (410, 1) })
            try await database.pool.withTransaction { transaction in
                try await transaction.execute(
                    script: """
                        CREATE FUNCTION reject_state() RETURNS trigger LANGUAGE plpgsql
                        AS $$ BEGIN RAISE 'not stored'; END $$;
                        CREATE TRIGGER reject_state BEFORE UPDATE ON webhook_endpoint
                        FOR EACH ROW WHEN (NEW.state = 'gone') EXECUTE FUNCTION reject_state();
                        """
                )
            }
            try await api.linkCallback("second")
            try await eventually("the state was to be stored several times") {
                service.log.messages(.debug).count { $0 == "Queue pass failed" } > 2
            }
            #expect(try await api.endpointState() == "delivering")
            #expect(kakao.webhooks(.linkCallbackReceived).count == 1)
            try await database.pool.write("DROP TRIGGER reject_state ON webhook_endpoint")
            try await eventually("the state is stored") { try await api.endpointState() == "gone" }
            try await api.linkCallback("third")
            kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (500, 1) })
            #expect(try await api.post("/v1/webhooks/test").json?["status"] == 500)
            #expect(kakao.webhooks(.linkCallbackReceived).count == 1)
            #expect(try await api.post("/v1/webhooks/test").json?["delivered"] == true)
            let callbacks = try await kakao.webhooks(.linkCallbackReceived, count: 3)
            #expect(callbacks.map { $0["resource_id"] } == ["first", "second", "third"])
            #expect(service.log.messages.count { $0 == "Webhook endpoint is gone" } == 1)
            let metrics = try await api.metrics()
            #expect(metrics.value("kakao_push_webhook_requests_total", ["outcome": "gone"]) == 1)
        }
    }

    @Test("An error that does not change the state is stored without it, since an operator's test may have changed it")
    func lateError() async throws {
        try await withWebhooks { service in
            let (api, kakao, database) = (service.api, service.kakao, service.database)
            try await api.linkCallback("first")
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 1)
            // As if it had changed after the request began.
            try await database.pool.write("UPDATE webhook_endpoint SET state = 'failing'")
            kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (400, 1) })
            try await api.linkCallback("second")
            try await eventually("the error is stored") {
                try await api.webhookStatus()["last_error"]?.string?.hasPrefix("HTTP 400") == true
            }
            #expect(try await api.endpointState() == "failing")
        }
    }

    @Test("A redirect is a failure and is not followed; a long response is cut off and counts by its status")
    func responses() async throws {
        try await withWebhooks { service in
            let redirect = service.kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (307, 1) })
            let redirected = try await service.api.post("/v1/webhooks/test")
            #expect(redirected.json?["delivered"] == false && redirected.json?["status"] == 307)
            #expect(redirect.flatMap(service.kakao.sandbox.timesApplied) == 1)
            #expect(service.kakao.sandbox.webhooks().isEmpty)
            service.kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.bodyBytes, $0.times) = (200, 4_000_000, 1) })
            let long = try await service.api.post("/v1/webhooks/test")
            #expect(long.json?["delivered"] == true && long.json?["text"]?.string == String(repeating: "x", count: 200))
        }
    }

    @Test("The erasure of a user deletes the webhooks about the user")
    func erasure() async throws {
        try await withWebhooks {
            $0.webhooks.intervals.retries = [.seconds(3600)]
            $0.callbacks.userIDArgument = "product_id"
        } _: { service in
            service.kakao.sandbox.add(Self.fault(.status) { ($0.status, $0.times) = (500, 4) })
            for member in ["7", "8"] { try await service.api.linkCallback(member) }
            #expect(try await service.api.register(7, "token-7").status == 200)
            #expect(try await service.api.deregister(7).status == 200)
            #expect(await service.kakao.sandbox.unlink(UnlinkNotice(userID: 7)).isSent)
            try await eventually("four webhooks are set aside") { try await Self.failed(service).count == 4 }
            #expect(try await service.api.delete("/v1/users/7").status == 204)
            // The callback about another user is left.
            #expect(try await Self.failed(service).map { $0["type"] } == ["link.callback.received"])
            #expect(try await service.database.count("device_withdrawals") == 0)
        }
    }
}
