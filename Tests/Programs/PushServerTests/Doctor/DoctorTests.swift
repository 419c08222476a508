import Crypto
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Net
import Postgres
import PrivatePostgres
import ServiceTesting
import Subprocess
import TestSupport
import Testing

@testable import Server
@testable import Settings
@testable import push_server

/// Tests of `push-server doctor` as a process, against a real database and the sandbox as Kakao.
@Suite(.timeLimit(.minutes(5))) struct DoctorTests {
    /// Runs `body` with a sandbox that has its own certificate, and with an environment that uses all of its features.
    private static func with(
        _ content: TestDatabase.Content = .schema,
        _ body: (TestDatabase, TestKakao, [String: String]) async throws -> Void
    ) async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.tls = true
        sandbox.certificateFile = "\(try TemporaryFolder.make())/kakao.pem"
        try await withDatabaseAndKakao(content, sandbox: sandbox) { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["FEEDBACK_SECRET"] = nil
            environment["HTTP_MAX_CONNECTIONS"] = "100"
            environment["KAKAO_AUTH_URL"] = kakao.sandbox.url
            environment["KAKAO_CA_CERTIFICATE_FILE"] = kakao.certificateFile
            environment["KAKAO_APP_ID"] = "123456"
            environment["KAKAO_NATIVE_APP_KEY"] = "fedcba9876543210fedcba9876543210"
            try await body(database, kakao, environment)
        }
    }

    @Test("For a correct configuration every line is ok or skipped, and the exit code is 0")
    func allRight() async throws {
        try await Self.with(.nothing) { database, kakao, environment in
            var environment = environment
            environment["KAKAO_ACCESS_TOKEN"] = kakao.sandbox.accessToken(of: 1)
            // A role that owns its database and has no other rights.
            let role = "owner_\(getpid())"
            let name = try await database.text("SELECT current_database()::text")
            try await database.pool.write("CREATE ROLE \(role)")
            try await database.pool.write("ALTER DATABASE \(name) OWNER TO \(role)")
            environment["DATABASE_URL"] = Self.url(database, as: role)
            environment["JOURNAL_DIRECTORY"] = "\(try TemporaryFolder.make())/journal"
            let examination = try await Examination(environment)
            #expect(examination.code == 0)
            for finding in examination.findings { #expect(["ok", "skipped"].contains(finding.state), "\(finding)") }
            for subject in [
                "settings", "operator.key", "kakao.api_url", "clock.kakao", "kakao.admin_key", "kakao.app_id",
                "kakao.auth_url", "identity.kakao_id_token", "database", "clock.database", "database.migrations",
                "database.role", "database.tls", "database.connections", "talk.quota_time_zone", "journal.directory",
            ] { #expect(examination[subject]?.state == "ok", "\(subject)") }
            // Nothing was changed.
            #expect(try await database.text("SELECT coalesce(to_regclass('devices')::text, 'none')") == "none")
            #expect(kakao.requests("send") == 0 && kakao.requests("register") == 0)

            let lines = try await Examination.lines([], environment)
            #expect(lines.count == examination.findings.count)
            #expect(lines.first == "ok       settings                 read from the environment")
            try await database.pool.write("ALTER DATABASE \(name) OWNER TO CURRENT_USER")
            try await database.pool.write("DROP OWNED BY \(role)")
            try await database.pool.write("DROP ROLE \(role)")
        }
    }

    /// Returns the URL of a database with another role for its sessions.
    private static func url(_ database: TestDatabase, as role: String) -> String {
        "\(database.url)\(database.url.contains("?") ? "&" : "?")options=-c%20role%3D\(role)"
    }

    @Test("With a sandbox on this machine, as dev has it, neither its keys nor a superuser's role are warnings")
    func sandbox() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["KAKAO_NATIVE_APP_KEY"] = "sandbox-native-app-key"
            let examination = try await Examination(environment)
            #expect(examination["identity.kakao_id_token"]?.state == "ok")
            #expect(examination["database.role"]?.state == "ok")
            #expect(examination["database.role"]?.text.contains("is a superuser") == true)
            // For Kakao itself they are.
            environment["KAKAO_CA_CERTIFICATE_FILE"] = nil
            let keys = try await Examination(environment)["identity.kakao_id_token"]
            #expect(keys?.state == "warning" && keys?.text.contains("does not look like a key") == true)
        }
    }

    @Test("A role with a superuser's rights is a warning")
    func superuser() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            let examination = try await Examination(environment)
            #expect(examination["database.role"]?.state == "warning")
            #expect(examination["database.role"]?.text.contains("is a superuser") == true)
            #expect(examination.code == 0)
            // A role that may become a superuser.
            let role = "member_\(getpid())"
            try await database.pool.write("CREATE ROLE \(role) IN ROLE postgres")
            environment["DATABASE_URL"] = Self.url(database, as: role)
            #expect(try await Examination(environment)["database.role"]?.text.contains("is a superuser") == true)
            try await database.pool.write("DROP ROLE \(role)")
        }
    }

    @Test(
        "A database on another machine is a warning unless TLS verifies its identity",
        arguments: [
            ("postgres:///push", false, "prefer"), ("postgres://push@localhost/push", false, "prefer"),
            ("postgres://push@127.0.0.2/push", false, "prefer"), ("postgres://push@[::1]/push", false, "prefer"),
            ("postgres:///push?host=/run/postgresql", false, "prefer"), ("host=db.example.com", true, "prefer"),
            ("postgres://push@db.example.com/push?sslmode=require", true, "require"),
            ("postgres://push@db.example.com/push?sslmode=verify-full", true, "verify-full"),
            ("postgres://push@db.example.com/push?sslmode=verify-ca", true, "verify-ca"),
            ("postgres://push@localhost,db.example.com/push", true, "prefer"),
            ("postgres://push@localhost/push?hostaddr=192.0.2.1", true, "prefer"),
        ]
    )
    func databaseTLS(url: String, isRemote: Bool, mode: String) throws {
        let settings = try PostgresSettings(url: url)
        #expect(settings.isRemote == isRemote)
        #expect(settings.tlsMode == mode)
        let verdict = DatabaseChecks.tls(settings)
        #expect(verdict.state == (isRemote && !mode.hasPrefix("verify") ? .warning : .ok), "\(verdict.text)")
    }

    @Test("An Admin key that Kakao refuses is the only finding that is wrong")
    func wrongAdminKey() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["KAKAO_ADMIN_KEY"] = "0000000000000000000000000000abcd"
            var examination = try await Examination(environment)
            #expect(examination.code == 1)
            #expect(examination.wrong == ["kakao.admin_key"])
            #expect(examination["kakao.admin_key"]?.text.contains("code -401: wrong appKey") == true)

            environment["KAKAO_ADMIN_KEY"] = "fedcba9876543210fedcba9876543210"
            examination = try await Examination(environment)
            #expect(examination["kakao.admin_key"]?.text.contains("it is another key of the app") == true)
            #expect(
                examination["identity.kakao_id_token"]?.text.hasPrefix("kakao.native_app_key is the Admin key") == true
            )
        }
    }

    @Test("Kakao's error for the Admin key is reported with a remedy, and a temporary error is only a warning")
    func refusals() async throws {
        let cases: [(status: Int, code: Int?, message: String, state: String, text: String)] = [
            (
                401, -401, "ip mismatched! callerIp=203.0.113.7. check out registered ips.", "wrong",
                "from 203.0.113.7: add it"
            ),
            (403, -3, "NotPermitted", "wrong", "enable push notifications"),
            (403, -5, "no permission", "wrong", "enable push notifications"),
            (400, -9, "terminated", "wrong", "kakao.push_version to v2"),
            (400, -2, "bad", "wrong", "APNs and FCM keys"),
            (403, -12, "suspended", "wrong", "ask Kakao"),
            (429, -10, "API limit has been exceeded.", "warning", "quota"),
            (400, -1, "trouble", "warning", "try again later"),
            (503, nil, "", "warning", "try again later"),
            (404, nil, "", "wrong", "kakao.api_url"),
        ]
        try await Self.with { _, kakao, environment in
            for expected in cases {
                kakao.sandbox.removeFaults()
                kakao.fail("tokens", status: expected.status, code: expected.code) { $0.message = expected.message }
                let examination = try await Examination(environment)
                let finding = try #require(examination["kakao.admin_key"])
                #expect(finding.state == expected.state, "\(finding)")
                #expect(finding.text.contains(expected.text), "\(finding)")
                #expect(examination.code == (expected.state == "wrong" ? 1 : 0))
            }
        }
    }

    @Test("An unreachable Kakao or an untrusted certificate of Kakao is wrong, and the other checks still run")
    func unreachable() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["KAKAO_CA_CERTIFICATE_FILE"] = nil
            var examination = try await Examination(environment)
            #expect(examination.code == 1)
            #expect(examination.wrong == ["kakao.api_url", "kakao.auth_url"])
            #expect(examination["kakao.api_url"]?.text.contains("certificate") == true)
            #expect(examination["kakao.admin_key"]?.state == "skipped")
            #expect(examination["database"]?.state == "ok")

            environment["KAKAO_API_URL"] = "http://127.0.0.1:1"
            environment["KAKAO_AUTH_URL"] = "http://no-such-host.invalid"
            examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.api_url", "kakao.auth_url"])
            #expect(examination["kakao.api_url"]?.text.contains("Connection refused") == true)
            #expect(examination["kakao.auth_url"]?.text.contains("name servers") == true)

            environment["KAKAO_PROXY_URL"] = "http://user:secret-of-proxy@127.0.0.1:1"
            examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.proxy_url", "kakao.auth_url"])
            #expect(
                examination["kakao.proxy_url"]?.text.contains("the proxy http://127.0.0.1:1: Connection refused")
                    == true
            )
            #expect(examination["kakao.api_url"]?.state == "skipped")
            #expect(examination.findings.allSatisfy { !$0.text.contains("secret-of-proxy") })

            // The proxy accepts connections, and does not respond.
            let (listener, port) = try LoopbackSocket.listen()
            defer { close(listener) }
            environment["KAKAO_PROXY_URL"] = "http://user:secret-of-proxy@127.0.0.1:\(port)"
            examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.proxy_url", "kakao.auth_url"])
            let expected = "the proxy http://127.0.0.1:\(port) did not respond within 3000 ms: correct kakao.proxy_url"
            #expect(examination["kakao.proxy_url"]?.text.contains(expected) == true)
            #expect(examination.findings.allSatisfy { !$0.text.contains("secret-of-proxy") })

            environment["KAKAO_CA_CERTIFICATE_FILE"] = "/nowhere/kakao.pem"
            examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.ca_certificate_file"])
        }
    }

    @Test("The keys of the service's own backend are fetched without Kakao's proxy")
    func keysWithoutProxy() async throws {
        try await Self.with { _, kakao, environment in
            var environment = environment
            environment["KAKAO_PROXY_URL"] = "http://127.0.0.1:1"
            environment["IDENTITY_JWT_ISSUER"] = "https://api.example.com"
            environment["IDENTITY_JWT_AUDIENCE"] = "push"
            environment["IDENTITY_JWT_KEYS_URL"] = kakao.sandbox.url + "/.well-known/jwks.json"
            let examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.proxy_url", "kakao.auth_url"])
            #expect(examination["identity.jwt"]?.state == "ok")
        }
    }

    @Test("An access token of another app shows that kakao.app_id is wrong; an invalid one is only a warning")
    func appID() async throws {
        try await Self.with { _, kakao, environment in
            var environment = environment
            environment["KAKAO_ACCESS_TOKEN"] = kakao.sandbox.accessToken(of: 1, appID: 7)
            var examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.app_id"])
            #expect(examination["kakao.app_id"]?.text.contains("belongs to app 7") == true)

            environment["KAKAO_ACCESS_TOKEN"] = "a-token-that-kakao-does-not-know"
            examination = try await Examination(environment)
            #expect(examination["kakao.app_id"]?.state == "warning")

            environment["KAKAO_ACCESS_TOKEN"] = nil
            let path = "\(try TemporaryFolder.make())/token"
            let token = try #require(kakao.sandbox.accessToken(of: 1))
            try writeFile(Array("\(token)\n".utf8), to: path)
            examination = try await Examination(environment, ["--access-token-file", path])
            #expect(examination["kakao.app_id"]?.state == "ok")

            examination = try await Examination(environment)
            #expect(examination["kakao.app_id"]?.state == "skipped")
            #expect(examination["kakao.app_id"]?.text.contains("KAKAO_ACCESS_TOKEN") == true)
        }
    }

    @Test("Kakao's list of its addresses is ok as far as it can be read, and refuse needs trusted proxies")
    func sourceAddresses() async throws {
        try await Self.with { _, kakao, environment in
            var environment = environment
            #expect(try await Examination(environment)["kakao.source_addresses"]?.state == "skipped")
            func examine(_ policy: String, proxies: String? = nil) async throws -> String {
                environment["KAKAO_SOURCE_ADDRESSES"] = policy
                environment["HTTP_TRUSTED_PROXIES"] = proxies
                let examination = try await Examination(environment)
                let finding = try #require(examination["kakao.source_addresses"])
                return "\(finding.state) \(finding.text)"
            }
            try kakao.sandbox.setAddresses(["inbound": ["198.51.100.0/24"], "updated_date": "2020-02-29"])
            let text = try await examine("record")
            #expect(text.hasPrefix("ok record: Kakao calls from 1 network, changed last on 2020-02-29, "))
            let age = text.split(separator: " ").compactMap { Int($0) }.last
            #expect(age == (time(nil) - 1_582_934_400) / 86_400)
            #expect(try await examine("refuse").hasPrefix("warning refuse: "))
            #expect(try await examine("refuse").contains("without http.trusted_proxies"))
            #expect(try await examine("refuse", proxies: "127.0.0.1").hasPrefix("ok refuse: "))
            try kakao.sandbox.setAddresses(["inbound": ["198.51.100.0/24", "203.0.113.0-9"], "updated_date": "today"])
            let partial = try await examine("refuse", proxies: "127.0.0.1")
            #expect(
                partial.hasPrefix("warning refuse: Kakao calls from 1 network, and 1 entry of its list cannot be read")
            )
            try kakao.sandbox.setAddresses(["inbound": []])
            #expect(try await examine("record").hasPrefix("warning Kakao's list has no address"))
            kakao.fail("ips", .anotherHost) { $0.path = "/v1/system/ips" }
            #expect(try await examine("record").contains("so the addresses from which Kakao calls are unknown"))
            environment["KAKAO_ADMIN_KEY"] = "0000000000000000000000000000abcd"
            kakao.endFaults()
            #expect(try await examine("record") == "skipped Kakao rejects the key: see kakao.admin_key")
        }
    }

    @Test("A clock that differs from Kakao's by a minute is wrong, in either direction")
    func clock() async throws {
        try await withDatabaseAndKakao { database, kakao in
            for (seconds, text) in [(64, "behind Kakao's clock"), (-64, "ahead of Kakao's clock"), (1, "agrees with")] {
                let relay = try Relay(to: kakao.sandbox.url) { _, answer in
                    let date = CivilDate(unixSeconds: time(nil) + seconds).httpDate
                    let lines = String(decoding: answer, as: UTF8.self).split(
                        separator: "\r\n",
                        omittingEmptySubsequences: false
                    )
                    let changed = lines.map {
                        $0.hasPrefix("Date: ") ? "Date: \(date)\r\nConnection: close" : String($0)
                    }
                    return Array(changed.joined(separator: "\r\n").utf8)
                }
                var environment = RunningProgram.environment(database, kakao)
                environment["KAKAO_API_URL"] = relay.url
                let examination = try await Examination(environment)
                #expect(relay.requests > 0)
                let finding = try #require(examination["clock.kakao"])
                #expect(finding.state == (abs(seconds) > 5 ? "wrong" : "ok"), "\(finding)")
                #expect(finding.text.contains(text), "\(finding)")
                #expect(examination.wrong == (abs(seconds) > 5 ? ["clock.kakao"] : []))
            }
        }
    }

    @Test("An unreachable database is wrong, and the checks of Kakao still run")
    func databaseDown() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["DATABASE_URL"] = "postgres://push:the-password-of-the-database@127.0.0.1:1/push"
            let examination = try await Examination(environment)
            #expect(examination.code == 1)
            #expect(examination.wrong == ["database"])
            #expect(examination["database"]?.text.contains("Connection refused") == true)
            #expect(examination["database.migrations"]?.state == "skipped")
            #expect(examination["kakao.admin_key"]?.state == "ok")
        }
    }

    @Test("Pending migrations are wrong unless serve runs them, and a changed migration is wrong")
    func migrations() async throws {
        try await Self.with(.nothing) { database, _, environment in
            var environment = environment
            environment["DATABASE_MIGRATE"] = "false"
            var examination = try await Examination(environment)
            #expect(examination.wrong == ["database.migrations"])
            #expect(examination["database.migrations"]?.text.contains("push-server migrate") == true)
            #expect(
                try await database.text("SELECT coalesce(to_regclass('schema_migrations')::text, 'none')") == "none"
            )

            environment["DATABASE_MIGRATE"] = "true"
            examination = try await Examination(environment)
            #expect(examination["database.migrations"]?.state == "ok")

            let migrated = try await RunningProgram.start(["migrate"], environment: environment)
            #expect(await migrated.ended() == .exited(0))
            examination = try await Examination(environment)
            #expect(examination["database.migrations"]?.text == "all have been applied")

            environment["DATABASE_MIGRATE"] = "false"
            try await database.pool.write("UPDATE schema_functions SET checksum = 'another' WHERE name = 'withdrawal'")
            examination = try await Examination(environment)
            #expect(examination.wrong == ["database.migrations"])
            #expect(
                examination["database.migrations"]?.text
                    == "1 are pending, from functions/withdrawal.sql on: run push-server migrate"
            )
            let served = try await RunningProgram.start(["serve"], environment: environment)
            #expect(await served.ended() == .exited(EX_CONFIG))
            #expect(served.lines.contains { $0.contains("1 migrations are pending, from functions/withdrawal.sql on") })
            environment["DATABASE_MIGRATE"] = "true"

            try await database.pool.write(
                "INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'later', 'of its file')"
            )
            examination = try await Examination(environment)
            #expect(examination["database.migrations"]?.state == "warning")
            #expect(examination["database.migrations"]?.text.contains("9999_later.sql is unknown here") == true)

            try await database.pool.write("UPDATE schema_migrations SET checksum = 'another' WHERE version = 1")
            examination = try await Examination(environment)
            #expect(examination.wrong == ["database.migrations"])
            #expect(examination["database.migrations"]?.text.contains("0001_devices.sql was changed") == true)
        }
    }

    @Test("A role without write access, too few connections and asynchronous commits are reported")
    func role() async throws {
        try await Self.with { database, _, environment in
            var environment = environment
            /// Runs the checks with these options of the database session.
            func examine(_ options: String) async throws -> Examination {
                let mark = database.url.contains("?") ? "&" : "?"
                environment["DATABASE_URL"] = "\(database.url)\(mark)options=\(options)"
                return try await Examination(environment)
            }
            let role = "doctor_\(getpid())"
            try await database.pool.write("CREATE ROLE \(role) CONNECTION LIMIT 2")
            var examination = try await examine("-c%20role%3D\(role)")
            #expect(examination.wrong == ["database.migrations", "database.role", "database.connections"])
            #expect(examination["database.role"]?.text.contains("push_batches") == true)
            for grant in ["SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public", "CREATE ON SCHEMA public"] {
                try await database.pool.write("GRANT \(grant) TO \(role)")
            }
            // A role can alter only tables that it owns.
            examination = try await examine("-c%20role%3D\(role)")
            #expect(examination.wrong == ["database.role", "database.connections"])
            environment["DATABASE_MIGRATE"] = "false"
            examination = try await examine("-c%20role%3D\(role)")
            #expect(examination.wrong == ["database.connections"])
            try await database.pool.write("DROP OWNED BY \(role)")
            try await database.pool.write("DROP ROLE \(role)")

            examination = try await examine("-c%20default_transaction_read_only%3Don")
            #expect(examination.wrong == ["database.role"])
            examination = try await examine("-c%20synchronous_commit%3Doff")
            #expect(examination["database.durability"]?.state == "warning")
            #expect(examination["database.timeline"]?.state == "ok")
            #expect(examination.code == 0)
        }
    }

    @Test("A commit that waits for a synchronous standby is wrong, and the finding names what it waits for")
    func commits() async throws {
        try await withStandbyAndKakao(isSynchronous: true) { pair, kakao in
            let pool = try await Shared.pool(pair.primaryURL)
            let database = TestDatabase(url: pair.primaryURL, pool: pool)
            let environment = RunningProgram.environment(database, kakao)
            #expect(try await Examination(environment)["database.commits"]?.state == "ok")
            await pair.standby.stop(.immediate)
            let examination = try await Examination(environment)
            #expect(examination.wrong.contains("database.commits"))
            let text = examination["database.commits"]?.text ?? ""
            #expect(text.contains("SyncRep (a synchronous standby) in 1 session"))
            #expect(text.contains("synchronous_standby_names"))
            await pool.shutdown()
        }
    }

    @Test("A replica is checked for being another server, of the same database, and up to date")
    func replica() async throws {
        try await withStandbyAndKakao { pair, kakao in
            let pool = try await Shared.pool(pair.primaryURL)
            var environment = RunningProgram.environment(TestDatabase(url: pair.primaryURL, pool: pool), kakao)
            func expect(_ state: String, _ words: String, _ url: String) async throws {
                environment["DATABASE_READ_URL"] = url
                try await eventually("the finding is \(state): \(words)") {
                    let finding = try await Examination(environment)["database.read_url"]
                    return finding?.state == state && finding?.text.contains(words) == true
                }
            }
            #expect(try await Examination(environment)["database.read_url"]?.state == "skipped")
            try await expect("warning", "lacks migrations", pair.standbyURL)
            try await expect("warning", "the server of database.url", pair.primaryURL)
            try await expect("wrong", "Connection refused", "postgres://push:a-secret@127.0.0.1:1/push")
            try await TestCluster.with { _, otherURL in
                let settings = Settings.test(otherURL, kakao: kakao.sandbox.url)
                try await RunningServer.with(settings) { _ in
                    try await RunningServer.with(Settings.test(pair.primaryURL, kakao: kakao.sandbox.url)) { _ in
                        try await expect("ok", "less than ", pair.standbyURL)
                        try await expect("wrong", "of another database", otherURL)
                    }
                }
            }
            try await expect("ok", "no server is running", pair.standbyURL)
            try await pool.write(
                """
                INSERT INTO work_leases (id, queue, ends_at, process)
                VALUES (gen_random_uuid(), 'pushes', now() + interval '1 hour', gen_random_uuid())
                """
            )
            try await expect("ok", "less than ", pair.standbyURL)
            _ = try await Program.run(["psql", pair.standbyURL, "-Atc", "SELECT pg_wal_replay_pause()"])
            try await eventually("replay is paused") {
                let state = ["psql", pair.standbyURL, "-Atc", "SELECT pg_get_wal_replay_pause_state()"]
                return try await Program.run(state).text.hasPrefix("paused")
            }
            try await pool.write("UPDATE work_leases SET ends_at = ends_at + interval '5 minutes'")
            try await expect("warning", "300 s behind", pair.standbyURL)
            await pool.shutdown()
        }
    }

    @Test("A role that may not learn the timeline of PostgreSQL is a warning")
    func timeline() async throws {
        try await Self.with { database, _, environment in
            var environment = environment
            let role = "doctor_timeline_\(getpid())"
            try await database.pool.write("CREATE ROLE \(role)")
            try await database.pool.write("REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC")
            let mark = database.url.contains("?") ? "&" : "?"
            environment["DATABASE_URL"] = "\(database.url)\(mark)options=-c%20role%3D\(role)"
            let examination = try await Examination(environment)
            #expect(examination["database.timeline"]?.state == "warning")
            #expect(examination["database.timeline"]?.text.contains("GRANT EXECUTE") == true)
            try await database.pool.write("DROP ROLE \(role)")
        }
    }

    @Test(
        "What a failover may lose is said",
        arguments: [
            ("on", "", 0, "ok"), ("on", "", 1, "warning"), ("on", "ANY 1 (*)", 1, "ok"), ("on", "ANY 1 (*)", 0, "ok"),
            ("local", "ANY 1 (*)", 1, "warning"), ("remote_apply", "b", 2, "ok"),
        ] as [(String, String, Int64, String)]
    )
    func replication(commit: String, synchronous: String, standbys: Int64, state: String) {
        let verdict = DatabaseChecks.durability(commit: commit, synchronous: synchronous, standbys: standbys)
        #expect("\(verdict.state)" == state)
        #expect(verdict.text.contains("loses acknowledged requests") == (verdict.state == .warning))
    }

    @Test("A public address that Kakao cannot call is wrong; whether push-server responds there is a separate finding")
    func publicURL() async throws {
        try await withService { service in
            var environment = RunningProgram.environment(service.database, service.kakao)
            func examine(_ url: String) async throws -> Examination {
                environment["HTTP_PUBLIC_URL"] = url
                return try await Examination(environment)
            }
            // An address of this machine, at which the right server responds.
            var examination = try await examine(service.api.url)
            #expect(examination.wrong == ["http.public_url"])
            #expect(examination["http.public_url"]?.text.contains("https:// only") == true)
            #expect(examination["callbacks"]?.state == "ok")
            // The check is no rejected credential.
            let metrics = try Exposition(try await service.api.get("/metrics").body)
            for reason in ["missing", "not-admin-key"] {
                let count = metrics.value("kakao_push_http_rejected_credentials_total", ["reason": reason])
                #expect(count == nil || count == 0, "\(reason)")
            }
            #expect(!service.log.lines.contains { $0.message.hasSuffix(" 401") })
            #expect(examination["feedback.secret"]?.text.hasSuffix("/kakao/push/feedback/***") == true)
            // Another server.
            examination = try await examine(service.kakao.sandbox.url)
            #expect(examination.wrong == ["http.public_url", "callbacks"])
            // No server, or one that is not started yet.
            examination = try await examine("https://127.0.0.1:1")
            #expect(examination.wrong == ["http.public_url"])
            #expect(examination["http.public_url"]?.text.contains("cannot reach 127.0.0.1") == true)
            #expect(examination["callbacks"]?.state == "warning")
            // A name that resolves only in a private network.
            examination = try await examine("https://push.internal")
            #expect(examination["http.public_url"]?.text.contains("public name") == true)
            #expect(try await service.database.count("link_callbacks") == 0)
        }
    }

    @Test("A public address that leads to the port for operators is wrong")
    func operatorPort() async throws {
        try await withService {
            $0.operatorPort = 0
        } _: { service in
            let client = HTTPClient(loop: try Shared.loop)
            func examine(_ url: String, port: Int? = 8081) async -> Verdict {
                var settings = service.settings
                settings.operatorPort = port
                settings.publicURL = .given(url)
                return await AddressChecks(settings: settings, client: client).operatorPort()
            }
            #expect(await examine(service.server.url).state == .ok)
            let wrong = await examine(service.server.operatorURL)
            #expect(wrong.state == .wrong)
            #expect(wrong.text.contains("http.port"))
            #expect(await examine("http://127.0.0.1:1").state == .skipped)
            #expect(await examine(service.server.operatorURL, port: nil).state == .skipped)
            await client.shutdown()
        }
    }

    @Test("A public address is shown with the callback addresses to enter in Kakao's console")
    func consoleAddresses() async throws {
        var settings = Settings.test("postgres://localhost/none", kakao: "http://127.0.0.1:1")
        // A numeric host needs no DNS lookup.
        settings.publicURL = .given("https://8.8.8.8/push")
        let checks = AddressChecks(settings: settings, client: HTTPClient(loop: try Shared.loop))
        let link =
            "8.8.8.8; enter in Kakao's console: https://8.8.8.8/push/kakao/link/callback (KakaoTalk Share webhook)"
        let channel = "https://8.8.8.8/push/kakao/channel (KakaoTalk Channel webhook)"
        var verdict = await checks.publicURL()
        #expect(verdict.state == .ok)
        #expect(verdict.text == "\(link), \(channel)")
        settings.kakao.appID = 1
        settings.kakao.nativeAppKey = "key"
        verdict = await AddressChecks(settings: settings, client: checks.client).publicURL()
        let unlink = "https://8.8.8.8/push/kakao/unlink (unlink webhook)"
        let status = "https://8.8.8.8/push/kakao/account-events (account status change webhook)"
        #expect(verdict.text == "\(link), \(unlink), \(status), \(channel)")
    }

    @Test(
        "The fields of Kakao's console are those of the page, and are printed with this server's values but no secret"
    )
    func consoleFields() async throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/kakao-console.md", encoding: .utf8)
        let rows = page.split(separator: "\n").filter { $0.hasPrefix("| ") }
        for field in ConsoleField.all {
            let row = try #require(rows.first { $0.hasPrefix("| \(field.name)") }, "\(field.name)")
            switch field.value {
            case .copied(let setting, _): #expect(row.contains(field.place) && row.contains("`\(setting)`"), "\(row)")
            case .address(let path, _): #expect(page.contains("`https://push.example.com\(path)`"), "\(path)")
            case .other: break
            }
        }
        var settings = Settings.test("postgres://localhost/none", kakao: "http://127.0.0.1:1")
        settings.publicURL = .given("https://push.example.org")
        settings.kakao.appID = 1
        settings.kakao.clientSecret = Secret("the-client-secret")
        let printed = ConsoleField.all.map { $0.row(settings) }
        #expect(!printed.joined().contains { $0.contains("the-client-secret") || $0.contains(Keys.admin) })
        let unlink = ["unlink webhook", "[App] > [Webhook]", "https://push.example.org/kakao/unlink", "enter it"]
        #expect(printed.contains(unlink))
        let secret = ["client secret", ConsoleField.restAPIKey, "kakao.client_secret", "set"]
        #expect(printed.contains(secret))
        #expect(
            printed.contains { $0[0] == "account status change webhook" && $0[3] == "not needed with these settings" }
        )
    }

    @Test("The certificate's host, validity and key are checked, and that other users cannot read the key file")
    func certificate() async throws {
        try await Self.with { _, _, environment in
            let folder = try TemporaryFolder.make()
            var environment = environment
            environment["HTTP_TLS_CERTIFICATE_FILE"] = "\(folder)/certificate.pem"
            environment["HTTP_TLS_PRIVATE_KEY_FILE"] = "\(folder)/key.pem"
            func examine(days: Int, key: [UInt8]? = nil) async throws -> Examination.Finding? {
                let made = try SelfSignedCertificate(days: days)
                try writeFile(made.certificate, to: "\(folder)/certificate.pem")
                try writeFile(key ?? made.privateKey, to: "\(folder)/key.pem")
                return try await Examination(environment)["http.tls"]
            }
            #expect(try await examine(days: 30)?.state == "ok")
            #expect(try await examine(days: 10)?.state == "warning")
            #expect(try await examine(days: 0)?.text == "the certificate has expired: renew it")
            let other = try SelfSignedCertificate().privateKey
            #expect(try await examine(days: 30, key: other)?.text.contains("does not match the certificate") == true)
            environment["HTTP_PUBLIC_URL"] = "https://127.0.0.2:1"
            #expect(try await examine(days: 30)?.text.contains("not for the host") == true)
        }
    }

    @Test("Invalid settings are the only finding, and keys that can be guessed are wrong")
    func settings() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["HTTP_PORT"] = "-1"
            var examination = try await Examination(environment)
            #expect(examination.code == 1)
            #expect(examination.findings.map(\.subject) == ["settings"])
            #expect(examination["settings"]?.text.hasPrefix("HTTP_PORT in the environment: http.port must be") == true)

            environment["HTTP_PORT"] = nil
            environment["OPERATOR_KEY"] = Keys.admin
            examination = try await Examination(environment)
            #expect(examination.wrong == ["operator.key"])
            environment["OPERATOR_KEY"] = String(repeating: "push-", count: 10)
            environment["FEEDBACK_SECRET"] = environment["OPERATOR_KEY"]
            examination = try await Examination(environment)
            #expect(examination.wrong == ["operator.key", "feedback.secret"])
        }
    }

    /// Responses of Kakao's authorization server, and what the checks of logins find.
    struct LoginCase: Sendable, CustomTestStringConvertible {
        var token = #"{"error":"invalid_grant","error_code":"KOE322"}"#
        /// The status of the authorization; `Location` leads to the redirect URI for 302.
        var authorization = (status: HTTPResponse.Status.found, page: "")
        var hasSecret = true
        var wrong: [String] = []
        let subject: String
        let text: String

        var testDescription: String { "\(subject): \(text)" }
    }

    private static let loginCases = [
        LoginCase(subject: "kakao.rest_api_key", text: "Kakao issues tokens for it"),
        LoginCase(
            token: #"{"error":"invalid_grant","error_code":"KOE319"}"#,
            subject: "kakao.client_secret",
            text: "Kakao accepts it"
        ),
        LoginCase(hasSecret: false, subject: "kakao.client_secret", text: "not set, and not activated at Kakao"),
        LoginCase(
            token: #"{"error":"invalid_client","error_description":"Bad client credentials","error_code":"KOE010"}"#,
            wrong: ["kakao.client_secret"],
            subject: "kakao.client_secret",
            text: "Kakao rejects it: copy the client secret again from [App]"
        ),
        LoginCase(
            token: #"{"error":"invalid_client","error_code":"KOE010"}"#,
            hasSecret: false,
            wrong: ["kakao.client_secret"],
            subject: "kakao.client_secret",
            text: "not set, but Kakao requires it"
        ),
        LoginCase(
            token: #"{"error":"invalid_client","error_description":"Not exist client_id x","error_code":"KOE101"}"#,
            wrong: ["kakao.rest_api_key"],
            subject: "kakao.rest_api_key",
            text: "copy the REST API key from [App]"
        ),
        LoginCase(
            token: #"{"error":"misconfigured","error_code":"KOE009"}"#,
            wrong: ["kakao.rest_api_key"],
            subject: "kakao.rest_api_key",
            text: "it is a key of apps or pages"
        ),
        LoginCase(
            token: #"{"error":"server_error","error_code":"KOE003"}"#,
            subject: "kakao.rest_api_key",
            text: "try again later"
        ),
        LoginCase(
            token: "<html></html>",
            wrong: ["kakao.rest_api_key"],
            subject: "kakao.rest_api_key",
            text: "correct kakao.auth_url"
        ),
        LoginCase(
            subject: "login.redirect_uri",
            text: "Kakao returns browsers to https://127.0.0.1:1/login/kakao/callback"
        ),
        LoginCase(
            authorization: (.badRequest, "<h1>KOE006</h1>"),
            wrong: ["login.redirect_uri"],
            subject: "login.redirect_uri",
            text: "enter exactly https://127.0.0.1:1/login/kakao/callback"
        ),
        LoginCase(
            authorization: (.badRequest, "<h1>KOE004</h1>"),
            wrong: ["login.redirect_uri"],
            subject: "login.redirect_uri",
            text: "Kakao Login is not activated"
        ),
        LoginCase(
            authorization: (.badRequest, "<h1>KOE205</h1>"),
            subject: "login.redirect_uri",
            text: "status 400 and KOE205"
        ),
        LoginCase(
            authorization: (.serviceUnavailable, ""),
            subject: "login.redirect_uri",
            text: "status 503, so it could not be checked"
        ),
    ]

    @Test(
        "The REST API key, the client secret and the redirect URI are checked by harmless requests",
        arguments: loginCases
    )
    func login(_ expected: LoginCase) async throws {
        let routes: (inout Router) -> Void = { router in
            router.on(.post, "/oauth/token") { _ in .json(Array(expected.token.utf8), status: .badRequest) }
            router.on(.get, "/oauth/authorize") { request in
                let fields = Dictionary(try request.queryItems().map { ($0.name, $0.value) }) { first, _ in first }
                #expect(fields["prompt"] == "none")
                let (status, page) = expected.authorization
                var response = Response.text(page, status: status)
                if status == .found {
                    response.headerFields[.location] = "\(fields["redirect_uri"] ?? "")?error=login_required"
                }
                return response
            }
        }
        try await withStubServer(routes) { kauth in
            try await Self.with { _, _, environment in
                var environment = environment
                environment["KAKAO_AUTH_URL"] = kauth
                environment["KAKAO_REST_API_KEY"] = "abcdef0123456789abcdef0123456789"
                environment["KAKAO_CLIENT_SECRET"] = expected.hasSecret ? "the-client-secret-of-the-app" : nil
                environment["ACCOUNTS_ENCRYPTION_KEY"] = try EncryptionKey.random().text
                environment["LOGIN_RETURN_URLS"] = "https://www.example.com/login/done"
                environment["HTTP_PUBLIC_URL"] = "https://127.0.0.1:1"
                let examination = try await Examination(environment)
                let finding = try #require(examination[expected.subject])
                #expect(finding.text.contains(expected.text), "\(finding)")
                // The stub has no keys for ID tokens, and this machine's address is not public.
                #expect(
                    examination.wrong.filter { !["kakao.auth_url", "http.public_url"].contains($0) } == expected.wrong
                )
            }
        }
    }

    @Test("Settings of logins that lack another setting are reported; without logins the checks are skipped")
    func loginSettings() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            var examination = try await Examination(environment)
            for subject in [
                "accounts.encryption_key", "login.return_urls", "kakao.rest_api_key", "kakao.client_secret",
                "login.redirect_uri", "database.accounts",
            ] { #expect(examination[subject]?.state == "skipped", "\(subject)") }

            environment["KAKAO_CLIENT_SECRET"] = "the-client-secret-of-the-app"
            examination = try await Examination(environment)
            #expect(examination["accounts.encryption_key"]?.state == "warning")

            environment["KAKAO_REST_API_KEY"] = "abcdef0123456789abcdef0123456789"
            environment["ACCOUNTS_ENCRYPTION_KEY"] = try EncryptionKey.random().text
            environment["LOGIN_RETURN_URLS"] = "http://www.example.com/login/done"
            examination = try await Examination(environment)
            #expect(examination["accounts.encryption_key"]?.state == "ok")
            #expect(examination["login.return_urls"]?.state == "wrong")
            #expect(examination["login.return_urls"]?.text.hasSuffix("set http.public_url") == true)
            environment["HTTP_PUBLIC_URL"] = "https://127.0.0.1:1"
            #expect(try await Examination(environment)["login.return_urls"]?.state == "warning")
            environment["LOGIN_RETURN_URLS"] = "http://localhost:3000/login/done"
            #expect(try await Examination(environment)["login.return_urls"]?.state == "ok")
        }
    }

    @Test("Stored tokens that no key of the settings decrypts are wrong")
    func storedTokens() async throws {
        let (old, oldText) = try EncryptionKey.random()
        let (new, newText) = try EncryptionKey.random()
        try await Self.with { database, _, environment in
            var environment = environment
            environment["ACCOUNTS_ENCRYPTION_KEY"] = newText
            func examine() async throws -> Examination.Finding? {
                try await Examination(environment)["database.accounts"]
            }
            try await database.addAccounts([1], new)
            #expect(try await examine()?.text == "all stored tokens are encrypted with accounts.encryption_key")
            try await database.addAccounts([2], old)
            var finding = try await examine()
            #expect(finding?.state == "wrong")
            #expect(
                finding?.text.contains("key \(old.id), which is not set: add it to accounts.decryption_keys") == true
            )
            environment["ACCOUNTS_DECRYPTION_KEYS"] = oldText
            finding = try await examine()
            #expect(finding?.state == "ok")
            #expect(finding?.text.contains("rotate-key before you remove one") == true)
            environment["KAKAO_APP_ID"] = "7"
            finding = try await examine()
            #expect(finding?.state == "wrong")
            #expect(finding?.text.contains("restore kakao.app_id") == true)
            try await database.pool.write("DROP TABLE accounts CASCADE")
            #expect(try await examine()?.text == "the migration of accounts is pending")
        }
    }

    @Test("A time zone that PostgreSQL does not know is wrong")
    func timeZone() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["TALK_QUOTA_TIME_ZONE"] = "Asia/Soul"
            let examination = try await Examination(environment)
            #expect(examination["talk.quota_time_zone"]?.state == "wrong")
            #expect(examination["talk.quota_time_zone"]?.text.contains("does not know the time zone Asia/Soul") == true)
            #expect(examination.code == 1)
        }
    }

    @Test("A file with a secret that other users can read or change is a warning")
    func secretFiles() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            #expect(try await Examination(environment)["secrets"]?.state == "skipped")
            let folder = try TemporaryFolder.make()
            let (key, config) = ("\(folder)/operator.key", "\(folder)/push-server.yaml")
            try writeFile(Array((environment["OPERATOR_KEY"] ?? "").utf8), to: key)
            environment["OPERATOR_KEY"] = nil
            environment["OPERATOR_KEY_FILE"] = key
            for (mode, state) in [(0o600, "ok"), (0o640, "ok"), (0o604, "warning"), (0o660, "warning")]
                as [(mode_t, String)]
            {
                chmod(key, mode)
                let finding = try await Examination(environment)["secrets"]
                #expect(finding?.state == state, "\(String(mode, radix: 8))")
                #expect(finding?.text.contains(key) == true)
            }
            // The settings file counts if it has a secret.
            chmod(key, 0o600)
            try writeFile(Array("log:\n  level: info\n".utf8), to: config)
            chmod(config, 0o644)
            #expect(try await Examination(environment, ["--config", config])["secrets"]?.state == "ok")
            try writeFile(Array("feedback:\n  secret: 0123456789abcdef0123456789abcdef\n".utf8), to: config)
            #expect(try await Examination(environment, ["--config", config])["secrets"]?.text.contains(config) == true)
        }
    }

    @Test("A journal directory that cannot be created is wrong; without one the check is skipped")
    func journal() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            #expect(try await Examination(environment)["journal.directory"]?.state == "skipped")
            environment["JOURNAL_DIRECTORY"] = "/dev/null/journal"
            let examination = try await Examination(environment)
            #expect(examination["journal.directory"]?.state == "wrong")
            #expect(examination.code == 1)
        }
    }

    @Test("A server that may run on one processor has one event loop, and its connections")
    func affinity() async throws {
        try await Self.with { _, _, environment in
            // "pid 4711's current affinity list: 0,1"
            let list = try await Program.run(["taskset", "-cp", "\(getpid())"]).text
            let first = try #require(list.firstMatch(of: /: (\d+)/)).1
            var environment = environment
            environment["PATH"] = "/usr/bin:/bin"
            let result = try await Program.run(
                ["taskset", "-c", String(first), try Program.path("push-server"), "doctor"],
                environment: environment
            )
            #expect(result.text.contains("a server opens up to 8 of"), "\(result.text)")
        }
    }

    @Test("A descriptor limit too low for http.max_connections is a warning")
    func descriptors() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["HTTP_MAX_CONNECTIONS"] = "5000"
            let examination = try await Examination(environment, limit: "-n 1000")
            #expect(examination["http.max_connections"]?.state == "warning")
            #expect(examination.code == 0)
        }
    }
}

/// The findings of a run of `push-server doctor`.
private struct Examination {
    struct Finding {
        let state: String
        let subject: String
        let text: String
    }

    let findings: [Finding]
    let code: Int32?

    /// Runs the checks. An issue is recorded if the output contains a secret of the environment.
    init(
        _ environment: [String: String],
        _ arguments: [String] = [],
        limit: String? = nil
    ) async throws {
        let arguments = ["doctor", "--json"] + arguments
        let process = try await RunningProgram.start(arguments, environment: environment, limit: limit)
        var code: Int32?
        if case .exited(let status) = await process.ended() { code = status }
        self.code = code
        Self.expectNoSecret(process.lines, environment)
        findings = try process.lines.map { line in
            let json = try JSONValue(parsing: line)
            return try Finding(
                state: #require(json["state"]?.string),
                subject: #require(json["subject"]?.string),
                text: #require(json["text"]?.string)
            )
        }
    }

    /// Returns the lines of a run without `--json`.
    static func lines(_ arguments: [String], _ environment: [String: String]) async throws -> [String] {
        let process = try await RunningProgram.start(["doctor"] + arguments, environment: environment)
        _ = await process.ended()
        expectNoSecret(process.lines, environment)
        return process.lines
    }

    subscript(subject: String) -> Finding? { findings.first { $0.subject == subject } }

    /// The subjects of the findings that are wrong.
    var wrong: [String] { findings.filter { $0.state == "wrong" }.map(\.subject) }

    private static func expectNoSecret(_ lines: [String], _ environment: [String: String]) {
        let names = [
            "OPERATOR_KEY", "KAKAO_ADMIN_KEY", "FEEDBACK_SECRET", "DATABASE_URL", "KAKAO_ACCESS_TOKEN",
            "KAKAO_CLIENT_SECRET", "ACCOUNTS_ENCRYPTION_KEY", "ACCOUNTS_DECRYPTION_KEYS",
        ]
        for secret in names.compactMap({ environment[$0] }) + ["the-password-of-the-database"] {
            #expect(!lines.contains { $0.contains(secret) }, "\(lines)")
        }
    }
}
