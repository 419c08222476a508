import Crypto
import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Testing

/// Logins in a browser: `GET /oauth/authorize`.
@Suite(.timeLimit(.minutes(1))) struct AuthorizationTests {
    private static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

    @Test("A login redirects to the app with a code and the state")
    func login() async throws {
        try await withSandbox { kakao in
            let response = try await kakao.authorize(["redirect_uri": "https://example.com/callback?a=b"])
            #expect(response.status == 302)
            #expect(response.headerFields[.location]?.hasPrefix("https://example.com/callback?a=b&code=") == true)
            #expect(response.redirection["state"] == "a b&c")
            let code = try #require(response.redirection["code"])
            let tokens = try await kakao.exchange(code, redirectURI: "https://example.com/callback?a=b")
            #expect(tokens.expiresInSeconds == 21_599)
            #expect(tokens.refreshTokenExpiresInSeconds == 5_184_000)
            #expect(tokens.refreshToken != nil)
            #expect(tokens.scopes == ["profile_nickname", "profile_image", "account_email"])
            #expect(tokens.idToken == nil)
            let info = try await kakao.kakao.call(AccessTokenInfo(), as: .userToken(tokens.accessToken))
            #expect(info.userID == 1001)
            #expect(info.appID == 123_456)
        }
    }

    @Test("The user is the one of login_hint, if it is a user id", arguments: [("7", 7), ("a@b.c", 1001), ("0", 1001)])
    func user(hint: String, userID: Int64) async throws {
        try await withSandbox { kakao in
            let tokens = try await kakao.exchange(try await kakao.code(["login_hint": hint]))
            let info = try await kakao.kakao.call(AccessTokenInfo(), as: .userToken(tokens.accessToken))
            #expect(info.userID == userID)
        }
    }

    @Test("A code with a challenge is exchanged with its verifier only")
    func codeChallenge() async throws {
        try await withSandbox { kakao in
            let fields = ["code_challenge": challenge(Self.verifier), "code_challenge_method": "S256"]
            let code = try await kakao.code(fields)
            for verifier in ["another", "", nil] {
                let refused = await refusal { try await kakao.exchange(code, verifier: verifier) }
                #expect(refused == "KOE320")
            }
            _ = try await kakao.exchange(code, verifier: Self.verifier)
        }
    }

    @Test("With the scope openid, the ID token has the nonce of the login")
    func nonce() async throws {
        try await withSandbox { kakao in
            for scope in ["openid,friends", "friends openid"] {
                let tokens = try await kakao.exchange(try await kakao.code(["scope": scope, "nonce": "n-1"]))
                #expect(Set(tokens.scopes ?? []).isSuperset(of: ["openid", "friends"]))
                let part = try #require(tokens.idToken?.split(separator: ".").dropFirst().first)
                let claims = try JSONValue(parsing: try #require(Base64URL.decode(part.utf8)))
                #expect(claims["nonce"] == "n-1")
                #expect(claims["aud"] == "sandbox-rest-api-key")
                #expect(claims["sub"] == "1001")
                #expect(claims["iss"] == .string(kakao.sandbox.url))
            }
        }
    }

    @Test("Without a page, a user must have logged in and have agreed to the scopes before")
    func promptNone() async throws {
        try await withSandbox { kakao in
            func error(_ changes: [String: String] = [:]) async throws -> String? {
                let fields = ["prompt": "none", "login_hint": "7"].merging(changes) { $1 }
                let redirection = try await kakao.authorize(fields).redirection
                #expect(redirection["state"] == "a b&c")
                #expect((redirection["code"] == nil) == (redirection["error"] != nil))
                #expect((redirection["error_description"] == nil) == (redirection["error"] == nil))
                return redirection["error"]
            }
            #expect(try await error() == "login_required")
            _ = try await kakao.code(["login_hint": "7"])
            #expect(try await error() == nil)
            #expect(try await error(["login_hint": "8"]) == "login_required")
            #expect(try await error(["scope": "profile_nickname"]) == nil)
            #expect(try await error(["scope": "profile_nickname,friends"]) == "consent_required")
            _ = try await kakao.code(["login_hint": "7", "scope": "friends"])
            #expect(try await error(["scope": "friends"]) == nil)
        }
    }

    @Test("Without a user, no login is possible")
    func nobody() async throws {
        var settings = KakaoSandboxSettings()
        settings.testUserID = nil
        try await withSandbox(settings) { kakao async throws in
            #expect(try await kakao.authorize().redirection["error"] == "login_required")
            #expect(try await kakao.authorize(["prompt": "none"]).redirection["error"] == "login_required")
            #expect(try await kakao.authorize(["login_hint": "7"]).redirection["code"] != nil)
        }
    }

    @Test(
        "A parameter is checked",
        arguments: [
            (["prompt": "login,create"], nil), (["prompt": "login select_account"], nil),
            (["service_terms": "a,b"], nil), (["prompt": "none,login"], "invalid_request"),
            (["prompt": "consent"], "invalid_request"), (["code_challenge": challenge("a")], "invalid_request"),
            (["code_challenge": challenge("a"), "code_challenge_method": "plain"], "invalid_request"),
            (["code_challenge": "short", "code_challenge_method": "S256"], "invalid_request"),
            (["scope": String(repeating: "a", count: 65)], "invalid_scope"),
        ] as [([String: String], String?)]
    )
    func parameters(fields: [String: String], error: String?) async throws {
        try await withSandbox { kakao in
            let redirection = try await kakao.authorize(fields).redirection
            #expect(redirection["error"] == error)
            #expect((redirection["code"] == nil) == (error != nil))
        }
    }

    @Test("A user can deny the next authorization")
    func denial() async throws {
        try await withSandbox { kakao in
            let denial = try await kakao.control(.post, "/sandbox/authorizations", ["user_id": 7])
            #expect(denial.status == 204)
            #expect(try await kakao.authorize().redirection["code"] != nil)
            let redirection = try await kakao.authorize(["login_hint": "7"]).redirection
            #expect(redirection["error"] == "access_denied")
            #expect(redirection["state"] == "a b&c")
            #expect(try await kakao.authorize(["login_hint": "7"]).redirection["code"] != nil)
            kakao.sandbox.failNextAuthorization(of: 7, with: "server_error")
            #expect(try await kakao.authorize(["login_hint": "7"]).redirection["error"] == "server_error")
            let refused = try await kakao.control(.post, "/sandbox/authorizations", [:])
            #expect(refused.json?["field"] == "user_id")
        }
    }

    @Test(
        "Without a valid app and address, Kakao shows a page and does not redirect",
        arguments: [
            (["client_id": "unknown"], "KOE101"), (["client_id": ""], "KOE101"), (["redirect_uri": ""], "KOE006"),
            (["redirect_uri": "https://example.com/other"], "KOE006"),
            (["redirect_uri": "https://example.com/callback#a"], "KOE006"),
            (["response_type": "token"], "KOE201"), (["response_type": ""], "KOE201"),
        ]
    )
    func page(fields: [String: String], code: String) async throws {
        var settings = KakaoSandboxSettings()
        settings.redirectURIs = [Fixture.callback, "kakao1234://oauth"]
        try await withSandbox(settings) { kakao in
            let response = try await kakao.authorize(fields)
            #expect(response.status == 400)
            #expect(response.headerFields[.location] == nil)
            #expect(response.headerFields[.contentType]?.hasPrefix("text/html") == true)
            #expect(response.text.contains(code))
            let app = try await kakao.authorize([
                "client_id": "sandbox-native-app-key", "redirect_uri": "kakao1234://oauth",
            ])
            #expect(app.headerFields[.location]?.hasPrefix("kakao1234://oauth?code=") == true)
        }
    }

    @Test("The native app key has the address of Kakao's SDKs, whatever is registered; other keys have not")
    func nativeRedirect() async throws {
        let own = "kakaosandbox-native-app-key://oauth"
        for registered in [[], [Fixture.callback]] as [Set<String>] {
            var settings = KakaoSandboxSettings()
            settings.redirectURIs = registered
            try await withSandbox(settings) { kakao in
                let app = try await kakao.authorize(["client_id": "sandbox-native-app-key", "redirect_uri": own])
                #expect(app.headerFields[.location]?.hasPrefix("\(own)?code=") == true, "\(app.text)")
                for fields in [
                    ["redirect_uri": own],
                    ["client_id": "sandbox-native-app-key", "redirect_uri": "kakaoanother://oauth"],
                ] {
                    #expect(try await kakao.authorize(fields).text.contains("KOE006"))
                }
            }
        }
    }

    @Test("An address that is no header field value is not redirected to", arguments: ["\r\nA: b", " ", "é", "\u{0}"])
    func injection(text: String) async throws {
        try await withSandbox { kakao in
            let response = try await kakao.authorize(["redirect_uri": "https://example.com/\(text)"])
            #expect(response.status == 400)
            #expect(response.text.contains("KOE006"))
        }
    }

    @Test("The configuration of OpenID Connect names the endpoints")
    func configuration() async throws {
        try await withSandbox { kakao in
            let configuration = try await kakao.control(.get, "/.well-known/openid-configuration").json
            #expect(configuration?["issuer"] == .string(kakao.sandbox.url))
            #expect(configuration?["token_endpoint"] == .string(kakao.sandbox.url + "/oauth/token"))
            #expect(configuration?["code_challenge_methods_supported"] == ["S256"])
        }
    }
}
