import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Runtime
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Postgres
@testable import Pushes

/// Tests of `GET /v1/status`.
@Suite(.timeLimit(.minutes(5))) struct StatusTests {
    @Test("The status lists all servers, and this one's calls to Kakao with those that failed")
    func servers() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    try await eventually("both servers hold a lease") {
                        try await database.count("work_leases WHERE queue = 'pushes'") == 2
                    }
                    let servers = try #require(try await second.get("/v1/status").json?["servers"]?.array)
                    #expect(servers.count == 2)
                    for server in servers {
                        #expect(server["version"]?.string == ServerVersion.current)
                        #expect(server["host"]?.string?.isEmpty == false)
                        #expect(server["uptime_seconds"]?.integer ?? -1 >= 0)
                    }
                    kakao.fail("send", .status, times: 1) { $0.status = 500 }
                    try await database.addPhones([1])
                    let push = try await first.create(uuids([1]), gcm())
                    try await first.waitUntilDone(push)
                    let shown = [try await first.get("/v1/status").json, try await second.get("/v1/status").json]
                    let calls = shown.map { $0?["kakao"]?["calls"]?.integer ?? -1 }
                    let failed = shown.map { $0?["kakao"]?["failed_calls"]?.integer ?? -1 }
                    // Either server may have sent it.
                    #expect(calls.sorted() == [0, 2] || calls == [1, 1])
                    #expect(failed.reduce(0, +) == 1)
                }
            }
        }
    }

    @Test("The calls to Kakao in this month are those of all servers, also of stopped ones")
    func callsThisMonth() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await database.addPhones(Array(1...3))
            for expected in [3, 6] {
                try await RunningServer.with(settings) { api in
                    for user in Int64(1)...3 { try await api.waitUntilDone(api.create(uuids([user]), gcm())) }
                }
                #expect(try await database.integer("SELECT sum(calls)::bigint FROM kakao_calls") == Int64(expected))
            }
            try await RunningServer.with(settings) { api in
                let status = try await api.get("/v1/status").json?["kakao"]
                #expect(status?["calls_this_month"] == 6 && status?["calls_per_month"] == 3_000_000)
            }
        }
    }

    @Test("The status counts unfinished pushes and messages, and shows the oldest that waits for somebody")
    func unfinished() async throws {
        try await withService { service in
            let pool = service.database.pool
            let states: [(PushState, Int)] = [(.proposed, 1), (.scheduled, 2), (.paused, 2), (.halted, 3), (.done, 4)]
            for (state, count) in states {
                try await pool.write(
                    """
                    INSERT INTO pushes (id, name, state, reason, stopped_by, audience, message, message_version, send_at)
                    SELECT gen_random_uuid(), 'p' || number, '\(state.rawValue)', CASE WHEN '\(state.rawValue)' = 'halted' THEN 'broken' END,
                        'kim', '{}', '{}', 'v1', now() + interval '1 day'
                    FROM generate_series(1, \(count)) AS number
                    """
                )
            }
            try await pool.write(
                """
                INSERT INTO messages (id, sender, addressing, state, template_id, delivery, when_over_quota, created_at)
                SELECT ('00000000-0000-7000-8000-00000000000' || number)::uuid, 1, 'me', 'active', 1, 'at_most_once', 'wait', now()
                FROM generate_series(1, 3) AS number
                """
            )
            try await pool.write(
                """
                INSERT INTO message_receivers (message_id, position, state, due_at, reason)
                SELECT id, 0, 'waiting', now() + interval '1 hour',
                    CASE WHEN id > '00000000-0000-7000-8000-000000000001' THEN 'sender_quota' END
                FROM messages
                """
            )
            var status: JSONValue?
            try await eventually("the status shows them") {
                status = try await service.api.get("/v1/status").json
                return status?["messages"]?["attention"]?.array?.count == 1
                    && status?["pushes"]?["attention"]?.array?.count == 3
                    && status?["pushes"]?["states"]?["halted"] == 3
            }
            #expect(
                status?["pushes"]?["states"]
                    == ["proposed": 1, "scheduled": 2, "preparing": 0, "sending": 0, "paused": 2, "halted": 3]
            )
            let attention = status?["pushes"]?["attention"]?.array ?? []
            #expect(attention.map { $0["state"] } == ["halted", "proposed", "paused"])
            let oldest = try await pool.read("SELECT min(id::text) FROM pushes WHERE state = 'halted'")
                .map { try $0.decode(String.self) }
            #expect(attention.first?["id"]?.string == oldest.first)
            #expect(attention.map { $0["reason"] } == ["broken", "It waits for an approval.", "Paused by kim."])
            let waiting = status?["messages"]?["attention"]?.array?.first
            #expect(waiting?["id"] == "00000000-0000-7000-8000-000000000002" && waiting?["reason"] == "sender_quota")
            #expect(waiting?["remedy"]?.string?.contains("midnight") == true)
            #expect(status?["messages"]?["states"] == ["scheduled": 0, "sending": 3])
        }
    }

    @Test("The status has the pushes as they are, however recently it was asked for before")
    func fresh() async throws {
        try await withService { service in
            let push = try await service.api.create(uuids([1]), gcm(), ["send_at": time(in: 3600)])
            for (control, state) in [("pause", "paused"), ("resume", "scheduled"), ("pause", "paused")] {
                #expect(try await service.api.control(push, control) == 200)
                let pushes = try await service.api.get("/v1/status").json?["pushes"]
                #expect(pushes?["states"]?[state] == 1, "\(String(describing: pushes))")
                #expect(pushes?["attention"]?.array?.map { $0["state"] } == (state == "paused" ? ["paused"] : []))
            }
        }
    }

    @Test("A status of the last second is given to those who accept it, and no older one")
    func sharedForASecond() async throws {
        try await withService { service in
            let push = try await service.api.create(uuids([1]), gcm(), ["send_at": time(in: 3600)])
            var page = service.api
            page.headerFields[.cacheControl] = "max-age=1"
            func isPaused(_ client: TestClient) async throws -> Bool {
                try await client.get("/v1/status").json?["pushes"]?["states"]?["paused"] == 1
            }
            try await eventually("a status of the last second is given") {
                _ = try await service.api.control(push, "pause")
                _ = try await isPaused(service.api)
                _ = try await service.api.control(push, "resume")
                return try await isPaused(page)
            }
            try await eventually("the status is read again") { try await !isPaused(page) }
            #expect(try await !isPaused(service.api))
            page.headerFields[.cacheControl] = "no-cache, max-age=1"
            _ = try await service.api.control(push, "pause")
            #expect(try await isPaused(page))
        }
    }

    @Test("The oldest push of each stopped state is one entry of an index, however many there are")
    func oldestOfMany() async throws {
        try await TestDatabase.with { database in
            try await database.pool.write(
                """
                INSERT INTO pushes (id, state, audience, message, message_version)
                SELECT gen_random_uuid(), CASE WHEN number % 2 = 0 THEN 'paused' ELSE 'done' END, '{}', '{}', 'v1'
                FROM generate_series(1, 20000) AS number
                """
            )
            try await database.pool.write("ANALYZE pushes")
            let rows = try await database.rowsRead(by: ListStoppedPushes.sql.text, types: "int", values: "1")
            #expect(rows < 50, "rows read: \(rows)")
        }
    }

    @Test("The access log names the key of the caller")
    func accessLog() async throws {
        try await withService { service in
            let keys = OperatorKeyStore(pool: service.database.pool)
            let key = try await keys.create(name: "dashboard", scopes: [.read], expiresAt: nil)
            let reader = service.api.with("Bearer \(key)")
            #expect(try await reader.get("/v1/pushes").status == 200)
            #expect(try await reader.post("/v1/pushes", json: [:]).status == 403)
            #expect(try await service.api.get("/v1/pushes").status == 200)
            #expect(try await service.api.with(nil).get("/v1/pushes").status == 401)
            func named(_ message: String) -> [String?] {
                service.log.lines.filter { $0.message == message }.map { $0.metadata["key"] }
            }
            #expect(named("GET /v1/pushes 200") == ["dashboard", "operator.key"])
            #expect(named("POST /v1/pushes 403") == ["dashboard"])
            #expect(named("GET /v1/pushes 401") == [nil])
        }
    }
}
