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
    @Test("A webhook that is rejected alone is retried, and those after it do not wait")
    func retried() async throws {
        try await withWebhooks {
            $0.webhooks.intervals.retries = [.seconds(600)]
        } _: { service in
            let (api, kakao) = (service.api, service.kakao)
            kakao.failWebhooks(status: 500, times: 1)
            for number in 1...3 { try await api.linkCallback("\(number)") }
            try await eventually("the others arrive") { kakao.callbackWebhooks.count == 2 }
            try await eventually("the rejection is stored") {
                try await api.unacceptedWebhooks().first?["attempts"] == 1
            }
            let unaccepted = try #require(try await api.unacceptedWebhooks().first)
            #expect(unaccepted["state"] == "pending" && unaccepted["attempts"] == 1)
            #expect(unaccepted["last_status"] == 500 && unaccepted["endpoint"] == "default")
            #expect(unaccepted["last_error"]?.string?.hasPrefix("HTTP 500: <html>") == true)
            #expect(try await api.endpointState() == "delivering")
            try await service.database.pool.write("UPDATE webhook_events SET due_at = now()")
            try await eventually("it arrives too") { kakao.callbackWebhooks.count == 3 }
            try await eventually("it is accepted") { try await api.unacceptedWebhooks().isEmpty }
            let metrics = try await api.metrics()
            let requests = "kakao_push_webhook_requests_total"
            #expect(metrics.value(requests, ["outcome": "rejected"]) == 1)
            #expect(metrics.value(requests, ["outcome": "delivered"]) == 3)
            #expect(metrics.value("kakao_push_webhook_lag_seconds", ["endpoint": "default"]) == 0)
        }
    }

    @Test("A webhook whose attempts are used up is kept until it is replayed, with the same id and body")
    func usedUp() async throws {
        try await withWebhooks { service in
            let (api, kakao) = (service.api, service.kakao)
            kakao.failWebhooks(status: 400, times: 4) { $0.isCarriedOut = true }
            try await api.linkCallback("call")
            try await eventually("all attempts are used up") {
                try await api.unacceptedWebhooks().first?["state"] == "failed"
            }
            let failed = try #require(try await api.unacceptedWebhooks().first)
            #expect(failed["attempts"] == 4 && failed["next_attempt_at"] == .null)
            let id = try #require(failed["id"]?.string)
            #expect(try await api.post("/v1/webhooks/replay", json: ["id": .string(id)]).status == 202)
            try await eventually("it is sent again") { kakao.webhookBodies[id]?.count == 5 }
            let bodies = kakao.webhookBodies
            #expect(Array(bodies.keys) == [id] && Set(bodies[id] ?? []).count == 1)
            #expect(try await api.unacceptedWebhooks().isEmpty)
        }
    }

    @Test("While the endpoint is unavailable the webhooks wait, without a counted attempt; then all arrive")
    func unavailable() async throws {
        try await withWebhooks { service in
            let (api, kakao) = (service.api, service.kakao)
            kakao.failWebhooks(status: 503)
            let ids = Set((1...20).map { "\($0)" })
            for id in ids { try await api.linkCallback(id) }
            let push = try await service.push([1])
            try await api.waitUntilDone(push)
            try await eventually("the endpoint is failing") { try await api.endpointState() == "failing" }
            try await eventually("all wait") { try await api.endpoint()?["pending"] == 21 }
            #expect(try await api.endpoint()?["last_error"]?.string?.hasPrefix("HTTP 503") == true)
            #expect(try await api.unacceptedWebhooks() == [])
            try await eventually("the lag is seen") { try await api.webhookLag() > 0 }
            let shown = try await api.get("/v1/status").json?["webhook_endpoints"]?.array
            #expect(shown?.map { $0["name"] } == ["default"] && shown?.first?["state"] == "failing", "\(shown ?? [])")
            #expect(service.log.messages.contains { $0 == "Webhook endpoint does not accept webhooks" })
            kakao.sandbox.removeFaults()
            try await eventually("all arrive") { Set(kakao.callbackWebhooks) == ids }
            _ = try await kakao.webhooks(.pushDone, count: 1)
            try await eventually("none waits") { try await api.endpoint()?["pending"] == 0 }
            #expect(try await api.endpointState() == "delivering")
            #expect(try await service.database.count("webhook_events WHERE attempts > 0") == 0)
            #expect(service.log.messages.contains { $0 == "Webhook endpoint accepts webhooks again" })
        }
    }

    @Test(
        "An endpoint that hangs, closes connections or fails gets one request at a time, and nothing is lost",
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
            let (api, kakao) = (service.api, service.kakao)
            kakao.failWebhooks(kind) {
                if kind == .latency { $0.milliseconds = 600_000 }
                if kind == .status { $0.status = 500 }
            }
            let ids = Set((1...100).map { "\($0)" })
            for id in ids { try await api.linkCallback(id) }
            try await eventually("the endpoint is failing") { try await api.endpointState() == "failing" }
            #expect(kakao.webhookRequests < ids.count)
            let sending = "webhook_events WHERE state = 'sending'"
            try await eventually("those that were claimed before are released") {
                try await service.database.count(sending) <= 1
            }
            for _ in 0..<10 { #expect(try await service.database.count(sending) <= 1) }
            kakao.endFaults()
            try await eventually("all arrive") { Set(kakao.callbackWebhooks) == ids }
            try await eventually("all are accepted") { try await api.unacceptedWebhooks().isEmpty }
            #expect(kakao.webhookBodies.values.allSatisfy { Set($0).count == 1 })
        }
    }

    @Test("An endpoint that is gone gets nothing, also after a restart, until a test succeeds")
    func gone() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            kakao.failWebhooks(status: 410, times: 1)
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("1")
                try await eventually("the endpoint is gone") { try await api.endpointState() == "gone" }
            }
            try await RunningServer.with(settings) { api in
                try await api.linkCallback("2")
                #expect(try await api.endpointState() == "gone")
                let failed = kakao.failWebhooks(status: 500, times: 1)
                let refused = try await api.post("/v1/webhooks/test")
                #expect(refused.json?["delivered"] == false && refused.json?["status"] == 500)
                #expect(kakao.sandbox.timesApplied(failed) == 1)
                #expect(try await api.endpointState() == "gone")
                #expect(kakao.sandbox.webhooks().isEmpty)
                let accepted = try await api.post("/v1/webhooks/test")
                #expect(accepted.json?["delivered"] == true && accepted.json?["status"] == 200)
                #expect(accepted.json?["text"]?.string == "received ")
                try await eventually("both arrive") { Set(kakao.callbackWebhooks) == ["1", "2"] }
                #expect(kakao.webhooks(.test).first?.id == accepted.json?["id"]?.string)
                #expect(try await api.endpointState() == "delivering")
            }
            // Another address is another endpoint.
            kakao.failWebhooks(status: 410, times: 1)
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
            kakao.failWebhooks(status: 410, times: 1)
            try await database.pool.withTransaction { transaction in
                try await transaction.execute(
                    script: """
                        CREATE FUNCTION reject_state() RETURNS trigger LANGUAGE plpgsql
                        AS $$ BEGIN RAISE 'not stored'; END $$;
                        CREATE TRIGGER reject_state BEFORE UPDATE ON webhook_endpoints
                        FOR EACH ROW WHEN (NEW.state = 'gone') EXECUTE FUNCTION reject_state();
                        """
                )
            }
            try await api.linkCallback("second")
            try await eventually("the state was to be stored several times") {
                service.log.messages(.debug).count { $0 == "Queue pass failed" } > 2
            }
            #expect(try await api.endpointState() == "delivering")
            #expect(kakao.callbackWebhooks == ["first"])
            try await database.pool.write("DROP TRIGGER reject_state ON webhook_endpoints")
            try await eventually("the state is stored") { try await api.endpointState() == "gone" }
            try await api.linkCallback("third")
            kakao.failWebhooks(status: 500, times: 1)
            #expect(try await api.post("/v1/webhooks/test").json?["status"] == 500)
            #expect(kakao.callbackWebhooks == ["first"])
            #expect(try await api.post("/v1/webhooks/test").json?["delivered"] == true)
            try await eventually("all arrive") { Set(kakao.callbackWebhooks) == ["first", "second", "third"] }
            #expect(service.log.messages.count { $0 == "Webhook endpoint is gone" } == 1)
            let metrics = try await api.metrics()
            #expect(metrics.value("kakao_push_webhook_requests_total", ["outcome": "gone"]) == 1)
        }
    }

    @Test("A redirect is a failure and is not followed; a long response is cut off and counts by its status")
    func responses() async throws {
        try await withWebhooks { service in
            let redirect = service.kakao.failWebhooks(status: 307, times: 1)
            let redirected = try await service.api.post("/v1/webhooks/test")
            #expect(redirected.json?["delivered"] == false && redirected.json?["status"] == 307)
            #expect(service.kakao.sandbox.timesApplied(redirect) == 1)
            #expect(service.kakao.sandbox.webhooks().isEmpty)
            service.kakao.failWebhooks(status: 200, times: 1) { $0.bodyBytes = 4_000_000 }
            let long = try await service.api.post("/v1/webhooks/test")
            #expect(long.json?["delivered"] == true && long.json?["text"]?.string == String(repeating: "x", count: 200))
        }
    }

    @Test("The erasure of a user deletes the webhooks about the user in every state, and leaves no trace of the id")
    func erasure() async throws {
        let (user, other): (Int64, Int64) = (734_251_998_877, 734_251_998_878)
        try await withWebhooks {
            $0.callbacks.userIDArgument = "product_id"
        } _: { service in
            let (api, kakao, database) = (service.api, service.kakao, service.database)
            kakao.failWebhooks(status: 410)
            for id in [user, other] {
                #expect(try await api.register(id, "token-\(id)").status == 200)
                #expect(try await api.deregister(id).status == 200)
                #expect(await kakao.sandbox.unlink(UnlinkNotice(userID: id)).isSent)
                #expect(try await kakao.sandbox.send(AccountEvent(userID: id)).isSent)
                try await api.linkCallback("call of \(id == user)", product: "\(id)")
            }
            try await eventually("the endpoint is gone") { try await api.endpointState() == "gone" }
            try await eventually("all wait") {
                try await database.count("webhook_events WHERE state = 'pending'") == 8
            }
            // A server that lives holds the claims.
            let lease = UUID()
            try await database.pool.write(
                "INSERT INTO work_leases (id, queue, ends_at) VALUES ($1, 'webhooks', now() + interval '1 hour')",
                [.uuid(lease)]
            )
            try await database.pool.write(
                """
                INSERT INTO webhook_events (id, endpoint, type, user_id, subject, data, state, lease)
                SELECT gen_random_uuid(), 'default', type, user_id, subject, data, copied, CASE copied WHEN 'sending' THEN $1::uuid END
                FROM webhook_events
                CROSS JOIN unnest('{sending,delivered,failed,dropped}'::text[]) AS copied
                """,
                [.uuid(lease)]
            )
            func traces(of user: Int64) async throws -> Int {
                try await database.count("webhook_events AS event WHERE event::text LIKE '%\(user)%'")
            }
            // The webhook of a callback has nothing of it before it is sent.
            let count = try await traces(of: other)
            #expect(try await traces(of: user) == count && count >= 5)
            #expect(try await api.delete("/v1/users/\(user)").status == 204)
            #expect(try await traces(of: user) == 0)
            #expect(try await traces(of: other) == count)
            // The callback is delivered without the user's id.
            try await database.pool.write("DELETE FROM webhook_events WHERE state <> 'pending'")
            kakao.sandbox.removeFaults()
            #expect(try await api.post("/v1/webhooks/test").json?["delivered"] == true)
            _ = try await kakao.webhooks(.linkCallbackReceived, count: 2)
            _ = try await kakao.webhooks(.deviceWithdrawn, count: 1)
            try await eventually("none waits") { try await api.endpoint()?["pending"] == 0 }
            #expect(!kakao.sandbox.webhooks().contains { $0.body.contains("\(user)") })
        }
    }
}
