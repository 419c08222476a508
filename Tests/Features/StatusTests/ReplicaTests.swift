import Crypto
import HTTPClient
import JSON
import KakaoSandbox
import PrivatePostgres
import Pushes
import Server
import ServiceTesting
import TestSupport
import Testing

/// A server that reads from a standby (`database.read_url`).
@Suite(.timeLimit(.minutes(5))) struct ReplicaTests {
    private static let export = "/v1/devices/export?reason=Test"
    /// The lists and exports that the replica answers, and the table that each reads.
    private static let lists = [
        ("/v1/pushes", "pushes"), ("/v1/audiences", "audiences"), ("/v1/messages", "messages"),
        ("/v1/link/callbacks", "link_callbacks"), ("/v1/link/callbacks/export?reason=Test", "link_callbacks"),
        ("/v1/events", "events"),
        ("/v1/events?type=unlink", "events"), ("/v1/events?user_id=1", "events"), ("/v1/link/shares", "shares"),
        ("/v1/link/shares?campaign=a", "shares"), ("/v1/images", "images"), ("/v1/accounts", "accounts"),
        ("/v1/link/stats", "share_statistics_days"), ("/v1/link/stats?by=hour", "share_statistics"),
        (export, "devices"), ("/v1/audit", "audit_records"),
    ]

    private static func state(_ api: TestClient) async throws -> JSONValue? {
        try await api.get("/v1/status").json?["database"]?["replica"]
    }

    private static func expect(_ api: TestClient, _ state: JSONValue) async throws {
        try await eventually("the replica is \(state)") { try await self.state(api)?["state"] == state }
    }

    @discardableResult
    private static func run(_ sql: String, _ url: String) async throws -> String {
        let result = try await Program.run(["psql", url, "-v", "ON_ERROR_STOP=1", "-Atqc", sql])
        try #require(result.status == 0, "\(result.text)")
        return result.text
    }

    /// Lets the standby replay nothing until `pg_wal_replay_resume()`.
    private static func pauseReplay(_ pair: TestPair) async throws {
        try await run("SELECT pg_wal_replay_pause()", pair.standbyURL)
        try await eventually("replay is paused") {
            try await run("SELECT pg_get_wal_replay_pause_state()", pair.standbyURL).hasPrefix("paused")
        }
    }

    /// Runs `body` with a server that reads from a standby.
    private static func withServer(
        maximumLag: Duration,
        above approvalLimit: Int? = nil,
        _ body: (TestClient, TestPair) async throws -> Void
    ) async throws {
        try await withStandbyAndKakao { pair, kakao in
            var settings = Settings.test(pair.primaryURL, kakao: kakao.sandbox.url)
            settings.replicaURL = Secret(pair.standbyURL)
            settings.maximumReplicaLag = maximumLag
            settings.pushes.approvalAboveUsers = approvalLimit
            try await RunningServer.with(settings) { api in
                try await expect(api, "ok")
                try await body(api, pair)
            }
        }
    }

    @Test("Lists, exports and dry runs are read from the replica, and single objects from the primary")
    func reads() async throws {
        try await Self.withServer(maximumLag: .seconds(3600)) { api, pair in
            #expect(try await api.register(1, "first").status == 200)
            try await eventually("the replica has the device") {
                try await api.get(Self.export).text.contains("first")
            }
            let push = try await api.push([1])
            try await Self.pauseReplay(pair)

            // The replica does not have it, and the primary does.
            #expect(try await api.register(2, "second").status == 200)
            #expect(try await !api.get(Self.export).text.contains("second"))
            #expect(try await api.get("/v1/users/2/devices").json?["items"]?.array?.count == 1)
            let dryRun = try await api.post("/v1/pushes", json: pushBody(["everyone": true], gcm(), ["dry_run": true]))
            #expect(dryRun.json?["users"]?["total"] == 1)
            // The replica does not have the audience, which the dry run is about.
            #expect(try await api.put("/v1/audiences/new", Array("2\n".utf8)).status == 201)
            let named = pushBody(["audience": "new"], gcm(), ["dry_run": true])
            #expect(try await api.post("/v1/pushes", json: named).json?["users"]?["total"] == 1)

            // Only the replica can answer now. The audit log comes last, since exports write it.
            for (list, table) in Self.lists {
                try await Self.run("ALTER TABLE IF EXISTS \(table) RENAME TO \(table)_hidden", pair.primaryURL)
                let response = try await api.get(list)
                #expect(response.status == 200, "\(list): \(response.text)")
            }
            #expect(try await api.get(push).status == 500)
        }
    }

    @Test("Whether a push needs an approval, and whether it is a repetition, is read from the primary")
    func deciding() async throws {
        try await Self.withServer(maximumLag: .seconds(3600), above: 2) { api, pair in
            try await Self.pauseReplay(pair)
            for userID in 1...3 { #expect(try await api.register(Int64(userID), "token-\(userID)").status == 200) }
            #expect(try await api.put("/v1/audiences/new", Array("1\n2\n3\n".utf8)).status == 201)
            for audience in [["everyone": true], ["audience": "new"]] as [JSONValue] {
                let push = try await api.post("/v1/pushes", json: pushBody(audience))
                #expect(push.json?["state"] == "proposed", "\(push.text)")
            }

            let repeating = api.with(idempotencyKey: "the-same")
            let first = try await repeating.create(uuids([1]))
            #expect(try await repeating.create(uuids([1])) == first)
        }
    }

    @Test("A replica that is a minute behind is not read until it has caught up, nor one that does not respond")
    func lag() async throws {
        try await Self.withServer(maximumLag: .seconds(15)) { api, pair in
            try await Self.pauseReplay(pair)
            #expect(try await api.register(1, "first").status == 200)
            try await Self.expect(api, "behind")
            #expect(try await Self.state(api)?["lag_seconds"]?.number?.double ?? 0 >= 15)
            #expect(try await api.get(Self.export).text.contains("first"))
            let metrics = try await api.metrics()
            #expect(metrics.value("kakao_push_replica_up") == 0)
            #expect(metrics.value("kakao_push_replica_lag_seconds") ?? 0 >= 15)

            try await Self.run("SELECT pg_wal_replay_resume()", pair.standbyURL)
            try await Self.expect(api, "ok")
            try await eventually("the metrics show it") { try await api.metrics().value("kakao_push_replica_up") == 1 }

            await pair.standby.stop(.immediate)
            #expect(try await api.get(Self.export).text.contains("first"))
            try await Self.expect(api, "unreachable")
            #expect(try await Self.state(api)?["lag_seconds"] == .null)
            #expect(try await api.get("/readyz").status == 200)
        }
    }

    @Test("A program that polls with stored_since reads the primary, so that it misses nothing")
    func polling() async throws {
        try await Self.withServer(maximumLag: .seconds(3600)) { api, pair in
            try await Self.pauseReplay(pair)
            let admin = api.with("KakaoAK \(Keys.admin)")
            let call = try await admin.get("/kakao/link/callback", ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1"])
            #expect(call.status == 200)
            func count(_ path: String) async throws -> Int? { try await api.get(path).json?["items"]?.array?.count }
            #expect(try await count("/v1/link/callbacks") == 0)
            #expect(try await count("/v1/link/callbacks?stored_since=2026-01-01T00:00:00Z") == 1)
        }
    }
}
