import Crypto
import Endpoints
import Glibc
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import PrivatePostgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests with a PostgreSQL that accepts no changes, does not commit, or moves to another host.
@Suite(.timeLimit(.minutes(5))) struct DatabaseFailoverTests {
    /// Runs SQL on a PostgreSQL, even while it is read-only.
    private static func run(_ sql: [String], _ url: String) async throws {
        let pool = PostgresPool(
            settings: try PostgresSettings(url: "\(url)&options=-cdefault_transaction_read_only%3Doff"),
            loop: try Shared.loop,
            logger: quietLogger
        )
        pool.start()
        for sql in sql { try await pool.write(sql) }
        await pool.shutdown()
    }

    /// Lets a PostgreSQL accept no changes, or accept them again.
    private static func setReadOnly(_ isReadOnly: Bool, _ url: String) async throws {
        let value = isReadOnly ? "on" : "off"
        try await run(["ALTER SYSTEM SET default_transaction_read_only = \(value)", "SELECT pg_reload_conf()"], url)
    }

    private static func settings(_ url: String, _ kakao: TestKakao, hasJournal: Bool = false) throws -> Settings {
        var settings = Settings.test(url, kakao: kakao.sandbox.url)
        if hasJournal { settings.journal.directory = "\(try TemporaryFolder.make())/journal" }
        return settings
    }

    private static func callback(_ api: TestClient) async throws -> Int {
        try await api.with("KakaoAK \(Keys.admin)").get(
            "/kakao/link/callback",
            ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1"]
        ).status
    }

    /// Waits until `/readyz` shows a state of the database, with this status.
    private static func expect(_ api: TestClient, _ status: Int, _ database: JSONValue) async throws {
        try await eventually("readiness is \(status), \(database)") {
            let ready = try await api.get("/readyz")
            return ready.status == status && ready.json?["checks"]?["database"] == database
        }
    }

    @Test(
        "While PostgreSQL is read-only, callers get 503, Kakao's calls are journaled, and the server says so",
        arguments: [true, false]
    )
    func readOnly(hasJournal: Bool) async throws {
        try await withClusterAndKakao { _, url, kakao in
            let log = CollectedLog()
            try await RunningServer.with(Self.settings(url, kakao, hasJournal: hasJournal), log: log) { api in
                #expect(try await api.register(1, "token").status == 200)
                try await Self.setReadOnly(true, url)
                try await Self.expect(api, hasJournal ? 200 : 503, "read_only")
                #expect(try await api.register(2, "other").status == 503)
                #expect(try await api.post("/v1/pushes", form: [:]).status != 500)
                #expect(try await api.post("/v1/sender/stop", form: ["reason": "test"]).status == 503)
                #expect(try await Self.callback(api) == (hasJournal ? 200 : 503))
                #expect(try await api.metrics().value("kakao_push_database_up") == 0)
                let database = try await api.get("/v1/status").json?["database"]
                #expect(database?["up"] == false)
                #expect(database?["state"] == "read_only")
                // Reads are answered.
                #expect(try await api.get("/v1/users/1/devices").status == 200)

                try await Self.setReadOnly(false, url)
                try await Self.expect(api, 200, "ok")
                try await eventually("devices can be registered") { try await api.register(2, "other").status == 200 }
                if hasJournal {
                    try await eventually("the call is stored") {
                        try await api.get("/v1/status").json?["journal"]?["records"] == 0
                    }
                    try await eventually("the call can be read") {
                        try await api.get("/v1/link/callbacks").json?["items"]?.array?.count == 1
                    }
                }
                try await eventually("the metrics show it") {
                    try await api.metrics().value("kakao_push_database_up") == 1
                }
            }
            let lines = log.lines.filter { $0.message == "Database does not commit" }
            #expect(lines.count == 1)
            #expect(lines.first?.metadata["error"]?.contains("25006") == true)
            #expect(log.messages.filter { $0 == "Database commits again" }.count == 1)
        }
    }

    @Test("A server that starts with a read-only PostgreSQL waits until it accepts changes, and says why")
    func startedReadOnly() async throws {
        try await withClusterAndKakao { _, url, kakao in
            try await Self.setReadOnly(true, url)
            let log = CollectedLog()
            let settings = try Self.settings(url, kakao, hasJournal: true)
            let server = try await RunningServer.start(settings, log: log, awaitsDatabase: false)
            let api = TestClient(url: server.url)
            let line = await log.line { $0.message == "Waiting for the database" }
            #expect(line.metadata["error"]?.contains("the database is read-only") == true)
            try await Self.expect(api, 503, "read_only")
            #expect(try await Self.callback(api) == 200)
            try await Self.setReadOnly(false, url)
            try await Self.expect(api, 200, "ok")
            try await eventually("devices can be registered") { try await api.register(1, "token").status == 200 }
            try await server.stop()
        }
    }

    @Test("While commits wait for a synchronous standby that is gone, the server is not ready, and the status names it")
    func synchronousStandbyGone() async throws {
        try await withStandbyAndKakao(isSynchronous: true) { pair, kakao in
            try await RunningServer.with(Self.settings(pair.primaryURL, kakao)) { api in
                await pair.standby.stop(.immediate)
                try await Self.expect(api, 503, "not_committing")
                #expect(try await api.metrics().value("kakao_push_database_up") == 0)
                try await eventually("the status names what commits wait for") {
                    let database = try await api.get("/v1/status").json?["database"]
                    return database?["state"] == "not_committing"
                        && database?["waits"]?.array?.contains { $0["event"] == "SyncRep" } == true
                }
                try await pair.standby.start()
                try await Self.expect(api, 200, "ok")
                try await eventually("devices can be registered") { try await api.register(1, "token").status == 200 }
            }
        }
    }

    @Test("After the promotion of a standby at another host, devices can be registered again without a restart")
    func promotion() async throws {
        try await withStandbyAndKakao { pair, kakao in
            let url = TestPair.url(pair.primaryURL, pair.standbyURL)
            try await RunningServer.with(Self.settings(url, kakao)) { api in
                #expect(try await api.register(1, "token").status == 200)
                await pair.primary.stop(.immediate)
                try await eventually("registrations fail") { try await api.register(2, "other").status == 503 }
                try await pair.standby.promote()
                try await eventually("devices can be registered") { try await api.register(2, "other").status == 200 }
                try await Self.expect(api, 200, "ok")
            }
        }
    }

    @Test("A server whose first host hangs starts with the second")
    func frozenHost() async throws {
        try await withClusterAndKakao { _, url, kakao in
            try await TestCluster.with { frozen, frozenURL in
                let process = try #require(await frozen.processIdentifier)
                #expect(kill(process, SIGSTOP) == 0)
                defer { _ = kill(process, SIGCONT) }
                try await RunningServer.with(Self.settings(TestPair.url(frozenURL, url), kakao)) { api in
                    try await Self.expect(api, 200, "ok")
                    #expect(try await api.register(1, "token").status == 200)
                }
            }
        }
    }

    @Test("32 event loops work with the connections of a PostgreSQL with max_connections = 40")
    func manyLoops() async throws {
        try await withClusterAndKakao(["max_connections": "40"]) { _, url, kakao in
            var settings = try Self.settings(url, kakao)
            settings.loops = 32
            try await RunningServer.with(settings) { api in
                try await Self.expect(api, 200, "ok")
                // Each client connects to a loop of the kernel's choice.
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for number in 0..<64 {
                        group.addTask {
                            let client = TestClient(url: api.url)
                            for userID in 4 * number + 1...4 * number + 4 {
                                let status = try await client.register(Int64(userID), "token-\(userID)").status
                                guard status == 200 else { return status }
                            }
                            // A transaction.
                            return try await client.delete("/v1/users/\(4 * number + 1)").status
                        }
                    }
                    while let status = try await group.next() { #expect((200..<300).contains(status)) }
                }
                var postgres = try PostgresSettings(url: url)
                postgres.applicationName = "test"
                let pool = PostgresPool(settings: postgres, loop: try Shared.loop, logger: quietLogger)
                pool.start()
                // Twelve pools with two connections each, the listener, and up to five for transactions.
                try await eventually("no more connections are open than the setting allows") {
                    let count = try await pool.read(
                        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'push-server'"
                    ).first?.decode(Int64.self)
                    return (25...30).contains(count ?? 0)
                }
                await pool.shutdown()
            }
        }
    }
}
