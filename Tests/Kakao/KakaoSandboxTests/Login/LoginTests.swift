import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

/// The log-in control, and the lookup of access tokens.
@Suite struct LoginTests {
    private static let path = "/v1/user/access_token_info"

    @Test("A valid token yields its user and app")
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

    @Test("An unknown, expired or missing token is rejected with -401")
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

    @Test(
        "A log-in with an app key returns an ID token; its key and the previous key are published"
    )
    func idToken() async throws {
        try await withSandbox { fixture in
            var keyIDs: [String] = []
            for _ in 0..<3 {
                let login = try await fixture.control(.post, "/sandbox/login", ["user_id": 7, "app_key": "native"])
                let token = try #require(login.json?["id_token"]?.string)
                #expect(token.split(separator: ".").count == 3)
                let keys = try await fixture.control(.get, "/.well-known/jwks.json").json?["keys"]?.array ?? []
                keyIDs = keys.compactMap { $0["kid"]?.string }
                #expect(keys.allSatisfy { $0["kty"] == "RSA" && $0["alg"] == "RS256" && $0["use"] == "sig" })
                #expect(keys.allSatisfy { $0["n"]?.string?.count == 342 && $0["e"] == "AQAB" })
                #expect(try await fixture.control(.post, "/sandbox/keys/rotate").status == 204)
            }
            #expect(keyIDs.count == 2)
            let last = try await fixture.control(.get, "/.well-known/jwks.json").json?["keys"]?.array ?? []
            #expect(last.count == 2)
            #expect(last.first?["kid"]?.string == keyIDs.last)
            #expect(last.last?["kid"]?.string.map(keyIDs.contains) == false)
        }
    }
}
