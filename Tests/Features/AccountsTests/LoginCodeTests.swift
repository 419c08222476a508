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

@testable import Endpoints

/// Logins with the authorization codes and the tokens that apps obtain: `POST /v1/login/code`,
/// `PUT /v1/accounts/{user_id}/tokens`.
@Suite(.timeLimit(.minutes(5))) struct LoginCodeTests {
    private static func body(_ code: String, _ more: JSONObject = [:]) -> JSONValue {
        var body: JSONObject = ["code": .string(code), "redirect_uri": .string(TestService.redirectURI)]
        for (name, value) in more.members { body[name] = value }
        return .object(body)
    }

    // MARK: Codes

    @Test("A code is exchanged once, and repetitions get the same answer", arguments: ["rest", "native"])
    func exchange(appKey: String) async throws {
        try await withAccounts { service in
            let clientID = appKey == "native" ? "sandbox-native-app-key" : nil
            let code = try await service.authorizationCode(of: 7, clientID: clientID)
            let body = Self.body(code, ["app_key": .string(appKey)])
            let answers = try await withThrowingTaskGroup(of: HTTPClientResponse.self) { group in
                for _ in 0..<4 { group.addTask { try await service.api.post("/v1/login/code", json: body) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.allSatisfy { $0.status == 200 && $0.body == answers[0].body })
            #expect(answers[0].json?["user_id"] == "7")
            #expect(answers[0].headerFields[.cacheControl] == "no-store")
            #expect(service.kakao.sandbox.tokenReport().logins == 1)
            #expect(try await service.account(7)?["app_key"] == .string(appKey))

            let key = try await service.operatorKey(.accounts)
            let foreign = try await service.api.with("Bearer \(key)").post("/v1/login/code", json: body)
            #expect(foreign.status == 409)
            #expect(foreign.problem == "code-in-use")
            let changed = try await service.api.post(
                "/v1/login/code",
                json: Self.body(code, ["app_key": .string(appKey), "nonce": "another"])
            )
            #expect(changed.problem == "code-in-use")
        }
    }

    @Test("A code needs the redirect URI and the verifier that it was requested with")
    func parameters() async throws {
        try await withAccounts { service in
            let code = try await service.authorizationCode(of: 7)
            let wrong = try await service.api.post(
                "/v1/login/code",
                json: ["code": .string(code), "redirect_uri": "https://other.example"]
            )
            #expect(wrong.status == 400)
            #expect(wrong.field == "redirect_uri")
            // It says nothing about the app, and raises no alarm.
            let labels = ["api": "oauth_token", "outcome": "halt"]
            #expect(try await service.api.metrics().value("kakao_push_kakao_requests_total", labels) == 0)
            // The claim was released.
            #expect(try await service.api.post("/v1/login/code", json: Self.body(code)).status == 200)

            let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
            let protected = try await service.authorizationCode(
                of: 7,
                ["code_challenge": challenge, "code_challenge_method": "S256"]
            )
            let refused = try await service.api.post("/v1/login/code", json: Self.body(protected))
            #expect(refused.status == 400)
            #expect(refused.json?["kauth_error"] == "KOE320")
            #expect(!refused.text.contains(protected))
            for invalid in ["", "short", String(repeating: "a", count: 129), String(repeating: "+", count: 43)] {
                let answer = try await service.api.post(
                    "/v1/login/code",
                    json: Self.body(protected, ["code_verifier": .string(invalid)])
                )
                #expect(answer.status == 400 && answer.field == "code_verifier", "\(answer.text)")
                #expect(answer.json?["allowed"] == "43 to 128 letters, digits, -, ., _ and ~ (RFC 7636)")
            }
            let verifier: JSONValue = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
            let accepted = try await service.api.post(
                "/v1/login/code",
                json: Self.body(protected, ["code_verifier": verifier])
            )
            #expect(accepted.status == 200)
        }
    }

    @Test("With a nonce, the ID token must have it")
    func nonce() async throws {
        try await withAccounts { service in
            for (sent, expected) in [("n", 200), ("other", 422)] {
                let code = try await service.authorizationCode(of: 7, ["scope": "openid", "nonce": "n"])
                let answer = try await service.api.post(
                    "/v1/login/code",
                    json: Self.body(code, ["nonce": .string(sent)])
                )
                #expect(answer.status == expected)
                if expected == 200 { #expect(answer.json?["id_token"]?["sub"] == "7") }
            }
        }
    }

    @Test("With a nonce, a login without an ID token is rejected")
    func missingIDToken() async throws {
        try await withAccounts { service in
            let code = try await service.authorizationCode(of: 7)
            let answer = try await service.api.post("/v1/login/code", json: Self.body(code, ["nonce": "n"]))
            #expect(answer.status == 422)
            #expect(answer.problem == "invalid-id-token")
        }
    }

    @Test("A login is stored though its connection to the database is lost, since Kakao accepts the code only once")
    func lostConnection() async throws {
        try await withAccounts { service in
            #expect(try await service.logIn(7).status == 200)
            let code = try await service.authorizationCode(of: 7)
            let answer = try await service.database.pool.withTransaction { transaction in
                // Of the row, so that no worker waits for it too.
                try await transaction.execute(script: "SELECT FROM accounts WHERE user_id = 7 FOR UPDATE")
                let login = Task { try await service.api.post("/v1/login/code", json: Self.body(code)) }
                try await eventually("the login waits for the lock") {
                    try await service.database.count(
                        "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                    ) > 0
                }
                try await transaction.execute(
                    script: """
                        SELECT pg_terminate_backend(pid)
                        FROM pg_stat_activity
                        WHERE datname = current_database()
                            AND wait_event_type = 'Lock'
                        """
                )
                return login
            }.value
            #expect(answer.status == 200, "\(answer.text)\n\(service.log.messages)")
            #expect(service.log.messages.contains("New tokens not stored"))
        }
    }

    @Test("A code is exchanged though the database's response to its claim is lost")
    func lostClaim() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let relay = try DatabaseRelay(to: database.url)
            defer { relay.stop() }
            var settings = Settings.test(relay.url, kakao: kakao.sandbox.url)
            settings.keepAccounts()
            let log = CollectedLog()
            try await RunningServer.run(settings, log: log) { server in
                let service = TestService(
                    database: database,
                    kakao: kakao,
                    settings: settings,
                    server: server,
                    log: log
                )
                let code = try await service.authorizationCode(of: 7)
                relay.loseAnswers()
                async let login = service.api.post("/v1/login/code", json: Self.body(code))
                try await eventually("the claim is committed") { try await database.count("login_results") == 1 }
                relay.reset()
                let answer = try await login
                #expect(answer.status == 200, "\(answer.text)\n\(log.lines.map(\.text))")
            }
        }
    }

    @Test("KOE237 says when the code can be sent again")
    func limited() async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.tokenLimit = TokenLimit(count: 0, seconds: 600)
        try await withAccounts(sandbox: sandbox) { service in
            let answer = try await service.logIn(7)
            #expect(answer.status == 503)
            #expect(answer.headerFields[.retryAfter] == "600")
            #expect(answer.json?["kauth_error"] == "KOE237")
        }
    }

    @Test("An access token in place of a code is recognized, and a code in place of an access token")
    func mistaken() async throws {
        try await withAccounts { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let answer = try await service.api.post("/v1/login/code", json: Self.body(token))
            #expect(answer.status == 400)
            #expect(answer.field == "code")
            #expect(answer.text.contains("access token"))
            #expect(!answer.text.contains(token))
            let code = try await service.authorizationCode(of: 7)
            let other = try await Self.importTokens(service, ["access_token": .string(code)])
            #expect(other.problem == "token-mismatch")
            #expect(other.text.contains("authorization code"))
            #expect(!other.text.contains(code))
        }
    }

    @Test("While Kakao is unavailable, the code can be sent again if Kakao has not got it")
    func unavailable() async throws {
        try await withAccounts { service in
            let code = try await service.authorizationCode(of: 7)
            var fault = Fault(.status)
            fault.path = "/oauth/token"
            fault.status = 503
            service.kakao.sandbox.add(fault)
            let refused = try await service.api.post("/v1/login/code", json: Self.body(code))
            #expect([503, 504].contains(refused.status))
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.post("/v1/login/code", json: Self.body(code)).status == 200)
        }
    }

    @Test("Without an encryption key, operations name the setting")
    func disabled() async throws {
        try await withSharedService { service in
            let answers = [
                try await service.api.post("/v1/login/code", json: Self.body("x")),
                try await service.api.post("/v1/login/tickets", json: ["ticket": "x"]),
                try await service.accessToken(of: 7),
                try await Self.importTokens(service, ["access_token": "x"]),
            ]
            for answer in answers {
                #expect(answer.status == 409)
                #expect(answer.problem == "not-configured")
                #expect(answer.text.contains("accounts.encryption_key"))
            }
        }
    }

    // MARK: Import

    private static func importTokens(
        _ service: TestService,
        user: Int64 = 7,
        _ fields: JSONObject
    ) async throws -> HTTPClientResponse {
        var body: JSONObject = ["app_key": "native", "refreshed_by": "app"]
        for (name, value) in fields.members { body[name] = value }
        return try await service.api.put(
            "/v1/accounts/\(user)/tokens",
            JSONValue.object(body).bytes(),
            type: "application/json"
        )
    }

    @Test("Tokens of an app are stored if Kakao issued them for this app and this user")
    func importing() async throws {
        try await withAccounts { service in
            let sandbox = service.kakao.sandbox
            let own = try #require(sandbox.accessToken(of: 7))
            let foreign = try #require(sandbox.accessToken(of: 7, appID: 99))
            for (user, token) in [(7, foreign), (8, own), (7, "invented")] as [(Int64, String)] {
                let refused = try await Self.importTokens(service, user: user, ["access_token": .string(token)])
                #expect(refused.status == 422)
                #expect(refused.problem == "token-mismatch")
                #expect(try await service.account(user)?["state"] == nil)
            }
            let stored = try await Self.importTokens(
                service,
                ["access_token": .string(own), "scope": "profile_nickname friends"]
            )
            #expect(stored.status == 204)
            let account = try await service.account(7)
            #expect(account?["refreshed_by"] == "app")
            #expect(account?["scopes"] == ["profile_nickname", "friends"])
            let token = try await service.accessToken(of: 7)
            #expect(token.json?["access_token"] == .string(own))
            #expect(token.headerFields[.cacheControl] == "no-store")

            try await service.expireAccessTokens()
            let expired = try await service.accessToken(of: 7)
            #expect(expired.status == 409)
            #expect(expired.problem == "refreshed-by-app")
        }
    }

    @Test("Tokens of a user who has to sign up are stored if Kakao's information has the user's id")
    func importingBeforeSignUp() async throws {
        try await withAccounts { service in
            try service.kakao.sandbox.setUser(7, ["linked": false, "has_signed_up": false])
            let token = JSONValue.string(try #require(service.kakao.sandbox.accessToken(of: 7)))
            let refused = try await Self.importTokens(service, ["access_token": token])
            #expect(refused.problem == "token-mismatch")
            #expect(refused.json?["detail"]?.string?.contains("sign up") == true)
            try service.kakao.sandbox.setUser(7, ["linked": true])
            #expect(try await Self.importTokens(service, user: 8, ["access_token": token]).status == 422)
            #expect(try await Self.importTokens(service, ["access_token": token]).status == 204)
        }
    }

    @Test("Tokens that the server is to refresh need a refresh token, which it then uses with the app's key")
    func refreshedByServer() async throws {
        try await withAccounts { service in
            let tokens = try #require(service.kakao.sandbox.logIn(7, appKey: "sandbox-native-app-key"))
            let access = JSONValue.string(tokens.accessToken)
            let refused = try await Self.importTokens(
                service,
                ["access_token": access, "refreshed_by": "server"]
            )
            #expect(refused.field == "refresh_token")
            let stored = try await Self.importTokens(
                service,
                [
                    "access_token": access, "refreshed_by": "server",
                    "refresh_token": .string(try #require(tokens.refreshToken)),
                ]
            )
            #expect(stored.status == 204)
            try await service.expireAccessTokens()
            let fresh = try await service.accessToken(of: 7)
            #expect(fresh.status == 200)
            #expect(fresh.json?["access_token"] != access)
        }
    }

    @Test("The refresh token of another user is found out before its access token is lent")
    func otherRefreshToken() async throws {
        try await withAccounts { service in
            let sandbox = service.kakao.sandbox
            let own = try #require(sandbox.logIn(7)?.accessToken)
            let foreign = try #require(sandbox.logIn(8)?.refreshToken)
            let stored = try await Self.importTokens(
                service,
                [
                    "access_token": .string(own), "refresh_token": .string(foreign), "refreshed_by": "server",
                    "app_key": "rest",
                ]
            )
            #expect(stored.status == 204)
            try await service.expireAccessTokens()
            let answer = try await service.accessToken(of: 7)
            #expect(answer.status == 409)
            #expect(answer.json?["reason"] == "refresh_token_rejected")
        }
    }

    @Test("An import does not undo an unlink that is pending")
    func pendingUnlink() async throws {
        try await withAccounts { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            var fault = Fault(.status)
            fault.path = "/v1/user/unlink"
            fault.status = 503
            service.kakao.sandbox.add(fault)
            #expect(try await service.api.delete("/v1/accounts/7").status == 202)
            let answer = try await Self.importTokens(service, ["access_token": .string(token)])
            #expect(answer.status == 409)
            #expect(answer.problem == "unlink-pending")
            #expect(try await service.database.count("pending_unlinks") == 1)
        }
    }
}
