import Crypto
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts
@testable import Endpoints
@testable import Settings

/// Access tokens for other backends, and their refresh: `POST /v1/accounts/{user_id}/access-token`.
@Suite(.timeLimit(.minutes(5))) struct TokenRefreshTests {
    private static func fail(_ service: TestService, _ adjust: (inout Fault) -> Void) {
        var fault = Fault(.status)
        fault.path = "/oauth/token"
        adjust(&fault)
        service.kakao.sandbox.add(fault)
    }

    /// A sandbox that replaces the refresh token with each refresh.
    private static var rotating: KakaoSandboxSettings {
        var settings = KakaoSandboxSettings()
        settings.rotateRefreshTokensBelowSeconds = .max
        settings.tokenLimit = nil
        settings.refreshLimit = nil
        return settings
    }

    @Test("A valid token is returned as it is; one that is about to expire is refreshed first")
    func refresh() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            let first = try await service.accessToken(of: 7)
            #expect(first.status == 200)
            #expect(try await service.accessToken(of: 7).json?["access_token"] == first.json?["access_token"])
            #expect(service.kakao.sandbox.tokenReport().refreshes == 0)
            try await service.expireAccessTokens()
            let second = try await service.accessToken(of: 7)
            #expect(second.status == 200)
            #expect(second.json?["access_token"] != first.json?["access_token"])
            #expect(second.json?["scopes"] == first.json?["scopes"])
            // Kakao has issued no new refresh token, and the old one serves again.
            try await service.expireAccessTokens()
            #expect(try await service.accessToken(of: 7).status == 200)
            #expect(service.kakao.sandbox.tokenReport(of: 7).refreshes == 2)
            #expect(service.kakao.sandbox.tokenReport(of: 7).rotations == 0)
        }
    }

    @Test("Concurrent requests cause one refresh, also on several servers, and rotations are followed")
    func singleFlight() async throws {
        try await withAccounts(sandbox: Self.rotating) { service in
            _ = try await service.logIn(7)
            try await RunningServer.with(service.settings) { other in
                for round in 1...3 {
                    try await service.expireAccessTokens()
                    let tokens = try await withThrowingTaskGroup(of: JSONValue?.self) { group in
                        for number in 0..<8 {
                            let api = number.isMultiple(of: 2) ? service.api : other
                            group.addTask { try await api.post("/v1/accounts/7/access-token").json?["access_token"] }
                        }
                        return try await group.reduce(into: Set<String>()) { $0.insert($1?.string ?? "none") }
                    }
                    #expect(tokens.count == 1)
                    #expect(!tokens.contains("none"))
                    let report = service.kakao.sandbox.tokenReport(of: 7)
                    #expect(report.refreshes == round)
                    #expect(report.rotations == round)
                    #expect(report.maximumInFlight == 1)
                    #expect(report.reusesAfterDelivery == 0)
                }
            }
        }
    }

    @Test("A token that Kakao rejects is refreshed for the relay, whatever its lifetime, and the call is repeated")
    func rejectedToken() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            let token = try #require(try await service.accessToken(of: 7).json?["access_token"]?.string)
            service.kakao.sandbox.revokeAccessToken(token)
            func update() async throws -> HTTPClientResponse {
                try await service.api.post(
                    "/v1/user/update_profile",
                    form: ["target_id_type": "user_id", "target_id": "7", "properties": #"{"nickname":"Ryan"}"#]
                )
            }
            // Kakao may reject this server's address: a new token would not help.
            #expect(try await update().status == 401)
            #expect(service.kakao.sandbox.tokenReport(of: 7).refreshes == 0)
            try await service.database.pool.write("UPDATE accounts SET linked_at = linked_at - interval '1 minute'")
            let answer = try await update()
            #expect(answer.status == 200, "\(answer.text)")
            #expect(try await service.accessToken(of: 7).json?["access_token"]?.string != token)
        }
    }

    @Test("A refresh token that Kakao rejects means that the user must log in, and a login links the account again")
    func rejected() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            service.kakao.sandbox.revokeAccessTokens(of: 7)
            try await service.expireAccessTokens()
            let answer = try await service.accessToken(of: 7)
            #expect(answer.status == 409)
            #expect(answer.problem == "login-required")
            #expect(answer.json?["reason"] == "refresh_token_rejected")
            #expect(
                answer.json?["consent_url"] == .string("\(service.api.url)/login/kakao?user_id=7")
            )
            let account = try await service.account(7)
            #expect(account?["state"] == "login_required")
            #expect(account?["reason"] == "refresh_token_rejected")
            let listed = try await service.api.get("/v1/accounts", ["state": "login_required"])
            #expect(listed.json?["items"]?.array?.count == 1)
            _ = try await service.logIn(7)
            #expect(try await service.accessToken(of: 7).status == 200)
            #expect(try await service.account(7)?["reason"] == JSONValue.null)
        }
    }

    @Test("The response to a rotation that arrives after the account was given up links it again")
    func lateResponse() async throws {
        try await withAccounts(sandbox: Self.rotating) { service in
            _ = try await service.logIn(7)
            let store = AccountStore(pool: service.database.pool)
            try await service.expireAccessTokens()
            let stored = try #require(try await store.storedTokens(of: 7))
            let claim = try #require(try await store.claim(stored, for: .seconds(30)))
            // The server that holds the claim is stopped after Kakao has replaced the token. Another one takes over.
            let vault = try #require(service.settings.accounts.vault(appID: 123_456))
            let old = try #require(try vault.open(claim.sealed, of: 7).refreshToken)
            let answer = try await service.kakao.browser.post(
                "/oauth/token",
                form: [
                    "grant_type": "refresh_token", "client_id": "sandbox-rest-api-key",
                    "client_secret": "sandbox-client-secret", "refresh_token": old,
                ]
            )
            try await service.database.pool.write("UPDATE accounts SET lease_ends_at = now()")
            #expect(try await service.accessToken(of: 7).problem == "login-required")
            // It continues.
            let tokens = AccountTokens(
                accessToken: try #require(answer.json?["access_token"]?.string),
                refreshToken: answer.json?["refresh_token"]?.string
            )
            let issued = IssuedTokens(
                tokens: tokens,
                accessTokenLifetime: 3600,
                refreshTokenLifetime: 86_400,
                scopes: nil
            )
            let statement = StoreRefresh(
                claim: claim,
                usedSHA256: SHA256Digest.of(old),
                issued: issued,
                sealed: vault.seal(tokens, of: 7)
            )
            #expect(try await service.database.pool.write(statement) == [true])
            #expect(try await service.accessToken(of: 7).json?["access_token"]?.string == tokens.accessToken)
        }
    }

    @Test("A lost response to a rotation leads to a login, and to nothing worse")
    func lostRotation() async throws {
        try await withAccounts(sandbox: Self.rotating) { service in
            _ = try await service.logIn(7)
            Self.fail(service) { fault in
                fault.kind = .dropAfterBody
                fault.isCarriedOut = true
                fault.when = .rotated
            }
            try await service.expireAccessTokens()
            _ = try await service.accessToken(of: 7)
            try await eventually("Kakao rejects the old token") {
                try await service.database.pool.write("UPDATE accounts SET retry_at = NULL WHERE lease IS NULL")
                return try await service.accessToken(of: 7).problem == "login-required"
            }
            #expect(service.kakao.sandbox.tokenReport(of: 7).lostRotations == 1)
        }
    }

    @Test("While Kakao limits or fails refreshes, a token that is still valid is returned")
    func stillValid() async throws {
        for (code, status) in [("KOE237", 400), (nil, 503)] as [(String?, Int)] {
            try await withAccounts { service in
                _ = try await service.logIn(7)
                let first = try await service.accessToken(of: 7).json?["access_token"]
                Self.fail(service) { fault in
                    fault.status = status
                    fault.oauthError = code.map { OAuthError(error: "", code: $0) }
                }
                // It is due for a refresh but has not expired.
                try await service.database.pool.write("UPDATE accounts SET refresh_at = now()")
                let answer = try await service.accessToken(of: 7)
                #expect(answer.json?["access_token"] == first)
                try await service.database.pool.write("UPDATE accounts SET access_token_ends_at = now()")
                let expired = try await service.accessToken(of: 7)
                #expect(expired.status == 503)
                let seconds = try #require(expired.headerFields[.retryAfter].flatMap { Int($0) })
                #expect(code == nil ? seconds <= 60 : seconds > 500)
                #expect(try await service.account(7)?["state"] == "linked")
                // No further request to Kakao during the pause.
                #expect(service.kakao.sandbox.stats.requests["/oauth/token"] == 2)
            }
        }
    }

    @Test("A wrong client secret keeps the tokens and is reported, and refreshes work again once it is right")
    func misconfigured() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            try await service.expireAccessTokens()
            var settings = service.settings
            settings.kakao.clientSecret = nil
            let log = CollectedLog()
            try await RunningServer.with(settings, log: log) { api in
                #expect(try await api.post("/v1/accounts/7/access-token").status == 503)
                #expect(log.messages.contains { $0.contains("check the app's keys") })
                let metrics = try await api.get("/metrics").text
                #expect(metrics.contains(#"kakao_push_token_refreshes_total{outcome="misconfigured"} 1"#))
            }
            #expect(try await service.account(7)?["state"] == "linked")
            try await service.expireAccessTokens()
            #expect(try await service.accessToken(of: 7).status == 200)
            #expect(!log.messages.joined().contains("sandbox-client-secret"))
        }
    }

    @Test("Refresh tokens are renewed before they expire, and expired ones are marked")
    func renewal() async throws {
        try await withAccounts(sandbox: Self.rotating) { service in
            for user in [7, 8] as [Int64] { _ = try await service.logIn(user) }
            let store = AccountStore(pool: service.database.pool)
            let before = try #require(try await store.storedTokens(of: 7)?.sealed)
            let vault = try #require(service.settings.accounts.vault(appID: 123_456))
            // The steps of the server's workers, in a transaction, so that the workers do not see the accounts first.
            try await service.database.pool.withTransaction { transaction in
                try await transaction.execute(
                    script: """
                        UPDATE accounts SET renew_at = now() WHERE user_id = 7;
                        UPDATE accounts SET refresh_token_ends_at = now() WHERE user_id = 8
                        """
                )
                #expect(try await transaction.query(ExpireAccounts(limit: 10)) == 1)
                func claim(_ keyIDs: [String], _ appKeys: [AppKeyKind]) async throws -> [RefreshClaim] {
                    try await transaction.query(
                        ClaimRenewals(limit: 10, duration: .seconds(30), keyIDs: keyIDs, appKeys: appKeys)
                    )
                }
                // A server without the keys leaves the account to others.
                #expect(try await claim(["other"], AppKeyKind.allCases).isEmpty)
                #expect(try await claim(vault.keyIDs, [.native]).isEmpty)
                let claims = try await claim(vault.keyIDs, [.rest])
                #expect(claims.map(\.userID) == [7])
                #expect(try await claim(vault.keyIDs, [.rest]).isEmpty)
                let sealed = try #require(claims.first).sealed
                #expect(sealed.bytes == before.bytes)
                #expect(try vault.open(sealed, of: 7).refreshToken != nil)
            }
            #expect(try await service.account(8)?["reason"] == "refresh_token_expired")
        }
    }

    @Test("Lists are paged and filtered by state and time, and contain no token")
    func list() async throws {
        try await withAccounts { service in
            for user in [7, 8, 9] as [Int64] { _ = try await service.logIn(user) }
            try await service.database.pool.write(
                "UPDATE accounts SET refresh_token_ends_at = now() + interval '1 day' WHERE user_id = 8"
            )
            let first = try await service.api.get("/v1/accounts", ["limit": "2"])
            #expect(first.json?["items"]?.array?.compactMap { $0["user_id"]?.string } == ["7", "8"])
            let next = try #require(first.json?["next"]?.string)
            let second = try await service.api.get("/v1/accounts", ["limit": "2", "cursor": next])
            #expect(second.json?["items"]?.array?.compactMap { $0["user_id"]?.string } == ["9"])
            let soon = (Date() + 2 * 86_400).ISO8601Format()
            let ending = try await service.api.get("/v1/accounts", ["ends_before": soon, "state": "linked"])
            #expect(ending.json?["items"]?.array?.compactMap { $0["user_id"]?.string } == ["8"])
            let token = try #require(try await service.accessToken(of: 7).json?["access_token"]?.string)
            #expect(!first.text.contains(token))
            #expect(try await service.api.get("/v1/accounts/10").status == 404)
            let key = try await service.operatorKey(.accounts)
            let refused = try await service.api.with("Bearer \(key)").post("/v1/accounts/7/access-token")
            #expect(refused.problem == "missing-scope")
        }
    }
}
