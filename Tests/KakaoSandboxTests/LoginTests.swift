import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

/// Logging in, and whose a token is.
@Suite struct LoginTests {
    private static let path = "/v1/user/access_token_info"

    @Test("A token that was issued tells its user and app while it is in force")
    func accessToken() async throws {
        try await withSandbox { fixture in
            let login = try await fixture.control(.post, "/sandbox/login", ["user_id": "9007199254740993"])
            let token = try #require(login.json?["access_token"]?.string)
            let info = try await fixture.call(Self.path, method: .get, authorization: "Bearer \(token)")
            #expect(info.status == 200)
            #expect(info.json?["id"]?.integer == 9_007_199_254_740_993)
            #expect(info.json?["app_id"] == 123_456)
            #expect((21_500...21_599).contains(info.json?["expires_in"]?.integer ?? 0))

            let logout = try await fixture.control(.delete, "/sandbox/login/9007199254740993")
            #expect(logout.status == 204)
            let after = try await fixture.call(Self.path, method: .get, authorization: "Bearer \(token)")
            #expect(after.status == 401)
            #expect(after.json?["code"] == -401)
        }
    }

    @Test("A token that is unknown, over or missing is refused with -401")
    func refused() async throws {
        try await withSandbox { fixture in
            let over = try #require(fixture.sandbox.accessToken(of: 1, expiresInSeconds: 0))
            for authorization in ["Bearer unknown", "Bearer \(over)", "KakaoAK sandbox-admin-key", nil] {
                let info = try await fixture.call(Self.path, method: .get, authorization: authorization)
                #expect(info.status == 401)
                #expect(info.json?["code"] == -401)
            }
        }
    }
}
