import Endpoints
import FoundationEssentials
import HTTPClient
import Identity
import JSON
import KakaoSandbox
import Messages
import Postgres
import Pushes
import Runtime
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Tests of `POST /v1/sender/stop` and `/start`.
@Suite(.timeLimit(.minutes(5))) struct SenderControlTests {
    @Test("A stopped sender sends neither pushes nor messages, also after a restart, and continues when it is started")
    func restart() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.keepAccounts()
            settings.pushes.intervals = WorkIntervals(lease: .seconds(2))
            settings.messages.intervals = settings.pushes.intervals
            let log = CollectedLog()
            var push = ""
            var message = ""
            try await RunningServer.with(settings, log: log) { api in
                try await database.addPhones([1])
                try kakao.sandbox.befriend(1, [101])
                try #require(try await api.logIn(1, at: kakao).status == 200)
                let stopped = try await api.post("/v1/sender/stop", json: ["reason": "Wrong text"])
                #expect(stopped.status == 200)
                #expect(stopped.json?["state"] == "stopped" && stopped.json?["stopped_by"] == "operator.key")
                // A second operator changes nothing.
                let again = try await api.post("/v1/sender/stop", json: ["reason": "Another reason"])
                #expect(again.json?["reason"] == "Wrong text")
                #expect(log.messages.contains { $0.contains("Sender stopped") })
                push = try await api.create(uuids([1]), gcm("stopped"))
                let sent = try await api.post("/v1/messages", json: ["sender": "1", "to": "me", "template_id": 7])
                try #require(sent.status == 202)
                message = "/v1/messages/\(sent.json?["id"]?.string ?? "")"
                try await eventually("the push is prepared") { try await api.state(push) == "sending" }
                let ready = try await api.get("/readyz")
                #expect(ready.status == 200 && ready.json?["checks"]?["sender"] == "stopped")
                #expect(try await api.metrics().sender == ["stopped"])
            }
            try await RunningServer.with(settings) { api in
                let sender = try await api.get("/v1/status").json?["sender"]
                #expect(sender?["state"] == "stopped" && sender?["reason"] == "Wrong text")
                #expect(sender?["remedy"]?.string?.contains("sender start") == true)
                try await database.waitForRenewals()
                #expect(kakao.sandbox.timesReached(1, marker: "stopped") == 0)
                #expect(kakao.sandbox.talkMessages().isEmpty)
                let started = try await api.post("/v1/sender/start")
                #expect(started.status == 200 && started.json?["state"] == "running")
                #expect(started.json?["reason"] == .null)
                try await api.waitUntilDone(push)
                try await eventually("the message is sent") { try await api.get(message).json?["state"] == "done" }
                #expect(kakao.sandbox.timesReached(1, marker: "stopped") == 1)
                #expect(kakao.sandbox.talkMessages().count == 1)
                #expect(try await api.post("/v1/sender/start").status == 200)
            }
        }
    }

    @Test("After a stop no server claims batches, even without notifications; a start resumes")
    func threeServers() async throws {
        try await withDatabaseAndKakao { database, kakao in
            try await database.suppressNotifications()
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.maximumConcurrentRequests = 8
            settings.pushes.intervals = WorkIntervals(lease: .seconds(2))
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    try await RunningServer.with(settings) { third in
                        try await database.addPhones(1...60_000)
                        kakao.fail("send", .latency) { $0.milliseconds = 600_000 }
                        let push = try await first.create(["everyone": true], gcm("many"))
                        try await eventually("each server is sending") { kakao.requests("send") >= 24 }
                        #expect(try await second.post("/v1/sender/stop", json: ["reason": "Stop."]).status == 200)
                        let claims = try await database.claimedBatches()
                        kakao.sandbox.removeFaults()
                        kakao.sandbox.skipDelays()
                        try await eventually("the servers have released what they had claimed") {
                            try await database.openBatches() == 0
                        }
                        let sends = kakao.sandbox.reached(marker: "many").sends
                        try await database.waitForRenewals()
                        #expect(try await database.claimedBatches() == claims)
                        #expect(try await database.count("push_batches WHERE claims > 1") == 0)
                        #expect(kakao.sandbox.reached(marker: "many").sends == sends)
                        #expect(try await third.state(push) == "sending")
                        #expect(try await third.post("/v1/sender/start").status == 200)
                        try await first.waitUntilDone(push)
                        let reached = kakao.sandbox.reached(marker: "many")
                        // On a busy machine, requests may have taken longer than the servers wait.
                        let repeated = try await first.get(push).json?["users"]?["may_repeat"]?.integer
                        #expect(reached.users == 60_000)
                        #expect(try reached.times <= 60_000 + Int(#require(repeated)))
                    }
                }
            }
        }
    }

    @Test("Stopping needs the scope operate; pausing a push needs send or operate")
    func scopes() async throws {
        try await withService { service in
            let keys = OperatorKeyStore(pool: service.database.pool)
            func caller(_ scope: Scope) async throws -> TestClient {
                let key = try await keys.create(name: scope.rawValue, scopes: [scope], expiresAt: nil)
                return service.api.with("Bearer \(key)")
            }
            let (send, operate, read) = (try await caller(.send), try await caller(.operate), try await caller(.read))
            try await service.database.addPhones([1])
            let push = try await send.create(uuids([1]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            for stranger in [send, read] {
                #expect(try await stranger.post("/v1/sender/stop", json: ["reason": "No"]).status == 403)
                #expect(try await stranger.post("/v1/sender/start").status == 403)
            }
            #expect(try await operate.control(push, "pause") == 200)
            #expect(try await send.control(push, "resume") == 200)
            let refused = try await read.post("\(push)/pause")
            #expect(refused.status == 403 && refused.json?["detail"]?.string?.contains("send or operate") == true)
            #expect(try await operate.post("/v1/pushes", json: pushBody(uuids([1]), gcm())).status == 403)
            #expect(try await operate.post("/v1/sender/stop", json: [:]).status == 400)
            let stopped = try await operate.post("/v1/sender/stop", json: ["reason": "Maintenance"])
            #expect(stopped.json?["stopped_by"] == "operate")
        }
    }
}

extension TestDatabase {
    /// Lets `NOTIFY` reach no server, as when each notification is lost: the servers find this `pg_notify` first.
    fileprivate func suppressNotifications() async throws {
        try await pool.write("CREATE SCHEMA silent")
        try await pool.write("CREATE FUNCTION silent.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT'")
        let name = try await pool.read("SELECT current_database()").first?.decode(String.self) ?? ""
        try await pool.write("ALTER DATABASE \(name) SET search_path = public, silent, pg_catalog")
    }

    /// Waits until each lease of 2 s was renewed twice. At each renewal, a server looks for work.
    fileprivate func waitForRenewals() async throws {
        for _ in 0..<2 {
            let end = try await text("SELECT (clock_timestamp() + interval '2 s')::text")
            try await eventually("all leases were renewed") {
                try await count("work_leases WHERE ends_at < '\(end)'") == 0
            }
        }
    }

    /// Returns the number of batches that were claimed, whatever became of them.
    fileprivate func claimedBatches() async throws -> Int64 {
        try await integer("SELECT COALESCE(sum(claimed), 0)::bigint FROM push_parts")
    }

    /// Returns the number of batches that servers hold.
    fileprivate func openBatches() async throws -> Int64 {
        try await integer(
            """
            SELECT (SELECT count(*) FROM push_batches WHERE state = 'sending')
                + (SELECT COALESCE(sum(length(settled) - bit_count(settled)), 0)::bigint FROM push_claims WHERE lease IS NOT NULL)
            """
        )
    }
}
