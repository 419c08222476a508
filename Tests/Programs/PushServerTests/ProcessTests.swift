import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Net
import Postgres
import ServiceTesting
import Subprocess
import SystemPackage
import TestSupport
import Testing

/// Tests of `push-server` as a process: killed, stopped by a signal, and with few descriptors.
@Suite(.timeLimit(.minutes(5))) struct ProcessTests {
    @Test("A server that is killed with sends in flight finishes them after a restart, and every user is reached")
    func killed() async throws {
        // Takes no slot of the tests with servers, since it mostly waits for leases to expire.
        try await TestDatabase.with { database in
            try await TestKakao.with { kakao in try await Self.killAndRestart(database, kakao) }
        }
    }

    private static func killAndRestart(_ database: TestDatabase, _ kakao: TestKakao) async throws {
        let environment = RunningProgram.environment(database, kakao)
        _ = kakao.hold("send")
        var pushes: [String] = []
        try await RunningProgram.with(environment: environment) { process, api in
            try await database.addPhones(1...120)
            // More pushes than can be in flight at a time.
            for first in stride(from: Int64(1), to: 120, by: 3) {
                pushes.append(try await api.push([first, first + 1, first + 2], marker: "m"))
            }
            try await eventually("sends are in flight") { kakao.requests("send") > 0 }
            process.send(SIGKILL)
            #expect(await process.ended() == .signaled(SIGKILL))
        }
        #expect(pushes.count == 40)
        #expect(try await database.count("\(claimedBatches) WHERE state = 'sending'") > 0)
        kakao.endFaults()
        try await RunningProgram.with(environment: environment) { _, api in
            // The batches in flight are reclaimed when their lease expires, 20 s after they were claimed.
            for push in pushes { try await api.waitUntilDone(push, within: .seconds(60)) }
            let counts = try await api.get(pushes[0]).json?["users"]
            #expect(counts?["sent"] == 3)
        }
        #expect(kakao.sandbox.reached(marker: "m").users == 120)
    }

    @Test("On SIGTERM a server finishes the requests and sends in flight and exits with 0; its log contains no secret")
    func terminated() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let environment = RunningProgram.environment(database, kakao)
            try await RunningProgram.with(environment: environment) { process, api in
                try await database.addPhones([2])
                kakao.fail("*", .latency) { $0.milliseconds = 1000 }
                async let registered = api.register(1, "a-push-token-that-nobody-may-see")
                let push = try await api.push([2], marker: "m")
                try await eventually("both are in flight") {
                    kakao.requests("register") == 1 && kakao.requests("send") == 1
                }
                process.send(SIGTERM)
                #expect(try await registered.text == "30")
                #expect(await process.ended() == .exited(0))
                let id = push.split(separator: "/").last ?? ""
                #expect(try await database.text("SELECT state FROM push_batches WHERE push_id = '\(id)'") == "sent")
                #expect(process.lines.contains { $0.contains("Stopped") })
                for secret in [Keys.operator, Keys.admin, Keys.feedback, "a-push-token-that-nobody-may-see"] {
                    #expect(!process.lines.contains { $0.contains(secret) })
                }
            }
        }
    }

    @Test("On SIGTERM a server goes on serving, is not ready, and closes each connection after its response")
    func drained() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["HTTP_DRAIN_SECONDS"] = "300"
            try await RunningProgram.with(environment: environment) { process, api in
                process.send(SIGTERM)
                try await eventually("the server is not ready") {
                    let ready = try await api.get("/readyz")
                    return ready.status == 503 && ready.json?["checks"]?["server"] == "shutting_down"
                }
                let answer = try await api.with("KakaoAK \(Keys.admin)")
                    .get("/kakao/link/callback", ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "a"])
                #expect(answer.status == 200)
                #expect(answer.headerFields[.connection] == "close")
                #expect(try await database.count("link_callbacks") == 1)
                process.send(SIGKILL)
                #expect(await process.ended() == .signaled(SIGKILL))
            }
        }
    }

    @Test("On SIGTERM while Kakao does not respond, a server releases its claims and exits with 0 in time")
    func terminatedWithoutKakao() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let environment = RunningProgram.environment(database, kakao)
            try await RunningProgram.with(environment: environment) { process, api in
                try await database.addPhones([2])
                _ = kakao.hold("*")
                async let registered = api.register(1, "token")
                _ = try await api.push([2], marker: "m")
                try await eventually("both are in flight") {
                    kakao.requests("register") == 1 && kakao.requests("send") == 1
                }
                process.send(SIGTERM)
                #expect(try await registered.isPending)
                #expect(await process.ended() == .exited(0))
                // The server has ended although Kakao has answered no call.
                #expect(kakao.calls.isEmpty)
                #expect(try await database.count("\(claimedBatches) WHERE state = 'waiting' AND lease IS NULL") == 1)
                #expect(try await database.count("devices WHERE user_id = 1 AND lease IS NULL") == 1)
                // A server that has no time left to release its lease leaves it to expire.
                try await eventually("no lease is left") {
                    try await database.count("work_leases WHERE ends_at > now()") == 0
                }
            }
        }
    }

    @Test("A server uses little processor time when it is idle, and while a push waits")
    func idle() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let environment = RunningProgram.environment(database, kakao)
            try await RunningProgram.with(environment: environment) { _, api in
                func processorTime() async throws -> Double {
                    let text = try await api.get("/metrics").text
                    let line = text.split(separator: "\n").first { $0.hasPrefix("process_cpu_seconds_total ") }
                    return try #require(line.flatMap { Double($0.split(separator: " ")[1]) })
                }
                /// Returns the share of a core that the server uses over a second.
                func load() async throws -> Double {
                    let (start, before) = (ContinuousClock.now, try await processorTime())
                    try await eventually("a second has passed") { start.duration(to: .now) > .seconds(1) }
                    let used = try await processorTime() - before
                    return used / (start.duration(to: .now) / .seconds(1))
                }
                try await database.addPhones(1...200)
                #expect(try await load() < 0.3)
                kakao.fail("send", status: 503, code: -9798) { $0.retryAfterSeconds = 600 }
                for delivery in ["at_least_once", "at_most_once"] {
                    _ = try await api.create(["everyone": true], gcm(), ["delivery": .string(delivery)])
                }
                try await eventually("the batches wait") {
                    try await database.count("push_batches WHERE state = 'waiting' AND attempts = 1") == 4
                }
                #expect(try await load() < 0.3)
            }
        }
    }

    @Test("Clients leave a server the descriptors that it needs itself; waiting ones are served when others end")
    func descriptors() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let environment = RunningProgram.environment(database, kakao)
            // Clients get a quarter of a limit that is this low. With more cores, the server itself opens more files.
            let allowed = max(64, 16 * EventLoopGroup.coreCount)
            try await RunningProgram.with(environment: environment, limit: "-n \(allowed * 4)") { process, api in
                let warning = try #require(process.lines.first { $0.contains("limit of open files") })
                #expect(warning.firstMatch(of: /max_connections=(\d+)/)?.output.1 == "\(allowed)")
                let port = try #require(api.url.split(separator: ":").last.flatMap { UInt16($0) })
                func waitUntilAccepted() async throws {
                    try await eventually("as many are accepted as allowed") {
                        try ServerSocket.all(port: Int(port)).count == allowed
                    }
                }
                // Its connection is kept. Other callers open one for each call.
                let client = HTTPClient(settings: HTTPClientSettings(), loop: try Shared.loop)
                var request = HTTPClientRequest(url: "\(api.url)/v1/pushes")
                request.headerFields[.authorization] = api.authorization
                #expect(try await client.send(request).status == 200)
                do {
                    var crowd = try IdleConnections(allowed * 6, port: port)
                    try await waitUntilAccepted()
                    for _ in 0..<100 { try crowd.replaceOldest() }
                    try await waitUntilAccepted()
                    #expect(try await client.send(request).status == 200)
                }
                try await eventually("the server serves new connections") {
                    try await TestClient(url: api.url).get("/readyz").status == 200
                }
                #expect(try await api.register(1, "token").status == 200)
                try await api.waitUntilDone(api.push([1], marker: "m"))
                #expect(!process.lines.contains { $0.contains("Accepting paused") })
                process.send(SIGTERM)
                #expect(await process.ended() == .exited(0))
            }
        }
    }

    @Test("A server raises its limit of open files as far as it needs and may")
    func raisedLimit() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["HTTP_MAX_CONNECTIONS"] = "300"
            try await RunningProgram.with(environment: environment, limit: "-Sn 256") { process, _ in
                let limits = try String(contentsOfFile: "/proc/\(process.processIdentifier)/limits", encoding: .utf8)
                let soft = try #require(limits.firstMatch(of: /Max open files +(\d+)/).flatMap { Int($0.output.1) })
                #expect(soft > 300)
            }
        }
    }

    @Test("On SIGHUP a server reloads its certificate; with an invalid one nothing changes, and the log says why")
    func reloadsCertificate() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let folder = try TemporaryFolder.make()
            func install(_ certificate: SelfSignedCertificate, trustedAs name: String) throws {
                for (bytes, file) in [
                    (certificate.certificate, "certificate.pem"), (certificate.privateKey, "key.pem"),
                    (certificate.certificate, name),
                ] {
                    try Data(bytes).write(to: URL(filePath: "\(folder)/\(file)"))
                }
            }
            try install(SelfSignedCertificate(), trustedAs: "first.pem")
            var environment = RunningProgram.environment(database, kakao)
            environment["HTTP_TLS_CERTIFICATE_FILE"] = "\(folder)/certificate.pem"
            environment["HTTP_TLS_PRIVATE_KEY_FILE"] = "\(folder)/key.pem"
            let process = try await RunningProgram.start(environment: environment)
            let address = try await process.address()
            /// Returns whether a client that trusts only this certificate gets a response.
            func answers(trusting name: String) async throws -> Bool {
                let arguments = ["--silent", "--cacert", "\(folder)/\(name)", "https://\(address)/healthz"]
                let result = try await Subprocess.run(
                    .path("/usr/bin/curl"),
                    arguments: Arguments(arguments),
                    output: .string(limit: 1024)
                )
                return result.standardOutput == "ok"
            }
            #expect(try await answers(trusting: "first.pem"))
            // `health` has the settings of `serve` and accepts a certificate for another name. Only the port must be
            // added, since it is 0 in the settings.
            var health = environment
            health["HTTP_PORT"] = address.split(separator: ":").last.map(String.init)
            let isAlive = try await RunningProgram.start(["health"], environment: health)
            #expect(await isAlive.ended() == .exited(0))
            health["HTTP_TLS_CERTIFICATE_FILE"] = nil
            health["HTTP_TLS_PRIVATE_KEY_FILE"] = nil
            let isPlain = try await RunningProgram.start(["health"], environment: health)
            #expect(await isPlain.ended() == .exited(1))
            try install(SelfSignedCertificate(), trustedAs: "second.pem")
            #expect(try await !answers(trusting: "second.pem"))
            process.send(SIGHUP)
            try await eventually("the server has reloaded the certificate") {
                process.lines.contains { $0.contains("Settings reloaded") && $0.contains("certificate=reloaded") }
            }
            #expect(try await answers(trusting: "second.pem"))
            #expect(try await !answers(trusting: "first.pem"))
            try Data("nonsense".utf8).write(to: URL(filePath: "\(folder)/key.pem"))
            process.send(SIGHUP)
            try await eventually("the server has tried to reload the certificate") {
                process.lines.contains { $0.contains("Settings not reloaded") && $0.contains("private key") }
            }
            #expect(try await answers(trusting: "second.pem"))
            process.send(SIGTERM)
            #expect(await process.ended() == .exited(0))
        }
    }

    @Test("With a database of another version, dev names the folder to delete")
    func otherVersion() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { first in
            let pool = try await Shared.pool(try #require(first.variables["DATABASE_URL"]))
            try await pool.write("UPDATE schema_migrations SET checksum = 'another' WHERE version = 1")
            await pool.shutdown()
            first.process.send(SIGTERM)
            #expect(await first.process.ended() == .exited(0))
        }
        let second = try await DevServer.process(in: folder)
        #expect(await second.ended() == .exited(EX_CONFIG))
        #expect(second.lines.contains { $0.contains(folder) && $0.contains("Delete the folder") }, "\(second.lines)")
    }

    @Test(
        "dev offers Kakao Login and KakaoStory with its sandbox, and only its owner can read the key that encrypts tokens"
    )
    func devLogin() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { dev in
            let api = TestClient(url: try #require(dev.variables["SERVER_URL"]))
            let started = try await api.with(nil).get("/login/kakao")
            let sandbox = try #require(dev.variables["SANDBOX_URL"])
            #expect(
                started.headerFields[.location]?.hasPrefix("\(sandbox)/oauth/authorize?") == true,
                "\(started.text)"
            )
            let path = "\(folder)/accounts-encryption.key"
            // The commands that read settings need the key, which dev.env has for them.
            for path in [path, "\(folder)/dev.env"] {
                #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
            }
            let key = String(decoding: try #require(FileManager.default.contents(atPath: path)), as: UTF8.self)
            #expect(!dev.process.lines.contains { $0.contains(key) })
            #expect(dev.variables["ACCOUNTS_ENCRYPTION_KEY"] == key)
            // The sandbox has the calls that Kakao has ended.
            var browser = TestClient(url: sandbox, authorization: nil, checksContract: false)
            browser.caCertificateFile = dev.variables["SANDBOX_CERTIFICATE"]
            let login = try await browser.post("/sandbox/login", json: ["user_id": 7])
            let token = try #require(login.json?["access_token"]?.string)
            let story = try await api.with("Bearer \(token)").get("/v1/api/story/isstoryuser")
            #expect(story.json == ["isStoryUser": true])
            dev.process.send(SIGTERM)
            #expect(await dev.process.ended() == .exited(0))
        }
    }

    @Test("With migrations off, a server starts only after migrate; a new key works at once")
    func commands() async throws {
        try await withDatabaseAndKakao(.nothing) { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["DATABASE_MIGRATE"] = "false"
            environment["LOG_LEVEL"] = "warning"
            /// Runs a command to its end and returns the lines of its output.
            func run(_ command: [String], expecting code: Int32 = 0) async throws -> [String] {
                let process = try await RunningProgram.start(command, environment: environment)
                #expect(await process.ended() == .exited(code), "\(process.lines)")
                return process.lines
            }
            let refusal = try await run(["serve"], expecting: EX_CONFIG)
            #expect(refusal.contains { $0.contains("database.migrate") && $0.contains("push-server migrate") })
            #expect(try await run(["migrate"]).first == "applied devices")
            #expect(try await run(["migrate"]) == ["nothing to apply"])
            // A newer version has migrated the database, which this one goes on with.
            try await database.pool.write(
                "INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, 'later', 'of its file')"
            )
            let newer = try await run(["migrate"])
            #expect(newer.contains("unknown 9999_later.sql: the database is newer than this program"), "\(newer)")

            let made = try await run(["keys", "create", "--name", "me", "--scope", "devices"])
            #expect(made.count == 1, "\(made)")
            let key = try #require(made.first { $0.hasPrefix("kps_") })
            environment["LOG_LEVEL"] = "info"
            try await RunningProgram.with(environment: environment) { _, api in
                let caller = api.with("Bearer \(key)")
                let registered = try await caller.register(1, "token")
                #expect(registered.status == 200, "\(registered.text)")
                #expect(try await caller.get("/v1/users/1/devices").status == 403)
                environment["LOG_LEVEL"] = "warning"
                let listed = try await run(["keys", "list"])
                #expect(listed.first?.contains("  name  scopes   created               created by") == true)
                #expect(listed.last?.contains("  me    devices  ") == true)
                #expect(listed.last?.hasSuffix("never      until revoked") == true)
                #expect(!listed.contains { $0.contains(key) })
                #expect(try await run(["keys", "revoke", "--name", "me"]) == ["revoked 1"])
                try await eventually("the revoked key is refused") {
                    try await caller.register(1, "token").status == 401
                }
                _ = try await run(["keys", "create", "--name", "me", "--scope", "read", "--days", "0"], expecting: 64)
                for wrong in [[], ["--scope", "read,,send"], ["--scope", "all"], ["--role", "boss"]] {
                    _ = try await run(["keys", "create", "--name", "me"] + wrong, expecting: 64)
                }
                let roles = ["--role", "on-call", "--scope", "send,export", "--scope", "talk"]
                _ = try await run(["keys", "create", "--name", "night"] + roles)
                let night = try await run(["keys", "list"]).last
                #expect(night?.contains("  night  export,operate,read,send,talk  ") == true)
                #expect(night?.contains("  push-server (") == true)
                for address in [api.url, "\(api.url)/", "\(api.url)/healthz"] {
                    #expect(try await run(["health", "--url", address]) == ["server  alive"])
                }
                _ = try await run(["health", "--url", "\(api.url)/nothing"], expecting: 1)
                // As the other commands do, whatever port the settings have.
                environment["SERVER_URL"] = api.url
                #expect(try await run(["health"]) == ["server  alive"])
                environment["SERVER_URL"] = nil
                // The port of the settings is any free one, so that an address has to be given.
                _ = try await run(["health"], expecting: EX_USAGE)
            }
        }
    }

    @Test(
        "A server that cannot listen names the setting, exits with 78, and has opened nothing",
        arguments: [
            ("http.port", ["HTTP_PORT": "PORT"]), ("http.operator_port", ["HTTP_OPERATOR_PORT": "PORT"]),
            ("http.host", ["HTTP_HOST": "203.0.113.9"]), ("http.host", ["HTTP_HOST": "localhost"]),
            ("http.operator_host", ["HTTP_OPERATOR_PORT": "0", "HTTP_OPERATOR_HOST": "203.0.113.9"]),
        ]
    )
    func unusableAddress(setting: String, variables: [String: String]) async throws {
        let listener = try FileDescriptor.listening(on: "127.0.0.1", port: 0)
        let port = "\(try listener.boundPort())"
        let journal = try TemporaryFolder.make() + "/journal"
        let own = [
            "DATABASE_URL": "postgres://localhost:1/none", "KAKAO_ADMIN_KEY": Keys.admin, "OPERATOR_KEY": Keys.operator,
            "JOURNAL_DIRECTORY": journal, "HTTP_PORT": "0",
        ]
        let environment = own.merging(variables.mapValues { $0 == "PORT" ? port : $0 }) { $1 }
        let process = try await RunningProgram.start(environment: environment)
        #expect(await process.ended() == .exited(EX_CONFIG))
        #expect(process.lines.count == 1, "\(process.lines)")
        #expect(process.lines.first?.hasPrefix("push-server: \(setting): ") == true, "\(process.lines)")
        #expect(!FileManager.default.fileExists(atPath: journal))
    }

    @Test("A server without an operator key does not start, names the missing setting, and exits with 78")
    func withoutKey() async throws {
        var environment = ["DATABASE_URL": "postgres://localhost:1/none", "KAKAO_ADMIN_KEY": Keys.admin]
        let process = try await RunningProgram.start(environment: environment)
        #expect(await process.ended() == .exited(EX_CONFIG))
        #expect(process.lines.contains { $0.contains("operator.key") && $0.contains("OPERATOR_KEY") })
        // Often, it was started in another folder than that of its file.
        #expect(process.lines.contains { $0.contains("no readable config/push-server.yaml in /") })

        environment["OPERATOR_KEY"] = "short"
        let second = try await RunningProgram.start(environment: environment)
        #expect(await second.ended() == .exited(EX_CONFIG))
        #expect(second.lines.contains { $0.contains("OPERATOR_KEY in the environment") && $0.contains("32") })
        #expect(!second.lines.contains { $0.contains("short") })
        #expect(!second.lines.contains { $0.contains("config/push-server.yaml") })
    }
}

/// Connections that send nothing, for as long as this value lives.
private struct IdleConnections: ~Copyable {
    private var descriptors: [Int32]
    private let port: UInt16

    init(_ count: Int, port: UInt16) throws {
        self.port = port
        descriptors = try (0..<count).map { _ in try LoopbackSocket.connect(to: port) }
    }

    /// Closes the connection that was opened first, and opens another.
    mutating func replaceOldest() throws {
        close(descriptors.removeFirst())
        descriptors.append(try LoopbackSocket.connect(to: port))
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
    }
}
