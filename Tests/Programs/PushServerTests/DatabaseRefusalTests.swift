import Dispatch
import EventLoop
import Glibc
import HTTPClient
import ServiceTesting
import TestSupport
import Testing

/// Databases and settings with which `push-server` does not start, and its words for them.
@Suite(.timeLimit(.minutes(5))) struct DatabaseRefusalTests {
    /// The exit code for invalid settings.
    private static let invalid = RunningProgram.Ending.exited(78)

    /// The environment of a server that calls nothing before its database is ready.
    private func environment(_ url: String) -> [String: String] {
        [
            "DATABASE_URL": url, "OPERATOR_KEY": Keys.operator, "KAKAO_ADMIN_KEY": Keys.admin, "HTTP_PORT": "0",
            "KAKAO_API_URL": "http://127.0.0.1:1", "KAKAO_AUTH_URL": "http://127.0.0.1:1",
        ]
    }

    private func run(
        _ command: String...,
        environment: [String: String]
    ) async throws -> (ending: RunningProgram.Ending?, lines: [String]) {
        let process = try await RunningProgram.start(command, environment: environment)
        return (await process.ended(), process.lines)
    }

    @Test("A database that is not in UTF-8 is refused by serve, migrate and doctor in the same words")
    func encoding() async throws {
        try await TestCluster.with { _, url in
            let created = try await Program.run(
                ["psql", url, "-qc", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"]
            )
            try #require(created.status == 0, "\(created.text)")
            let environment = environment(url.replacing("@/postgres", with: "@/latin"))
            let words =
                "the encoding LATIN1 cannot store every text: create the database with ENCODING 'UTF8' TEMPLATE template0"
            for command in ["serve", "migrate"] {
                let (ending, lines) = try await run(command, environment: environment)
                #expect(ending == Self.invalid)
                #expect(lines.last { $0.hasPrefix("push-server: ") }?.contains(words) == true, "\(lines)")
            }
            let (_, lines) = try await run("doctor", environment: environment)
            #expect(lines.contains { $0.hasPrefix("wrong    database ") && $0.hasSuffix(words) }, "\(lines)")
        }
    }

    @Test("Without a journal serve refuses a single standby; with one it waits for the promotion")
    func standby() async throws {
        try await TestCluster.with { cluster, url in
            try await cluster.becomeStandby()
            var environment = environment(url)
            for command in ["serve", "migrate"] {
                let (ending, lines) = try await run(command, environment: environment)
                #expect(ending == Self.invalid)
                let last = lines.last { $0.hasPrefix("push-server: ") }
                #expect(last?.contains("is a standby, which accepts no writes: name the primary") == true, "\(lines)")
            }
            let (_, lines) = try await run("doctor", environment: environment)
            #expect(lines.contains { $0.hasPrefix("wrong    database ") && $0.contains("is a standby") }, "\(lines)")

            environment["JOURNAL_DIRECTORY"] = "\(try TemporaryFolder.make())/journal"
            let process = try await RunningProgram.start(environment: environment)
            try await process.whileRunning {
                try await eventually("the server waits: \(process.lines)") {
                    process.lines.contains { $0.contains("Waiting for the database") && $0.contains("is a standby") }
                }
                try await cluster.promote()
                _ = try await process.url()
            }
        }
    }

    @Test("PgBouncer in transaction mode is refused by serve, migrate and doctor", .enabled(if: PgBouncer.isInstalled))
    func pooler() async throws {
        try await TestCluster.with { cluster, _ in
            try await PgBouncer.with("transaction", before: cluster) { pooler in
                let environment = environment(pooler.url)
                for command in ["serve", "migrate"] {
                    let (ending, lines) = try await run(command, environment: environment)
                    #expect(ending == Self.invalid)
                    let last = lines.last { $0.hasPrefix("push-server: ") }
                    #expect(last?.contains("set pool_mode = session") == true, "\(lines)")
                }
                let (_, lines) = try await run("doctor", environment: environment)
                let found = lines.first { $0.hasPrefix("wrong    database ") }
                #expect(found?.contains("set pool_mode = session") == true, "\(lines)")
            }
            try await PgBouncer.with("session", before: cluster, settings: ["default_pool_size": "10"]) { pooler in
                var environment = environment(pooler.url)
                environment["SERVER_LOOPS"] = "2"
                environment["DATABASE_MAX_CONNECTIONS"] = "13"
                try await RunningProgram.with(environment: environment) { process, api in
                    let response = try await api.get("/v1/pushes")
                    #expect(response.status == 200)
                    #expect(process.lines.contains { $0.contains("The pooler gives fewer connections") })
                }
                let (_, lines) = try await run("doctor", environment: environment)
                let found = lines.first { $0.hasPrefix("warning  database.connections ") }
                #expect(found?.contains("up to 13 connections, and the pooler gives 10") == true, "\(lines)")
            }
        }
    }

    @Test(
        "The error of a rejected DATABASE_URL names the variable and the parameter, and no value",
        arguments: [
            ("?schema=the-secret", "the parameter schema"), ("?pool=the-secret", "the parameter pool"),
            ("?sslmode=the-secret", "the parameter sslmode"),
        ]
    )
    func url(query: String, words: String) async throws {
        for (url, words) in [
            ("postgres://push:the-secret@127.0.0.1/push\(query)", words),
            ("jdbc:postgresql://127.0.0.1/push?password=the-secret", "jdbc:postgresql:// is the URL of another driver"),
        ] {
            for command in ["serve", "migrate", "doctor"] {
                let (ending, lines) = try await run(command, environment: environment(url))
                if command != "doctor" { #expect(ending == Self.invalid) }
                let line = lines.first { $0.contains("DATABASE_URL in the environment: database.url") }
                #expect(line?.contains(words) == true, "\(lines)")
                #expect(!lines.contains { $0.contains("the-secret") })
            }
        }
    }

    @Test("The last line of migrate has PostgreSQL's words")
    func words() async throws {
        try await TestCluster.with { _, url in
            let environment = environment(url.replacing("postgres@/", with: "nobody-like-this@/"))
            let (ending, lines) = try await run("migrate", environment: environment)
            #expect(ending == .exited(1))
            #expect(lines.last?.contains(#"role "nobody-like-this" does not exist"#) == true, "\(lines)")
        }
    }

    @Test("A certificate that libpq may not read, because HOME is another user's, is explained")
    func home() async throws {
        let (listener, port) = try LoopbackSocket.listen()
        defer { shutdown(listener, Int32(SHUT_RDWR)) }
        EventLoop.blocking.async {
            // Agrees to use TLS, for which libpq then looks for a certificate.
            let client = accept(listener, nil, nil)
            var request = [UInt8](repeating: 0, count: 8)
            _ = read(client, &request, request.count)
            _ = write(client, "S", 1)
            close(client)
            close(listener)
        }
        let folder = try TemporaryFolder.make()
        // No user can follow it. Root, who may run the tests, can read every folder.
        try #require(symlink("\(folder)/.postgresql", "\(folder)/.postgresql") == 0)
        var environment = environment("postgres://push@127.0.0.1:\(port)/push?sslmode=require")
        environment["HOME"] = folder
        let (ending, lines) = try await run("migrate", environment: environment)
        #expect(ending == .exited(1))
        #expect(lines.last?.contains("\(folder)/.postgresql/postgresql.crt") == true, "\(lines)")
        #expect(lines.last?.contains("set HOME to that of the user of this process") == true, "\(lines)")
    }

    @Test("An Admin key that does not look like one of Kakao is a warning at start", arguments: ["\"", "x"])
    func adminKey(quote: String) async throws {
        var environment = environment("postgres://127.0.0.1:1/push")
        environment["KAKAO_ADMIN_KEY"] = "\(quote)0123456789abcdef0123456789abcdef\(quote)"
        let process = try await RunningProgram.start(environment: environment)
        try await process.whileRunning {
            let problem = quote == "x" ? "it is not 32 hexadecimal digits" : "it is in quotes"
            try await eventually("the log warns: \(process.lines)") {
                process.lines.contains { $0.contains("Admin key does not look like") && $0.contains(problem) }
            }
            #expect(!process.lines.contains { $0.contains("0123456789abcdef") })
        }
    }
}
