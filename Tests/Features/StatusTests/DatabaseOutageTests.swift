import Crypto
import Endpoints
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import PrivatePostgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Identity

/// Tests with PostgreSQL unavailable, while the server runs and when it starts.
@Suite(.timeLimit(.minutes(5))) struct DatabaseOutageTests {
    /// Expects the documented behavior of a server without a database.
    ///
    /// - Parameter database: The state of the database in `/readyz`.
    private static func expectUnavailable(_ api: TestClient, _ database: JSONValue = "unreachable") async throws {
        let answers = [
            try await api.register(1, "token"), try await api.deregister(1),
            try await api.get("/v1/push/tokens", ["uuid": "1"]),
            try await api.post("/v1/push/send", form: ["uuids": "[1]", "push_message": "{}"]),
            try await api.get("/v1/link/callbacks"),
            try await api.with("KakaoAK \(Keys.admin)").get(
                "/kakao/link/callback",
                ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1"]
            ),
            // Not "unauthorized", since the server cannot check whether this key is valid.
            try await api.with("Bearer kps_some-other-key").register(1, "token"),
        ]
        for answer in answers {
            #expect(answer.status == 503)
            #expect(answer.headerFields[.retryAfter] == "1")
            #expect(answer.headerFields[.contentType] == "application/problem+json")
            #expect(answer.json?["type"] == "urn:kakao-push-server:error:database-unavailable")
            #expect(answer.json?["code"] == -9798)
        }
        let unknown = try await api.with("Bearer kps_some-other-key").get("/v1/status")
        #expect(unknown.status == 503 && unknown.json?["detail"]?.string?.contains("operator.key") == true)
        #expect(try await api.get("/healthz").status == 200)
        let ready = try await api.get("/readyz")
        #expect(ready.status == 503)
        #expect(ready.json?["ready"] == false)
        #expect(ready.json?["checks"]?["database"] == database)
        #expect(ready.json?["checks"]?["journal"] == "none")
    }

    @Test("While PostgreSQL is down requests get 503; when it is back the server resumes by itself")
    func stopped() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            try await RunningServer.with(.test(url, kakao: kakao.sandbox.url)) { api in
                #expect(try await api.register(1, "token").status == 200)
                kakao.fail("*", .down)
                let push = try await api.push([1], marker: "m")
                #expect(try await api.register(2, "other").isPending)

                await cluster.stop(.fast)
                try await eventually("readiness is false") { try await api.get("/readyz").status == 503 }
                try await Self.expectUnavailable(api)

                kakao.sandbox.removeFaults()
                try await cluster.start()
                try await eventually("readiness is back") { try await api.get("/readyz").status == 200 }
                try await api.waitUntilDone(push)
                #expect(kakao.sandbox.reached(marker: "m").times == 1)
                // Each event loop reconnects at its own time.
                try await eventually("devices can be registered") {
                    try await api.register(3, "third").status == 200
                }
                try await eventually("the stored device is registered at Kakao") {
                    try await !kakao.tokens(of: 2).isEmpty
                }
            }
        }
    }

    @Test("While PostgreSQL is down, a stopped sender is still shown as stopped, and one of a new server as unknown")
    func stoppedSender() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            let settings = Settings.test(url, kakao: kakao.sandbox.url)
            try await RunningServer.with(settings) { api in
                #expect(try await api.post("/v1/sender/stop", json: ["reason": "Wrong text"]).status == 200)
                #expect(try await api.get("/v1/status").json?["database"]?["up"] == true)
                await cluster.stop(.fast)
                #expect(try await api.get("/v1/status").json?["database"]?["up"] == false, "known at once")
                try await eventually("readiness is false") { try await api.get("/readyz").status == 503 }
                // Longer than the stop is cached.
                let end = ContinuousClock.now + .seconds(6)
                while ContinuousClock.now < end {
                    #expect(try await Self.senderStates(api) == Array(repeating: "stopped", count: 3))
                }
                let status = try await api.get("/v1/status").json
                #expect(status?["sender"]?["reason"] == "Wrong text" && status?["database"]?["up"] == false)
            }
            let server = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
            let api = TestClient(url: server.url)
            #expect(try await Self.senderStates(api) == Array(repeating: "unknown", count: 3))
            let sender = try await api.get("/v1/status").json?["sender"]
            #expect(sender?["reason"]?.string?.contains("PostgreSQL does not respond") == true)
            try await cluster.start()
            try await eventually("the stop is known") {
                try await Self.senderStates(api) == Array(repeating: "stopped", count: 3)
            }
            try await server.stop()
        }
    }

    /// Returns the state of the sender in the status, in the readiness and in the metrics.
    private static func senderStates(_ api: TestClient) async throws -> [String?] {
        [
            try await api.get("/v1/status").json?["sender"]?["state"]?.string,
            try await api.get("/readyz").json?["checks"]?["sender"]?.string,
            try await api.metrics().sender.first,
        ]
    }

    @Test("While PostgreSQL is down, an operator key that a reload has replaced is not accepted for the metrics")
    func replacedKey() async throws {
        try await withClusterAndKakao { cluster, url, _ in
            var settings = Settings.test(url, kakao: "http://127.0.0.1:1")
            try await RunningServer.run(settings) { server in
                let old = TestClient(url: server.url)
                let accepted = try await old.get("/metrics")
                #expect(accepted.status == 200)
                await cluster.stop(.fast)
                let key = "another-operator-key-of-the-tests-0123456789"
                settings.identity.operatorKey = Secret(key)
                await server.reload(settings)
                #expect(try await old.get("/metrics").status == 503)
                #expect(try await old.with("Bearer \(key)").get("/metrics").status == 200)
            }
        }
    }

    @Test("A server that starts without PostgreSQL responds 503, starts work once it is up, and can be stopped")
    func startedWithout() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            await cluster.stop(.fast)
            let settings = Settings.test(url, kakao: kakao.sandbox.url)
            let first = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
            try await Self.expectUnavailable(TestClient(url: first.url), "never_reached")
            try await first.stop()

            let second = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
            let api = TestClient(url: second.url)
            #expect(try await api.get("/readyz").status == 503)
            try await cluster.start()
            try await eventually("the server is ready") { try await api.get("/readyz").status == 200 }
            try await eventually("devices can be registered") {
                try await api.register(1, "token").status == 200
            }
            try await second.stop()
        }
    }
}
