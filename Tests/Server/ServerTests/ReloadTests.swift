import Crypto
import Devices
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Locking
import Pushes
import ServiceTesting
import Sharing
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity
@testable import Server
@testable import Settings

/// Tests of settings that change while the server runs, by `SIGHUP`.
@Suite(.timeLimit(.minutes(5))) struct ReloadTests {
    private static let newKey = "another-operator-key-of-the-tests-0123456789"
    private static let newFeedback = "another-feedback-secret"

    /// Returns the values of a log line's metadata that names settings.
    private static func names(_ service: TestService, _ message: String, _ key: String) -> [String] {
        service.log.lines.filter { $0.message == message }.map { $0.metadata[key] ?? "" }
    }

    // MARK: What changes

    @Test(
        "These settings can be reloaded; each has a test here, in LimitTests, in ProcessTests, in SourceAddressTests or in WebhookEndpointTests"
    )
    func reloadable() {
        #expect(
            Settings.all.filter(\.isReloadable).map(\.name) == [
                "http.max_body_bytes", "http.max_header_bytes", "http.header_timeout_seconds",
                "http.body_timeout_seconds", "http.min_bytes_per_second", "http.idle_timeout_seconds",
                "http.max_connections", "http.max_connections_per_address", "kakao.admin_key", "kakao.admin_key_next",
                "kakao.client_secret", "kakao.requests_per_second", "kakao.source_addresses", "operator.key",
                "feedback.secret",
                "devices.requests_per_minute_per_user", "devices.requests_per_minute_per_address",
                "devices.new_per_hour_per_user",
                "pushes.default_users_per_second", "pushes.approval_above_users", "pushes.testers",
                "pushes.advertising_hours", "pushes.advertising_tag", "pushes.advertising_text",
                "pushes.id_field", "pushes.opens_per_hour_per_user", "pushes.inbox_per_minute_per_user",
                "sharing.app_key_calls_per_day_per_network",
                "sharing.app_key_calls_per_minute", "sharing.visits_per_minute_per_address",
                "sharing.counted_visits_per_minute_per_address", "webhooks.url", "webhooks.secret",
                "webhooks.secret_next", "webhooks.types", "webhooks.endpoints", "log.level",
            ]
        )
    }

    @Test("A reload applies changed secrets and limits at both ports, and names what changed and what needs a restart")
    func applied() async throws {
        try await withKakaoLogin {
            $0.operatorPort = 0
        } _: { service in
            let open = TestClient(url: service.server.url)
            let app = open.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))")
            #expect(try await app.register(7, "token").status == 200)
            var settings = service.settings
            settings.identity.operatorKey = Secret(Self.newKey)
            settings.identity.requestsPerMinutePerUser = 1
            settings.http.maximumBodyBytes = 1024
            settings.pushes.retentionDays = 1
            settings.pushes.defaultUsersPerSecond = 70
            settings.pushes.approvalAboveUsers = 1000
            settings.pushes.testers = [7]
            settings.publicURL = .given("https://other.example.com")
            settings.givenPublicURL = "https://other.example.com"
            await service.server.reload(settings)
            #expect(
                Self.names(service, "Settings reloaded", "changed") == [
                    """
                    http.max_body_bytes, operator.key, devices.requests_per_minute_per_user, pushes.default_users_per_second, \
                    pushes.approval_above_users, pushes.testers
                    """
                ]
            )
            let pending = "Changed settings need a restart"
            #expect(Self.names(service, pending, "settings") == ["http.public_url, pushes.retention_days"])
            let operators = service.api.with("Bearer \(Self.newKey)")
            // Each call has a connection of its own, on either loop.
            for _ in 0..<8 {
                // From the sixth invalid key on, an address gets 429.
                #expect([401, 429].contains(try await service.api.get("/v1/pushes").status))
                #expect(try await operators.get("/v1/pushes").status == 200)
            }
            let push = try await operators.create(["everyone": true], gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            #expect(try await operators.shown(push)["users_per_second"] == 70)
            #expect(try await operators.shown(push)["counted_users"] == 1)
            let test = try await operators.post("/v1/pushes", json: ["to_testers": true, "message": gcm()])
            #expect(test.json?["audience"] == ["uuids": ["7"]])
            let body = [UInt8](repeating: 0x20, count: 1025)
            let kakao = open.with("KakaoAK \(Keys.admin)")
            #expect(try await operators.post("/v1/pushes", body, type: "application/json").status == 413)
            #expect(try await kakao.post("/kakao/link/callback", body, type: "application/json").status == 413)
            // By the new limit, the bucket lacks the first request until a second after it.
            try await eventually("a request passes") { try await app.register(7, "token").status == 200 }
            #expect(try await app.register(7, "token").status == 429)
            // Nothing has changed since, except what still needs a restart.
            await service.server.reload(settings)
            #expect(Self.names(service, "Settings reloaded", "changed").last == "none")
            #expect(Self.names(service, pending, "settings").count == 2)
            let lines = service.log.lines.map(\.text)
            for secret in [Keys.operator, Self.newKey] { #expect(!lines.contains { $0.contains(secret) }) }
        }
    }

    @Test("Other limits of calls with app keys apply to the next ones")
    func appKeyLimits() async throws {
        try await withAppKeyCalls { service in
            var phone = service.api.with("KakaoAK sandbox-native-app-key")
            phone.headerFields[.ka] = "sdk/2.27.3"
            var settings = service.settings
            for (perDay, perMinute, statuses) in [(1, 1000, [200, 429]), (1000, 1, [429])] {
                settings.kakao.appKeyCallsPerDayPerNetwork = perDay
                settings.kakao.appKeyCallsPerMinute = perMinute
                await service.server.reload(settings)
                for status in statuses {
                    let page: KeyValuePairs = ["link_ver": "4.0", "request_url": "https://example.com"]
                    let answer = try await phone.post("/v2/api/kakaolink/talk/template/scrap", form: page)
                    #expect(answer.status == status)
                }
            }
        }
    }

    @Test("Other limits of new devices and of visits apply to the next ones")
    func limits() async throws {
        try await withKakaoLogin { service in
            let app = service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))")
            var settings = service.settings
            settings.devices.newPerHourPerUser = 1
            settings.sharing.visitsPerMinutePerAddress = 1
            settings.sharing.countedVisitsPerMinutePerAddress = nil
            await service.server.reload(settings)
            #expect(
                Self.names(service, "Settings reloaded", "changed") == [
                    """
                    devices.new_per_hour_per_user, sharing.visits_per_minute_per_address, \
                    sharing.counted_visits_per_minute_per_address
                    """
                ]
            )
            for status in [200, 429] {
                #expect(try await app.register(7, "token-\(status)", device: "phone-\(status)").status == status)
            }
            for (id, status) in [("A", 404), ("Q", 429)] {
                #expect(try await app.get("/s/AAAAAAAAAAAAAAAAAAAAA\(id)").status == status)
            }
        }
    }

    @Test("A new feedback secret is accepted, masked in the log, and in the address that pushes name; the old one ends")
    func feedback() async throws {
        try await withService {
            $0.identity.feedbackSecret = nil
        } _: { service in
            let path = "/kakao/push/feedback/"
            func report(_ secret: String) async throws -> Int {
                let form: KeyValuePairs = ["userId": "1", "pushToken": "token", "date": "1"]
                return try await service.api.with(nil).post(path + secret, form: form).status
            }
            func returnURL() async throws -> String? {
                #expect(try await service.api.register(1, "phone").status == 200)
                try await service.api.waitUntilDone(service.api.push([1]))
                let payload = try #require(service.kakao.sandbox.deliveries().last?.payload)
                return try JSONValue(parsing: payload)["return_url"]?.string
            }
            #expect(try await report(Keys.feedback) == 404)
            #expect(try await returnURL() == nil)
            var settings = service.settings
            for secret in [Keys.feedback, Self.newFeedback] {
                settings.identity.feedbackSecret = Secret(secret)
                await service.server.reload(settings)
                for _ in 0..<4 { #expect(try await report(secret) == 200) }
                #expect(try await returnURL()?.hasSuffix(path + secret) == true)
            }
            #expect(try await report(Keys.feedback) == 404)
            // The mask of paths covers the secret at its own path only.
            _ = try await service.api.get("/elsewhere/\(Self.newFeedback)")
            _ = await service.log.line { $0.message.hasPrefix("GET /elsewhere/") }
            for secret in [Keys.feedback, Self.newFeedback] {
                #expect(!service.log.lines.contains { $0.text.contains(secret) })
            }
        }
    }

    @Test("A new client secret is used for the next login and the next refresh")
    func clientSecret() async throws {
        try await withAccounts {
            $0.kakao.clientSecret = Secret("an-old-client-secret")
        } _: { service in
            #expect(try await service.logIn(7).status != 200)
            var settings = service.settings
            settings.kakao.clientSecret = Secret("sandbox-client-secret")
            await service.server.reload(settings)
            #expect(try await service.logIn(7).status == 200)
            try await service.expireAccessTokens()
            #expect(try await service.accessToken(of: 7).status == 200)
        }
    }

    @Test("Another rate of pushes applies to a push that is being sent")
    func rate() async throws {
        try await withService {
            $0.kakao.requestsPerSecond = 1
        } _: { service in
            try await service.database.addPhones(1...200)
            var pushes: [String] = []
            for user in Int64(1)...200 { pushes.append(try await service.api.push([user], marker: "m")) }
            var settings = service.settings
            settings.kakao.requestsPerSecond = nil
            await service.server.reload(settings)
            // At the old rate this would take more than three minutes.
            for push in pushes { try await service.api.waitUntilDone(push, within: .seconds(30)) }
            #expect(service.kakao.sandbox.reached(marker: "m").users == 200)
        }
    }

    // MARK: A new Admin key

    @Test("While the Admin key is changed, no callback is lost, and calls to Kakao have the key of kakao.admin_key")
    func adminKey() async throws {
        let old = "the-old-admin-key"
        try await withService {
            $0.kakao.adminKey = Secret(old)
        } _: { service in
            let statuses = Locked<[Int]>([])
            @Sendable func callBack(_ key: String) async throws -> Int {
                let form: KeyValuePairs = ["CHAT_TYPE": "DirectChat", "HASH_CHAT_ID": "room"]
                return try await service.api.with("KakaoAK \(key)").post("/kakao/link/callback", form: form).status
            }
            #expect(try await callBack(old) == 200)
            #expect(try await callBack(Keys.admin) == 401)
            // The sandbox stands for Kakao with the new key.
            #expect(try await service.api.register(1, "token").isPending)

            var settings = service.settings
            settings.kakao.nextAdminKey = Secret(Keys.admin)
            await service.server.reload(settings)
            let primary = Locked(old)
            let calls = Task {
                while !Task.isCancelled {
                    let status = try await callBack(primary.withLock { $0 })
                    statuses.withLock { $0.append(status) }
                }
            }
            try await eventually("callbacks arrive") { statuses.withLock { $0.count } >= 10 }
            primary.withLock { $0 = Keys.admin }
            try await eventually("callbacks arrive") { statuses.withLock { $0.count } >= 20 }
            // Outgoing calls have the old key until it is replaced.
            #expect(try await service.api.register(1, "token").isPending)
            settings.kakao.adminKey = Secret(Keys.admin)
            settings.kakao.nextAdminKey = Secret(old)
            await service.server.reload(settings)
            #expect(try await !service.api.register(2, "other").isPending)
            #expect(try await callBack(old) == 200)
            settings.kakao.nextAdminKey = nil
            await service.server.reload(settings)
            for _ in 0..<8 { #expect(try await callBack(old) == 401) }
            let count = statuses.withLock { $0.count }
            try await eventually("callbacks arrive") { statuses.withLock { $0.count } >= count + 10 }
            calls.cancel()
            _ = await calls.result
            #expect(statuses.withLock { Set($0) } == [200])
            #expect(
                Self.names(service, "Settings reloaded", "changed") == [
                    "kakao.admin_key_next", "kakao.admin_key, kakao.admin_key_next", "kakao.admin_key_next",
                ]
            )
        }
    }

    // MARK: The process

    @Test("On SIGHUP a server reads the files of secrets and its settings file again, while it answers requests")
    func signal() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let folder = try TemporaryFolder.make()
            let key = try await OperatorKeyStore(pool: database.pool)
                .create(name: "made", scopes: [.read], expiresAt: nil)
            func write(_ text: String, to file: String) throws {
                try writeFile(Array(text.utf8), to: "\(folder)/\(file)")
            }
            try write("\(Keys.operator)\n", to: "operator.key")
            try write("log:\n  level: info\n", to: "settings.yaml")
            var environment = RunningProgram.environment(database, kakao)
            environment["OPERATOR_KEY"] = nil
            environment["LOG_LEVEL"] = nil
            environment["OPERATOR_KEY_FILE"] = "\(folder)/operator.key"
            let process = try await RunningProgram.start(
                ["serve", "--config", "\(folder)/settings.yaml"],
                environment: environment
            )
            try await process.whileRunning {
                let api = TestClient(url: try await process.url())
                let new = api.with("Bearer \(Self.newKey)")
                let failures = Locked<[Int]>([])
                let count = Locked(0)
                let requests = Task {
                    while !Task.isCancelled {
                        let status = try await api.with("Bearer \(key)").get("/v1/pushes").status
                        count.withLock { $0 += 1 }
                        if status != 200 { failures.withLock { $0.append(status) } }
                    }
                }
                func reload(logging text: String) async throws {
                    let before = process.lines.count { $0.contains(text) }
                    process.send(SIGHUP)
                    try await eventually("the log has \(text): \(process.lines)") {
                        process.lines.count { $0.contains(text) } > before
                    }
                }
                // An unknown setting in the third line keeps all of the old settings.
                try write(Self.newKey, to: "operator.key")
                try write("log:\n  level: debug\n  colour: red\n", to: "settings.yaml")
                try await reload(logging: "Settings not reloaded")
                let refusal = process.lines.last { $0.contains("Settings not reloaded") }
                #expect(refusal?.contains(" error ") == true)
                #expect(refusal?.contains("settings.yaml:3: Unknown setting log.colour") == true)
                #expect(try await api.get("/v1/pushes").status == 200)
                #expect(try await new.get("/v1/pushes").status == 401)
                // So does a missing file of a secret.
                try write("log:\n  level: debug\nhttp:\n  port: 1\n", to: "settings.yaml")
                #expect(rename("\(folder)/operator.key", "\(folder)/other.key") == 0)
                try await reload(logging: "OPERATOR_KEY_FILE in the environment")
                #expect(try await api.get("/v1/pushes").status == 200)
                #expect(!process.lines.contains { $0.contains("GET /healthz") })

                #expect(rename("\(folder)/other.key", "\(folder)/operator.key") == 0)
                // The environment overrides the port of the file.
                try await reload(logging: "Settings reloaded changed=\"operator.key, log.level\"")
                #expect(try await api.get("/v1/pushes").status == 401)
                #expect(try await new.get("/v1/pushes").status == 200)
                #expect(try await api.get("/healthz").status == 200)
                try await eventually("the log has the level debug") {
                    process.lines.contains { $0.contains("GET /healthz") }
                }
                try write("log:\n  format: json\n  level: error\n", to: "settings.yaml")
                try await reload(logging: "Changed settings need a restart settings=log.format")
                #expect(process.lines.contains { $0.contains("Settings reloaded changed=log.level") })
                let seen = count.withLock { $0 }
                try await eventually("requests go on") { count.withLock { $0 } > seen + 10 }
                requests.cancel()
                _ = await requests.result
                #expect(failures.withLock { $0 } == [])
                for secret in [Keys.operator, Self.newKey, key] {
                    #expect(!process.lines.contains { $0.contains(secret) })
                }
                process.send(SIGTERM)
                #expect(await process.ended() == .exited(0))
            }
        }
    }
}
