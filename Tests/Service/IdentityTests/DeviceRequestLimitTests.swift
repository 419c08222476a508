import Endpoints
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// The request limits of users' apps on the device endpoints.
@Suite(.timeLimit(.minutes(5))) struct DeviceRequestLimitTests {
    private static let path = "/v1/push/tokens"

    /// Runs a server that accepts Kakao's access tokens, behind a proxy at 127.0.0.1.
    private static func withIdentity(
        perUser: Int? = nil,
        perAddress: Int? = nil,
        proxies: String? = "127.0.0.1",
        _ body: (TestService) async throws -> Void
    ) async throws {
        let adjust = { (settings: inout Settings) in
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
            settings.http.trustedProxies = proxies.flatMap { TrustedProxies($0) } ?? .none
            settings.identity.requestsPerMinutePerUser = perUser
            settings.identity.requestsPerMinutePerAddress = perAddress
        }
        try await withService(adjust, body)
    }

    private static func call(_ api: TestClient, _ token: String) async throws -> HTTPClientResponse {
        try await api.with("Bearer \(token)").get(path)
    }

    private static func questions(_ service: TestService) -> Int {
        service.kakao.sandbox.stats.requests["/v1/user/access_token_info"] ?? 0
    }

    private static func expectRefusal(_ answer: HTTPClientResponse) {
        #expect(answer.status == 429)
        #expect((1...60).contains(answer.headerFields[.retryAfter].flatMap { Int($0) } ?? 0))
        #expect(answer.headerFields[.contentType] == "application/problem+json")
        #expect(answer.json?["type"] == "urn:kakao-push-server:error:too-many-requests")
        #expect(answer.json?["code"] == -10)
    }

    @Test("A user over the limit gets Retry-After on every device endpoint; other users are not affected")
    func perUser() async throws {
        try await Self.withIdentity(perUser: 2) { service in
            let sandbox = service.kakao.sandbox
            // Two tokens of one user, and one of another user.
            let tokens = try [7, 7, 8].map { try #require(sandbox.accessToken(of: $0)) }
            #expect(try await Self.call(service.api, tokens[0]).status == 200)
            #expect(try await Self.call(service.api, tokens[1]).status == 200)
            let app = service.api.with("Bearer \(tokens[0])")
            let answers = [
                try await app.get("/v1/push/tokens"), try await app.register(7, "token"), try await app.deregister(7),
                try await app.post("/v2/push/tokens", form: [:]), try await Self.call(service.api, tokens[1]),
            ]
            for answer in answers { Self.expectRefusal(answer) }
            #expect(try await Self.call(service.api, tokens[2]).status == 200)
            #expect(try await service.database.count("devices") == 0)
        }
    }

    @Test("An address over the limit is rejected before any lookup at Kakao, whether or not its tokens are valid")
    func perAddress() async throws {
        try await Self.withIdentity(perAddress: 3) { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let api = service.api.from("203.0.113.7")
            for number in 0..<3 { #expect(try await Self.call(api, "bad-\(number)").status == 401) }
            #expect(Self.questions(service) == 3)
            for refused in ["bad", token] {
                Self.expectRefusal(try await Self.call(api, refused))
            }
            #expect(Self.questions(service) == 3)
            #expect(try await Self.call(service.api.from("203.0.113.8"), token).status == 200)
        }
    }

    @Test(
        "Tokens that were verified before count against their users only, whatever strangers send from the same address"
    )
    func shared() async throws {
        let adjust = { (settings: inout Settings) in
            settings.kakao.appID = 123_456
            settings.kakao.authURL = settings.kakao.apiURL
            settings.kakao.nativeAppKey = "native-app-key"
            settings.identity.acceptsKakaoAccessTokens = true
            settings.identity.acceptsKakaoIDTokens = true
            settings.identity.requestsPerMinutePerUser = nil
            settings.identity.requestsPerMinutePerAddress = 3
        }
        try await withService(adjust) { service in
            let access = try #require(service.kakao.sandbox.accessToken(of: 7))
            let idToken = try await service.kakao.sandbox.idToken(of: 8, appKey: "native-app-key")
            for token in [access, idToken] { #expect(try await Self.call(service.api, token).status == 200) }
            try await eventually("the address is over its limit") {
                try await Self.call(service.api, "invented").status == 429
            }
            for token in [access, idToken] { #expect(try await Self.call(service.api, token).status == 200) }
            // Without Kakao's result the server still knows whose token it is, and has it verified again.
            let before = Self.questions(service)
            try await service.database.pool.write("SELECT pg_notify('kakao_push_revoked_users', '7')")
            try await eventually("the token is verified again") {
                let status = try await Self.call(service.api, access).status
                #expect(status == 200)
                return Self.questions(service) > before
            }
            try await eventually("the address is over its limit") {
                try await Self.call(service.api, "invented").status == 429
            }
        }
    }

    @Test("Addresses of one IPv6 network count as one")
    func network() async throws {
        try await Self.withIdentity(perAddress: 2) { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            for host in ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2"] {
                #expect(try await Self.call(service.api.from(host), "of \(host)").status == 401)
            }
            Self.expectRefusal(try await Self.call(service.api.from("2001:db8:0:1::3"), token))
            #expect(try await Self.call(service.api.from("2001:db8:0:2::3"), token).status == 200)
        }
    }

    @Test("Neither limit applies to operators, with the key in the settings or a created one")
    func operators() async throws {
        try await Self.withIdentity(perUser: 1, perAddress: 1) { service in
            let made = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "made", scopes: [.devices], expiresAt: nil)
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            #expect(try await Self.call(service.api, token).status == 200)
            for _ in 0..<10 {
                Self.expectRefusal(try await Self.call(service.api, token))
                for key in [Keys.operator, made] {
                    #expect(try await service.api.with("KakaoAK \(key)").register(7, "token").status == 200)
                }
            }
        }
    }

    @Test("A client cannot change its address with X-Forwarded-For, neither directly nor through a proxy")
    func spoofed() async throws {
        try await Self.withIdentity(perAddress: 2, proxies: nil) { service in
            for number in 1...2 {
                #expect(try await Self.call(service.api.from("203.0.113.\(number)"), "of-\(number)").status == 401)
            }
            for number in 3...5 {
                Self.expectRefusal(try await Self.call(service.api.from("203.0.113.\(number)"), "of-\(number)"))
            }
            // The client may be a proxy that is missing in the settings, so a note is logged.
            let notes = service.log.lines.filter { $0.message.contains("http.trusted_proxies") }
            #expect(notes.count == 1)
            #expect(notes.first?.metadata["remote"] == "127.0.0.1")
        }
        try await Self.withIdentity(perAddress: 2) { service in
            for (number, expected) in [401, 401, 429, 429, 429].enumerated() {
                let api = service.api.from("203.0.113.\(number), 198.51.100.1")
                let status = try await Self.call(api, "of-\(number)").status
                #expect(status == expected)
            }
        }
    }

    @Test("Limits can be disabled")
    func unlimited() async throws {
        try await Self.withIdentity { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            for _ in 0..<100 { #expect(try await Self.call(service.api, token).status == 200) }
        }
    }
}
