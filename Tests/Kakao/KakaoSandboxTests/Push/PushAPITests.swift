import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

/// The Push API as Kakao documents it.
@Suite(.timeLimit(.minutes(1))) struct PushAPITests {
    @Test(
        "The response to a registration is a bare number of days",
        arguments: [("v1", "gcm"), ("v1", "apns"), ("v2", "fcm")]
    )
    func register(version: String, type: String) async throws {
        try await withSandbox { kakao in
            let response = try await kakao.register(1, "a:b", type: type, version: version)
            #expect(response.status == 200)
            #expect(response.text == "30")
            #expect(response.headerFields[.contentType] == "application/json;charset=UTF-8")
        }
    }

    @Test("A lookup lists each token with its user id as a string and its times in whole seconds of UTC")
    func lookup() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(.max, "a:b+c/d")
            let response = try await kakao.call("/v1/push/tokens", ["uuid": "9223372036854775807"], method: .get)
            let token = try #require(response.json?[0])
            #expect(token["user_id"] == "9223372036854775807")
            #expect(token["device_id"] == "device of a:b+c/d")
            #expect(token["push_type"] == "gcm")
            #expect(token["push_token"] == "a:b+c/d")
            let created = try #require(token["created_at"]?.string)
            #expect(created.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil)
            #expect(token["updated_at"]?.string == created)
        }
    }

    @Test("A lookup accepts user ids in form and query, quoted and unquoted, and omits unknown users")
    func lookupOfMany() async throws {
        try await withSandbox { kakao in
            for user in 1...3 { _ = try await kakao.register(Int64(user), "token \(user)") }
            for (method, uuids) in [(HTTPRequest.Method.get, "[\"1\", 3,7]"), (.post, " [ 1 ,\"3\"]\n")] {
                let response = try await kakao.call("/v1/push/tokens", ["uuids": uuids], method: method)
                #expect(response.json?.array?.map { $0["user_id"] } == ["1", "3"])
            }
            #expect(try await kakao.call("/v1/push/tokens", ["uuid": "9"]).text == "[]")
        }
    }

    @Test("Registering a device again updates its token")
    func registerAgain() async throws {
        try await withSandbox { kakao in
            for token in ["old", "new"] {
                let fields: KeyValuePairs = [
                    "uuid": "1", "device_id": "phone", "push_type": "gcm", "push_token": token,
                ]
                _ = try await kakao.call("/v1/push/register", fields)
            }
            let tokens = try await kakao.call("/v1/push/tokens", ["uuid": "1"]).json?.array
            #expect(tokens?.map { $0["push_token"] } == ["new"])
            #expect(kakao.sandbox.stats.tokens == 1)
        }
    }

    @Test("A device id is specific to a user and a push type")
    func sameDeviceID() async throws {
        try await withSandbox { kakao in
            for (user, type) in [("1", "gcm"), ("1", "apns"), ("2", "gcm")] {
                let fields: KeyValuePairs = [
                    "uuid": user, "device_id": "phone", "push_type": type, "push_token": "\(user) \(type)",
                ]
                _ = try await kakao.call("/v1/push/register", fields)
            }
            let tokens = try await kakao.call("/v1/push/tokens", ["uuids": "[1,2]"]).json?.array
            #expect(tokens?.map { $0["push_token"] } == ["1 gcm", "1 apns", "2 gcm"])
        }
    }

    @Test("Deregistering removes one device, and succeeds for an unknown one")
    func deregister() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "a")
            _ = try await kakao.register(1, "b")
            let fields: KeyValuePairs = ["uuid": "1", "device_id": "device of a", "push_type": "gcm"]
            for _ in 0..<2 {
                let response = try await kakao.call("/v1/push/deregister", fields)
                #expect(response.status == 200)
                #expect(response.body.isEmpty)
                #expect(response.headerFields[.contentLength] == "0")
                #expect(response.headerFields[.contentType] == "application/json;charset=UTF-8")
            }
            let tokens = try await kakao.call("/v1/push/tokens", ["uuid": "1"]).json?.array
            #expect(tokens?.map { $0["push_token"] } == ["b"])
        }
    }

    @Test("An expired token is neither listed nor delivered to")
    func expiry() async throws {
        var settings = KakaoSandboxSettings()
        settings.tokenLifetimeDays = 0
        try await withSandbox(settings) { kakao in
            #expect(try await kakao.register(1, "a").text == "0")
            #expect(try await kakao.call("/v1/push/tokens", ["uuid": "1"]).text == "[]")
            _ = try await kakao.send("[1]", ["for_gcm": [:]])
            #expect(kakao.sandbox.deliveries().map(\.outcome) == [.noDevice])
        }
    }

    @Test("A token expires by a clock that can be advanced, counted from its last registration")
    func clock() async throws {
        try await withSandbox { kakao in
            func tokens() async throws -> [String] {
                let answer = try await kakao.call("/v1/push/tokens", ["uuid": "1"])
                return answer.json?.array?.compactMap { $0["push_token"]?.string } ?? []
            }
            let day: Int64 = 86_400
            for token in ["a", "b"] { #expect(try await kakao.register(1, token).text == "30") }
            #expect(try await kakao.control(.post, "/sandbox/clock", ["seconds": .integer(29 * day)]).status == 200)
            #expect(try await tokens() == ["a", "b"])
            _ = try await kakao.register(1, "b")
            let answer = try await kakao.control(.post, "/sandbox/clock", ["seconds": .integer(2 * day)])
            #expect(answer.json?["now"]?.string?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil)
            #expect(try await tokens() == ["b"])
            #expect(try await kakao.control(.delete, "/sandbox/clock").status == 204)
            for body: JSONValue in [
                ["seconds": 0], ["seconds": -1], ["seconds": .integer(Int64.max)], ["days": 1], [:],
            ] {
                #expect(try await kakao.control(.post, "/sandbox/clock", body).status == 400)
            }
        }
    }

    @Test("A token never expires with a lifetime of -1")
    func noExpiry() async throws {
        var settings = KakaoSandboxSettings()
        settings.tokenLifetimeDays = -1
        try await withSandbox(settings) { kakao async throws in
            #expect(try await kakao.register(1, "a").text == "-1")
            #expect(try await kakao.call("/v1/push/tokens", ["uuid": "1"]).json?.array?.count == 1)
        }
    }

    @Test("A token registered by one version is listed by the other under its own name for Android")
    func versions() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "a", type: "gcm", version: "v1")
            let tokens = try await kakao.call("/v2/push/tokens", ["uuid": "1"]).json
            #expect(tokens?[0]?["push_type"] == "fcm")
            _ = try await kakao.send("[1]", ["for_fcm": ["custom_field": ["id": 7]]], version: "v2")
            let delivery = try #require(kakao.sandbox.deliveries().first)
            #expect(delivery.pushType == "fcm")
            #expect(delivery.payload.map { String(decoding: $0, as: UTF8.self) } == #"{"custom_field":{"id":7}}"#)
        }
    }

    @Test(
        "A call without the Admin key is rejected with 401 and -401, and stores nothing",
        arguments: [nil, "KakaoAK another", "Bearer sandbox-admin-key", "KakaoAK sandbox-admin-key2", "KakaoAK"]
    )
    func unauthorized(authorization: String?) async throws {
        try await withSandbox { kakao in
            for call in ["register", "tokens", "deregister", "send"] {
                let fields: KeyValuePairs = [
                    "uuid": "1", "device_id": "d", "push_type": "gcm", "push_token": "t", "uuids": "[1]",
                    "push_message": "{}",
                ]
                let response = try await kakao.call("/v1/push/\(call)", fields, authorization: authorization)
                #expect(response.status == 401)
                #expect(response.code == -401)
                #expect(response.json?["msg"]?.string?.isEmpty == false)
                let scheme = authorization?.hasPrefix("Bearer ") == true ? "Bearer" : "KakaoAK"
                #expect(response.headerFields[.wwwAuthenticate] == "\(scheme) error=invalid_token")
            }
            #expect(kakao.sandbox.stats.tokens == 0)
            #expect(kakao.sandbox.stats.sends == 0)
        }
    }

    @Test("Parameters in a JSON body are ignored")
    func jsonBody() async throws {
        try await withSandbox { kakao in
            let body: JSONValue = ["uuids": ["1"], "push_message": [:]]
            let response = try await kakao.client.send(
                HTTPClientRequest(
                    method: .post,
                    url: kakao.sandbox.url + "/v1/push/send",
                    headerFields: [
                        .authorization: "KakaoAK sandbox-admin-key", .contentType: "application/json",
                    ],
                    body: body.bytes()
                )
            )
            #expect(response.status == 400)
            #expect(response.json == ["msg": "The Parameter [uuids] cannot be null.", "code": -2])
        }
    }

    @Test("Parameters in the query of a POST are read as well")
    func queryOfPost() async throws {
        try await withSandbox { kakao async throws in
            let path = "/v1/push/register?uuid=1&device_id=d&push_type=gcm&push_token=t"
            #expect(try await kakao.call(path).text == "30")
        }
    }
}
