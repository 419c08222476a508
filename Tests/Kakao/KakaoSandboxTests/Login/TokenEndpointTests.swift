import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import Net
import TestSupport
import Testing

@testable import KakaoSandbox

/// Tokens for codes and refresh tokens: `POST /oauth/token`.
@Suite(.timeLimit(.minutes(1))) struct TokenEndpointTests {
    /// Settings by which each refresh issues another refresh token, without limits.
    static var rotating: KakaoSandboxSettings {
        var settings = KakaoSandboxSettings()
        settings.rotateRefreshTokensBelowSeconds = .max
        (settings.tokenLimit, settings.refreshLimit) = (nil, nil)
        return settings
    }

    private static func post(_ fields: [String: String], _ kakao: Fixture) async throws -> HTTPClientResponse {
        var form = FormBody()
        for (name, value) in fields where !value.isEmpty { form.append(name, value) }
        return try await kakao.client.send(
            HTTPClientRequest(
                method: .post,
                url: kakao.sandbox.url + "/oauth/token",
                headerFields: [.contentType: FormBody.contentType],
                body: form.bytes
            )
        )
    }

    // MARK: Requests

    /// A request with one wrong field, and its error.
    struct Row: Sendable, CustomTestStringConvertible {
        let grantType: String
        let changes: [String: String]
        let status: Int
        let error: String
        let code: String

        var testDescription: String { "\(grantType) \(changes) \(code)" }
    }

    @Test(
        "Each field is checked, with Kakao's error",
        arguments: [
            Row("authorization_code", ["client_id": ""], 401, "invalid_client", "KOE101"),
            Row("authorization_code", ["client_id": "unknown"], 401, "invalid_client", "KOE101"),
            Row("authorization_code", ["client_secret": ""], 401, "invalid_client", "KOE010"),
            Row("authorization_code", ["client_secret": "wrong"], 401, "invalid_client", "KOE010"),
            Row("authorization_code", ["client_id": "sandbox-native-app-key"], 400, "invalid_grant", "KOE320"),
            Row("authorization_code", ["redirect_uri": ""], 400, "invalid_grant", "KOE303"),
            Row("authorization_code", ["redirect_uri": "https://example.com"], 400, "invalid_grant", "KOE303"),
            Row("authorization_code", ["code": ""], 400, "invalid_grant", "KOE320"),
            Row("authorization_code", ["code": "unknown"], 400, "invalid_grant", "KOE320"),
            Row("refresh_token", ["client_id": "unknown"], 401, "invalid_client", "KOE101"),
            Row("refresh_token", ["client_secret": "wrong"], 401, "invalid_client", "KOE010"),
            Row("refresh_token", ["client_id": "sandbox-javascript-key"], 400, "invalid_grant", "KOE322"),
            Row("refresh_token", ["refresh_token": ""], 400, "invalid_grant", "KOE319"),
            Row("refresh_token", ["refresh_token": "unknown"], 400, "invalid_grant", "KOE322"),
            Row("password", [:], 400, "unsupported_grant_type", "KOE310"),
            Row("", [:], 400, "unsupported_grant_type", "KOE310"),
            Row("", ["client_id": "unknown"], 401, "invalid_client", "KOE101"),
        ]
    )
    func checks(row: Row) async throws {
        try await withSandbox { kakao in
            let fields = [
                "grant_type": row.grantType, "client_id": "sandbox-rest-api-key",
                "client_secret": "sandbox-client-secret", "redirect_uri": Fixture.callback,
                "code": try await kakao.code(),
                "refresh_token": try #require(kakao.sandbox.logIn(1001)?.refreshToken),
            ]
            let response = try await Self.post(fields.merging(row.changes) { $1 }, kakao)
            #expect(response.status == row.status)
            #expect(response.json?["error"]?.string == row.error)
            #expect(response.json?["error_code"]?.string == row.code)
            #expect(response.json?["error_description"]?.string?.isEmpty == false)
            #expect(kakao.sandbox.tokenReport().refusals == [row.code: 1])
            // A request that was refused uses nothing up.
            guard !row.grantType.isEmpty, row.grantType != "password" else { return }
            let corrected = try await Self.post(fields, kakao)
            #expect(corrected.status == 200, "\(corrected.text)")
            #expect(corrected.json?["token_type"] == "bearer")
        }
    }

    @Test("A form that cannot be read is refused as the authorization server does")
    func unreadable() async throws {
        try await withSandbox { kakao in
            let response = try await kakao.client.send(
                HTTPClientRequest(
                    method: .post,
                    url: kakao.sandbox.url + "/oauth/token",
                    headerFields: [.contentType: FormBody.contentType],
                    body: Array("grant_type=%".utf8)
                )
            )
            #expect(response.status == 400)
            #expect(response.json?["error_code"] == "KOE001")
        }
    }

    @Test("A code is exchanged once")
    func code() async throws {
        try await withSandbox { kakao in
            let code = try await kakao.code()
            let tokens = try await kakao.exchange(code)
            #expect(try await kakao.status(of: tokens.accessToken) == 200)
            let error = await kakaoError { try await kakao.exchange(code) }
            #expect(error?.oauthError == OAuthError(error: "invalid_grant", code: "KOE320"))
            #expect(error?.disposition == .logIn)
            // Kakao's text contains the code.
            #expect(
                error.map { "\($0)" }
                    == "Kakao answered 400, KOE320 invalid_grant: authorization code not found for code=***"
            )
            #expect(kakao.sandbox.tokenReport(of: 1001).logins == 1)
        }
    }

    @Test("A native app key has no client secret, and refreshes its own tokens only")
    func nativeKey() async throws {
        try await withSandbox(Self.rotating) { kakao in
            let code = try await kakao.code(["client_id": "sandbox-native-app-key"])
            let tokens = try await kakao.exchange(code, for: Fixture.nativeClient)
            let refused = await refusal { try await kakao.refresh(tokens.refreshToken) }
            #expect(refused == "KOE322")
            _ = try await kakao.refresh(tokens.refreshToken, for: Fixture.nativeClient)
        }
    }

    @Test("A REST API key without a client secret needs none")
    func withoutSecret() async throws {
        var settings = KakaoSandboxSettings()
        settings.clientSecret = nil
        try await withSandbox(settings) { kakao in
            let client = OAuthClient(id: "sandbox-rest-api-key", secret: nil)
            _ = try await kakao.exchange(try await kakao.code(), for: client)
        }
    }

    // MARK: Refreshing

    @Test("A refresh keeps its refresh token while more than the rotation's limit of its lifetime is left")
    func refresh() async throws {
        try await withSandbox { kakao in
            let tokens = try #require(kakao.sandbox.logIn(7))
            let refreshed = try await kakao.refresh(tokens.refreshToken)
            #expect(refreshed.refreshToken == nil)
            #expect(refreshed.refreshTokenExpiresInSeconds == nil)
            #expect(refreshed.accessToken != tokens.accessToken)
            #expect(try await kakao.status(of: refreshed.accessToken) == 200)
            _ = try await kakao.refresh(tokens.refreshToken)

            // Less than a month.
            let old = try #require(kakao.sandbox.logIn(8, refreshTokenSeconds: 2_591_999))
            let rotated = try await kakao.refresh(old.refreshToken)
            #expect(rotated.refreshToken != nil)
            #expect(rotated.refreshTokenExpiresInSeconds == 2_591_999)
            #expect(kakao.sandbox.tokenReport(of: 7).rotations == 0)
            #expect(kakao.sandbox.tokenReport(of: 8).rotations == 1)
            #expect(kakao.sandbox.tokenReport().refreshes == 3)
        }
    }

    @Test("A superseded refresh token is dead, and its successor valid")
    func rotation() async throws {
        try await withSandbox(Self.rotating) { kakao in
            let tokens = try #require(kakao.sandbox.logIn(7, consentingTo: ["openid"]))
            let next = try await kakao.refresh(tokens.refreshToken)
            #expect(next.idToken != nil)
            let error = await kakaoError { try await kakao.refresh(tokens.refreshToken) }
            #expect(error?.oauthError?.code == "KOE322")
            #expect(error?.disposition == .logIn)
            #expect(kakao.sandbox.tokenReuses().map(\.isAfterDelivery) == [true])
            #expect(kakao.sandbox.tokenReuses(of: 8).isEmpty)
            _ = try await kakao.refresh(next.refreshToken)

            let report = try await kakao.control(.get, "/sandbox/tokens?user_id=7").json
            #expect(report?["refreshes"] == 2)
            #expect(report?["rotations"] == 2)
            #expect(report?["lost_rotations"] == 0)
            #expect(report?["in_flight"] == 0)
            #expect(report?["max_in_flight"] == 1)
            #expect(report?["refusals"] == ["KOE322": 1])
            #expect(report?["reuses_after_delivery"] == 1)
            #expect(report?["reuses"]?[0]?["user_id"] == "7")
            #expect(report?["reuses"]?[0]?["after_delivery"] == true)
            let other = try await kakao.control(.get, "/sandbox/tokens?user_id=8").json
            #expect(other?["refreshes"] == 0)
            #expect(try await kakao.control(.get, "/sandbox/tokens").json?["rotations"] == 2)
        }
    }

    @Test("A login has its own lifetimes, also after a refresh")
    func lifetimes() async throws {
        try await withSandbox(Self.rotating) { kakao in
            let login = try await kakao.control(
                .post,
                "/sandbox/login",
                [
                    "user_id": 7, "refresh": true, "expires_in": 60, "refresh_token_expires_in": 600,
                    "app_key": "sandbox-native-app-key", "scope": "openid friends",
                ]
            )
            #expect(login.json?["expires_in"] == 60)
            #expect(login.json?["refresh_token_expires_in"] == 600)
            #expect(login.json?["id_token"] != nil)
            #expect(login.json?["scope"]?.string?.hasSuffix("openid friends") == true)
            let next = try await kakao.refresh(login.json?["refresh_token"]?.string, for: Fixture.nativeClient)
            #expect(next.expiresInSeconds == 60)
            #expect(next.refreshTokenExpiresInSeconds == 600)
            #expect(next.idToken != nil)

            let over = try #require(kakao.sandbox.logIn(7, refreshTokenSeconds: 0))
            let refused = await refusal { try await kakao.refresh(over.refreshToken) }
            #expect(refused == "KOE322")
        }
    }

    @Test("Codes and tokens of a user end with a logout on all devices and with an unlink", arguments: [true, false])
    func revocation(isUnlink: Bool) async throws {
        try await withSandbox { kakao in
            let tokens = try #require(kakao.sandbox.logIn(7))
            let code = try await kakao.code(["login_hint": "7"])
            let other = try #require(kakao.sandbox.logIn(8))
            if isUnlink {
                kakao.sandbox.users.update(7) { $0.isLinked = false }
            } else {
                #expect(try await kakao.control(.delete, "/sandbox/login/7").status == 204)
            }
            #expect(await refusal { try await kakao.exchange(code) } == "KOE320")
            #expect(await refusal { try await kakao.refresh(tokens.refreshToken) } == "KOE322")
            #expect(try await kakao.status(of: tokens.accessToken) == 401)
            _ = try await kakao.refresh(other.refreshToken)
            _ = try await kakao.exchange(try await kakao.code(["login_hint": "7"]))
        }
    }

    // MARK: Limits

    @Test("The access tokens of a user are limited, of codes and of refreshes")
    func tokenLimit() async throws {
        var settings = KakaoSandboxSettings()
        settings.tokenLimit = TokenLimit(count: 2, seconds: 600)
        try await withSandbox(settings) { kakao in
            let code = try await kakao.code(["login_hint": "7"])
            let tokens = try await kakao.exchange(try await kakao.code(["login_hint": "7"]))
            _ = try await kakao.refresh(tokens.refreshToken)
            let error = await kakaoError { try await kakao.refresh(tokens.refreshToken) }
            #expect(error?.oauthError == OAuthError(error: "", code: "KOE237"))
            #expect(error?.disposition == .wait)
            #expect(await refusal { try await kakao.exchange(code) } == "KOE237")
            #expect(kakao.sandbox.tokenReport(of: 7).refusals == ["KOE237": 2])
            _ = try await kakao.exchange(try await kakao.code(["login_hint": "8"]))
        }
    }

    @Test("The refreshes of a user are limited, until the time is over")
    func refreshLimit() async throws {
        var settings = KakaoSandboxSettings()
        settings.refreshLimit = TokenLimit(count: 1, seconds: 1)
        settings.tokenLimit = nil
        try await withSandbox(settings) { kakao in
            let tokens = try #require(kakao.sandbox.logIn(7))
            func attempt() async -> String? {
                await refusal { try await kakao.refresh(tokens.refreshToken) }
            }
            var refusals: Set<String?> = []
            // On a slow machine the second refresh may come too late to be refused.
            try await eventually("a refresh is refused") {
                refusals.insert(await attempt())
                return refusals.contains("KOE237")
            }
            try await eventually("the limit is over") { await attempt() == nil }
            #expect(refusals.isSubset(of: [nil, "KOE237"]))
        }
    }

    @Test("By default, a user gets 20 access tokens in ten minutes")
    func defaultLimits() async throws {
        try await withSandbox { kakao in
            let tokens = try #require(kakao.sandbox.logIn(7))
            for _ in 0..<20 { _ = try await kakao.refresh(tokens.refreshToken) }
            let refused = await refusal { try await kakao.refresh(tokens.refreshToken) }
            #expect(refused == "KOE237")
            #expect(KakaoSandboxSettings().refreshLimit?.count == 30)
            #expect(KakaoSandboxSettings().refreshLimit?.seconds == 3600)
        }
    }
}

extension TokenEndpointTests.Row {
    init(_ grantType: String, _ changes: [String: String], _ status: Int, _ error: String, _ code: String) {
        self.init(grantType: grantType, changes: changes, status: status, error: error, code: code)
    }
}
