import Crypto
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import Settings
import TestSupport
import Testing

/// Calls of users' apps with a JSON Web Token of the service's own backend.
@Suite(.timeLimit(.minutes(5))) struct BackendTokenTests {
    private static let secret = "secret-of-the-backend-of-the-tests-0123"

    /// - Parameter keys: The backend's keys; `nil` for those that the sandbox publishes.
    private static func withBackend(
        _ keys: IdentitySettings.Backend.Keys?,
        proxy: HTTPProxy? = nil,
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.proxy = proxy
            // The sandbox's keys serve as those of a backend, whose issuer is not Kakao.
            settings.identity.backend = IdentitySettings.Backend(
                issuer: kakao.sandbox.url,
                audience: "push",
                keys: keys ?? .url(kakao.sandbox.url + "/.well-known/jwks.json")
            )
            let log = CollectedLog()
            try await RunningServer.run(settings, log: log) { server in
                try await body(
                    TestService(database: database, kakao: kakao, settings: settings, server: server, log: log)
                )
            }
        }
    }

    private static func claims(_ service: TestService, _ changes: JSONObject = [:]) -> JSONObject {
        var claims: JSONObject = [
            "iss": .string(service.kakao.sandbox.url), "aud": "push", "sub": "7", "exp": .integer(TestSigner.now + 600),
        ]
        for (name, value) in changes.members { claims[name] = value }
        return claims
    }

    private static func status(_ service: TestService, _ token: String) async throws -> Int {
        try await service.api.with("Bearer \(token)").get("/v1/push/tokens").status
    }

    @Test("With a shared secret, only HS256 is accepted, and only for the subject's own devices")
    func sharedSecret() async throws {
        try await Self.withBackend(.secret(Secret(Self.secret))) { service in
            let secret = Array(Self.secret.utf8)
            let right = TestSigner.hs256(Self.claims(service), secret: secret)
            let app = service.api.with("Bearer \(right)")
            let form: KeyValuePairs = ["device_id": "phone", "push_type": "gcm", "push_token": "token"]
            #expect(try await app.post("/v1/push/register", form: form).text == "30")
            #expect(try await app.get("/v1/push/tokens", ["uuid": "8"]).status == 403)
            #expect(try await service.kakao.tokens(of: 7) == ["phone gcm token"])

            let now = TestSigner.now
            let changes: [JSONObject] = [
                ["iss": "https://other.example.com"], ["aud": "other"], ["exp": .integer(now - 60)],
                ["nbf": .integer(now + 600)], ["sub": "name@example.com"], ["exp": .null],
            ]
            for change in changes {
                let token = TestSigner.hs256(Self.claims(service, change), secret: secret)
                #expect(try await Self.status(service, token) == 401, "\(JSONValue.object(change))")
            }
            let forged = [
                TestSigner.hs256(Self.claims(service), secret: Array("another secret".utf8)),
                TestSigner.hs256(Self.claims(service), secret: []),
                TestSigner.token(["alg": "none"], Self.claims(service)) { _ in [] },
                String(right.dropLast()), right + "AA",
                try await service.kakao.sandbox.idToken(of: 7, appKey: "push"),
            ]
            for token in forged { #expect(try await Self.status(service, token) == 401) }
        }
    }

    @Test("With the URL of its keys, RS256 is accepted, and HS256 with a public key is rejected")
    func keysAtAddress() async throws {
        try await Self.withBackend(nil) { service in
            let right = try await service.kakao.sandbox.idToken(of: 7, appKey: "push")
            #expect(try await Self.status(service, right) == 200)
            let published = try await service.kakao.sandbox.publishedKeys()
            let key = try #require(published["keys"]?[0])
            for secret in [published.bytes(), key.bytes(), Array((key["n"]?.string ?? "").utf8)] {
                let header: JSONObject = ["alg": "HS256", "kid": key["kid"] ?? .null]
                let token = TestSigner.hs256(Self.claims(service), secret: secret, header: header)
                #expect(try await Self.status(service, token) == 401)
            }
            #expect(service.kakao.sandbox.stats.requests["/.well-known/jwks.json"] == 1)
        }
    }

    @Test("The keys at a URL are fetched without Kakao's proxy")
    func keysWithoutProxy() async throws {
        try await Self.withBackend(nil, proxy: HTTPProxy(url: "http://127.0.0.1:1")) { service in
            let token = try await service.kakao.sandbox.idToken(of: 7, appKey: "push")
            let app = service.api.with("Bearer \(token)")
            // Known as user 7, who may not ask for the tokens of user 8.
            #expect(try await app.get("/v1/push/tokens", ["uuid": "8"]).status == 403)
        }
    }

    @Test("With a file of its keys, ES256 is accepted; changed, truncated or foreign signatures are rejected")
    func keysInFile() async throws {
        let key = try TestP256Key()
        let path = try TemporaryFolder.make() + "/keys.json"
        try writeFile(key.jwks(keyID: "first"), to: path)
        try await Self.withBackend(.file(path)) { service in
            let header: JSONObject = ["alg": "ES256", "kid": "first"]
            let claims = Self.claims(service)
            for _ in 0..<20 {
                #expect(try await Self.status(service, TestSigner.token(header, claims, key.sign)) == 200)
            }
            let other = try TestP256Key()
            let forgeries: [([UInt8]) -> [UInt8]] = [
                { other.sign($0) }, { Array(key.sign($0).dropLast()) }, { key.sign($0) + [0] }, { _ in [] },
                { _ in [UInt8](repeating: 0, count: 64) },
                {
                    var signature = key.sign($0)
                    signature[40] ^= 1
                    return signature
                },
            ]
            for forgery in forgeries {
                #expect(try await Self.status(service, TestSigner.token(header, claims, forgery)) == 401)
            }
            for header: JSONObject in [
                ["alg": "ES256"], ["alg": "ES256", "kid": "second"], ["alg": "RS256", "kid": "first"],
            ] {
                #expect(try await Self.status(service, TestSigner.token(header, claims, key.sign)) == 401)
            }
        }
    }

    @Test(
        "A file without a usable key prevents the start",
        arguments: ["", "{}", #"{"keys":[]}"#, #"{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}"#]
    )
    func unusableFile(text: String) async throws {
        let path = try TemporaryFolder.make() + "/keys.json"
        try writeFile(Array(text.utf8), to: path)
        await #expect(throws: SettingsError.self) {
            try await Self.withBackend(.file(path)) { _ in }
        }
    }
}
