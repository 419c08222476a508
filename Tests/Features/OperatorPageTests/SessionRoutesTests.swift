import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of `/v1/session`, where operators sign in to the page with a key.
@Suite(.timeLimit(.minutes(5))) struct SessionRoutesTests {
    private static let path = "/v1/session"

    /// Returns a browser without a credential.
    ///
    /// - Parameter site: `Sec-Fetch-Site`, as a page of this server causes it.
    private static func browser(_ service: TestService, site: String? = "same-origin") -> TestClient {
        var browser = service.api.with(nil)
        browser.headerFields[.fetchSite] = site
        return browser
    }

    /// Signs in with a key, and returns the browser with the cookie.
    private static func signIn(_ browser: TestClient, _ key: String = Keys.operator) async throws -> TestClient {
        let response = try await browser.post(path, json: ["key": .string(key)])
        #expect(response.status == 204, "\(response.text)")
        let field = try #require(response.headerFields[.setCookie])
        var signedIn = browser
        signedIn.headerFields[.cookie] = "theme=dark; \(field.prefix { $0 != ";" }); other=1"
        return signedIn
    }

    /// Creates a key with a role, and returns it and its path.
    private static func key(_ api: TestClient, _ role: String) async throws -> (key: String, path: String) {
        let answer = try await api.post("/v1/keys", json: ["name": "kim", "role": .string(role)])
        return (try #require(answer.json?["key"]?.string), try #require(answer.headerFields[.location]))
    }

    @Test("A key signs in; the cookie stands for it, with its scopes and its name, until the operator signs out")
    func session() async throws {
        try await withService { service in
            let browser = Self.browser(service)
            let (key, _) = try await Self.key(service.api, "marketing")
            let response = try await browser.post(Self.path, json: ["key": .string(key)])
            #expect(response.headerFields[.cacheControl] == "no-store")
            let field = try #require(response.headerFields[.setCookie])
            #expect(
                field.wholeMatch(
                    of: /__Host-push-session=[0-9a-f]{64}; Max-Age=43200; Path=\/; Secure; HttpOnly; SameSite=Strict/
                ) != nil,
                "\(field)"
            )
            let page = try await Self.signIn(browser, key)
            let shown = try #require(try await page.get(Self.path).json)
            #expect(shown["name"] == "kim")
            #expect(shown["scopes"] == ["read", "send", "sharing"])
            #expect(shown["app"] == ["id": .null, "name": .null])
            #expect(shown["session"]?["address"] == "127.0.0.1")
            #expect(try await page.get("/v1/pushes").status == 200)
            #expect(try await page.get("/v1/keys").problem == "missing-scope")
            #expect(try await page.get("/v1/sessions").json?["items"]?.array?.count == 2)
            let records = try await service.api.get("/v1/audit", ["operation": "createSession"])
            #expect(records.json?["items"]?.array?.map { $0["actor"]?["name"] } == ["kim", "kim"])

            let ended = try await page.delete(Self.path)
            #expect(ended.status == 204)
            #expect(ended.headerFields[.setCookie]?.contains("=; Max-Age=0") == true)
            try await eventually("the session has ended") { try await page.get(Self.path).status == 401 }
            #expect(try await service.api.get(Self.path).json?["session"] == .null)
            let end = try await service.api.get("/v1/audit", ["operation": "deleteSession"])
            #expect(end.json?["items"]?.array?.map { $0["actor"]?["name"] } == ["kim"])
        }
    }

    @Test(
        "With the cookie, only the page itself may call: neither another site nor a client that does not say where it is"
    )
    func forgery() async throws {
        try await withService { service in
            let page = try await Self.signIn(Self.browser(service))
            let host = String(service.api.url.dropFirst("http://".count))
            for (site, origin, status) in [
                ("same-origin", nil, 200), ("same-site", nil, 403), ("cross-site", nil, 403), ("none", nil, 403),
                ("cross-site", "http://\(host)", 403), (nil, nil, 403), (nil, "http://\(host)", 200),
                (nil, "http://evil.example", 403), (nil, "null", 403), (nil, "http://\(host).evil.example", 403),
            ] as [(String?, String?, Int)] {
                var caller = page
                caller.headerFields[.fetchSite] = site
                caller.headerFields[.origin] = origin
                let response = try await caller.post("/v1/sender/start", json: [:])
                #expect(response.status == status, "\(site ?? "-") \(origin ?? "-"): \(response.text)")
                if status == 403 { #expect(response.problem == "foreign-origin") }
                var browser = caller
                browser.headerFields[.cookie] = nil
                let signIn = try await browser.post(Self.path, json: ["key": .string(Keys.operator)])
                #expect(signIn.status == (status == 200 ? 204 : 403), "\(signIn.text)")
            }
            for (site, status) in [("none", 200), (nil, 200), ("cross-site", 403), ("same-site", 403)] {
                var caller = page
                caller.headerFields[.fetchSite] = site
                #expect(try await caller.get("/v1/pushes").status == status, "\(site ?? "-")")
            }
            // A key in the header decides, and no page of another site can send one.
            var caller = page.with("Bearer \(Keys.operator)")
            caller.headerFields[.fetchSite] = "cross-site"
            #expect(try await caller.get("/v1/pushes").status == 200)
        }
    }

    @Test("Without TLS, operators sign in only on the server's machine, and only under its own names")
    func place() async throws {
        try await withService { service in
            let page = try await Self.signIn(Self.browser(service))
            let port = service.api.url.split(separator: ":").last.map(String.init) ?? ""
            let cookie = try #require(page.headerFields[.cookie])
            for (host, status) in [
                ("localhost:\(port)", "200"), ("127.0.0.1", "200"), ("[::1]:\(port)", "200"), ("LOCALHOST", "200"),
                ("evil.example:\(port)", "403"), ("localhost.evil.example", "403"), ("127.0.0.1.evil.example", "403"),
                ("[::2]", "403"), ("10.0.0.1", "403"),
            ] {
                // The test's client sends a Host of its own.
                let answer = try await Program.run(
                    [
                        "curl", "-s", "-w", "%{http_code}", "-H", "Host: \(host)", "-H", "Cookie: \(cookie)",
                        "-H", "Sec-Fetch-Site: same-origin", "\(service.api.url)/v1/pushes",
                    ],
                    environment: [:]
                )
                #expect(answer.text.hasSuffix(status), "\(host): \(answer.text)")
                #expect(answer.text.contains(":insecure-page\"") == (status == "403"), "\(host): \(answer.text)")
            }
            for name in ["X-Forwarded-For", "Forwarded", "X-Forwarded-Proto"] {
                var caller = page
                caller.headerFields[try #require(HTTPField.Name(name))] = "https"
                #expect(try await caller.get("/v1/pushes").problem == "insecure-page", "\(name)")
            }
        }
    }

    @Test("A revoked key ends its sessions and their event streams")
    func revoked() async throws {
        try await withService { service in
            let (key, path) = try await Self.key(service.api, "support")
            let page = try await Self.signIn(Self.browser(service), key)
            #expect(try await page.get(Self.path).status == 200)
            let push = try await service.api.create(["everyone": true], gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            let reader = page.with(nil)
            let stream = try RawUpload(reader, "\(push)/events", length: 0, method: "GET")
            async let received = stream.answer()
            #expect(try await service.api.delete(path).status == 204)
            try await eventually("the session has ended") { try await page.get(Self.path).status == 401 }
            let events = try await received
            #expect(events.contains("event: push\ndata: {") && events.hasSuffix("0\r\n\r\n"), "\(events)")
            #expect(try await Self.browser(service).post(Self.path, json: ["key": .string(key)]).status == 401)
        }
    }

    @Test("Downloads, keys and erasures need a key that was entered in the last five minutes")
    func confirmation() async throws {
        try await withService { service in
            let page = try await Self.signIn(Self.browser(service))
            #expect(try await page.delete("/v1/users/7").status == 204)
            try await service.database.pool.write(
                "UPDATE operator_sessions SET started_at = started_at - interval '6 minutes'"
            )
            try await eventually("the key was entered long ago") {
                try await page.delete("/v1/users/7").problem == "key-required"
            }
            #expect(try await page.post("/v1/keys", json: ["name": "x", "role": "support"]).problem == "key-required")
            #expect(try await page.get("/v1/devices/export", ["reason": "test"]).problem == "key-required")
            #expect(try await page.get("/v1/audit/export", ["reason": "test"]).problem == "key-required")
            #expect(try await page.get("/v1/devices").status != 401)
            let again = try await Self.signIn(page)
            #expect(try await again.delete("/v1/users/7").status == 204)
            // The new session has replaced the old one.
            try await eventually("the old session has ended") { try await page.get(Self.path).status == 401 }
        }
    }

    @Test("A key has 20 sessions at most: the oldest ends; each can be ended by its id, and only by its key")
    func limit() async throws {
        try await withService { service in
            let first = try await Self.signIn(Self.browser(service))
            for _ in 0..<20 { _ = try await Self.signIn(Self.browser(service)) }
            try await eventually("the oldest has ended") { try await first.get(Self.path).status == 401 }
            let page = try await Self.signIn(Self.browser(service))
            let items = try #require(try await page.get("/v1/sessions").json?["items"]?.array)
            #expect(items.count == 20)
            let id = try #require(items.first?["id"]?.string)
            let (key, _) = try await Self.key(service.api, "security")
            let other = service.api.with("Bearer \(key)")
            #expect(try await other.delete("/v1/sessions/\(id)").status == 404)
            #expect(try await page.delete("/v1/sessions/\(id)").status == 204)
            #expect(try await page.delete("/v1/sessions/\(id)").status == 404)
            let end = try await service.api.get("/v1/audit", ["operation": "deleteOneSession"])
            #expect(end.json?["items"]?.array?.map { $0["object"] } == [.string(id)])
        }
    }

    @Test("Invalid keys and invented cookies make their address wait; a session that has ended does not")
    func pace() async throws {
        try await withService { service in
            let page = try await Self.signIn(Self.browser(service))
            #expect(try await page.delete(Self.path).status == 204)
            try await eventually("the session has ended") { try await page.get(Self.path).status == 401 }
            for _ in 0..<20 { #expect(try await page.get(Self.path).status == 401) }
            for _ in 0..<5 {
                #expect(try await Self.browser(service).post(Self.path, json: ["key": "x"]).status == 401)
            }
            let refused = try await Self.browser(service).post(Self.path, json: ["key": "kps_1"])
            #expect(refused.problem == "too-many-bad-keys")
            #expect(refused.headerFields[.retryAfter] != nil)
            // While the address waits, a key that was accepted before signs in, and its session is accepted.
            let again = try await Self.signIn(Self.browser(service))
            #expect(try await again.get(Self.path).status == 200)
        }
    }

    @Test("The cookie is stored nowhere")
    func secrecy() async throws {
        try await withService { service in
            let page = try await Self.signIn(Self.browser(service))
            let cookie = try #require(page.headerFields[.cookie]?.firstMatch(of: /[0-9a-f]{64}/)).output
            _ = try await page.get("/v1/pushes")
            #expect(
                try await service.database.count("operator_sessions AS row WHERE row::text LIKE '%\(cookie)%'") == 0
            )
            #expect(!service.log.lines.contains { $0.text.contains(cookie) })
        }
    }
}

extension HTTPField.Name {
    fileprivate static let fetchSite = unvalidated("Sec-Fetch-Site")
}
