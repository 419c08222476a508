import Crypto
import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import KakaoSandbox
import Locking
import Net
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts
@testable import Endpoints
@testable import Settings

/// The login of a user in a browser: `/login/kakao`, its callback, and `POST /v1/login/tickets`.
@Suite(.timeLimit(.minutes(5))) struct BrowserLoginTests {
    private static func redeem(_ ticket: String?, _ service: TestService) async throws -> HTTPClientResponse {
        try await service.api.post("/v1/login/tickets", json: ["ticket": .string(try #require(ticket))])
    }

    @Test("A user logs in, and the service redeems the ticket once")
    func login() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let answer = try await browser.logIn(at: service.kakao, ["login_hint": "7", "state": "a b&c"])
            #expect(answer.status == 302)
            let location = try #require(answer.location)
            #expect(location.base == Settings.returnURL)
            #expect(location["state"] == "a b&c")
            #expect(location["error"] == nil)
            let referrerPolicy = try #require(HTTPField.Name("Referrer-Policy"))
            #expect(answer.headerFields[.cacheControl] == "no-store")
            #expect(answer.headerFields[referrerPolicy] == "no-referrer")
            #expect(browser.cookies.isEmpty)

            let redeemed = try await Self.redeem(location["ticket"], service)
            #expect(redeemed.status == 200)
            #expect(redeemed.headerFields[.cacheControl] == "no-store")
            #expect(redeemed.json?["user_id"] == "7")
            #expect(redeemed.json?["is_new"] == true)
            #expect(redeemed.json?["id_token"] == JSONValue.null)
            #expect(redeemed.json?["scopes"]?.array?.contains("profile_nickname") == true)
            let again = try await Self.redeem(location["ticket"], service)
            #expect(again.status == 404)
            #expect(again.problem == "unknown-ticket")

            #expect(try await service.account(7)?["state"] == "linked")
            var second = Browser(service.api)
            let back = try await second.logIn(at: service.kakao, ["login_hint": "7"])
            #expect(back.location?["state"] == nil)
            #expect(try await Self.redeem(back.location?["ticket"], service).json?["is_new"] == false)
        }
    }

    @Test("A ticket can be redeemed for a minute, and only with the scope accounts")
    func ticketLimits() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let answer = try await browser.logIn(at: service.kakao, ["login_hint": "7"])
            let key = try await service.operatorKey(.tokens)
            let refused = try await service.api.with("Bearer \(key)").post("/v1/login/tickets", json: ["ticket": "x"])
            #expect(refused.problem == "missing-scope")
            try await service.database.pool.write("UPDATE login_results SET ends_at = now()")
            #expect(try await Self.redeem(answer.location?["ticket"], service).problem == "unknown-ticket")
            #expect(try await Self.redeem("invented", service).problem == "unknown-ticket")
        }
    }

    @Test("The request to Kakao has what the service asks for, with PKCE, a nonce and a state of its own")
    func authorizeRequest() async throws {
        try await withAccounts {
            $0.accounts.usesOpenIDConnect = true
        } _: { service in
            var browser = Browser(service.api)
            let answer = try await browser.get(
                "/login/kakao",
                [
                    "return_to": "https://shop.example.com/account?tab=1", "scope": "friends talk_message",
                    "service_terms": "tag1,tag2", "prompt": "login,select_account", "login_hint": "a@example.com",
                    "state": "of the service",
                ]
            )
            #expect(answer.status == 302)
            let location = try #require(answer.location)
            #expect(location.base == "\(service.kakao.sandbox.url)/oauth/authorize")
            #expect(location["client_id"] == "sandbox-rest-api-key")
            #expect(location["redirect_uri"] == "\(service.api.url)/login/kakao/callback")
            #expect(location["response_type"] == "code")
            #expect(location["scope"] == "friends,talk_message,openid")
            #expect(location["service_terms"] == "tag1,tag2")
            #expect(location["prompt"] == "login,select_account")
            #expect(location["login_hint"] == "a@example.com")
            #expect(location["code_challenge_method"] == "S256")
            #expect(location["code_challenge"]?.utf8.count == 43)
            #expect((location["nonce"] ?? "").utf8.count >= 20)
            #expect(location["state"] != "of the service")
            let cookie = try #require(answer.headerFields[.setCookie])
            #expect(cookie.hasPrefix("__Host-"))
            for part in ["; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/", "; Max-Age=600"] {
                #expect(cookie.contains(part))
            }
            #expect(!cookie.contains("shop.example.com"))
        }
    }

    @Test("With OpenID Connect, the ticket has the verified claims of the ID token")
    func openIDConnect() async throws {
        try await withAccounts {
            $0.accounts.usesOpenIDConnect = true
        } _: { service in
            var browser = Browser(service.api)
            let answer = try await browser.logIn(
                at: service.kakao,
                ["login_hint": "7", "scope": "account_email"]
            )
            let redeemed = try await Self.redeem(answer.location?["ticket"], service)
            #expect(redeemed.json?["id_token"]?["sub"] == "7")
            #expect(redeemed.json?["id_token"]?["nonce"]?.string?.isEmpty == false)
        }
    }

    @Test(
        "A user returns only to an address of the settings",
        arguments: [
            "https://evil.example/login/done", "https://shop.example.com/login/done/more",
            "https://shop.example.com@evil.example/login/done", "https://shop.example.com:444/login/done",
            "http://shop.example.com/login/done", "//evil.example", "https://shop.example.com/login/done#x",
            "https://shop.example.com\\@evil.example/login/done", "javascript:alert(1)",
            "https://SHOP.example.com/login/done", "https://shop.example.com/login/done?ticket=x",
            "https://shop.example.com/login/done?a=1&st%61te=x", "https://shop.example.com/login/done\r\nX: y",
            // Names that a framework may read as one of the server's parameters.
            "https://shop.example.com/login/done?ticket[]=x", "https://shop.example.com/login/done?ticket%5Ba%5D=x",
            "https://shop.example.com/login/done?+ticket=x", "https://shop.example.com/login/done?%20state=x",
            "https://shop.example.com/login/done?a=1;ticket=x", "https://shop.example.com/login/done?;ticket=x",
            "https://shop.example.com/login/done?Ticket=x", "https://shop.example.com/login/done?error.x=y",
            "https://shop.example.com/login/done?ticket%00=x",
        ]
    )
    func returnAddress(address: String) async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let answer = try await browser.get("/login/kakao", ["return_to": address])
            #expect(answer.status == 400)
            #expect(answer.field == "return_to")
            #expect(answer.headerFields[.location] == nil)
        }
    }

    @Test("Without the cookie of this login there is no redirection, and no code is used")
    func otherBrowser() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let start = try await browser.get("/login/kakao", ["login_hint": "7"])
            let address = try #require(start.headerFields[.location])
            let kakao = service.kakao
            let back = try await kakao.browser.get(String(address.dropFirst(kakao.sandbox.url.utf8.count)))
            let path = String(try #require(back.headerFields[.location]).dropFirst(service.api.url.utf8.count))
            var victim = Browser(service.api)
            _ = try await victim.get("/login/kakao")
            let refused = try await victim.get(path)
            #expect(refused.status == 400)
            #expect(refused.problem == "unknown-login")
            #expect(refused.headerFields[.location] == nil)
            // The right browser can still use it, once.
            #expect(try await browser.get(path).location?["ticket"] != nil)
            #expect(try await browser.get(path).problem == "unknown-login")
            #expect(try await browser.get("/login/kakao/callback").status == 400)
        }
    }

    // MARK: Ends of logins

    private static func exchanges(_ service: TestService) -> Int {
        service.kakao.sandbox.stats.requests["/oauth/token"] ?? 0
    }

    /// Begins a login. Returns the path of Kakao's callback with a right code.
    private static func begin(
        _ browser: inout Browser,
        _ service: TestService,
        of userID: Int64 = 7
    ) async throws -> String {
        let start = try await browser.get("/login/kakao", ["login_hint": String(userID)])
        let address = try #require(start.headerFields[.location])
        let back = try await service.kakao.browser.get(
            String(address.dropFirst(service.kakao.sandbox.url.utf8.count))
        )
        return String(try #require(back.headerFields[.location]).dropFirst(service.api.url.utf8.count))
    }

    /// Returns the path of a callback with an invented code, of the login that another path belongs to.
    private static func forged(_ path: String, _ number: Int = 0) throws -> String {
        let state = try #require(Location(path)["state"])
        return "/login/kakao/callback?code=invented-\(number)&state=\(state)"
    }

    @Test("A login ends with its first callback: further ones get its outcome, and their codes are not used")
    func onceOnly() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let path = try await Self.begin(&browser, service)
            // A response may be lost, and an attacker keeps every cookie.
            let before = browser
            let ticket = try await browser.get(path).location?["ticket"]
            #expect(ticket != nil)
            for path in [path, try Self.forged(path), path + "&error=access_denied"] {
                var again = before
                #expect(try await again.get(path).location?["ticket"] == ticket)
            }
            #expect(Self.exchanges(service) == 1)

            var attacker = Browser(service.api)
            let other = try await Self.begin(&attacker, service)
            let cookies = attacker
            for number in 0..<5 {
                var attacker = cookies
                #expect(try await attacker.get(Self.forged(other, number)).location?["error"] == "server_error")
            }
            #expect(Self.exchanges(service) == 2)
            // The right code comes too late.
            #expect(try await attacker.get(other).location?["error"] == "server_error")
            #expect(Self.exchanges(service) == 2)

            var denied = Browser(service.api)
            let third = try await Self.begin(&denied, service)
            var repeated = denied
            let refusal = try Self.forged(third).replacing("code=invented-0", with: "error=access_denied")
            #expect(try await denied.get(refusal).location?["error"] == "access_denied")
            #expect(try await repeated.get(third).location?["error"] == "access_denied")
            #expect(Self.exchanges(service) == 2)
        }
    }

    @Test("A callback that is repeated while its code is exchanged gets the same ticket")
    func concurrent() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let path = try await Self.begin(&browser, service)
            let before = browser
            var fault = Fault(.latency)
            fault.path = "/oauth/token"
            fault.milliseconds = 600_000
            service.kakao.sandbox.add(fault)
            let calls = (0..<3).map { _ in
                Task {
                    var browser = before
                    return try await browser.get(path).location?["ticket"]
                }
            }
            try await eventually("the code is exchanged") { Self.exchanges(service) == 1 }
            service.kakao.endFaults()
            let tickets = try await calls.asyncMap { try await $0.value }
            #expect(tickets[0] != nil)
            #expect(Set(tickets).count == 1)
            #expect(Self.exchanges(service) == 1)
        }
    }

    @Test("A login that has ended on one server has ended on all")
    func otherServer() async throws {
        try await withAccounts { service in
            try await RunningServer.run(service.settings, log: service.log) { server in
                let other = TestService(
                    database: service.database,
                    kakao: service.kakao,
                    settings: service.settings,
                    server: server,
                    log: service.log
                )
                var browser = Browser(service.api)
                let path = try await Self.begin(&browser, service)
                var elsewhere = other.api.with(nil)
                elsewhere.headerFields[.cookie] = browser.cookies.map { "\($0.key)=\($0.value)" }.joined(
                    separator: "; "
                )
                #expect(try await browser.get(path).location?["ticket"] != nil)
                #expect(try await elsewhere.get(path).location?["error"] == "server_error")
                #expect(Self.exchanges(service) == 1)
                // The row outlives the cookie.
                let rows = "login_results WHERE result IS NULL AND ends_at > now() + interval '10 minutes'"
                #expect(try await service.database.count(rows) == 1)
            }
        }
    }

    @Test("A login whose end could not be stored has not ended")
    func databaseAway() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let path = try await Self.begin(&browser, service)
            try await service.database.pool.write("ALTER TABLE login_results RENAME TO hidden")
            #expect(try await browser.get(path).status == 500)
            #expect(Self.exchanges(service) == 0)
            try await service.database.pool.write("ALTER TABLE hidden RENAME TO login_results")
            #expect(try await browser.get(path).location?["ticket"] != nil)
        }
    }

    // MARK: Invented codes

    /// What Kakao answers to an invented code: a rejection, or an error that says nothing about it.
    enum CodeAnswer: CaseIterable {
        case rejection, userQuota, gateway

        func fault() -> Fault? {
            guard self != .rejection else { return nil }
            var fault = Fault(.status)
            fault.path = "/oauth/token"
            fault.status = self == .gateway ? 503 : 429
            if self == .userQuota { fault.oauthError = OAuthError(error: "", code: "KOE237") }
            return fault
        }
    }

    @Test(
        "Invented codes cause few calls and few lines in the log, whatever Kakao answers, and logins from other addresses succeed",
        arguments: CodeAnswer.allCases
    )
    func invented(answer: CodeAnswer) async throws {
        try await withAccounts {
            $0.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
            // Once the rejections are used up, an address has no turn but one.
            $0.accounts.loginLimits.network = RejectionPace.Rate(rejections: 3, inFlight: 2, interval: .seconds(36_000))
        } _: { service in
            if let fault = answer.fault() { service.kakao.sandbox.add(fault) }
            let start = ContinuousClock.now
            var refused = 0
            for number in 0..<20 {
                var attacker = Browser(service.api.from("203.0.113.7"))
                let path = try await Self.begin(&attacker, service)
                let answer = try await attacker.get(Self.forged(path, number))
                if answer.status == 302 {
                    #expect(answer.location?["error"] == "server_error")
                } else {
                    refused += 1
                    #expect(answer.problem == "too-many-requests")
                    #expect(answer.headerFields[.retryAfter] == "5")
                    let refresh = try #require(HTTPField.Name("Refresh"))
                    #expect(answer.headerFields[refresh] == "5")
                    // The login has not ended.
                    #expect(answer.headerFields[.setCookie] == nil)
                }
            }
            let seconds = Int((ContinuousClock.now - start).components.seconds) + 1
            // Three rejections, one slow turn, and another rejection each 20 s.
            #expect(Self.exchanges(service) <= 4 + seconds / 20)
            #expect(refused >= 16 - seconds / 20)
            let lines = service.log.lines.filter { $0.message == "Login failed" }
            #expect((1...seconds + 1).contains(lines.count))
            let repeated = lines.compactMap { $0.metadata["repeated"].flatMap { Int($0) } }.reduce(0, +)
            #expect(repeated + lines.count <= Self.exchanges(service))

            service.kakao.endFaults()
            var user = Browser(service.api.from("203.0.113.8"))
            #expect(try await user.logIn(at: service.kakao, ["login_hint": "8"]).location?["ticket"] != nil)
        }
    }

    @Test("While a quota of the app is used up no code is sent to Kakao, and browsers try again by themselves")
    func quota() async throws {
        try await withAccounts { service in
            var fault = Fault(.status)
            fault.path = "/oauth/token"
            fault.status = 429
            fault.oauthError = OAuthError(error: "too_many_requests", code: nil)
            fault.retryAfterSeconds = 60
            service.kakao.sandbox.add(fault)
            var browser = Browser(service.api)
            #expect(try await browser.logIn(at: service.kakao).location?["error"] == "server_error")
            for _ in 0..<3 {
                var browser = Browser(service.api)
                let answer = try await browser.logIn(at: service.kakao)
                #expect(answer.problem == "too-many-requests")
                let refresh = try #require(HTTPField.Name("Refresh"))
                #expect((1...60).contains(answer.headerFields[refresh].flatMap { Int($0) } ?? 0))
                #expect(answer.headerFields[.setCookie] == nil)
            }
            #expect(Self.exchanges(service) == 1)
        }
    }

    @Test("While Kakao is slow, callbacks wait for a connection, and operators' codes have connections of their own")
    func operatorsCodes() async throws {
        try await withAccounts {
            $0.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
            // Two connections of each event loop for logins, and two for operators' codes.
            $0.kakao.maximumConcurrentRequests = 1
        } _: { service in
            var fault = Fault(.latency)
            fault.path = "/oauth/token"
            fault.milliseconds = 600_000
            service.kakao.sandbox.add(fault)
            let callbacks = (0..<32).map { number in
                Task {
                    var attacker = Browser(service.api.from("203.0.113.\(number % 8)"))
                    let path = try await Self.begin(&attacker, service)
                    return try await attacker.get(Self.forged(path, number)).status
                }
            }
            try await eventually("callbacks wait for Kakao") { Self.exchanges(service) == 4 }
            let body: JSONValue = ["code": "code", "redirect_uri": "https://app.example.com"]
            let code = Task { try await service.api.post("/v1/login/code", json: body).status }
            try await eventually("the operator's code is sent") { Self.exchanges(service) == 5 }
            service.kakao.endFaults()
            #expect(try await code.value == 400)
            for callback in callbacks { #expect(try await [302, 429].contains(callback.value)) }
        }
    }

    @Test("Logins that end without a code cost nothing, and evict no outcome of one with a code")
    func endings() async throws {
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let callbacks = LoginCallbacks(AccountSettings().loginLimits, connections: 2)
        let network = try #require(SocketAddress("203.0.113.7")).network
        func outcome(_ id: String, _ outcome: LoginOutcome) async throws -> LoginOutcome {
            try await callbacks.outcome(of: id, from: network, on: loops.loops[0]) { outcome }
        }
        #expect(try await outcome("first", .ticket("ticket")) == .ticket("ticket"))
        for number in 0..<40_000 {
            #expect(callbacks.end("\(number)", .error("access_denied")) == .error("access_denied"))
        }
        #expect(try await outcome("first", .failed) == .ticket("ticket"))
        #expect(callbacks.end("first", .failed) == .ticket("ticket"))
        #expect(try await outcome("39999", .ticket("late")) == .error("access_denied"))
    }

    @Test("A person who shares an address with an attacker waits for a turn, and is logged in")
    func sharedAddress() async throws {
        try await withAccounts {
            $0.accounts.loginLimits.network = RejectionPace.Rate(
                rejections: 1,
                inFlight: 1,
                interval: .milliseconds(50)
            )
            $0.accounts.loginLimits.longestWait = .seconds(300)
        } _: { service in
            let attacks = (0..<30).map { number in
                Task {
                    var attacker = Browser(service.api)
                    let path = try await Self.begin(&attacker, service)
                    return try await attacker.get(Self.forged(path, number)).location?["error"]
                }
            }
            try await eventually("a code is rejected") { service.log.messages.contains("Login failed") }
            var tabs = Browser(service.api)
            let first = try await Self.begin(&tabs, service, of: 8)
            let second = try await Self.begin(&tabs, service, of: 9)
            #expect(try await tabs.get(first).location?["ticket"] != nil)
            #expect(try await tabs.get(second).location?["ticket"] != nil)
            for attack in attacks { #expect(try await attack.value == "server_error") }
        }
    }

    @Test("Logins that wait for Kakao do not hold up registrations, which have connections of their own")
    func connections() async throws {
        try await withAccounts {
            // One connection for requests on each loop, and two for logins.
            $0.kakao.maximumConcurrentRequests = 1
            // Logins give up their turn only after the registrations, however long these take.
            $0.accounts.loginLimits.longestWait = .seconds(600)
        } _: { service in
            var fault = Fault(.latency)
            fault.path = "/oauth/token"
            fault.milliseconds = 600_000
            service.kakao.sandbox.add(fault)
            let isAnswered = Locked(false)
            let logins = (1...12).map { number in
                Task {
                    defer { isAnswered.withLock { $0 = true } }
                    let body: JSONValue = [
                        "code": .string("code-\(number)"), "redirect_uri": "https://app.example.com",
                    ]
                    return try await service.api.post("/v1/login/code", json: body).status
                }
            }
            try await eventually("logins wait for Kakao") { Self.exchanges(service) >= 4 }
            for userID in 1...4 {
                #expect(try await service.api.register(Int64(userID), "token-\(userID)").status == 200)
            }
            #expect(!isAnswered.withLock { $0 }, "the registrations came after the logins")
            service.kakao.endFaults()
            for login in logins { _ = try await login.value }
        }
    }

    // MARK: Errors of Kakao

    @Test(
        "An error of Kakao leads back to the service, with its name if the service may know it",
        arguments: [("access_denied", "access_denied"), ("some_internal_error", "server_error")]
    )
    func kakaoError(error: String, shown: String) async throws {
        try await withAccounts { service in
            service.kakao.sandbox.failNextAuthorization(of: 7, with: error)
            var browser = Browser(service.api)
            let answer = try await browser.logIn(at: service.kakao, ["login_hint": "7", "state": "s"])
            #expect(answer.location?.base == Settings.returnURL)
            #expect(answer.location?["error"] == shown)
            #expect(answer.location?["error_description"] == nil)
            #expect(answer.location?["state"] == "s")
            #expect(answer.location?["ticket"] == nil)
        }
    }

    @Test("prompt=none tells the service that the user must log in, or consent")
    func silent() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let kakao = service.kakao
            let first = try await browser.logIn(at: kakao, ["login_hint": "7", "prompt": "none"])
            #expect(first.location?["error"] == "login_required")
            _ = try await browser.logIn(at: kakao, ["login_hint": "7"])
            let second = try await browser.logIn(at: kakao, ["login_hint": "7", "prompt": "none", "scope": "friends"])
            #expect(second.location?["error"] == "consent_required")
            let third = try await browser.logIn(at: kakao, ["login_hint": "7", "prompt": "none"])
            #expect(third.location?["ticket"] != nil)
        }
    }

    @Test("A login for one user refuses another Kakao account, and keeps the account as it is")
    func wrongAccount() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let kakao = service.kakao
            let refused = try await browser.logIn(at: kakao, ["user_id": "7", "login_hint": "8"])
            #expect(refused.location?["error"] == "wrong_account")
            #expect(try await service.account(8)?["state"] == nil)
            let answer = try await browser.logIn(at: kakao, ["user_id": "7", "login_hint": "7"])
            #expect(answer.location?["ticket"] != nil)
        }
    }

    @Test("While Kakao issues no tokens, the user returns with server_error")
    func unavailable() async throws {
        try await withAccounts { service in
            var fault = Fault(.status)
            fault.path = "/oauth/token"
            fault.status = 503
            service.kakao.sandbox.add(fault)
            var browser = Browser(service.api)
            let answer = try await browser.logIn(at: service.kakao, ["login_hint": "7", "state": "s"])
            #expect(answer.location?["error"] == "server_error")
            #expect(answer.location?["state"] == "s")
        }
    }

    @Test("Several windows log in at the same time, and a changed cookie is refused")
    func windows() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            let first = try await browser.get("/login/kakao", ["login_hint": "7", "state": "one"])
            _ = try await browser.get("/login/kakao", ["login_hint": "8", "state": "two"])
            #expect(browser.cookies.count == 2)
            let address = try #require(first.headerFields[.location])
            let kakao = service.kakao
            let back = try await kakao.browser.get(String(address.dropFirst(kakao.sandbox.url.utf8.count)))
            let path = String(try #require(back.headerFields[.location]).dropFirst(service.api.url.utf8.count))
            #expect(try await browser.get(path).location?["state"] == "one")
            #expect(browser.cookies.count == 1)
        }
    }

    @Test("A browser keeps a few logins in progress, whose cookies it can store")
    func limits() async throws {
        try await withAccounts { service in
            var browser = Browser(service.api)
            for _ in 0..<6 { #expect(try await browser.get("/login/kakao").status == 302) }
            #expect(browser.cookies.count == 4)
            let long = String(repeating: "x", count: 2000)
            #expect(try await browser.get("/login/kakao", ["state": String(long.prefix(1024))]).status == 302)
            let answer = try await browser.get(
                "/login/kakao",
                ["state": String(long.prefix(1024)), "return_to": "\(Settings.returnURL)?a=\(long.prefix(1100))"]
            )
            #expect(answer.status == 400)
            // Browsers keep no cookie of more than 4096 bytes, and JSON doubles some characters.
            for character in ["\"", "\\"] {
                let state = String(repeating: character, count: 1000)
                let answer = try await browser.get("/login/kakao", ["state": state])
                #expect(answer.status == 302)
                #expect((answer.headerFields[.setCookie]?.utf8.count ?? 0) < 4096)
                let longer = try await browser.get(
                    "/login/kakao",
                    ["state": state, "return_to": "\(Settings.returnURL)?a=\(long.prefix(900))"]
                )
                #expect(longer.status == 400)
                #expect(longer.field == "state")
            }
        }
    }

    @Test("Without return addresses there is no login in a browser")
    func switchedOff() async throws {
        try await withAccounts {
            $0.accounts.returnURLs = []
        } _: { service in
            for path in ["/login/kakao", "/login/kakao/callback"] {
                let answer = try await service.api.with(nil).get(path)
                #expect(answer.status == 409)
                #expect(answer.problem == "not-configured")
            }
        }
    }
}
