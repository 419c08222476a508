import Endpoints
import FoundationEssentials
import HTTPClient
import Identity
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Server

/// Tests of `/readyz`, which is for load balancers, and of `GET /v1/status`, which is for operators.
@Suite(.timeLimit(.minutes(5))) struct ReadinessTests {
    @Test("Readiness is checked at most once a second on each event loop, and needs no key")
    func cached() async throws {
        try await withService { service in
            let caller = service.api.with(nil)
            func statements() async throws -> Double {
                try await service.api.metrics().value("kakao_push_database_statements_total") ?? 0
            }
            let start = ContinuousClock.now
            let before = try await statements()
            for _ in 0..<150 { #expect(try await caller.get("/readyz").isReadyOrLate) }
            let count = try await statements() - before
            let seconds = Double(start.duration(to: .now).components.seconds + 1)
            // Two loops with three statements each. The 40 are for background work.
            #expect(count < 2 * 3 * seconds + 40)
        }
    }

    @Test("While migrations run, even a server with a journal is not ready, but it accepts Kakao's calls")
    func migrating() async throws {
        try await withDatabaseAndKakao(.nothing) { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.journal.directory = "\(try TemporaryFolder.make())/journal"
            let lock = "hashtextextended('schema_migrations ' || current_schema(), 0)"
            let server = try await database.pool.withTransaction { transaction in
                // The lock that another server would hold while it migrates.
                _ = try await transaction.query("SELECT pg_advisory_xact_lock(\(lock))")
                let server = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
                let api = TestClient(url: server.url)
                try await eventually("readiness shows the state of the database") {
                    let answer = try await api.get("/readyz")
                    #expect(answer.status == 503)
                    return answer.json?["checks"]?["database"] == "migrating"
                }
                let callback = try await api.with("KakaoAK \(Keys.admin)").get(
                    "/kakao/link/callback",
                    ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1"]
                )
                #expect(callback.status == 200)
                #expect(try await api.register(1, "token").status == 503)
                return server
            }
            let api = TestClient(url: server.url)
            try await eventually("the server is ready") { try await api.get("/readyz").status == 200 }
            try await eventually("the call is stored") { try await database.count("link_callbacks") == 1 }
            try await server.stop()
        }
    }

    @Test("A server that the database refuses from the start is not ready, even with a journal")
    func refused() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let name = try await database.text("SELECT current_database()::text")
            let url = database.url.replacing("/\(name)", with: "/\(name)_missing")
            var settings = Settings.test(url, kakao: kakao.sandbox.url)
            settings.journal.directory = "\(try TemporaryFolder.make())/journal"
            let server = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
            let api = TestClient(url: server.url)
            try await eventually("readiness shows the state of the database") {
                let answer = try await api.get("/readyz")
                // The state is unknown until the first attempt to connect has ended.
                guard answer.json?["checks"]?["database"] == "refused" else { return false }
                return answer.status == 503
            }
            try await server.stop()
        }
    }

    @Test("A server stays ready after a newer one has migrated the database")
    func newerSchema() async throws {
        try await withService { service in
            try await service.database.pool.write(
                "INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'of_a_newer_server', '')"
            )
            // Longer than a result is cached.
            let end = ContinuousClock.now + .seconds(1.5)
            while ContinuousClock.now < end {
                #expect(try await service.api.get("/readyz").isReadyOrLate)
                try await Task.sleep(for: .milliseconds(20))
            }
            try await service.api.waitUntilReady()
        }
    }

    @Test("A server stays ready after a newer one has changed a function")
    func newerFunction() async throws {
        try await withService { service in
            try await service.database.pool.write("UPDATE schema_functions SET checksum = 'of a newer server'")
            // Longer than a result is cached.
            let end = ContinuousClock.now + .seconds(1.5)
            while ContinuousClock.now < end {
                #expect(try await service.api.get("/readyz").isReadyOrLate)
                try await Task.sleep(for: .milliseconds(20))
            }
            try await service.api.waitUntilReady()
        }
    }

    @Test(
        "The status shows sender, backlog, journal, database, Kakao and servers to keys with the scope read"
    )
    func status() async throws {
        try await withService { service in
            let before = try #require(try await service.api.get("/v1/status").json?.object)
            #expect(
                before.members.map(\.name) == [
                    "sender", "backlog", "pushes", "messages", "webhook_endpoints", "journal", "database", "kakao",
                    "servers",
                ]
            )
            #expect(
                before["sender"] == [
                    "state": "running", "reason": nil, "remedy": nil, "stopped_at": nil, "stopped_by": nil,
                ]
            )
            #expect(before["backlog"]?.description == #"{"batches":0,"oldest_seconds":0.0}"#)
            #expect(before["journal"] == .null)
            #expect(before["database"]?["up"] == true)
            try await eventually("no statement waits") {
                try await service.api.get("/v1/status").json?["database"]?["waiting"] == 0
            }
            #expect(before["kakao"]?["state"] == "unknown")
            let server = before["servers"]?[0]
            #expect(server?["version"]?.string?.isEmpty == false)
            #expect((server?["uptime_seconds"]?.integer ?? -1) >= 0)

            #expect(try await service.api.register(1, "token").status == 200)
            #expect(try await service.api.get("/v1/status").json?["kakao"]?["state"] == "reachable")
            service.kakao.fail("register", .down)
            #expect(try await service.api.register(2, "token-2").isPending)
            let kakao = try await service.api.get("/v1/status").json?["kakao"]
            #expect(kakao?["state"] == "unreachable")
            #expect(kakao?["last_error"] == "unreachable")
            #expect(kakao?["last_error_at"]?.string?.hasSuffix("Z") == true)

            #expect(try await service.api.with(nil).get("/v1/status").status == 401)
            let store = OperatorKeyStore(pool: service.database.pool)
            let sender = try await store.create(name: "sender", scopes: [.send], expiresAt: nil)
            #expect(try await service.api.with("Bearer \(sender)").get("/v1/status").status == 403)
            let reader = try await store.create(name: "reader", scopes: [.read], expiresAt: nil)
            #expect(try await service.api.with("Bearer \(reader)").get("/v1/status").status == 200)
        }
    }
}
