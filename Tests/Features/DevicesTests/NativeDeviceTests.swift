import Crypto
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Net
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Tests of `/v1/devices`, the REST API for users' apps.
@Suite(.timeLimit(.minutes(5))) struct NativeDeviceTests {
    private static let nativeKey = "native-app-key"
    private static let issuer = "https://backend.example.com"
    private static let backendSecret = "secret-of-the-backend-of-the-tests-0123"

    /// Runs a service that accepts users' tokens of every kind.
    private static func withUsers(_ body: (TestService) async throws -> Void) async throws {
        try await withService(
            { settings in
                settings.kakao.appID = 123_456
                settings.identity.acceptsKakaoAccessTokens = true
                settings.kakao.authURL = settings.kakao.apiURL
                settings.kakao.nativeAppKey = nativeKey
                settings.identity.acceptsKakaoIDTokens = true
                settings.identity.backend = IdentitySettings.Backend(
                    issuer: issuer,
                    audience: "push",
                    keys: .secret(Secret(backendSecret))
                )
            },
            body
        )
    }

    /// Returns a caller with a Kakao Login access token of this user.
    private static func app(_ service: TestService, of userID: Int64) throws -> TestClient {
        service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: userID)))")
    }

    private static let phone: JSONObject = ["push_type": "fcm", "push_token": "token"]

    /// Registers a device.
    ///
    /// - Parameters:
    ///   - device: The device id as it is in the path, with a query if there is one.
    ///   - changes: Changes to the body, which is ``phone`` without them. `null` omits a member.
    private static func put(
        _ caller: TestClient,
        _ device: String = "phone",
        _ changes: JSONObject = [:]
    ) async throws -> HTTPClientResponse {
        var body = phone
        for (name, value) in changes.members { body[name] = value }
        return try await caller.put("/v1/devices/\(device)", JSONValue.object(body).bytes(), type: "application/json")
    }

    private static func items(
        _ caller: TestClient,
        _ query: KeyValuePairs<String, String> = [:]
    ) async throws -> [JSONValue] {
        try await caller.get("/v1/devices", query).json?["items"]?.array ?? []
    }

    // MARK: Callers

    @Test("A user registers, lists and removes its own devices with each kind of token, and need not specify uuid")
    func users() async throws {
        try await Self.withUsers { service in
            let claims: JSONObject = [
                "iss": .string(Self.issuer), "aud": "push", "sub": "7", "exp": .integer(TestSigner.now + 600),
            ]
            let tokens = [
                try #require(service.kakao.sandbox.accessToken(of: 7)),
                try await service.kakao.sandbox.idToken(of: 7, appKey: Self.nativeKey),
                TestSigner.hs256(claims, secret: Array(Self.backendSecret.utf8)),
            ]
            for token in tokens {
                let app = service.api.with("Bearer \(token)")
                #expect(try await Self.put(app).status == 201)
                #expect(try await service.kakao.tokens(of: 7) == ["phone gcm token"])
                #expect(try await Self.items(app).map { $0["user_id"] } == ["7"])
                // The user may also specify its own uuid.
                #expect(try await Self.put(app, "phone?uuid=7").status == 200)
                #expect(try await Self.put(app, "phone", ["uuid": 7]).status == 200)
                #expect(try await Self.items(app, ["uuid": "7"]).count == 1)
                #expect(try await app.delete("/v1/devices/phone?uuid=7").status == 204)
                #expect(try await Self.items(app).isEmpty)
                #expect(try await service.kakao.tokens(of: 7).isEmpty)
                // A user's token is not a key.
                #expect(try await Self.put(app.with("KakaoAK \(token)")).status == 401)
            }
        }
    }

    @Test("An operator key with the scope devices does the same for any user, and must specify uuid")
    func operators() async throws {
        try await Self.withUsers { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            let made = try await store.create(name: "devices", scopes: [.devices], expiresAt: nil)
            for key in ["Bearer \(Keys.operator)", "KakaoAK \(Keys.operator)", "Bearer \(made)", "KakaoAK \(made)"] {
                let backend = service.api.with(key)
                #expect(try await Self.put(backend, "phone?uuid=7").status == 201)
                #expect(try await Self.put(backend, "phone", ["uuid": "7"]).status == 200)
                #expect(try await Self.items(backend, ["uuid": "7"]).count == 1)
                #expect(try await Self.items(backend, ["uuid": "8"]).isEmpty)
                #expect(try await backend.delete("/v1/devices/phone?uuid=8").status == 204)
                #expect(try await service.kakao.tokens(of: 7).count == 1)
                #expect(try await backend.delete("/v1/devices/phone?uuid=7").status == 204)
                #expect(try await service.kakao.tokens(of: 7).isEmpty)

                for answer in [
                    try await Self.put(backend), try await backend.get("/v1/devices"),
                    try await backend.delete("/v1/devices/phone"),
                    try await Self.put(backend, "phone?uuid=7", ["uuid": 7]),
                    try await Self.put(backend, "phone?uuid=0"),
                ] {
                    #expect(answer.status == 400)
                    #expect(answer.field == "user_id")
                }
            }
        }
    }

    @Test("A request without a valid token or key gets 401, and one with a key of another scope 403")
    func refused() async throws {
        try await Self.withUsers { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            let made = try await store.create(name: "other", scopes: [.send, .read], expiresAt: nil)
            let expired = try #require(service.kakao.sandbox.accessToken(of: 7, expiresInSeconds: 0))
            for (authorization, status) in [
                (nil, 401), ("Bearer wrong", 401), ("Bearer \(expired)", 401), ("KakaoAK \(Keys.admin)", 401),
                ("Bearer \(made)", 403), ("KakaoAK \(made)", 403),
            ] {
                let caller = service.api.with(authorization)
                for answer in [
                    try await Self.put(caller, "phone?uuid=7"), try await caller.get("/v1/devices", ["uuid": "7"]),
                    try await caller.delete("/v1/devices/phone?uuid=7"),
                ] {
                    #expect(answer.status == status)
                    #expect((answer.headerFields[.wwwAuthenticate] != nil) == (status == 401))
                }
            }
            #expect(try await service.database.count("devices") == 0)
            #expect(service.kakao.calls.isEmpty)
        }
    }

    @Test("A user cannot see, remove or replace another user's device, nor specify another user's uuid")
    func otherUsers() async throws {
        try await Self.withUsers { service in
            let mine = try Self.app(service, of: 7)
            let other = try Self.app(service, of: 8)
            #expect(try await Self.put(other, "phone", ["push_token": "of 8"]).status == 201)
            for answer in [
                try await Self.put(mine, "phone?uuid=8"), try await Self.put(mine, "phone", ["uuid": "8"]),
                try await mine.get("/v1/devices", ["uuid": "8"]), try await mine.delete("/v1/devices/phone?uuid=8"),
            ] {
                #expect(answer.status == 403)
                #expect(answer.json?["type"] == "urn:kakao-push-server:error:another-user")
            }
            #expect(try await Self.items(mine).isEmpty)
            // The user's own device with the same id is a different device.
            #expect(try await mine.delete("/v1/devices/phone").status == 204)
            #expect(try await Self.put(mine).status == 201)
            #expect(try await mine.delete("/v1/devices/phone").status == 204)
            #expect(try await service.kakao.tokens(of: 8) == ["phone gcm of 8"])
            #expect(try await Self.items(other).map { $0["device_id"] } == ["phone"])
        }
    }

    // MARK: Requests and responses

    @Test(
        "The response is the device as operators see it, with a masked token: 201 if it is new, 200 if it was known"
    )
    func shape() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            let token = "abcdefghijklmnopqrstuvwxyz"
            let changes: JSONObject = [
                "push_token": .string(token), "locale": "ko-KR", "timezone": "Asia/Seoul", "app_version": "1.2.3",
                "tags": ["여행", "deals"],
            ]
            let first = try await Self.put(app, "phone", changes)
            #expect(first.status == 201)
            #expect(first.headerFields[.contentType] == "application/json;charset=UTF-8")
            let device = try #require(first.json?.object)
            #expect(device["user_id"] == "7")
            #expect(device["device_id"] == "phone")
            #expect(device["push_type"] == "fcm")
            #expect(device["push_token"] == "abcd…wxyz")
            #expect(device["state"] == "registered")
            #expect(device["locale"] == "ko-KR")
            #expect(device["timezone"] == "Asia/Seoul")
            #expect(device["app_version"] == "1.2.3")
            #expect(device["tags"] == ["여행", "deals"])
            #expect(device["failures"] == 0)
            #expect(device["expires_at"]?.string?.hasSuffix("Z") == true)

            let listed = try await app.get("/v1/devices")
            #expect(listed.json == ["items": [.object(device)], "next": nil])
            #expect(try await service.api.get("/v1/users/7/devices").json == listed.json)
            #expect(!(first.text + listed.text).contains(token))

            // A registration replaces all members: omitted ones are removed.
            let second = try await Self.put(app)
            #expect(second.status == 200)
            #expect(second.json?["created_at"] == device["created_at"])
            #expect(second.json?["updated_at"] != device["updated_at"])
            #expect(second.json?["locale"] == .null)
            #expect(second.json?["tags"] == [])
        }
    }

    @Test("A form is accepted like JSON, and gcm is a synonym of fcm")
    func forms() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            for type in ["apns", "gcm", "fcm"] {
                var form = FormBody()
                form.append("push_type", type)
                form.append("push_token", "a:b+c/d= \(type)")
                form.append("tags", #"["여행"]"#)
                let answer = try await app.put("/v1/devices/phone", form.bytes, type: FormBody.contentType)
                #expect(answer.status == (type == "fcm" ? 200 : 201))
                #expect(answer.json?["push_type"]?.string == (type == "apns" ? "apns" : "fcm"))
                #expect(answer.json?["tags"] == ["여행"])
            }
            #expect(
                try await service.kakao.tokens(of: 7).sorted() == [
                    "phone apns a:b+c/d= apns", "phone gcm a:b+c/d= fcm",
                ]
            )
        }
    }

    @Test("A registration and a removal are idempotent")
    func repeated() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            for status in [201, 200, 200] { #expect(try await Self.put(app).status == status) }
            #expect(try await service.database.count("devices") == 1)
            #expect(try await service.kakao.tokens(of: 7) == ["phone gcm token"])
            for _ in 0..<3 {
                let answer = try await app.delete("/v1/devices/phone")
                #expect(answer.status == 204)
                #expect(answer.body.isEmpty)
            }
            #expect(try await service.database.count("devices") == 0)
            #expect(try await service.kakao.tokens(of: 7).isEmpty)
            #expect(try await Self.put(app).status == 201)
        }
    }

    @Test("A new push token replaces the previous one")
    func newToken() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            #expect(try await Self.put(app, "phone", ["push_token": "first"]).status == 201)
            #expect(try await Self.put(app, "phone", ["push_token": "second"]).status == 200)
            #expect(try await service.kakao.tokens(of: 7) == ["phone gcm second"])
        }
    }

    @Test(
        "A phone on which another user signs in is deregistered for the first user before it is registered for the second"
    )
    func changesUser() async throws {
        try await Self.withUsers { service in
            let first = try Self.app(service, of: 7)
            let second = try Self.app(service, of: 8)
            #expect(try await Self.put(first).status == 201)
            #expect(try await Self.put(second).status == 201)
            #expect(service.kakao.calls == ["register 200", "deregister 200", "register 200"])
            #expect(try await Self.items(first).isEmpty)
            #expect(try await service.kakao.tokens(of: 7).isEmpty)
            #expect(try await service.kakao.tokens(of: 8) == ["phone gcm token"])
            // The first user's app sends its removal late.
            #expect(try await first.delete("/v1/devices/phone").status == 204)
            #expect(try await service.kakao.tokens(of: 8) == ["phone gcm token"])
        }
    }

    @Test("A removal applies to its push_type, or without one to each push type of the device")
    func pushTypes() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            func register() async throws {
                for type in ["apns", "fcm"] {
                    _ = try await Self.put(app, "phone", ["push_type": .string(type), "push_token": .string(type)])
                }
            }
            try await register()
            #expect(try await app.delete("/v1/devices/phone?push_type=apns").status == 204)
            #expect(try await service.kakao.tokens(of: 7) == ["phone gcm fcm"])
            #expect(try await app.delete("/v1/devices/phone?push_type=gcm").status == 204)
            #expect(try await service.kakao.tokens(of: 7).isEmpty)
            try await register()
            #expect(try await app.delete("/v1/devices/phone").status == 204)
            #expect(try await service.kakao.tokens(of: 7).isEmpty)
            #expect(service.kakao.requests("deregister") == 4)
            for query in ["push_type=", "push_type=web", "push_type=apns&push_type=fcm"] {
                #expect(try await app.delete("/v1/devices/phone?\(query)").field == "push_type")
            }
            // If it were ignored, a misspelt name would remove more than was meant.
            #expect(try await app.delete("/v1/devices/phone?pushtype=apns").field == "pushtype")
        }
    }

    @Test("A device that only Kakao knows is removed there")
    func unknownHere() async throws {
        try await Self.withUsers { service in
            let kakao = TestClient(url: service.kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)")
            for type in ["gcm", "apns"] { _ = try await kakao.register(7, "token of \(type)", type: type) }
            #expect(try await Self.app(service, of: 7).delete("/v1/devices/phone").status == 204)
            #expect(try await service.kakao.tokens(of: 7).isEmpty)
            #expect(try await service.database.count("devices") == 0)
        }
    }

    @Test("Devices are listed in pages, for their user and for operators")
    func pages() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            let ids = ["a", "b:c", "b d", "전화"]
            for id in ids { _ = try await Self.put(app, Self.encoded(id), ["push_token": .string("of \(id)")]) }
            _ = try await Self.put(app, "a", ["push_type": "apns", "push_token": "apple"])
            _ = try await Self.put(try Self.app(service, of: 8), "a", ["push_token": "of 8"])
            for (caller, path) in [(app, "/v1/devices"), (service.api, "/v1/users/7/devices")] {
                var seen: [String] = []
                var cursor: String?
                repeat {
                    let query: KeyValuePairs =
                        if let cursor { ["limit": "2", "cursor": cursor] } else { ["limit": "2"] }
                    let page = try #require(try await caller.get(path, query).json)
                    let items = page["items"]?.array ?? []
                    #expect((1...2).contains(items.count))
                    for item in items {
                        #expect(item["user_id"] == "7")
                        seen.append("\(item["device_id"]?.string ?? "") \(item["push_type"]?.string ?? "")")
                    }
                    cursor = page["next"]?.string
                } while cursor != nil && seen.count < 10
                #expect(seen.count == 5)
                #expect(Set(seen) == Set(ids.map { "\($0) fcm" } + ["a apns"]))
                for cursor in ["x", "web:a", ":", ""] {
                    #expect(try await caller.get(path, ["cursor": cursor]).field == "cursor")
                }
                #expect(try await caller.get(path, ["limit": "1001"]).field == "limit")
            }
        }
    }

    // MARK: Outages and rejections

    @Test("While Kakao is down, a registration gets 202 and is pending. It completes when Kakao is back")
    func registeredLater() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            // Kakao verifies the access token while it is still up.
            #expect(try await Self.items(app).isEmpty)
            service.kakao.fail("*", .down)
            for _ in 0..<2 {
                let answer = try await Self.put(app)
                #expect(answer.status == 202)
                #expect(answer.json?["state"] == "pending")
                #expect(answer.json?["device_id"] == "phone")
                #expect(answer.json?["expires_at"] == .null)
            }
            #expect(try await Self.items(app).map { $0["state"] } == ["pending"])
            service.kakao.sandbox.removeFaults()
            try await eventually("the device is registered") {
                try await Self.items(app).map { $0["state"] } == ["registered"]
            }
            #expect(try await service.kakao.tokens(of: 7) == ["phone gcm token"])
            #expect(try await Self.put(app).status == 200)
        }
    }

    @Test("While Kakao is down, a removal gets 202. It completes when Kakao is back")
    func removedLater() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            _ = try await Self.put(app)
            service.kakao.fail("*", .down)
            for _ in 0..<2 {
                let answer = try await app.delete("/v1/devices/phone")
                #expect(answer.status == 202)
                #expect(answer.json == ["state": "pending"])
                #expect(try await Self.items(app).isEmpty)
            }
            service.kakao.sandbox.removeFaults()
            try await eventually("no device is left") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 7).isEmpty)
        }
    }

    @Test(
        "A registration that Kakao rejects fails with Kakao's code and error text, without the token, and is not stored"
    )
    func refusedByKakao() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            let token = "dGhpcyBpcyBhIHRva2Vu:0123456789abcdef"
            service.kakao.fail("register", status: 403, code: -4, times: 1) {
                $0.message = "blocked: pushToken=\(token)"
            }
            let answer = try await Self.put(app, "phone", ["push_token": .string(token)])
            #expect(answer.status == 403)
            #expect(answer.json?["code"] == -4)
            #expect(answer.json?["type"] == "urn:kakao-push-server:error:refused-by-kakao")
            #expect(answer.json?["msg"]?.string?.contains("blocked") == true)
            #expect(!answer.text.contains("0123456789abcdef"))
            try await eventually("no device is left") { try await service.database.count("devices") == 0 }
        }
    }

    @Test("A registration whose token another user has registered meanwhile gets 409")
    func overtaken() async throws {
        try await Self.withUsers { service in
            let first = try Self.app(service, of: 7)
            let second = try Self.app(service, of: 8)
            let hold = service.kakao.hold("register", times: 1, of: [7])
            async let late = Self.put(first)
            try await eventually("the first registration is in flight") { service.kakao.requests("register") == 1 }
            let answer = try await Self.put(second)
            #expect(answer.status == 202)
            #expect(answer.json?["state"] == "pending")
            service.kakao.release(hold)
            #expect(try await late.status == 409)
            #expect(try await late.json?["type"] == "urn:kakao-push-server:error:conflict")
            try await eventually("the second user has the token") {
                try await service.kakao.tokens(of: 8) == ["phone gcm token"]
            }
            #expect(try await service.kakao.tokens(of: 7).isEmpty)
        }
    }

    // MARK: Invalid and extreme input

    @Test(
        "The response to an invalid body has the name of the invalid field. Nothing is stored, and Kakao is not called"
    )
    func badInput() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            let long = String(repeating: "x", count: 4097)
            let cases: [(field: String, value: JSONValue)] = [
                ("push_type", .null), ("push_type", "web"), ("push_type", ""), ("push_type", "FCM"), ("push_type", 1),
                ("push_type", ["fcm"]), ("push_token", .null), ("push_token", ""), ("push_token", .string(long)),
                ("push_token", "a\nb"), ("push_token", 7), ("push_token", "nul\u{0}"), ("locale", ""),
                ("locale", .string(String(repeating: "a", count: 36))), ("locale", ["ko"]),
                ("timezone", .string(String(repeating: "a", count: 65))),
                ("app_version", .string(String(repeating: "a", count: 65))), ("app_version", 15),
                ("tags", "deals"), ("tags", [""]), ("tags", [1]), ("tags", ["a": "b"]),
                ("tags", [.string(String(repeating: "a", count: 65))]),
                ("tags", .array((0..<51).map { .string("tag \($0)") })),
                ("user_id", 0), ("user_id", "x"), ("user_id", [7]), ("device_id", "phone"), ("pushToken", "token"),
            ]
            for (field, value) in cases {
                let answer = try await Self.put(app, "phone", [field: value])
                #expect(answer.status == 400, "\(field) \(value)")
                #expect(answer.field == field, "\(field) \(value)")
                #expect(answer.json?["allowed"]?.string?.isEmpty == false)
                #expect(answer.headerFields[.contentType] == "application/problem+json")
            }
            let path = "/v1/devices/phone"
            for body in ["", "{", "[]", "null", "\"text\""] {
                #expect(try await app.put(path, Array(body.utf8), type: "application/json").status == 400, "\(body)")
            }
            #expect(try await app.put(path, Array("{}".utf8), type: "text/plain").status == 415)
            #expect(try await app.put(path, Array("{}".utf8), type: nil).status == 415)
            #expect(try await app.get("/v1/devices", ["device_id": "phone"]).field == "device_id")
            for (answer, allowed) in [
                (try await app.get(path), "PUT, DELETE"), (try await app.post(path, form: [:]), "PUT, DELETE"),
                (try await app.delete("/v1/devices"), "GET, HEAD"),
            ] {
                #expect(answer.status == 405)
                #expect(answer.headerFields[.allow] == allowed)
            }
            #expect(try await service.database.count("devices") == 0)
            #expect(service.kakao.calls.isEmpty)
        }
    }

    /// Returns the text as a percent-encoded path segment.
    private static func encoded(_ text: String) -> String {
        text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    @Test("Any percent-encoded text is a valid device id: a slash, a question mark, a percent sign, Hangul")
    func deviceIDs() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            let ids = [
                "a/b", "/", "a?b=c", "100%", "a%2Fb", "a+b", "a b", "#", "전화", "e\u{301}", "📱", "..", ";&=", "\"\\",
                "*",
            ]
            for id in ids {
                let answer = try await Self.put(app, Self.encoded(id), ["push_token": .string("of \(id)")])
                #expect(answer.status == 201, "\(id)")
                #expect(answer.json?["device_id"]?.string?.utf8.elementsEqual(id.utf8) == true, "\(id)")
            }
            // A plus sign in a path is literal.
            #expect(try await Self.put(app, "a+b").status == 200)
            #expect(try await Self.items(app).count == ids.count)
            #expect(try await service.kakao.tokens(of: 7).count == ids.count)
            for id in ids { #expect(try await app.delete("/v1/devices/\(Self.encoded(id))").status == 204) }
            #expect(try await service.kakao.tokens(of: 7).isEmpty)

            for id in ["%00", "a%0Ab", "%7F", Self.encoded(String(repeating: "한", count: 65))] {
                #expect(try await Self.put(app, id).field == "device_id", "\(id)")
                #expect(try await app.delete("/v1/devices/\(id)").field == "device_id", "\(id)")
            }
            for id in ["%", "%2", "%zz", "%FF", "%ED%A0%80"] {
                #expect(try await Self.put(app, id).status == 400, "\(id)")
            }
            for id in ["", "a/b"] { #expect(try await Self.put(app, id).status == 404, "\(id)") }
            #expect(try await service.database.count("devices") == 0)
        }
    }

    @Test("The longest valid values are accepted and returned unchanged")
    func largest() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: .max)
            let id = String(repeating: "📱", count: 64)
            let token = String(repeating: "한", count: 4096)
            let tags = (0..<50).map { JSONValue.string(String(repeating: "📱", count: 62) + String($0 + 10)) }
            let changes: JSONObject = [
                "push_token": .string(token), "tags": .array(tags),
                "locale": .string(String(repeating: "l", count: 35)),
                "timezone": .string(String(repeating: "한", count: 64)),
                "app_version": .string(String(repeating: "한", count: 64)),
            ]
            let answer = try await Self.put(app, Self.encoded(id), changes)
            #expect(answer.status == 201)
            #expect(answer.json?["device_id"]?.string == id)
            #expect(answer.json?["tags"] == .array(tags))
            for name in ["locale", "timezone", "app_version"] { #expect(answer.json?[name] == changes[name]) }
            #expect(try await service.kakao.tokens(of: .max) == ["\(id) gcm \(token)"])
            #expect(try await Self.items(app, ["limit": "1"]).count == 1)

            let body = Array("{\"push_type\":\"fcm\",\"push_token\":\"".utf8) + [UInt8](repeating: 0x61, count: 1 << 20)
            #expect(try await app.put("/v1/devices/phone", body, type: "application/json").status == 413)
        }
    }

    @Test("A device id, which may be a push token, is not logged")
    func secrecy() async throws {
        try await Self.withUsers { service in
            let app = try Self.app(service, of: 7)
            let id = "0123456789abcdef-of-an-iphone"
            #expect(try await Self.put(app, id, ["push_type": "apns", "push_token": .string(id)]).status == 201)
            #expect(try await app.delete("/v1/devices/\(id)").status == 204)
            #expect(service.log.messages.contains { $0.hasPrefix("PUT /v1/devices/*** 201") })
            #expect(!service.log.lines.contains { $0.text.contains(id) })
        }
    }
}
