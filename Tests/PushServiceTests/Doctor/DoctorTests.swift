import Glibc
import HTTPClient
import HTTPServer
import JSON
import KakaoSandbox
import Postgres
import Subprocess
import TestSupport
import Testing

@testable import PushService

/// `push-server doctor` as a process, against a real database and the sandbox as Kakao.
@Suite(.timeLimit(.minutes(5))) struct DoctorTests {
    /// A sandbox with a certificate of its own, and what a server needs to use it to the full.
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

    @Test("Of a configuration with nothing wrong every line is ok or says why it was skipped, and the exit code is 0")
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
                "database.role", "database.tls", "database.connections", "journal.directory",
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

    /// The address of a database, whose sessions have another role.
    private static func url(_ database: TestDatabase, as role: String) -> String {
        "\(database.url)\(database.url.contains("?") ? "&" : "?")options=-c%20role%3D\(role)"
    }

    @Test("A role with a superuser's rights is a warning")
    func superuser() async throws {
        try await Self.with { database, _, environment in
            let examination = try await Examination(environment)
            #expect(examination["database.role"]?.state == "warning")
            #expect(examination["database.role"]?.text.contains("is a superuser") == true)
            #expect(examination.code == 0)
            // A role that may become one.
            let role = "member_\(getpid())"
            try await database.pool.write("CREATE ROLE \(role) IN ROLE postgres")
            var environment = environment
            environment["DATABASE_URL"] = Self.url(database, as: role)
            #expect(try await Examination(environment)["database.role"]?.text.contains("is a superuser") == true)
            try await database.pool.write("DROP ROLE \(role)")
        }
    }

    @Test(
        "A database on another machine is a warning unless TLS verifies who it is",
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
        let (state, text) = DatabaseChecks.tls(settings)
        #expect(state == (isRemote && !mode.hasPrefix("verify") ? .warning : .ok), "\(text)")
    }

    @Test("An Admin key that Kakao refuses is wrong, and nothing else is")
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

    @Test("What Kakao answers to the Admin key is said with what to do, and passing trouble is only a warning")
    func refusals() async throws {
        let cases: [(status: Int, code: Int?, message: String, state: String, text: String)] = [
            (
                401, -401, "ip mismatched! callerIp=203.0.113.7. check out registered ips.", "wrong",
                "from 203.0.113.7: add it"
            ),
            (403, -3, "NotPermitted", "wrong", "switch push notifications on"),
            (403, -5, "no permission", "wrong", "switch push notifications on"),
            (400, -9, "terminated", "wrong", "kakao.push_version to v2"),
            (400, -2, "bad", "wrong", "keys of APNs and FCM"),
            (403, -12, "suspended", "wrong", "ask Kakao"),
            (429, -10, "API limit has been exceeded.", "warning", "quota"),
            (400, -1, "trouble", "warning", "ask again later"),
            (503, nil, "", "warning", "ask again later"),
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

    @Test("Kakao that is down, and a certificate of Kakao's that is not trusted, are wrong and hide nothing else")
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
            #expect(examination["kakao.api_url"]?.text.contains("Failed to connect") == true)
            #expect(examination["kakao.auth_url"]?.text.contains("name servers") == true)

            environment["KAKAO_CA_CERTIFICATE_FILE"] = "/nowhere/kakao.pem"
            examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.ca_certificate_file"])
        }
    }

    @Test("An access token of another app shows that kakao.app_id is wrong; one that is not in force shows nothing")
    func appID() async throws {
        try await Self.with { _, kakao, environment in
            var environment = environment
            environment["KAKAO_ACCESS_TOKEN"] = kakao.sandbox.accessToken(of: 1, appID: 7)
            var examination = try await Examination(environment)
            #expect(examination.wrong == ["kakao.app_id"])
            #expect(examination["kakao.app_id"]?.text.contains("is of the app 7") == true)

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

    @Test("A clock that is a minute from Kakao's is wrong, in either direction")
    func clock() async throws {
        try await withDatabaseAndKakao { database, kakao in
            for (seconds, text) in [(64, "behind Kakao's clock"), (-64, "ahead of Kakao's clock"), (1, "goes with")] {
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

    @Test("A database that is down is wrong, and hides nothing of Kakao")
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

    @Test("Pending migrations are wrong unless serve runs them, and one that was changed is wrong")
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
            #expect(examination["database.migrations"]?.text == "all have run")
            try await database.pool.write("UPDATE schema_migrations SET checksum = 'another' WHERE version = 1")
            examination = try await Examination(environment)
            #expect(examination.wrong == ["database.migrations"])
            #expect(examination["database.migrations"]?.text.contains("0001_devices.sql was changed") == true)
        }
    }

    @Test("A role that may not write, connections that do not suffice, and a commit that is not awaited are told")
    func role() async throws {
        try await Self.with { database, _, environment in
            var environment = environment
            /// Connects with settings of the session.
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
            // It may migrate only what is its own.
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
            #expect(examination.code == 0)
        }
    }

    @Test("A public address is wrong if Kakao cannot call it; whether push-server answers there is told apart")
    func publicURL() async throws {
        try await withService { service in
            var environment = RunningProgram.environment(service.database, service.kakao)
            func examine(_ url: String) async throws -> Examination {
                environment["HTTP_PUBLIC_URL"] = url
                return try await Examination(environment)
            }
            // This machine, but the right server.
            var examination = try await examine(service.api.url)
            #expect(examination.wrong == ["http.public_url"])
            #expect(examination["http.public_url"]?.text.contains("https:// only") == true)
            #expect(examination["callbacks"]?.state == "ok")
            #expect(examination["feedback.secret"]?.text.hasSuffix("/kakao/push/feedback/***") == true)
            // Another server.
            examination = try await examine(service.kakao.sandbox.url)
            #expect(examination.wrong == ["http.public_url", "callbacks"])
            // No server, or one that is yet to be started.
            examination = try await examine("https://127.0.0.1:1")
            #expect(examination.wrong == ["http.public_url"])
            #expect(examination["http.public_url"]?.text.contains("cannot reach 127.0.0.1") == true)
            #expect(examination["callbacks"]?.state == "warning")
            // A name that only a network of its own knows.
            examination = try await examine("https://push.internal")
            #expect(examination["http.public_url"]?.text.contains("public name") == true)
            #expect(try await service.database.count("link_callbacks") == 0)
        }
    }

    @Test("With a public address come the addresses that have to be entered at Kakao, of what is switched on")
    func consoleAddresses() async throws {
        var settings = Settings.test("postgres://localhost/none", kakao: "http://127.0.0.1:1")
        // Numeric, so that no name server is asked.
        settings.publicURL = .given("https://8.8.8.8/push")
        let checks = AddressChecks(settings: settings, client: try HTTPClient(loop: try Shared.loop))
        let link = "8.8.8.8; for Kakao's console: https://8.8.8.8/push/kakao/link/callback (KakaoTalk Share)"
        var finding = await checks.publicURL()
        #expect(finding.state == .ok)
        #expect(finding.text == link)
        settings.kakao.appID = 1
        finding = await AddressChecks(settings: settings, client: checks.client).publicURL()
        #expect(finding.text == "\(link), https://8.8.8.8/push/kakao/unlink (unlink)")
    }

    @Test("Certificate and key are looked at: whose they are, how long they are valid, and who may read the key")
    func certificate() async throws {
        try await Self.with { _, _, environment in
            let folder = try TemporaryFolder.make()
            var environment = environment
            environment["HTTP_TLS_CERTIFICATE_FILE"] = "\(folder)/certificate.pem"
            environment["HTTP_TLS_PRIVATE_KEY_FILE"] = "\(folder)/key.pem"
            func examine(days: Int, mode: mode_t = 0o600, key: [UInt8]? = nil) async throws -> Examination.Finding? {
                let made = try SelfSignedCertificate(days: days)
                try writeFile(made.certificate, to: "\(folder)/certificate.pem")
                try writeFile(key ?? made.privateKey, to: "\(folder)/key.pem")
                chmod("\(folder)/key.pem", mode)
                return try await Examination(environment)["http.tls"]
            }
            #expect(try await examine(days: 30)?.state == "ok")
            #expect(try await examine(days: 30, mode: 0o644)?.state == "warning")
            #expect(try await examine(days: 10)?.state == "warning")
            #expect(try await examine(days: 0)?.text == "the certificate has ended: renew it")
            let other = try SelfSignedCertificate().privateKey
            #expect(try await examine(days: 30, key: other)?.text.contains("not that of the certificate") == true)
            environment["HTTP_PUBLIC_URL"] = "https://127.0.0.2:1"
            #expect(try await examine(days: 30)?.text.contains("not for the host") == true)
        }
    }

    @Test("Settings that cannot be read are the only line, and keys that can be guessed are told")
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

    @Test("A journal's directory that cannot be made is wrong, and none is skipped")
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

    @Test("Fewer descriptors than http.max_connections needs are a warning")
    func descriptors() async throws {
        try await Self.with { _, _, environment in
            var environment = environment
            environment["HTTP_MAX_CONNECTIONS"] = "5000"
            let examination = try await Examination(environment, descriptors: 1000)
            #expect(examination["http.max_connections"]?.state == "warning")
            #expect(examination.code == 0)
        }
    }
}

/// What a run of `push-server doctor` has found.
private struct Examination {
    struct Finding {
        let state: String
        let subject: String
        let text: String
    }

    let findings: [Finding]
    let code: Int32?

    /// - Throws: also when a secret of the environment is among the lines.
    init(
        _ environment: [String: String],
        _ arguments: [String] = [],
        descriptors: Int? = nil
    ) async throws {
        let arguments = ["doctor", "--json"] + arguments
        let process = try await RunningProgram.start(arguments, environment: environment, descriptors: descriptors)
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

    /// The lines of a run for people.
    static func lines(_ arguments: [String], _ environment: [String: String]) async throws -> [String] {
        let process = try await RunningProgram.start(["doctor"] + arguments, environment: environment)
        _ = await process.ended()
        expectNoSecret(process.lines, environment)
        return process.lines
    }

    subscript(subject: String) -> Finding? { findings.first { $0.subject == subject } }

    /// What is wrong.
    var wrong: [String] { findings.filter { $0.state == "wrong" }.map(\.subject) }

    private static func expectNoSecret(_ lines: [String], _ environment: [String: String]) {
        let names = ["OPERATOR_KEY", "KAKAO_ADMIN_KEY", "FEEDBACK_SECRET", "DATABASE_URL", "KAKAO_ACCESS_TOKEN"]
        for secret in names.compactMap({ environment[$0] }) + ["the-password-of-the-database"] {
            #expect(!lines.contains { $0.contains(secret) }, "\(lines)")
        }
    }
}
