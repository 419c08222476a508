import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// The end of accounts: logout, unlink, erasure, and what Kakao reports.
@Suite(.timeLimit(.minutes(5))) struct UserEndTests {
    private static let target: KeyValuePairs = ["target_id_type": "user_id", "target_id": "7"]

    private static func fail(_ service: TestService, path: String, status: Int, code: Int? = nil) {
        var fault = Fault(.status)
        fault.path = path
        fault.status = status
        fault.code = code
        service.kakao.sandbox.add(fault)
    }

    private static func state(_ service: TestService) async throws -> [JSONValue?] {
        let account = try await service.account(7)
        return [account?["state"], account?["reason"]]
    }

    /// The number of accounts with tokens.
    private static func tokens(_ service: TestService) async throws -> Int64 {
        try await service.database.integer("SELECT count(*) FROM accounts WHERE tokens IS NOT NULL")
    }

    // MARK: Logout

    @Test("A logout by an operator ends all tokens at Kakao, and deletes those of the account")
    func logOut() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            let token = try #require(try await service.accessToken(of: 7).json?["access_token"]?.string)
            let answer = try await service.api.post("/v1/user/logout", form: Self.target)
            #expect(answer.status == 200)
            #expect(answer.json?["id"]?.integer == 7)
            #expect(try await Self.state(service) == ["login_required", "logged_out"])
            #expect(try await Self.tokens(service) == 0)
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.get("/v1/user/access_token_info").status == 401)
        }
    }

    @Test("The tokens of the account are deleted whatever Kakao responds to a logout")
    func logOutWhileUnavailable() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            Self.fail(service, path: "/v1/user/logout", status: 503)
            let answer = try await service.api.post("/v1/user/logout", form: Self.target)
            #expect(answer.status == 503)
            #expect(answer.headerFields[.retryAfter] != nil)
            #expect(try await Self.state(service) == ["login_required", "logged_out"])
        }
    }

    @Test("A user logs out with a token of the app, and not another user")
    func logOutByUser() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            #expect(
                try await app.post("/v1/user/logout", form: ["target_id_type": "user_id", "target_id": "8"]).problem
                    == "another-user"
            )
            #expect(try await Self.state(service)[0] == "linked")
            #expect(try await app.post("/v1/user/logout").status == 200)
            #expect(try await Self.state(service) == ["login_required", "logged_out"])
        }
    }

    // MARK: Unlink

    @Test(
        "An unlink deletes the tokens, withdraws the devices, and succeeds again",
        arguments: ["DELETE", "operator", "user"]
    )
    func unlink(how: String) async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            _ = try await service.api.register(7, "phone-token")
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            func unlink() async throws -> Int {
                switch how {
                case "DELETE": try await service.api.delete("/v1/accounts/7").status
                case "operator": try await service.api.post("/v1/user/unlink", form: Self.target).status
                default: try await app.post("/v1/user/unlink").status
                }
            }
            #expect(try await unlink() == (how == "DELETE" ? 204 : 200))
            #expect(try await Self.state(service) == ["unlinked", JSONValue.null])
            #expect(try await Self.tokens(service) == 0)
            #expect(try await service.database.count("pending_unlinks") == 0)
            try await eventually("the device is deregistered at Kakao") {
                try await service.kakao.tokens(of: 7).isEmpty
            }
            // The token is dead, so a user cannot do it again.
            if how != "user" { #expect(try await unlink() == (how == "DELETE" ? 204 : 200)) }
        }
    }

    @Test("A user's unlink whose response was lost takes effect here with its repetition")
    func lostUnlink() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            _ = try await service.api.register(7, "phone-token")
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.get("/v1/user/access_token_info").status == 200)
            var fault = Fault(.dropAfterBody)
            fault.path = "/v1/user/unlink"
            fault.isCarriedOut = true
            fault.times = 1
            service.kakao.sandbox.add(fault)
            let first = try await app.post("/v1/user/unlink").status
            if first != 200 { #expect(try await app.post("/v1/user/unlink").status == 200) }
            #expect(try await Self.state(service)[0] == "unlinked")
        }
    }

    @Test("A gateway's error does not end a pending unlink")
    func gateway() async throws {
        try await withAccounts { service in
            Self.fail(service, path: "/v1/user/unlink", status: 404)
            let answer = try await service.api.delete("/v1/accounts/7")
            #expect(answer.status == 202)
            #expect(try await service.database.count("pending_unlinks") == 1)
        }
    }

    @Test("An unlink of a user without an account succeeds, also if Kakao does not know the user")
    func unlinkUnknown() async throws {
        try await withAccounts { service in
            for _ in 1...2 {
                let answer = try await service.api.delete("/v1/accounts/9")
                #expect(answer.status == 204)
            }
        }
    }

    @Test("While Kakao is unavailable, an unlink is stored and carried out later, also by another server")
    func unlinkLater() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            Self.fail(service, path: "/v1/user/unlink", status: 503)
            let answer = try await service.api.delete("/v1/accounts/7")
            #expect(answer.status == 202)
            #expect(try await Self.state(service) == ["unlinked", JSONValue.null])
            #expect(try await service.database.count("pending_unlinks") == 1)
            service.kakao.sandbox.removeFaults()
            try await service.database.pool.write("UPDATE pending_unlinks SET next_attempt_at = now()")
            try await RunningServer.with(service.settings) { _ in
                try await eventually("the user is unlinked at Kakao") {
                    try await service.database.count("pending_unlinks") == 0
                }
            }
            #expect(service.kakao.sandbox.stats.requests["/v1/user/unlink"] == 2)
        }
    }

    @Test("While Kakao is unavailable, an unlink in Kakao's format is answered as by Kakao, and marked as pending")
    func unlinkLaterAsKakao() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            Self.fail(service, path: "/v1/user/unlink", status: 503)
            let answer = try await service.api.post("/v1/user/unlink", form: Self.target)
            #expect(answer.isPending)
            #expect(answer.json == ["id": 7])
            #expect(try await service.database.count("pending_unlinks") == 1)
        }
    }

    @Test("A rejected Admin key is a fault of the configuration: the unlink stays pending")
    func unlinkMisconfigured() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            Self.fail(service, path: "/v1/user/unlink", status: 401, code: -401)
            let answer = try await service.api.delete("/v1/accounts/7")
            #expect(answer.status == 502)
            #expect(try await service.database.count("pending_unlinks") == 1)
        }
    }

    @Test("A user who logs in again is not unlinked by an unlink of before")
    func loginAfterUnlink() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            Self.fail(service, path: "/v1/user/unlink", status: 503)
            #expect(try await service.api.delete("/v1/accounts/7").status == 202)
            service.kakao.sandbox.removeFaults()
            _ = try await service.logIn(7)
            #expect(try await service.database.count("pending_unlinks") == 0)
            #expect(try await Self.state(service)[0] == "linked")
        }
    }

    @Test(
        "An unlink that PostgreSQL loses is stored again and carried out, unless the user has logged in since",
        arguments: [false, true]
    )
    func lostByPostgres(hasLoggedIn: Bool) async throws {
        try await withAccounts { service in
            let database = service.database
            _ = try await service.logIn(7)
            try await database.pool.write("CREATE TABLE saved AS SELECT * FROM accounts")
            Self.fail(service, path: "/v1/user/unlink", status: 503)
            #expect(try await service.api.delete("/v1/accounts/7").status == 202)
            service.kakao.sandbox.removeFaults()
            try await database.pool.withTransaction { transaction in
                for table in ["accounts", "pending_unlinks", "requested_unlinks", "former_devices"] {
                    try await transaction.query("DELETE FROM \(table)")
                }
                try await transaction.query("INSERT INTO accounts SELECT * FROM saved")
            }
            if hasLoggedIn { _ = try await service.logIn(7) }
            try await database.beginNewRun()
            let lost = try await service.api.metrics().value("kakao_push_lost_commits_total", ["object": "unlinks"])
            #expect(lost == (hasLoggedIn ? 0 : 1))
            if hasLoggedIn {
                #expect(try await Self.state(service)[0] == "linked")
                #expect(try await database.count("pending_unlinks") == 0)
            } else {
                #expect(try await Self.state(service) == ["unlinked", JSONValue.null])
                #expect(try await database.count("sender WHERE reason LIKE '%1 unlinks%'") == 1)
                try await eventually("the user is unlinked at Kakao") {
                    try await database.count("pending_unlinks") == 0
                }
                #expect(service.kakao.sandbox.stats.requests["/v1/user/unlink"] == 2)
            }
            // What is stored again is no further loss.
            try await database.beginNewRun()
            #expect(
                try await service.api.metrics().value("kakao_push_lost_commits_total", ["object": "unlinks"]) == lost
            )
        }
    }

    @Test(
        "A new run without a loss finds the unlinks, also those that are carried out",
        arguments: ["operator", "user"]
    )
    func nothingLost(how: String) async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            if how == "operator" {
                #expect(try await service.api.delete("/v1/accounts/7").status == 204)
            } else {
                let token = try #require(service.kakao.sandbox.accessToken(of: 7))
                #expect(try await service.api.with("Bearer \(token)").post("/v1/user/unlink").status == 200)
            }
            _ = try await service.logIn(7)
            try await service.database.beginNewRun()
            #expect(try await service.database.count("sender WHERE stopped_at IS NULL") == 1)
            #expect(try await Self.state(service)[0] == "linked")
        }
    }

    // MARK: Reports and erasure

    @Test("An unlink notice of Kakao ends the account, unless the user has logged in since")
    func notice() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            let outcome = await service.kakao.unlink(UnlinkNotice(userID: 7))
            #expect(outcome.status == 200)
            #expect(try await Self.state(service) == ["unlinked", JSONValue.null])
            #expect(try await service.accessToken(of: 7).problem == "login-required")
            _ = try await service.logIn(7)
            #expect(try await service.accessToken(of: 7).status == 200)
        }
    }

    @Test("Account events of Kakao reach the account")
    func accountEvent() async throws {
        try await withAccounts { service in
            let oauth = "https://schemas.openid.net/secevent/oauth/event-type/"
            for (type, state) in [
                ("tokens-revoked", ["login_required", "tokens_revoked"]),
                ("user-unlinked", ["unlinked", JSONValue.null]),
            ] as [(String, [JSONValue])] {
                _ = try await service.logIn(7)
                var event = AccountEvent(userID: 7)
                event.type = "\(oauth)\(type)"
                let outcome = try await service.kakao.send(event)
                #expect(outcome.status == 202)
                #expect(try await Self.state(service) == state)
                #expect(try await Self.tokens(service) == 0)
            }
        }
    }

    @Test("The erasure of a user deletes the account")
    func erase() async throws {
        try await withAccounts { service in
            _ = try await service.logIn(7)
            #expect(try await service.api.delete("/v1/users/7").status == 204)
            #expect(try await service.api.get("/v1/accounts/7").status == 404)
            #expect(try await service.database.count("accounts") == 0)
        }
    }
}
