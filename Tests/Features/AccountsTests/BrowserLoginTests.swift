import Crypto
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts
@testable import Endpoints

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
                ["state": String(long.prefix(1024)), "return_to": "\(Settings.returnURL)?a=\(long.prefix(1000))"]
            )
            #expect(answer.status == 400)
        }
    }

    @Test("Without return addresses there is no login in a browser")
    func notOffered() async throws {
        try await withAccounts {
            $0.accounts.returnURLs = []
        } _: { service in
            for path in ["/login/kakao", "/login/kakao/callback"] {
                let answer = try await service.api.with(nil).get(path)
                #expect(answer.status == 404)
            }
        }
    }
}
