import Crypto
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Net
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity
@testable import Settings

/// The reasons why credentials are not accepted, in the log, the metrics and, if a setting says so, the response.
@Suite(.timeLimit(.minutes(5))) struct CredentialRejectionTests {
    private static let appKey = "native-app-key-of-the-tests"
    private static let device = "/v1/push/tokens"

    /// The service's own backend, whose tokens have another issuer than Kakao's.
    private static let backend = IdentitySettings.Backend(
        issuer: "https://api.example.com",
        audience: "push",
        keys: .secret(Secret("secret-of-the-backend-of-the-tests"))
    )

    /// A request and the reason why it is answered 401.
    private struct Sample {
        let path: String
        let authorization: String?
        let reason: CredentialRejection

        init(_ path: String, _ authorization: String?, _ reason: CredentialRejection) {
            self.path = path
            self.authorization = authorization
            self.reason = reason
        }
    }

    /// Runs a server that accepts all of Kakao's tokens, behind a proxy, since an address may present only a few bad keys.
    private static func withIdentity(explains: Bool, _ body: (TestService) async throws -> Void) async throws {
        try await withKakaoLogin(
            { settings in
                settings.kakao.authURL = settings.kakao.apiURL
                settings.kakao.nativeAppKey = appKey
                settings.identity.acceptsKakaoIDTokens = true
                settings.identity.keyFetchInterval = .zero
                settings.identity.explainsRejections = explains
                settings.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
            },
            body
        )
    }

    private static func send(
        _ sample: Sample,
        _ number: Int,
        to service: TestService
    ) async throws -> HTTPClientResponse {
        let caller = service.api.with(sample.authorization).from("203.0.113.\(number)")
        return sample.path.hasPrefix("/kakao/")
            ? try await caller.post(sample.path, form: ["a": "b"]) : try await caller.get(sample.path)
    }

    private static func samples(_ service: TestService) async throws -> [Sample] {
        try await keys(service) + tokens(service) + webTokens(service)
    }

    private static func keys(_ service: TestService) async throws -> [Sample] {
        let store = OperatorKeyStore(pool: service.database.pool)
        let revoked = try await store.create(name: "revoked", scopes: [.devices], expiresAt: nil)
        #expect(try await store.revoke(name: "revoked") == 1)
        let expired = try await store.create(name: "expired", scopes: [.devices], expiresAt: Date() - 1)
        return [
            Sample(device, nil, .missing), Sample(device, "Basic dXNlcg==", .unknownScheme),
            Sample(device, "Bearer kps_unknown", .unknownKey), Sample(device, "KakaoAK mistyped", .unknownKey),
            Sample(device, "Bearer \(revoked)", .revokedKey), Sample("/v1/pushes", "KakaoAK \(expired)", .expiredKey),
            Sample(device, "KakaoAK \(Keys.admin)", .adminKey), Sample(device, "Bearer \(Keys.admin)", .adminKey),
            Sample("/v1/pushes", "KakaoAK \(Keys.admin)", .adminKey), Sample(device, "Bearer \(appKey)", .appKey),
            Sample("/kakao/link/callback", "KakaoAK wrong-key", .notAdminKey),
        ]
    }

    private static func tokens(_ service: TestService) throws -> [Sample] {
        let sandbox = service.kakao.sandbox
        let expired = try #require(sandbox.accessToken(of: 7, expiresInSeconds: 0))
        let foreign = try #require(sandbox.accessToken(of: 7, appID: 654_321))
        return [
            Sample(device, "Bearer invented-token", .unknownToken), Sample(device, "Bearer \(expired)", .expiredToken),
            Sample("/v2/user/me", "Bearer \(foreign)", .anotherApp),
            Sample(device, "Bearer two-words of-a-token", .malformedToken),
        ]
    }

    private static func webTokens(_ service: TestService) async throws -> [Sample] {
        let sandbox = service.kakao.sandbox
        let now = TestSigner.now
        let valid = try await sandbox.idToken(of: 7, appKey: appKey)
        let invalid = try await sandbox.idToken(of: 7, appKey: appKey, claims: ["sub": "seven"])
        var samples = [
            Sample("/v1/pushes", "Bearer \(invalid)", .userToken),
            Sample("/v2/user/me", "Bearer \(valid)", .notAccessToken),
            Sample(device, "Bearer eyJ.eyJ.eyJ", .malformedToken),
        ]
        let claims: [(JSONObject, CredentialRejection)] = [
            (["exp": .integer(now - 600)], .expiredToken), (["exp": .null], .malformedToken),
            (["nbf": .integer(now + 600)], .prematureToken), (["iat": .integer(now + 600)], .prematureToken),
            (["iss": "https://issuer.example.com"], .unknownIssuer), (["aud": "another-app"], .anotherAudience),
            (["sub": "seven"], .noUser),
        ]
        for (changes, reason) in claims {
            let token = try await sandbox.idToken(of: 7, appKey: appKey, claims: changes)
            samples.append(Sample(device, "Bearer \(token)", reason))
        }
        var (header, contents) = try TestSigner.parts(of: valid)
        contents["sub"] = "8"
        let forged = TestSigner.token(header, contents) { _ in Array("signature".utf8) }
        samples.append(Sample(device, "Bearer \(forged)", .badSignature))
        header["kid"] = "unknown-kid"
        let unknown = TestSigner.token(header, contents) { _ in Array("signature".utf8) }
        return samples + [Sample(device, "Bearer \(unknown)", .unknownSigningKey)]
    }

    @Test("The log, the metrics and, if the setting says so, the detail name the reason of a 401")
    func reasons() async throws {
        try await Self.withIdentity(explains: true) { service in
            let samples = try await Self.samples(service)
            for (number, sample) in samples.enumerated() {
                let answer = try await Self.send(sample, number, to: service)
                #expect(answer.status == 401, "\(sample.reason)")
                #expect(answer.json?["detail"]?.string == sample.reason.explanation)
                #expect(answer.json?["code"] == -401)
                let name = try #require(HTTPField.Name("X-Request-Id"))
                let request = try #require(answer.headerFields[name])
                let line = await service.log.line { $0.metadata["request_id"] == request }
                #expect(line.message.hasSuffix(" 401"))
                #expect(line.metadata["reason"] == sample.reason.rawValue)
            }
            let metrics = try Exposition(try await service.api.get("/metrics").body)
            for reason in Set(samples.map(\.reason)) {
                let count = metrics.value(
                    "kakao_push_http_rejected_credentials_total",
                    ["reason": reason.rawValue]
                )
                #expect(count == Double(samples.count { $0.reason == reason }), "\(reason)")
            }
            let secrets = samples.compactMap { $0.authorization?.split(separator: " ", maxSplits: 1).last }
            for line in service.log.lines { #expect(!secrets.contains { line.text.contains($0) }, "\(line.text)") }
        }
    }

    @Test("A valid token of a user where only operators may call is 403, with its reason in the log")
    func validToken() async throws {
        try await Self.withIdentity(explains: false) { service in
            let token = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.appKey)
            let answer = try await service.api.with("Bearer \(token)").get("/v1/pushes")
            #expect(answer.status == 403 && answer.json?["code"] == -5, "\(answer.text)")
            let name = try #require(HTTPField.Name("X-Request-Id"))
            let request = try #require(answer.headerFields[name])
            let line = await service.log.line { $0.metadata["request_id"] == request }
            #expect(line.metadata["reason"] == CredentialRejection.userToken.rawValue)
        }
    }

    @Test("Without the setting, the response is the same for each credential of a kind")
    func oneText() async throws {
        try await Self.withIdentity(explains: false) { service in
            let samples = try await Self.samples(service).filter { $0.reason != .notAccessToken }
            var texts: Set<String> = []
            for (number, sample) in samples.enumerated() {
                let answer = try await Self.send(sample, number, to: service)
                #expect(answer.status == 401, "\(sample.reason)")
                texts.insert(answer.json?["detail"]?.string ?? "")
            }
            #expect(texts.count == 1)
        }
    }

    @Test("The public port beside one for operators accepts no keys")
    func publicPort() async throws {
        try await withKakaoLogin { settings in
            settings.operatorPort = 0
            settings.identity.explainsRejections = true
        } _: { service async throws in
            let answer = try await TestClient(url: service.server.url).get(Self.device)
            #expect(answer.status == 401)
            #expect(answer.json?["detail"]?.string == CredentialRejection.publicPort.explanation)
        }
    }

    // MARK: Tokens that are switched off

    /// Checks that a user's token of a kind that is switched off is not answered 401, at which apps log their users out.
    private static func expectOff(
        _ token: String,
        _ service: TestService,
        at url: String? = nil,
        paths: [String] = [device, "/v1/devices", "/v2/push/tokens"],
        reason: CredentialRejection = .tokensOff
    ) async throws {
        let app = TestClient(url: url ?? service.server.url, authorization: "Bearer \(token)")
        for path in paths {
            let answer = try await app.get(path)
            let isKakaos = path != "/v1/devices"
            #expect(answer.status == (isKakaos ? 403 : 409), "\(path) \(answer.text)")
            #expect(answer.json?["code"] == (isKakaos ? -3 : -1409) && answer.problem == "not-configured")
            #expect(answer.json?["detail"]?.string?.contains("`kakao.app_id`") == true)
            #expect(answer.headerFields[.wwwAuthenticate] == nil)
            let name = try #require(HTTPField.Name("X-Request-Id"))
            let request = try #require(answer.headerFields[name])
            let line = await service.log.line { $0.metadata["request_id"] == request }
            #expect(line.metadata["reason"] == reason.rawValue && line.metadata["problem"] == "not-configured")
        }
    }

    @Test("Without the settings for users' tokens, a token is answered with the settings, and counts as no bad key")
    func tokensOff() async throws {
        try await withService { service in
            let opaque = [Self.device, "/v1/devices", "/v2/user/me"]
            for _ in 0..<4 { try await Self.expectOff("invented-token", service, paths: opaque) }
            try await Self.expectOff(TestSigner.hs256(["iss": "a"], secret: [1]), service)
            // Nobody learns which of the texts is the Admin key.
            try await Self.expectOff(Keys.admin, service, reason: .adminKey)
            #expect(service.kakao.sandbox.stats.requests.isEmpty)
            for key in ["Bearer kps_unknown", "KakaoAK unknown"] {
                #expect(try await service.api.with(key).get(Self.device).status == 401)
            }
            #expect(try await service.api.get(Self.device, ["uuid": "1"]).status == 200)
        }
    }

    @Test("At a public port that accepts neither tokens nor keys, the operator key is like any other text")
    func publicPortWithoutTokens() async throws {
        try await withService {
            $0.operatorPort = 0
        } _: { service async throws in
            for text in ["invented-token", Keys.operator] { try await Self.expectOff(text, service) }
        }
    }

    @Test("A token of one kind is answered with the settings if only others are accepted")
    func oneKind() async throws {
        try await withKakaoLogin { service async throws in
            let token = try await service.kakao.sandbox.idToken(of: 7, appKey: Self.appKey)
            try await Self.expectOff(token, service)
            let valid = try #require(service.kakao.sandbox.accessToken(of: 7))
            #expect(try await service.api.with("Bearer \(valid)").get(Self.device).status == 200)
        }
        func withKinds(
            _ adjust: (inout Settings) -> Void,
            _ body: (TestService, _ ofKakao: String, _ ofOthers: String) async throws -> Void
        ) async throws {
            try await withService { settings in
                settings.kakao.authURL = settings.kakao.apiURL
                adjust(&settings)
            } _: { service in
                let sandbox = service.kakao.sandbox
                let ofKakao = try await sandbox.idToken(of: 7, appKey: Self.appKey)
                let issuer: JSONObject = ["iss": "https://issuer.example.com"]
                try await body(service, ofKakao, try await sandbox.idToken(of: 7, appKey: Self.appKey, claims: issuer))
            }
        }
        try await withKinds {
            $0.kakao.nativeAppKey = Self.appKey
            $0.identity.acceptsKakaoIDTokens = true
        } _: { service, ofKakao, ofOthers async throws in
            #expect(try await service.api.with("Bearer \(ofKakao)").get(Self.device).status == 200)
            try await Self.expectOff("invented-token", service)
            // Damaged tokens, and those of other issuers, are the fault of the client.
            for token in [String(ofKakao.prefix(100)), ofOthers] {
                #expect(try await service.api.with("Bearer \(token)").get(Self.device).status == 401)
            }
        }
        try await withKinds {
            $0.identity.backend = Self.backend
        } _: { service, ofKakao, ofOthers async throws in
            for token in ["invented-token", ofKakao] { try await Self.expectOff(token, service) }
            #expect(try await service.api.with("Bearer \(ofOthers)").get(Self.device).status == 401)
        }
    }

    @Test("A relayed call that Kakao answers with -401 has a reason, too")
    func relayed() async throws {
        try await Self.withIdentity(explains: false) { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.get("/v2/user/me").status == 200)
            var fault = Fault(.status)
            fault.path = "/v2/user/me"
            fault.status = 401
            fault.code = -401
            fault.message = "this access token is already expired"
            service.kakao.sandbox.add(fault)
            #expect(try await app.get("/v2/user/me").problem == "login-required")
            let line = await service.log.line { $0.message == "GET /v2/user/me 401" }
            #expect(line.metadata["reason"] == "expired-token")
        }
    }

    @Test("docs/errors.md lists each reason")
    func listed() throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/errors.md", encoding: .utf8)
        for reason in CredentialRejection.allCases {
            #expect(page.contains("\n| `\(reason.rawValue)` |"), "\(reason.rawValue)")
        }
    }
}
