import Endpoints
import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import Journal
import KakaoSandbox
import Locking
import Logging
import Postgres
import PrivatePostgres
import Server
import ServiceTesting
import Settings
import Subprocess
import TestSupport
import Testing

/// Kakao's calls while PostgreSQL is unavailable. Each call that is answered with success is stored exactly once.
@Suite(.timeLimit(.minutes(5))) struct CallJournalTests {
    private static let callbackPath = "/kakao/link/callback"
    private static let feedbackPath = "/kakao/push/feedback/\(Keys.feedback)"
    private static let unlink: KeyValuePairs = [
        "app_id": "123456", "user_id": "1", "referrer_type": "UNLINK_FROM_APPS",
    ]

    private static func settings(_ database: String, _ kakao: TestKakao, journal: String?) -> Settings {
        var settings = Settings.test(database, kakao: kakao.sandbox.url)
        settings.kakao.appID = 123_456
        settings.journal.directory = journal
        return settings
    }

    /// Returns the operations of a disk that is never slow. After a timeout of PostgreSQL, the server allows the journal
    /// only half a second.
    private static var quickDisk: FileOperations {
        var operations = FileOperations.system
        operations.sync = { _ in }
        return operations
    }

    private static func folder() throws -> String { "\(try TemporaryFolder.make())/journal" }

    private static func kakao(_ api: TestClient, resourceID: String? = nil) -> TestClient {
        var caller = api.with("KakaoAK \(Keys.admin)")
        if let name = HTTPField.Name("X-Kakao-Resource-ID") { caller.headerFields[name] = resourceID }
        return caller
    }

    private static func callback(_ api: TestClient, _ resourceID: String?, chat: String = "1") async throws -> Int {
        try await kakao(api, resourceID: resourceID).get(
            callbackPath,
            ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": chat, "TEMPLATE_ID": "5", "이름": "값 \u{1F600} \"\\"]
        ).status
    }

    private static func report(_ api: TestClient, _ token: String, at milliseconds: Int64? = nil) async throws -> Int {
        var fields = "userId=1&pushToken=\(token)"
        if let milliseconds { fields += "&date=\(milliseconds)" }
        return try await api.with(nil).post(
            feedbackPath,
            Array(fields.utf8),
            type: "application/x-www-form-urlencoded"
        ).status
    }

    private static func failures(_ pool: PostgresPool) async throws -> Int32? {
        try await pool.read("SELECT failures FROM devices WHERE user_id = 1").first?.decode(Int32.self)
    }

    /// Returns the JSON of a path as soon as it can be read. After an outage, the replay may have a connection to the
    /// database before each event loop has one of its own.
    private static func read(
        _ api: TestClient,
        _ path: String,
        _ query: KeyValuePairs<String, String> = [:]
    ) async throws -> JSONValue? {
        var json: JSONValue?
        try await eventually("the database can be read") {
            let answer = try await api.get(path, query)
            json = answer.json
            return answer.status == 200
        }
        return json
    }

    private static func count(_ pool: PostgresPool, _ table: String) async throws -> Int64 {
        try await pool.read("SELECT count(*) FROM \(table)").first?.decode(Int64.self) ?? -1
    }

    @Test(
        "While PostgreSQL is down, Kakao's calls are accepted and the server is ready; later all are stored once"
    )
    func outage() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            let folder = try Self.folder()
            let log = CollectedLog()
            try await RunningServer.with(Self.settings(url, kakao, journal: folder), log: log) { api in
                #expect(try await api.register(1, "token").status == 200)
                #expect(try await Self.callback(api, "before") == 200)
                await cluster.stop(.fast)
                try await eventually("the status reports it") {
                    try await api.get("/v1/status").json?["database"]?["up"] == false
                }
                for number in 0..<20 { #expect(try await Self.callback(api, "during-\(number / 2)") == 200) }
                #expect(try await Self.callback(api, "before") == 200)
                // A callback without a resource id is stored each time.
                #expect(try await Self.callback(api, nil) == 200)
                #expect(
                    try await Self.kakao(api).post("/kakao/unlink", form: ["app_id": "123456", "user_id": "2"])
                        .status == 200
                )
                for _ in 0..<2 { #expect(try await Self.report(api, "token", at: 4_000_000_000_000) == 200) }
                // Calls without the key are not accepted.
                #expect(try await api.with("KakaoAK wrong").get(Self.callbackPath).status == 401)

                let status = try await api.get("/v1/status").json
                #expect(status?["journal"]?["records"] == 25)
                #expect(Double(status?["journal"]?["oldest_seconds"]?.number?.text ?? "") ?? 0 > 0)
                #expect(status?["backlog"]?["batches"] == .null)
                #expect(try await api.metrics().value("kakao_push_journal_records") == 25)
                #expect(try await api.metrics().value("kakao_push_journal_open") == 1)
                try await eventually("readiness reports it") {
                    let ready = try await api.get("/readyz")
                    #expect(ready.status == 200)
                    return ready.json?["checks"]?["database"] == "unreachable"
                }
                #expect(try await api.register(2, "other").status == 503)

                let returned = Date.ISO8601FormatStyle(includingFractionalSeconds: true).format(Date())
                try await cluster.start()
                try await eventually("all are replayed") {
                    try await api.get("/v1/status").json?["journal"]?["records"] == 0
                }
                let items = try await Self.read(api, "/v1/link/callbacks", ["limit": "1000"])?["items"]?.array ?? []
                #expect(items.count == 12)
                #expect(Set(items.compactMap { $0["resource_id"]?.string }).count == 11)
                #expect(items.allSatisfy { $0["args"] == ["이름": "값 \u{1F600} \"\\"] && $0["template_id"] == 5 })
                // A callback that waited in the journal counts once.
                let counted = try await Self.read(api, "/v1/link/stats")?["items"]?.array ?? []
                #expect(counted.reduce(0) { $0 + ($1["arrivals"]?.integer ?? 0) } == 12)
                // Replayed calls are found by `stored_since`, and the lists show when they were received.
                let late = try await Self.read(api, "/v1/link/callbacks", ["stored_since": returned])
                #expect(late?["items"]?.array?.count == 11)
                for item in late?["items"]?.array ?? [] {
                    #expect((item["received_at"]?.string ?? "") < (item["stored_at"]?.string ?? ""))
                }
                let events = try await Self.read(api, "/v1/events", ["stored_since": returned])
                #expect(events?["items"]?.array?.map { $0["user_id"] } == ["2"])
                let devices = try await Self.read(api, "/v1/users/1/devices")
                #expect(devices?["items"]?[0]?["failures"] == 1)
                try await eventually("calls are stored at once again") {
                    _ = try await Self.callback(api, "after")
                    return try await api.get("/v1/status").json?["journal"]?["records"] == 0
                }
                // A server that stops before keeps the files of its claims, for the next one to compare.
                let pool = try await Shared.pool(url)
                try await eventually("both queues have compared the new run of PostgreSQL") {
                    try await Self.count(pool, "work_leases WHERE checked_run = database_run()") == 2
                }
                await pool.shutdown()
            }
            #expect(
                !log.messages.contains {
                    $0.hasPrefix("Journal record rejected") || $0.hasPrefix("Journal replay failed")
                }
            )
            let left = try FileManager.default.contentsOfDirectory(atPath: folder)
            #expect(left.sorted() == ["recent", "rejected", "unverified"])
        }
    }

    @Test(
        "A server that starts without PostgreSQL accepts only Kakao's calls, and is not ready until it has reached it"
    )
    func startedWithout() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            await cluster.stop(.fast)
            let settings = Self.settings(url, kakao, journal: try Self.folder())
            let log = CollectedLog()
            let first = try await RunningServer.start(settings, log: log, awaitsDatabase: false)
            var api = TestClient(url: first.url)
            for number in 0..<5 { #expect(try await Self.callback(api, "\(number)") == 200) }
            #expect(try await Self.kakao(api).get("/kakao/unlink", Self.unlink).status == 200)
            #expect(try await Self.report(api, "token") == 200)
            #expect(try await api.with(nil).post("/kakao/push/feedback/wrong").status == 404)
            #expect(try await api.register(1, "token").status == 503)
            // A rolling update with a wrong address must not continue.
            let ready = try await api.get("/readyz")
            #expect(ready.status == 503)
            #expect(ready.json?["checks"]?["database"] == "never_reached")
            #expect(ready.json?["checks"]?["journal"] == "ok")
            let line = await log.line { $0.message == "Waiting for the database" }
            #expect(line.metadata["until_then"] == "not ready; calls from Kakao are written to the journal")
            try await first.stop()

            var second = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
            api = TestClient(url: second.url)
            #expect(try await Self.callback(api, "4") == 200)
            try await eventually("the files of the first server are adopted") {
                if try await api.get("/v1/status").json?["journal"]?["records"] == 8 { return true }
                // A process that another test started just then held the lock of a file until it executed its program. A
                // server without a database adopts files only when it starts.
                try await second.stop()
                second = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
                api = TestClient(url: second.url)
                return false
            }
            try await cluster.start()
            try await eventually("all are replayed") {
                try await api.get("/v1/status").json?["journal"]?["records"] == 0
            }
            #expect(try await Self.read(api, "/v1/link/callbacks")?["items"]?.array?.count == 5)
            #expect(try await Self.read(api, "/v1/events")?["items"]?.array?.count == 1)
            try await second.stop()
        }
    }

    @Test("A user who unlinks during an outage and registers after it keeps the new device and loses the old one")
    func unlinkThenRegister() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            let settings = Self.settings(url, kakao, journal: try Self.folder())
            try await RunningServer.with(settings) { (api: TestClient) async throws in
                #expect(try await api.register(1, "old", device: "old").status == 200)
                #expect(try await api.register(1, "same", device: "same").status == 200)
                await cluster.stop(.fast)
                #expect(try await Self.kakao(api).get("/kakao/unlink", Self.unlink).status == 200)
            }
            try await cluster.start()
            // A server without a journal, so that the registration precedes the replay.
            try await RunningServer.with(Self.settings(url, kakao, journal: nil)) {
                (api: TestClient) async throws in
                #expect(try await api.register(1, "new", device: "new").status == 200)
                // A repeated registration counts from its own time.
                #expect(try await api.register(1, "same", device: "same").status == 200)
            }
            try await RunningServer.with(settings) { api in
                try await eventually("it is replayed") {
                    try await api.get("/v1/status").json?["journal"]?["records"] == 0
                }
                try await eventually("the old device is removed at Kakao") {
                    try await kakao.tokens(of: 1).sorted() == ["new gcm new", "same gcm same"]
                }
                let tokens = try await api.get("/v1/push/tokens", ["uuid": "1"]).json?.array
                #expect(Set(tokens?.compactMap { $0["push_token"]?.string } ?? []) == ["new", "same"])
                // The event itself is stored.
                #expect(try await api.get("/v1/events").json?["items"]?.array?.count == 1)
            }
        }
    }

    @Test(
        "If a statement takes longer than 2 s, Kakao still gets a response in time, and a late commit counts once"
    )
    func stalled() async throws {
        let folder = try Self.folder()
        func adjust(_ settings: inout Settings) {
            settings.journal.directory = folder
            settings.journal.fileOperations = Self.quickDisk
            settings.kakao.appID = 123_456
            // Statements wait for the locks, however long the test takes.
            settings.databaseTimeout = .seconds(600)
        }
        try await withService(adjust) { service in
            let (api, database) = (service.api, service.database)
            #expect(try await api.register(1, "token").status == 200)
            try await database.pool.withTransaction { transaction in
                _ = try await transaction.query("LOCK TABLE link_callbacks, events IN ACCESS EXCLUSIVE MODE")
                _ = try await transaction.query("SELECT FROM devices FOR UPDATE")
                let start = ContinuousClock.now
                async let callback = Self.callback(api, "late")
                async let nameless = Self.callback(api, nil)
                async let unlink = Self.kakao(api).get("/kakao/unlink", ["app_id": "123456", "user_id": "9"]).status
                async let report = Self.report(api, "token")
                #expect(try await [callback, nameless, unlink, report] == [200, 200, 200, 200])
                #expect(start.duration(to: .now) >= .seconds(1.9))
            }
            try await eventually("all are replayed") {
                try await api.get("/v1/status").json?["journal"]?["records"] == 0
            }
            #expect(try await database.count("link_callbacks") == 2)
            #expect(try await database.count("events") == 1)
            #expect(try await Self.failures(database.pool) == 1)
        }
    }

    @Test("A commit whose response is lost counts once, even if other calls precede the replay")
    func lostResponse() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            let relay = try DatabaseRelay(to: url)
            defer { relay.stop() }
            let pool = try await Shared.pool(url)
            var settings = Self.settings(relay.url, kakao, journal: try Self.folder())
            settings.journal.fileOperations = Self.quickDisk
            try await RunningServer.with(settings) { api in
                #expect(try await api.register(1, "token").status == 200)
                relay.loseAnswers()
                async let callback = Self.callback(api, "lost")
                async let nameless = Self.callback(api, nil)
                async let unlink = Self.kakao(api).get("/kakao/unlink", ["app_id": "123456", "user_id": "9"]).status
                async let report = Self.report(api, "token", at: 4_000_000_000_000)
                #expect(try await [callback, nameless, unlink, report] == [200, 200, 200, 200])
                // The calls were committed, and are in the journal as well. An unlink has several statements, of
                // which the first got no response.
                #expect(try await Self.count(pool, "link_callbacks") == 2)
                #expect(try await Self.count(pool, "events") == 0)
                #expect(try await Self.failures(pool) == 1)
                #expect(try await api.get("/v1/status").json?["journal"]?["records"] == 4)
                // Another failure is reported in between.
                try await pool.write(
                    """
                    UPDATE devices
                    SET failures = failures + 1,
                        failure_dates = failure_dates || last_failure_at + interval '1 hour',
                        last_failure_at = last_failure_at + interval '1 hour'
                    """
                )
                relay.reset()
                try await eventually("all are replayed") {
                    try await api.get("/v1/status").json?["journal"]?["records"] == 0
                }
                #expect(try await Self.count(pool, "link_callbacks") == 2)
                #expect(try await Self.count(pool, "events") == 1)
                #expect(try await Self.failures(pool) == 2)
            }
            await pool.shutdown()
        }
    }

    @Test("A failure that is stored after a later one counts as well")
    func outOfOrder() async throws {
        try await withService { (service: TestService) async throws in
            #expect(try await service.api.register(1, "token").status == 200)
            let later: Int64 = 4_000_000_000_000
            for date in [later, later - 1000, later, later - 1000] {
                #expect(try await Self.report(service.api, "token", at: date) == 200)
            }
            #expect(try await Self.failures(service.database.pool) == 2)
        }
    }

    @Test("A record that the database rejects is set aside and counted, and the others are stored")
    func rejected() async throws {
        let folder = try Self.folder()
        let journal = try Journal(path: folder, maximumBytes: 1 << 20, logger: quietLogger)
        func append(_ text: String) async {
            await withCheckedContinuation { continuation in
                journal.append(JournalRecord(time: Date(), payload: Array(text.utf8))) { _ in continuation.resume() }
            }
        }
        func callback(_ number: Int, args: String) -> String {
            """
            {"link_callback":{"id":"\(UUID().uuidString)","resource_id":"\(number)","chat_type":"a","hash_chat_id":"b",\
            "template_id":null,"args":"\(args)","received_at":1000000}}
            """
        }
        await append(callback(1, args: "{}"))
        await append(callback(2, args: "no JSON"))
        await append(#"{"of another version":1}"#)
        await append(callback(3, args: "{}"))
        await journal.close()

        let adjust = { (settings: inout Settings) in settings.journal.directory = folder }
        try await withService(adjust) { service in
            try await eventually("they are replayed") { try await service.database.count("link_callbacks") == 2 }
            try await eventually("the rejected records are counted") {
                try await service.api.metrics().value("kakao_push_journal_rejected_records") == 2
            }
            #expect(try await service.api.get("/v1/status").json?["journal"]?["rejected"] == 2)
            #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/rejected").count == 2)
            #expect(service.log.lines.contains { $0.level == .error && $0.message == "Journal record rejected" })
        }
    }

    @Test(
        "While the disk hangs, Kakao gets 503 in time, other requests are served, and the calls are stored all the same"
    )
    func hangingDisk() async throws {
        let isHanging = Locked(false)
        var operations = FileOperations.system
        operations.sync = { [sync = operations.sync] descriptor throws(SystemError) in
            // Blocks a queue of the journal, as a hanging disk does.
            while isHanging.withLock({ $0 }) { usleep(10_000) }
            try sync(descriptor)
        }
        var settings = Settings.test("postgres://nobody@127.0.0.1:1/none", kakao: "http://127.0.0.1:1")
        settings.journal.directory = try Self.folder()
        settings.journal.fileOperations = operations
        let given = settings
        try await Slots.servers.with {
            let server = try await RunningServer.start(given, log: CollectedLog(), awaitsDatabase: false)
            let api = TestClient(url: server.url)
            #expect(try await Self.callback(api, "before") == 200)
            isHanging.withLock { $0 = true }
            async let first = Self.callback(api, "1")
            async let second = Self.callback(api, "2")
            // All responses arrive while the disk hangs.
            #expect(try await api.get("/healthz").status == 200)
            #expect(try await [first, second] == [503, 503])
            isHanging.withLock { $0 = false }
            #expect(try await Self.callback(api, "after") == 200)
            #expect(try await api.get("/v1/status").json?["journal"]?["records"] == 4)
            try await server.stop()
        }
    }

    @Test("With a full disk, Kakao gets 503 and readiness shows a closed journal, until there is space")
    func fullDisk() async throws {
        let isFull = Locked(true)
        var operations = FileOperations.system
        operations.allocate = { [allocate = operations.allocate] descriptor, length throws(SystemError) in
            if isFull.withLock({ $0 }) { throw SystemError(call: "posix_fallocate", code: ENOSPC) }
            try allocate(descriptor, length)
        }
        var settings = Settings.test("postgres://nobody@127.0.0.1:1/none", kakao: "http://127.0.0.1:1")
        settings.journal.directory = try Self.folder()
        settings.journal.fileOperations = operations
        let given = settings
        try await Slots.servers.with {
            let server = try await RunningServer.start(given, log: CollectedLog(), awaitsDatabase: false)
            let api = TestClient(url: server.url)
            let answer = try await Self.kakao(api).get(
                Self.callbackPath,
                ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1"]
            )
            #expect(answer.status == 503)
            #expect(answer.json?["type"] == "urn:kakao-push-server:error:database-unavailable")
            let ready = try await api.get("/readyz")
            #expect(ready.status == 503)
            #expect(ready.json?["checks"]?["journal"] == "closed")
            let journal = try await api.get("/v1/status").json?["journal"]
            #expect(journal?["open"] == false && journal?["unverified_open"] == false)
            #expect(try await api.metrics().value("kakao_push_journal_unverified_open") == 0)
            isFull.withLock { $0 = false }
            try await eventually("the journal is open again") {
                try await api.get("/readyz").json?["checks"]?["journal"] == "ok"
            }
            try await eventually("the journal of account events is open again") {
                try await api.metrics().value("kakao_push_journal_unverified_open") == 1
            }
            #expect(try await Self.callback(api, "after") == 200)
            try await server.stop()
        }
    }

    @Test("With an unusable directory the server does not start, and names the invalid setting")
    func unusable() async throws {
        let file = "\(try TemporaryFolder.make())/file"
        try writeFile([], to: file)
        var settings = Settings.test("postgres://nobody@127.0.0.1:1/none", kakao: "http://127.0.0.1:1")
        settings.journal.directory = "\(file)/journal"
        let error = await #expect(throws: SettingsError.self) {
            _ = try await RunningServer.start(settings, log: CollectedLog(), awaitsDatabase: false)
        }
        #expect(error?.place == "journal.directory")
    }

    @Test("Without a journal a warning is logged at the start")
    func warning() async throws {
        try await withService { service in
            #expect(service.log.lines.contains { $0.level == .warning && $0.message.hasPrefix("No journal") })
        }
    }

    // MARK: Under load

    /// The resource ids of calls that were answered with success.
    private final class Accepted: Sendable {
        let names = Locked<Set<String>>([])
        let isStopping = Locked(false)
    }

    @Test(
        "Under load with duplicates, outages and kills of the server, each callback answered 200 is stored once"
    )
    func load() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            var environment = [
                "DATABASE_URL": url, "OPERATOR_KEY": Keys.operator, "KAKAO_ADMIN_KEY": Keys.admin,
                "KAKAO_API_URL": kakao.sandbox.url, "HTTP_PORT": "0", "JOURNAL_DIRECTORY": try Self.folder(),
            ]
            var server = try await RunningProgram.start(environment: environment)
            let base = try await server.url()
            environment["HTTP_PORT"] = base.split(separator: ":").last.map(String.init)
            let accepted = Accepted()
            let client = HTTPClient(
                settings: HTTPClientSettings(totalTimeout: .seconds(5), maximumConnections: 16),
                loop: try Shared.loop
            )
            let load = Task {
                await withDiscardingTaskGroup { group in
                    for caller in 0..<16 {
                        group.addTask { await Self.call(base, client, caller, accepted) }
                    }
                }
            }
            /// Waits until 300 more callbacks are accepted.
            func progress(_ what: Comment) async throws {
                let before = accepted.names.withLock { $0.count }
                try await eventually(what) { accepted.names.withLock { $0.count } > before + 300 }
            }
            do {
                try await progress("with a database")
                await cluster.stop(.fast)
                try await progress("without a database")
                for _ in 0..<2 {
                    server.send(SIGKILL)
                    _ = await server.ended()
                    server = try await RunningProgram.start(environment: environment)
                    _ = try await server.address()
                    try await progress("started without a database")
                }
                try await cluster.start()
                try await progress("with a database again")
            } catch {
                accepted.isStopping.withLock { $0 = true }
                server.send(SIGKILL)
                await load.value
                throw error
            }
            accepted.isStopping.withLock { $0 = true }
            await load.value
            await client.shutdown()
            let api = TestClient(url: base)
            try await eventually("all are replayed: \(server.lines.suffix(5))") {
                let status = try await api.get("/v1/status").json
                return status?["journal"]?["records"] == 0 && status?["database"]?["up"] == true
            }
            let pool = try await Shared.pool(url)
            let stored = try await pool.read("SELECT key FROM link_callbacks").map { try $0.decode(String.self) }
            await pool.shutdown()
            // The key is unique, so no callback is stored twice.
            #expect(accepted.names.withLock { $0 }.subtracting(stored).isEmpty)
            server.send(SIGTERM)
            #expect(await server.ended() == .exited(0))
        }
    }

    /// Sends callbacks one after another over persistent connections until it is stopped. A third of them are
    /// duplicates.
    private static func call(_ url: String, _ client: HTTPClient, _ caller: Int, _ accepted: Accepted) async {
        var number = 0
        while !accepted.isStopping.withLock({ $0 }) {
            number += 1
            let name = "\(caller)-\(number / 3 * 2 + number % 3 / 2)"
            var request = HTTPClientRequest(url: "\(url)\(callbackPath)?CHAT_TYPE=MemoChat&HASH_CHAT_ID=\(caller)")
            request.headerFields[.authorization] = "KakaoAK \(Keys.admin)"
            if let field = HTTPField.Name("X-Kakao-Resource-ID") { request.headerFields[field] = name }
            guard let response = try? await client.send(request) else {
                // The server is restarting.
                try? await Task.sleep(for: .milliseconds(20))
                continue
            }
            if response.status == 200 { accepted.names.withLock { _ = $0.insert(name) } }
        }
    }
}
