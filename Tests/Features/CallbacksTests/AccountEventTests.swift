import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import Journal
import KakaoSandbox
import Locking
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Callbacks
@testable import Identity
@testable import Settings

/// Kakao's security event tokens about changes of users' accounts: `/kakao/account-events`.
@Suite(.timeLimit(.minutes(5))) struct AccountEventTests {
    private static let path = "/kakao/account-events"
    private static let mediaType = "application/secevent+jwt"
    private static let oauth = "https://schemas.openid.net/secevent/oauth/event-type/"
    private static let risc = "https://schemas.openid.net/secevent/risc/event-type/"
    private static let restAPIKey = KakaoSandboxSettings().restAPIKey

    private static func withApp(
        interval: Duration = .seconds(60),
        journal: String? = nil,
        unknownKeysPerMinute: Int? = 120,
        sandbox: KakaoSandboxSettings = KakaoSandboxSettings(),
        _ body: (TestService) async throws -> Void
    ) async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.kakao.authURL = settings.kakao.apiURL
            settings.kakao.restAPIKey = restAPIKey
            settings.kakao.nativeAppKey = "native-app-key"
            settings.identity.acceptsKakaoAccessTokens = true
            settings.identity.acceptsKakaoIDTokens = true
            settings.identity.keyFetchInterval = interval
            settings.journal.directory = journal
            settings.callbacks.eventsWithUnknownKeysPerMinute = unknownKeysPerMinute
        }
        try await withService(adjust, sandbox: sandbox, body)
    }

    private static func event(_ type: String, of userID: Int64 = 1) -> AccountEvent {
        var event = AccountEvent(userID: userID)
        event.type = type
        return event
    }

    /// Sends a token as Kakao does, without an `Authorization` header.
    private static func post(
        _ service: TestService,
        _ token: String,
        type: String? = mediaType
    ) async throws -> HTTPClientResponse {
        try await service.api.with(nil).post(path, Array(token.utf8), type: type)
    }

    private static func events(_ service: TestService) async throws -> [JSONValue] {
        try await service.api.get("/v1/events").json?["items"]?.array ?? []
    }

    private static func fetches(_ service: TestService) -> Int {
        service.kakao.sandbox.stats.requests["/.well-known/jwks.json"] ?? 0
    }

    // MARK: Effects

    @Test(
        "The devices of a user who has left are removed here and at Kakao, and no other user's",
        arguments: [oauth + "user-unlinked", risc + "account-purged", risc + "account-disabled"]
    )
    func gone(type: String) async throws {
        try await Self.withApp { service in
            _ = try await service.api.register(.max, "android")
            _ = try await service.api.register(.max, "apple", type: "apns")
            _ = try await service.api.register(2, "other")
            let outcome = try await service.kakao.send(Self.event(type, of: .max))
            #expect(outcome.status == 202)
            // The devices are removed here at once, and at Kakao by the next call.
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "9223372036854775807"]).text == "[]")
            try await eventually("the devices are removed at Kakao") {
                try await service.database.count("devices") == 1
            }
            #expect(try await service.kakao.tokens(of: .max).isEmpty)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm other"])
            #expect(service.log.messages.contains("Devices withdrawn: the user has left the app"))
        }
    }

    @Test("Other event types, even similarly spelled ones, are stored, answered 202, and change nothing")
    func others() async throws {
        try await Self.withApp { service in
            _ = try await service.api.register(1, "token")
            let caep = "https://schemas.openid.net/secevent/caep/event-type/"
            let types =
                ["user-linked", "user-scope-consent", "user-scope-withdraw", "tokens-revoked", "token-issued"]
                .map { Self.oauth + $0 }
                + ["account-enabled", "account-credential-change-required", "identifier-changed", "sessions-revoked"]
                .map { Self.risc + $0 }
                + [
                    caep + "credential-change",
                    "https://schemas.kakao.com/platevent/kakao/event-type/user-profile-changed",
                    Self.oauth + "user-unlinked/", Self.oauth + "User-Unlinked", Self.risc + "user-unlinked",
                    Self.oauth + "account-purged", "urn:user-unlinked",
                ]
            for type in types {
                let outcome = try await service.kakao.send(Self.event(type))
                #expect(outcome.status == 202, "\(type)")
            }
            #expect(try await Self.events(service).map { $0["type"]?.string } == types.reversed())
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).json?.array?.count == 1)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token"])
        }
    }

    @Test("An event is listed by its URI, with Kakao's complete payload")
    func list() async throws {
        try await Self.withApp { service in
            var event = Self.event(Self.oauth + "user-unlinked", of: 7)
            event.reason = "A_NEW_REASON"
            event.tokenID = "token-1"
            #expect(try await service.kakao.send(event).status == 202)
            #expect(try await service.kakao.send(Self.event(Self.oauth + "user-linked", of: 8)).status == 202)

            let list = try await service.api.get("/v1/events", ["type": event.type])
            #expect(list.json?["next"] == .null)
            let item = try #require(list.json?["items"]?.array?.first)
            #expect(list.json?["items"]?.array?.count == 1)
            #expect(item["type"]?.string == event.type)
            #expect(item["user_id"] == "7")
            #expect(item["referrer_type"] == "A_NEW_REASON")
            let payload = try #require(item["payload"])
            #expect(payload["jti"] == "token-1")
            #expect(payload["iss"]?.string == service.kakao.sandbox.url)
            #expect(payload["aud"]?.string == Self.restAPIKey)
            #expect(payload["txn"]?.string?.isEmpty == false)
            for name in ["iat", "toe"] {
                #expect(abs((payload[name]?.integer ?? 0) - TestSigner.now) < 600)
            }
            let subject = payload["events"]?[event.type]?["subject"]
            #expect(subject?["sub"] == "7")

            // Deleting the user deletes the event.
            #expect(try await service.api.delete("/v1/users/7").status == 204)
            #expect(try await Self.events(service).map { $0["user_id"] } == ["8"])
        }
    }

    @Test("Each event of a token with several is stored and applied to its own subject")
    func several() async throws {
        try await Self.withApp { service in
            for user in 1...4 { _ = try await service.api.register(Int64(user), "token of \(user)", device: "\(user)") }
            let issuer = JSONValue.string(service.kakao.sandbox.url)
            let unlinked = Self.oauth + "user-unlinked"
            func send(_ events: JSONValue) async throws {
                let token = try await service.kakao.sandbox.token(
                    of: AccountEvent(userID: 1),
                    claims: ["events": events]
                )
                #expect(try await Self.post(service, token).status == 202)
            }
            try await send([
                "https://example.com/new": ["subject": ["subject_type": "iss-sub", "iss": issuer, "sub": "2"]],
                unlinked: ["subject": ["subject_type": "iss-sub", "iss": issuer, "sub": "3"], "reason": "a\0b"],
                "https://example.com/newer": [:],
            ])
            // A subject of another issuer, and one that is not a number: stored without a user.
            try await send(
                .object([unlinked: ["subject": ["subject_type": "iss-sub", "iss": "https://example.com", "sub": "4"]]])
            )
            try await send(.object([unlinked: ["subject": ["sub": "four"]]]))
            let events = try await Self.events(service)
            #expect(Array(events.suffix(3).map { $0["user_id"] }) == ["1", "3", "2"])
            #expect(events.prefix(2).allSatisfy { $0["user_id"] == .null && $0["type"]?.string == unlinked })
            #expect(events[3]["referrer_type"] == "a\u{FFFD}b")
            try await eventually("one device is removed at Kakao") { try await service.database.count("devices") == 3 }
            #expect(try await service.kakao.tokens(of: 3).isEmpty)
        }
    }

    @Test("A duplicate token is answered 202 and has no effect, even with another event")
    func repeated() async throws {
        try await Self.withApp { service in
            var event = AccountEvent(userID: 1)
            event.tokenID = "token-1"
            _ = try await service.api.register(1, "first")
            #expect(try await service.kakao.send(event).status == 202)
            try await eventually("the device is removed at Kakao") { try await service.database.count("devices") == 0 }
            #expect(try await service.api.register(1, "second").status == 200)
            event.type = Self.risc + "account-purged"
            let outcomes = [
                try await service.kakao.send(event), try await service.kakao.send(event),
            ]
            #expect(outcomes.map(\.status) == [202, 202])
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).json?.array?.count == 1)
            #expect(try await Self.events(service).count == 1)
            event.tokenID = "token-2"
            #expect(try await service.kakao.send(event).status == 202)
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")
        }
    }

    @Test("A token that arrives many times concurrently counts once")
    func concurrent() async throws {
        try await Self.withApp { service in
            let token = try await service.kakao.sandbox.token(of: AccountEvent(userID: 1))
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<20 { group.addTask { try await Self.post(service, token).status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses == [Int](repeating: 202, count: 20))
            #expect(try await Self.events(service).count == 1)
        }
    }

    @Test("An event is stored even if Kakao closes the connection before the response")
    func hangUp() async throws {
        try await Self.withApp { service in
            _ = try await service.api.register(1, "token")
            // Fetches Kakao's keys, so that only the database delays the next event.
            #expect(try await service.kakao.send(Self.event("urn:other", of: 2)).status == 202)
            let pool = service.database.pool
            try await pool.withTransaction { transaction in
                _ = try await transaction.query("LOCK TABLE events")
                let outcome = try await service.kakao.sandbox.send(AccountEvent(userID: 1))
                // There is no 202 before the commit.
                #expect(outcome.status == nil)
            }
            try await eventually("it is stored") { try await Self.events(service).count == 2 }
            try await eventually("the device is removed at Kakao") { try await service.database.count("devices") == 0 }
        }
    }

    @Test("Events of a rare type are found by the index among many others")
    func index() async throws {
        try await Self.withApp { service in
            try await service.database.pool.write(
                """
                INSERT INTO events (key, id, type, payload, received_at, happened_at)
                SELECT number::text, ('00000000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, 'common', '{}', now(), now()
                FROM generate_series(1, 50000) AS number
                """
            )
            try await service.database.pool.write("ANALYZE events")
            #expect(try await service.kakao.send(Self.event("urn:rare")).status == 202)
            for _ in 0..<20 {
                let list = try await service.api.get("/v1/events", ["type": "urn:rare", "limit": "1000"])
                #expect(list.json?["items"]?.array?.count == 1)
            }
            // PostgreSQL reports its statistics after about a second.
            try await eventually("the index was used") {
                try await service.database.integer(
                    "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'events_type'"
                ) >= 20
            }
            let read = try await service.database.integer(
                "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'events'"
            )
            #expect(read < 10_000)
        }
    }

    // MARK: Verification

    @Test(
        "Anything but Kakao's security event token for this app is answered 400 with err, and changes nothing"
    )
    func refused() async throws {
        try await Self.withApp { service in
            let sandbox = service.kakao.sandbox
            _ = try await service.api.register(1, "token")
            let event = AccountEvent(userID: 1)
            let right = try await sandbox.token(of: event)
            let (header, claims) = try TestSigner.parts(of: right)
            let pieces = right.split(separator: ".").map { String($0) }
            let published = try await sandbox.publishedKeys()
            let modulus = try #require(published["keys"]?[0]?["n"]?.string)
            func signed(_ claims: JSONObject) async throws -> String {
                try await sandbox.token(of: event, claims: claims)
            }
            func changed(_ changes: JSONObject) -> JSONObject {
                var copy = header
                for (name, value) in changes.members { copy[name] = value }
                return copy
            }
            func unsigned(_ changes: JSONObject) -> String { TestSigner.token(changed(changes), claims) { _ in [] } }
            var tokens: [(token: String, error: String)] = []

            // Algorithms that Kakao does not use.
            for algorithm in ["none", "None", "RS384", "RS512", "PS256", ""] {
                let token = unsigned(["alg": .string(algorithm)])
                tokens += [(token, "invalid_request"), (token + pieces[2], "invalid_request")]
            }
            tokens.append((unsigned(["alg": "ES256"]) + pieces[2], "invalid_key"))
            // HMAC with public values as the secret.
            for secret in [Array(modulus.utf8), published.bytes(), []] {
                let token = TestSigner.hs256(claims, secret: secret, header: changed(["alg": "HS256"]))
                tokens.append((token, "invalid_key"))
            }
            tokens.append((try await sandbox.token(of: event, namesKey: false), "invalid_key"))
            tokens.append((unsigned(["kid": 7]) + pieces[2], "invalid_request"))
            tokens.append((unsigned(["crit": ["exp"]]) + pieces[2], "invalid_request"))
            var forged = event
            forged.isForged = true
            tokens.append((try await sandbox.token(of: forged), "authentication_failed"))
            var other = claims
            other["sub"] = "2"
            tokens.append((TestSigner.token(header, other) { _ in [] } + pieces[2], "authentication_failed"))
            for count in [0, 4, 100, 340] {
                tokens.append(("\(pieces[0]).\(pieces[1]).\(pieces[2].prefix(count))", "authentication_failed"))
            }

            // Other kinds of token, although Kakao has signed them.
            let idToken = try await sandbox.idToken(of: 1, appKey: Self.restAPIKey)
            let telling = try await sandbox.idToken(
                of: 1,
                appKey: Self.restAPIKey,
                claims: ["jti": "1", "events": claims["events"] ?? .null]
            )
            tokens += [(idToken, "invalid_request"), (telling, "invalid_request")]
            for type in ["JWT", "at+jwt", "secevent", ""] as [JSONValue] {
                tokens.append((unsigned(["typ": type]) + pieces[2], "invalid_request"))
            }

            // Other issuers and other audiences.
            for issuer in ["https://kauth.kakao.com.example.com", "", .null] as [JSONValue] {
                tokens.append((try await signed(["iss": issuer]), "invalid_issuer"))
            }
            for audience in ["another-app", ["another-app"], [], 7, .null] as [JSONValue] {
                tokens.append((try await signed(["aud": audience]), "invalid_audience"))
            }

            // Required claims that are missing or invalid.
            let now = TestSigner.now
            for time in [.integer(now + 3600), .integer(Int64.max), "1", .null] as [JSONValue] {
                tokens.append((try await signed(["iat": time]), "invalid_request"))
            }
            for name in ["", "a b", "a\0", "값", 7, .null, .string(String(repeating: "x", count: 256))] as [JSONValue] {
                tokens.append((try await signed(["jti": name]), "invalid_request"))
            }
            for events in [
                [:], [], .null, "x", ["urn:x": 1], ["urn:a b": [:]], ["": [:]], ["unlink": [:]], ["user-unlinked": [:]],
            ] as [JSONValue] {
                tokens.append((try await signed(["events": events]), "invalid_request"))
            }
            let long = try await signed(["events": .object(["urn:" + String(repeating: "x", count: 252): [:]])])
            tokens.append((long, "invalid_request"))

            // Malformed tokens, and tokens that are too long.
            tokens += [
                "", "x", "..", "eyJ..", right + "\n", right + ".", right + "=", "\(pieces[0]).\(pieces[1])", "{}",
                try await signed(["padding": .string(String(repeating: "x", count: 9000))]),
            ].map { ($0, "invalid_request") }
            for (token, error) in tokens {
                let answer = try await Self.post(service, token)
                #expect(answer.status == 400, "\(token.prefix(300))")
                #expect(answer.json?["err"]?.string == error, "\(answer.text) \(token.prefix(300))")
                #expect(answer.json?["description"]?.string?.isEmpty == false)
                #expect(answer.headerFields[.contentType]?.hasPrefix("application/json") == true)
            }
            for type in ["application/jwt", "application/json", "application/x-www-form-urlencoded", "text/plain", nil]
            {
                let answer = try await Self.post(service, right, type: type)
                #expect(answer.status == 400)
                #expect(answer.json?["err"] == "invalid_request")
            }
            let huge = String(repeating: "x", count: service.settings.http.maximumBodyBytes + 1)
            #expect(try await Self.post(service, huge).status == 413)
            #expect(try await service.api.get(Self.path).status == 405)

            #expect(try await service.database.count("events") == 0)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token"])
            // The unchanged token is accepted, so each was rejected for its change alone.
            #expect(
                try await Self.post(service, right, type: "Application/SecEvent+JWT; charset=us-ascii").status == 202
            )
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")
        }
    }

    @Test("A token is accepted for any of the app's keys, also among other audiences")
    func audiences() async throws {
        try await Self.withApp { service in
            for audience in ["native-app-key", ["other", .string(Self.restAPIKey)]] as [JSONValue] {
                let token = try await service.kakao.sandbox.token(
                    of: AccountEvent(userID: 1),
                    claims: ["aud": audience]
                )
                #expect(try await Self.post(service, token).status == 202)
            }
            #expect(try await Self.events(service).count == 2)
        }
    }

    @Test(
        "A security event token is no credential, even if Kakao has signed it and it has all claims of an ID token"
    )
    func notACredential() async throws {
        try await Self.withApp { service in
            let token = try await service.kakao.sandbox.token(
                of: AccountEvent(userID: 7),
                claims: ["exp": .integer(TestSigner.now + 3600), "auth_time": .integer(TestSigner.now)]
            )
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.get("/v1/push/tokens").status == 401)
            #expect(try await app.register(7, "token").status == 401)
            #expect(try await Self.post(service, token).status == 202)
            let idToken = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.restAPIKey)
            #expect(try await service.api.with("Bearer \(idToken)").get("/v1/push/tokens").status == 200)
            // Both kinds of token are verified with the same keys.
            #expect(Self.fetches(service) == 1)
        }
    }

    @Test(
        "An event with an unknown key gets 400 if the keys were just fetched; otherwise it waits for the next fetch, up to a limit by address"
    )
    func unknownKeys() async throws {
        let journal = "\(try TemporaryFolder.make())/journal"
        // Far longer than the test takes: keys of account events are fetched again after a quarter of it.
        try await Self.withApp(interval: .seconds(36_000), journal: journal, unknownKeysPerMinute: 5) { service in
            let right = try await service.kakao.sandbox.token(of: AccountEvent(userID: 1))
            let (header, claims) = try TestSigner.parts(of: right)
            func post(_ number: Int) async throws -> HTTPClientResponse {
                var header = header
                header["kid"] = .string("unknown \(number)")
                return try await Self.post(service, TestSigner.token(header, claims) { _ in [] } + "AAAA")
            }
            let first = try await post(0)
            #expect(first.status == 400)
            #expect(first.json?["err"] == "invalid_key")
            for number in 1...5 { #expect(try await post(number).status == 202) }
            try await eventually("the address is over its limit") {
                let answer = try await post(6)
                guard answer.status == 429 else { return false }
                #expect(answer.headerFields[.retryAfter] != nil)
                return true
            }
            #expect(Self.fetches(service) == 1)
            // Kakao's known keys are not affected.
            #expect(try await Self.post(service, right).status == 202)
            // None of them is a lost call of Kakao's.
            let metrics = try await service.api.metrics()
            func count(_ outcome: String) -> Double? {
                metrics.value("kakao_push_notices_total", ["kind": "account_event", "outcome": outcome])
            }
            #expect(count("failed") == 0)
            #expect(count("refused") == 2)
            #expect((count("unverified") ?? 0) >= 5)
            #expect(count("stored") == 1)
        }
    }

    @Test("Events that cannot be verified yet fill only the files that they have of their own")
    func full() async throws {
        let journal = "\(try TemporaryFolder.make())/journal"
        try await Self.withApp(interval: .seconds(36_000), journal: journal, unknownKeysPerMinute: nil) { service in
            let claims: JSONObject = ["padding": .string(String(repeating: "a", count: 5000))]
            let token = try await service.kakao.sandbox.token(of: AccountEvent(userID: 1), claims: claims)
            service.kakao.sandbox.add(Fault(.down))
            var accepted = 0
            while accepted * token.utf8.count < 16 << 20 {
                let status = try await Self.post(service, token).status
                guard status == 202 else {
                    #expect(status == 503)
                    break
                }
                accepted += 1
            }
            #expect((4 << 20..<8 << 20).contains(accepted * token.utf8.count))
            // The journal of other calls has room.
            let call = try await service.api.with("KakaoAK \(Keys.admin)").get(
                "/kakao/link/callback",
                ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1"]
            )
            #expect(call.status == 200)
        }
    }

    @Test("Events that strangers forge do not keep Kakao's from being verified")
    func forgedMeanwhile() async throws {
        let journal = "\(try TemporaryFolder.make())/journal"
        try await Self.withApp(interval: .seconds(8), journal: journal, unknownKeysPerMinute: nil) { service in
            let sandbox = service.kakao.sandbox
            let old = try await sandbox.token(of: AccountEvent(userID: 1))
            #expect(try await Self.post(service, old).status == 202)
            let (header, claims) = try TestSigner.parts(of: old)
            let isDone = Locked(false)
            let attack = Task {
                var number = 0
                while !isDone.withLock({ $0 }) {
                    number += 1
                    var header = header
                    header["kid"] = .string("unknown \(number)")
                    _ = try await Self.post(service, TestSigner.token(header, claims) { _ in [] } + "AAAA")
                    // Each fetch of the keys is one that a forged event causes.
                    try await Task.sleep(for: .milliseconds(50))
                }
            }
            defer { isDone.withLock { $0 = true } }
            try await eventually("forged events wait") {
                try await service.api.metrics().value(
                    "kakao_push_notices_total",
                    ["kind": "account_event", "outcome": "unverified"]
                ) ?? 0 > 3
            }
            try await sandbox.rotateKeys()
            let new = try await sandbox.token(of: AccountEvent(userID: 2))
            #expect(try await Self.post(service, new).status == 202)
            try await eventually("the event is stored", within: .seconds(120)) {
                try await Self.events(service).count == 2
            }
            isDone.withLock { $0 = true }
            try await attack.value
        }
    }

    @Test("An event that cannot be verified yet holds up no other that waits")
    func undecided() async throws {
        let directory = "\(try TemporaryFolder.make())/journal"
        try await Self.withApp(interval: .seconds(36_000)) { service in
            let genuine = try await service.kakao.sandbox.token(of: AccountEvent(userID: 1))
            let (header, claims) = try TestSigner.parts(of: genuine)
            func forged(_ number: Int) -> String {
                var header = header
                header["kid"] = .string("unknown \(number)")
                return TestSigner.token(header, claims) { _ in [] } + "AAAA"
            }
            let journal = try Journal(
                path: "\(directory)/unverified",
                maximumBytes: 1 << 20,
                logger: service.log.logger
            )
            // The first one has the keys fetched. The second one seems to have arrived after that.
            for (token, delay) in [(forged(1), 0.0), (forged(2), 3600), (genuine, 0)] {
                let receivedAt = Date() + delay
                let record = UnverifiedEvents(token: token, receivedAt: receivedAt).record
                try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                    journal.append(JournalRecord(time: receivedAt, payload: record)) {
                        continuation.resume(with: $0.mapError { $0 as any Error })
                    }
                }
            }
            await journal.close()
            var settings = service.settings
            settings.journal.directory = directory
            let log = CollectedLog()
            try await RunningServer.run(settings, log: log) { _ in
                let line = await log.line { $0.message == "Account events verified" }
                #expect(line.metadata == ["stored": "1", "dropped": "1"])
                let events = try await Self.events(service)
                #expect(events.count == 1)
            }
        }
    }

    @Test(
        "An event with a new key is never rejected, and is accepted once the keys are fetched again"
    )
    func rotated() async throws {
        try await Self.withApp(interval: .seconds(20)) { service in
            let sandbox = service.kakao.sandbox
            #expect(try await Self.post(service, sandbox.token(of: AccountEvent(userID: 1))).status == 202)
            try await sandbox.rotateKeys()
            let token = try await sandbox.token(of: AccountEvent(userID: 2))
            // After a quarter of the interval, because Kakao sends an event only once.
            try await eventually("the event is accepted") {
                let answer = try await Self.post(service, token)
                #expect([202, 503].contains(answer.status))
                let retryAfter = answer.headerFields[.retryAfter].flatMap { Int($0) }
                if answer.status == 503 { #expect((1...6).contains(retryAfter ?? 0)) }
                return answer.status == 202
            }
            #expect(try await Self.events(service).count == 2)
        }
    }

    @Test("While Kakao's keys cannot be fetched, unknown keys get 503 and store nothing; known keys stay valid")
    func kakaoAway() async throws {
        try await Self.withApp(interval: .milliseconds(50)) { service in
            let sandbox = service.kakao.sandbox
            let token = try await sandbox.token(of: AccountEvent(userID: 1))
            sandbox.add(Fault(.down))
            let answer = try await Self.post(service, token)
            #expect(answer.status == 503)
            #expect((answer.headerFields[.retryAfter].flatMap { Int($0) } ?? 0) >= 1)
            #expect(try await service.database.count("events") == 0)
            sandbox.removeFaults()
            try await eventually("the keys are known") { try await Self.post(service, token).status == 202 }

            sandbox.add(Fault(.down))
            #expect(try await Self.post(service, sandbox.token(of: AccountEvent(userID: 2))).status == 202)
            sandbox.removeFaults()
            try await sandbox.rotateKeys()
            let next = try await sandbox.token(of: AccountEvent(userID: 3))
            try await eventually("the new key is known") { try await Self.post(service, next).status == 202 }
            #expect(try await Self.events(service).map { $0["user_id"] } == ["3", "2", "1"])
        }
    }

    @Test(
        "With a journal, events that arrive while Kakao's keys cannot be fetched wait there, and those that Kakao signed are stored later"
    )
    func waiting() async throws {
        let journal = "\(try TemporaryFolder.make())/journal"
        try await Self.withApp(interval: .milliseconds(50), journal: journal) { service in
            let sandbox = service.kakao.sandbox
            for user in Int64(1)...2 { _ = try await service.api.register(user, "token-\(user)") }
            let signed = try await sandbox.token(of: Self.event(Self.oauth + "user-unlinked", of: 1))
            var event = Self.event(Self.oauth + "user-unlinked", of: 2)
            event.isForged = true
            let forged = try await sandbox.token(of: event)
            let foreign = try await sandbox.token(of: AccountEvent(userID: 2), claims: ["aud": "another-app"])
            let unknown = try await sandbox.token(of: AccountEvent(userID: 2), claims: ["iss": "https://example.com"])
            let empty = try await sandbox.token(of: AccountEvent(userID: 2), claims: ["events": [:]])

            sandbox.add(Fault(.down))
            for token in [signed, signed, forged] { #expect(try await Self.post(service, token).status == 202) }
            for token in [foreign, unknown, empty] { #expect(try await Self.post(service, token).status == 400) }
            #expect(try await service.database.count("events") == 0)
            #expect(try await service.database.count("devices WHERE NOT withdrawn") == 2)
            // They take no room from other calls.
            #expect(try await service.api.get("/v1/status").json?["journal"]?["records"] == 0)
            let outcomes = try await service.api.metrics()
            let kind = ["kind": "account_event"]
            func count(_ outcome: String) -> Double? {
                outcomes.value("kakao_push_notices_total", kind.merging(["outcome": outcome]) { $1 })
            }
            #expect(count("unverified") == 3)
            #expect(count("refused") == 3)

            sandbox.removeFaults()
            let line = await service.log.line { $0.message == "Account events verified" }
            #expect(line.metadata == ["stored": "2", "dropped": "1"])
            #expect(try await Self.events(service).map { $0["user_id"] } == ["1"])
            #expect(try await service.database.count("devices WHERE user_id = 1 AND NOT withdrawn") == 0)
            #expect(try await service.database.count("devices WHERE user_id = 2 AND NOT withdrawn") == 1)
        }
    }

    @Test("Without an app key the endpoint is switched off")
    func noKey() async throws {
        try await withSharedService { service in
            let token = try await service.kakao.sandbox.token(of: AccountEvent(userID: 1))
            let answer = try await Self.post(service, token)
            #expect(answer.status == 409)
            #expect(answer.problem == "not-configured")
        }
    }
}
