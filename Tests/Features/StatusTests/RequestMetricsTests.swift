import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import LogOutput
import Net
import Postgres
import Server
import ServiceTesting
import Subprocess
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity
@testable import Runtime
@testable import Settings

extension Exposition {
    /// The number of requests of an operation with a status.
    fileprivate func requests(_ operation: String, _ status: Int) -> Double? {
        value("kakao_push_http_requests_total", ["operation": operation, "status": String(status)])
    }

    fileprivate func refused(_ reason: String) -> Double? { value("kakao_push_refused_total", ["reason": reason]) }

    fileprivate func notices(_ kind: String) -> [String: Double] {
        let samples = families["kakao_push_notices_total"]?.samples.filter { $0.labels["kind"] == kind } ?? []
        return Dictionary(samples.map { ($0.labels["outcome"] ?? "", $0.value) }) { $0 + $1 }.filter { $0.value > 0 }
    }

    fileprivate func users(_ outcome: String) -> Double? { value("kakao_push_users_total", ["outcome": outcome]) }
}

/// Tests of the metrics of requests, of calls from Kakao, of the users reached, and of what slows a server down.
@Suite(.timeLimit(.minutes(5))) struct RequestMetricsTests {
    // MARK: Requests

    @Test("Requests are counted by operation and status, and refused ones by their reason")
    func requests() async throws {
        let adjust = { (settings: inout Settings) in settings.http.maximumBodyBytes = 100_000 }
        try await withService(adjust) { service in
            let api = service.api
            #expect(try await api.metrics().families["kakao_push_http_requests_total"] == nil)
            for user in Int64(1)...3 { #expect(try await api.register(user, "token").status == 200) }
            #expect(try await api.get("/v1/pushes/\(UUID())").status == 404)
            #expect(try await api.get("/v1/none").status == 404)
            #expect(try await api.with(nil).get("/v1/pushes").status == 401)
            let key = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "reader", scopes: [.read], expiresAt: nil)
            #expect(try await api.with("Bearer \(key)").post("/v1/pushes", json: [:]).status == 403)
            #expect(try await api.post("/v1/pushes", [UInt8](repeating: 0x20, count: 100_001)).status == 413)

            let metrics = try await api.metrics()
            #expect(metrics.requests("registerDevice", 200) == 3)
            #expect(metrics.requests("getPush", 404) == 1)
            #expect(metrics.requests("other", 404) == 1)
            #expect(metrics.requests("listPushes", 401) == 1)
            #expect(metrics.requests("createPush", 403) == 1)
            #expect(metrics.requests("createPush", 413) == 1)
            #expect(metrics.requests("getMetrics", 200) == 1)
            #expect(metrics.refused("unauthorized") == 1)
            #expect(metrics.refused("missing-scope") == 1)
            #expect(metrics.refused("content-too-large") == 1)
            #expect(metrics.refused("not-found") == nil)
            #expect(
                metrics.value("kakao_push_http_request_duration_seconds_count", ["operation": "registerDevice"]) == 3
            )
        }
    }

    @Test("The duration of a request includes the wait for Kakao")
    func duration() async throws {
        try await withService { service in
            service.kakao.fail("register", .latency) { $0.milliseconds = 150 }
            #expect(try await service.api.register(1, "token").status == 200)
            let metrics = try await service.api.metrics()
            func value(_ suffix: String, _ labels: [String: String] = [:]) -> Double? {
                let labels = labels.merging(["operation": "registerDevice"]) { $1 }
                return metrics.value("kakao_push_http_request_duration_seconds_\(suffix)", labels)
            }
            #expect(value("sum") ?? 0 >= 0.149)
            #expect(value("bucket", ["le": "0.1"]) == 0)
            #expect(value("bucket", ["le": "+Inf"]) == 1)
        }
    }

    @Test("Requests over a limit, and requests without a database, are counted by their reason")
    func limits() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
            settings.identity.requestsPerMinutePerAddress = 1
        }
        try await withService(adjust) { service in
            let app = service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))")
            #expect(try await app.get("/v1/push/tokens").status == 200)
            #expect(try await service.api.with("Bearer invented").get("/v1/push/tokens").status == 429)
            #expect(try await service.api.metrics().refused("too-many-requests") == 1)
        }
        // Nothing listens on port 1 of the loopback address.
        let settings = Settings.test("postgres://nobody@127.0.0.1:1/none", kakao: "http://127.0.0.1:1")
        try await Slots.servers.with {
            let server = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
            let api = TestClient(url: server.url)
            #expect(try await api.get("/v1/pushes").status == 503)
            #expect(try await api.metrics().refused("database-unavailable") == 1)
            try await server.stop()
        }
    }

    // MARK: Calls from Kakao

    @Test("Calls from Kakao are counted by what became of them")
    func notices() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.kakao.authURL = settings.kakao.apiURL
            settings.kakao.restAPIKey = KakaoSandboxSettings().restAPIKey
        }
        try await withService(adjust) { service in
            let api = service.api
            for kind in ["link", "unlink", "account_event", "feedback"] {
                #expect(try await api.metrics().notices(kind).isEmpty)
            }
            var share = LinkShare()
            share.arguments = ["a": "b"]
            share.resourceID = "once"
            for _ in 0..<3 { #expect(await service.kakao.share(share).status == 200) }
            let kakao = api.with("KakaoAK \(Keys.admin)")
            #expect(try await kakao.get("/kakao/link/callback", ["CHAT_TYPE": "MemoChat"]).status == 200)
            #expect(try await api.metrics().notices("link") == ["stored": 1, "repeated": 2, "malformed": 1])

            #expect(await service.kakao.unlink(UnlinkNotice(userID: 1)).status == 200)
            let other: KeyValuePairs = ["app_id": "1", "user_id": "1", "referrer_type": "UNLINK_FROM_APPS"]
            #expect(try await kakao.get("/kakao/unlink", other).status == 200)
            #expect(try await api.metrics().notices("unlink") == ["stored": 1, "malformed": 1])

            var event = AccountEvent(userID: 1)
            event.tokenID = "once"
            for _ in 0..<2 { #expect(try await service.kakao.send(event).status == 202) }
            event.isForged = true
            #expect(try await service.kakao.send(event).status == 400)
            #expect(try await api.metrics().notices("account_event") == ["stored": 1, "repeated": 1, "refused": 1])

            _ = try await api.register(2, "token")
            let report: KeyValuePairs = ["userId": "2", "pushToken": "token", "date": "4000000000000"]
            let feedback = "/kakao/push/feedback/\(Keys.feedback)"
            for _ in 0..<2 { #expect(try await api.with(nil).post(feedback, form: report).status == 200) }
            #expect(try await api.metrics().notices("feedback") == ["stored": 1, "repeated": 1])
            try await service.database.pool.write("ALTER TABLE devices RENAME TO gone")
            #expect(try await api.with(nil).post(feedback, form: report).status == 500)
            #expect(try await api.metrics().notices("feedback")["failed"] == 1)
        }
    }

    // MARK: Users

    @Test("The users of batches are counted by their outcome")
    func users() async throws {
        try await withService { service in
            try await service.api.waitUntilDone(service.push([1, 2, 3]))
            #expect(try await service.api.metrics().users("sent") == 3)
            service.kakao.fail("send", status: 404, code: -5000, times: 1)
            try await service.api.waitUntilDone(service.push([1, 2]))
            service.kakao.fail("send", .dropAfterBody, times: 1)
            let push = try await service.api.create(["uuids": [1]], gcm(), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            let metrics = try await service.api.metrics()
            #expect(metrics.users("sent") == 3)
            #expect(metrics.users("failed") == 2)
            #expect(metrics.users("uncertain") == 1)
        }
    }

    // MARK: What slows a server down

    @Test("While a table is locked, rows wait for the database; statements are counted by their duration")
    func waiting() async throws {
        // However long it takes until callbacks wait, none of them fails.
        try await withService { settings in
            settings.databaseTimeout = .seconds(600)
        } _: { service in
            let locked = AsyncStream.makeStream(of: Void.self)
            let release = AsyncStream.makeStream(of: Void.self)
            let holder = Task {
                try await service.database.pool.withTransaction { transaction in
                    _ = try await transaction.query("LOCK TABLE link_callbacks")
                    locked.continuation.yield()
                    for await _ in release.stream { break }
                }
            }
            for await _ in locked.stream { break }
            try await withThrowingTaskGroup(of: Void.self) { group in
                let kakao = service.api.with("KakaoAK \(Keys.admin)")
                // Those of one tick are written by one statement, and two statements of a loop may be in flight.
                try await eventually("callbacks wait") {
                    group.addTask {
                        let fields: KeyValuePairs = ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "a"]
                        let answer = try await kakao.get("/kakao/link/callback", fields)
                        #expect(answer.status == 200)
                    }
                    return try await service.api.metrics().value("kakao_push_database_waiting") ?? 0 > 0
                }
                release.continuation.yield()
                try await group.waitForAll()
            }
            try await holder.value
            let metrics = try await service.api.metrics()
            #expect(metrics.value("kakao_push_database_waiting") == 0)
            let name = "kakao_push_database_statement_duration_seconds"
            #expect(metrics.value("\(name)_count") ?? 0 > 10)
            #expect(metrics.value("\(name)_sum") ?? 0 > 0)
        }
    }

    @Test("Connections to the database that were lost are counted when they are open again")
    func reconnects() async throws {
        try await withService { service in
            let name = "kakao_push_database_reconnects_total"
            #expect(try await service.api.metrics().value(name) == 0)
            let count = try await service.database.integer(
                """
                SELECT count(pg_terminate_backend(pid))
                FROM pg_stat_activity
                WHERE datname = current_database()
                    AND application_name = 'push-server'
                    AND pid <> pg_backend_pid()
                """
            )
            #expect(count > 0)
            try await eventually("the connections are counted") {
                try await service.api.metrics().value(name) ?? 0 > 0
            }
        }
    }

    @Test("Each event loop has a delay")
    func loopDelay() async throws {
        try await withService { service in
            let delays = try await service.api.metrics().families["kakao_push_loop_delay_seconds"]?.samples ?? []
            #expect(delays.map { $0.labels["loop"] } == ["loop-0", "loop-1"])
            #expect(delays.allSatisfy { (0..<300).contains($0.value) })
        }
    }

    // MARK: The process

    @Test("Log lines that nobody reads are counted when they are dropped")
    func droppedLogLines() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var pipes: [Int32] = [0, 0]
            #expect(pipe(&pipes) == 0)
            let sink = LogSink(descriptor: pipes[1])
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            let server = try await RunningServer.start(settings, log: CollectedLog(), sink: sink)
            let api = TestClient(url: server.url)
            #expect(try await api.metrics().value("kakao_push_log_lines_dropped_total") == 0)
            let line = [UInt8](repeating: UInt8(ascii: "x"), count: 100_000)
            // The pipe holds 64 KiB, the line that is being written and the buffer about 2 MiB.
            for _ in 0..<40 { sink.write(line) }
            #expect(try await api.metrics().value("kakao_push_log_lines_dropped_total") ?? 0 > 0)
            // Ends the write that waits for a reader.
            close(pipes[0])
            sink.flush()
            close(pipes[1])
            try await server.stop()
        }
    }

    @Test("The certificate's end is that of the certificate in use")
    func certificate() async throws {
        let folder = try TemporaryFolder.make()
        let certificate = try SelfSignedCertificate()
        try writeFile(certificate.certificate, to: "\(folder)/certificate.pem")
        try writeFile(certificate.privateKey, to: "\(folder)/key.pem")
        let adjust = { (settings: inout Settings) in
            settings.certificateFile = "\(folder)/certificate.pem"
            settings.privateKeyFile = "\(folder)/key.pem"
        }
        try await withService(adjust) { service in
            var api = TestClient(url: "https://\(service.api.url.dropFirst("http://".count))")
            api.caCertificateFile = "\(folder)/certificate.pem"
            let context = try TLSContext(
                certificateChain: certificate.certificate,
                privateKey: certificate.privateKey
            )
            let end = Double(try #require(context.certificateValidity).upperBound)
            let before = end - Date().timeIntervalSince1970
            let seconds = try #require(try await api.metrics().value("kakao_push_certificate_expiry_seconds"))
            #expect(seconds <= before && seconds > before - 300)
        }
    }

    @Test("The program's version is shown, and that it was not built to be released")
    func build() async throws {
        try await withDatabaseAndKakao { database, kakao in
            try await RunningProgram.with(environment: RunningProgram.environment(database, kakao)) { _, api in
                let metrics = try await api.metrics()
                let version = try String(contentsOfFile: "\(TestFiles.repository)/VERSION", encoding: .utf8).dropLast()
                let labels = ["version": String(version), "revision": "development build"]
                #expect(metrics.value("push_server_build_info", labels) == 1)
                #expect(metrics.value("kakao_push_log_lines_dropped_total") == 0)
                let printed = try await OperatorCommand("--version", api.url).run([])
                #expect(printed.output == "\(version) (development build)\n")
            }
        }
    }
}
