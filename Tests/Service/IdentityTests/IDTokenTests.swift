import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Identity
@testable import Settings

/// Calls of users' apps with a Kakao ID token.
@Suite(.timeLimit(.minutes(5))) struct IDTokenTests {
    private static let path = "/.well-known/jwks.json"
    private static let nativeKey = "native-app-key"

    private static func withIdentity(
        interval: Duration = .seconds(60),
        refresh: Duration = .seconds(3600),
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.authURL = kakao.sandbox.url
            settings.kakao.nativeAppKey = nativeKey
            settings.kakao.restAPIKey = "rest-api-key"
            settings.kakao.javaScriptKey = "javascript-key"
            settings.identity.acceptsKakaoIDTokens = true
            settings.identity.keyFetchInterval = interval
            settings.identity.keyRefreshInterval = refresh
            let log = CollectedLog()
            try await RunningServer.run(settings, log: log) { server in
                defer { kakao.sandbox.removeFaults() }
                try await body(
                    TestService(database: database, kakao: kakao, settings: settings, server: server, log: log)
                )
            }
        }
    }

    private static func fetches(_ service: TestService) -> Int {
        service.kakao.sandbox.stats.requests[path] ?? 0
    }

    private static func status(_ service: TestService, _ token: String) async throws -> Int {
        // Listing devices makes no call to Kakao.
        try await service.api.with("Bearer \(token)").get("/v1/devices").status
    }

    @Test(
        "An ID token for any of the app's keys is accepted for the user's own devices, and the keys are fetched once"
    )
    func accepted() async throws {
        try await Self.withIdentity { service in
            for key in [Self.nativeKey, "rest-api-key", "javascript-key"] {
                let token = try await service.kakao.sandbox.idToken(of: .max, appKey: key)
                let app = service.api.with("Bearer \(token)")
                let form: KeyValuePairs = ["device_id": key, "push_type": "apns", "push_token": key]
                #expect(try await app.post("/v1/push/register", form: form).text == "30")
                #expect(try await app.get("/v1/push/tokens", ["uuid": "7"]).status == 403)
                #expect(try await app.post("/v1/push/send", form: ["uuids": "[7]"]).status == 403)
            }
            #expect(try await service.kakao.tokens(of: .max).count == 3)
            let both = try await service.kakao.sandbox.idToken(
                of: 1,
                appKey: "",
                claims: ["aud": ["other", "rest-api-key"]]
            )
            #expect(try await Self.status(service, both) == 200)
            #expect(Self.fetches(service) == 1)
        }
    }

    @Test("A token of another app or issuer, an expired or not yet valid one, or one without required claims, gets 401")
    func claims() async throws {
        try await Self.withIdentity { service in
            let now = TestSigner.now
            let wrong: [JSONObject] = [
                ["aud": "another-app"], ["aud": ["another-app"]], ["aud": []], ["aud": 7], ["aud": .null],
                ["iss": "https://kauth.kakao.com.example.com"], ["iss": ""], ["iss": .null],
                ["exp": .integer(now - 60)], ["exp": 0], ["exp": "9999999999"], ["exp": .null],
                ["nbf": .integer(now + 600)], ["iat": .integer(now + 600)], ["nbf": "soon"],
                ["sub": ""], ["sub": "0"], ["sub": "-1"], ["sub": "9223372036854775808"], ["sub": "seven"],
                ["sub": .null],
                ["sub": "+7"], ["sub": " 7"],
            ]
            for claims in wrong {
                let token = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey, claims: claims)
                #expect(try await Self.status(service, token) == 401, "\(JSONValue.object(claims))")
            }
            let right = try await service.kakao.sandbox.idToken(
                of: 7,
                appKey: Self.nativeKey,
                claims: ["nbf": .integer(now)]
            )
            #expect(try await Self.status(service, right) == 200)
        }
    }

    @Test("A token with another algorithm, a forged or truncated signature, or changed claims gets 401")
    func forged() async throws {
        try await Self.withIdentity { service in
            let right = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey)
            #expect(try await Self.status(service, right) == 200)
            let (header, claims) = try TestSigner.parts(of: right)
            let pieces = right.split(separator: ".").map { String($0) }
            let published = try await service.kakao.sandbox.publishedKeys()
            let modulus = try #require(published["keys"]?[0]?["n"]?.string)

            var tokens: [String] = []
            for algorithm in ["none", "None", "NONE", "HS256", "RS384", "RS512", "PS256", "ES256", ""] {
                var header = header
                header["alg"] = .string(algorithm)
                let signature = Array("signature".utf8)
                tokens.append(TestSigner.token(header, claims) { _ in [] })
                tokens.append(TestSigner.token(header, claims) { _ in signature })
                // The valid signature of other bytes.
                tokens.append(TestSigner.token(header, claims) { _ in [] } + pieces[2])
                // HMAC with public values as the secret.
                for secret in [Array(modulus.utf8), published.bytes(), []] {
                    tokens.append(TestSigner.hs256(claims, secret: secret, header: header))
                }
            }
            var without = header
            without.removeValue(forName: "kid")
            tokens.append(TestSigner.token(without, claims) { _ in Array("signature".utf8) })
            for change: JSONObject in [["crit": ["exp"]], ["typ": "secevent+jwt"], ["kid": 7]] {
                var changed = header
                for (name, value) in change.members { changed[name] = value }
                tokens.append(TestSigner.token(changed, claims) { _ in Array("signature".utf8) })
            }
            var other = claims
            other["sub"] = "8"
            let forged = TestSigner.token(header, other) { _ in [] }
            tokens.append(forged + pieces[2])
            for count in [0, 1, 2, 4, 100, pieces[2].count - 1] {
                tokens.append("\(pieces[0]).\(pieces[1]).\(pieces[2].prefix(count))")
            }
            tokens += [
                right + "A", right + "=", right + ".", right + ".x", "\(pieces[0]).\(pieces[1])", "..", "eyJ..",
                "eyJ.eyJ.eyJ",
                "\(pieces[0])..\(pieces[2])", ".\(pieces[1]).\(pieces[2])",
                String(repeating: "A", count: 9000) + "." + pieces[1] + "." + pieces[2],
            ]
            for token in tokens {
                // What does not begin like such a token may be an access token, which this server does not accept.
                let expected = token.hasPrefix("eyJ") ? 401 : 409
                #expect(try await Self.status(service, token) == expected, "\(token.prefix(200))")
            }
            #expect(try await Self.status(service, right) == 200)
        }
    }

    @Test("A token without kid gets 401, even if its signature is valid")
    func withoutKeyID() async throws {
        try await Self.withIdentity { service in
            let token = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey, namesKey: false)
            #expect(try await Self.status(service, token) == 401)
            #expect(Self.fetches(service) == 0)
        }
    }

    @Test(
        "Tokens with unknown keys cause one fetch of the keys per interval, and get 429 until then"
    )
    func unknownKeys() async throws {
        try await Self.withIdentity { service in
            let right = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey)
            #expect(try await Self.status(service, right) == 200)
            let (header, claims) = try TestSigner.parts(of: right)
            for number in 0..<200 {
                var header = header
                header["kid"] = .string("unknown \(number)")
                let token = TestSigner.token(header, claims) { _ in Array("signature".utf8) }
                let answer = try await service.api.with("Bearer \(token)").get("/v1/push/tokens")
                // Strangers must not look like an outage.
                #expect(answer.status == 429)
                #expect(answer.json?["type"] == "urn:kakao-push-server:error:too-many-requests")
                #expect((1...61).contains(answer.headerFields[.retryAfter].flatMap { Int($0) } ?? 0))
            }
            #expect(Self.fetches(service) == 1)
        }
    }

    @Test("A token with a key that was missing in a recent fetch gets 401")
    func foreignKey() async throws {
        try await Self.withIdentity { service in
            let right = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey)
            var (header, claims) = try TestSigner.parts(of: right)
            header["kid"] = "unknown"
            let token = TestSigner.token(header, claims) { _ in Array("signature".utf8) }
            #expect(try await Self.status(service, token) == 401)
            #expect(Self.fetches(service) == 1)
            #expect(try await Self.status(service, right) == 200)
        }
    }

    @Test("A key that Kakao has withdrawn is trusted until the next refresh, or longer while Kakao is down")
    func withdrawnKey() async throws {
        try await Self.withIdentity(interval: .milliseconds(50), refresh: .milliseconds(100)) { service in
            let sandbox = service.kakao.sandbox
            let token = try await sandbox.idToken(of: 7, appKey: Self.nativeKey)
            #expect(try await Self.status(service, token) == 200)
            let down = sandbox.add(Fault(.down))
            try await eventually("a refresh has failed") {
                let status = try await Self.status(service, token)
                #expect(status == 200)
                return service.log.messages.contains { $0.contains("Token key fetch failed") }
            }
            // After two rotations the original key is no longer published.
            for _ in 1...2 { try await sandbox.rotateKeys() }
            #expect(try await Self.status(service, token) == 200)
            sandbox.removeFault(try #require(down))
            try await eventually("the key is no longer trusted") {
                try await [401, 429, 503].contains(Self.status(service, token))
            }
            try await eventually("the key is missing at Kakao") { try await Self.status(service, token) == 401 }
        }
    }

    @Test(
        "A new key of Kakao is fetched when a token names it, and tokens of the previous key stay valid"
    )
    func rotation() async throws {
        try await Self.withIdentity(interval: .milliseconds(50)) { service in
            let first = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey)
            #expect(try await Self.status(service, first) == 200)
            try await service.kakao.sandbox.rotateKeys()
            let second = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey)
            try await eventually("the new key is known") { try await Self.status(service, second) == 200 }
            #expect(try await Self.status(service, first) == 200)
            #expect(Self.fetches(service) >= 2)
        }
    }

    @Test("While Kakao is down, tokens of known keys are accepted, and those of unknown keys get 503, never 401")
    func kakaoAway() async throws {
        try await Self.withIdentity(interval: .milliseconds(50)) { service in
            let sandbox = service.kakao.sandbox
            let first = try await sandbox.idToken(of: 7, appKey: Self.nativeKey)
            let down = sandbox.add(Fault(.down))
            let early = try await service.api.with("Bearer \(first)").get("/v1/push/tokens")
            #expect(early.status == 503)
            #expect((early.headerFields[.retryAfter].flatMap { Int($0) } ?? 0) >= 1)
            sandbox.removeFault(try #require(down))
            try await eventually("the keys are known") { try await Self.status(service, first) == 200 }

            try await sandbox.rotateKeys()
            let second = try await sandbox.idToken(of: 7, appKey: Self.nativeKey)
            var nonsense = Fault(.status)
            nonsense.status = 200
            for fault in [Fault(.down), nonsense] {
                let id = sandbox.add(fault)
                try await eventually("a fetch has failed") { try await Self.status(service, second) == 503 }
                #expect(try await Self.status(service, first) == 200)
                sandbox.removeFault(try #require(id))
            }
            try await eventually("the new key is known") { try await Self.status(service, second) == 200 }
        }
    }
}
