import KakaoAPI
import Testing

/// The calls of the Push API as documented by Kakao in "Push Notification" (version 1) and "Push: REST API" (version
/// 2).
@Suite struct PushCallTests {
    private static let token = "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH+/=&?"

    @Test("Registering posts a form with the Admin key", arguments: PushVersion.allCases, PushType.allCases)
    func register(version: PushVersion, type: PushType) async throws {
        let (lifetime, calls) = try await withKakao(answering: answer(200, "30"), version: version) { kakao in
            try await kakao.register(userID: .max, deviceID: "iPhone 14 π", pushType: type, pushToken: Self.token)
        }
        #expect(lifetime == .days(30))
        let call = try #require(calls.first)
        #expect(call.lines.first == "POST /\(version.rawValue)/push/register HTTP/1.1")
        #expect(call.lines.contains("Authorization: KakaoAK admin-key"))
        #expect(call.lines.contains("Content-Type: application/x-www-form-urlencoded;charset=utf-8"))
        let android = version == .v1 ? "gcm" : "fcm"
        #expect(
            call.form == [
                "uuid=9223372036854775807", "device_id=iPhone 14 π", "push_type=\(type == .apns ? "apns" : android)",
                "push_token=\(Self.token)",
            ]
        )
        // No character of a token may be parsed as part of the form.
        #expect(call.body.contains("push_token=dQw4w9WgXcQ%3AAPA91bHun4MxP5egoKMwt2KZFBaFUH%2B%2F%3D%26%3F"))
    }

    @Test(
        "The response to a registration is a bare number of days, or -1 for no expiry",
        arguments: [("30", TokenLifetime.days(30)), ("0", .days(0)), (" 365\n", .days(365)), ("-1", .never)]
    )
    func lifetime(body: String, lifetime: TokenLifetime) async throws {
        let (result, _) = try await withKakao(answering: answer(200, body)) { kakao in
            try await kakao.register(userID: 1, deviceID: "a", pushType: .apns, pushToken: "b")
        }
        #expect(result == lifetime)
    }

    @Test(
        "Any other response to a registration is invalid",
        arguments: ["", "-2", "30.0", "3e1", "\"30\"", "{}", "[30]", "30 30", "99999999999999999999", "<html>"]
    )
    func badLifetime(body: String) async throws {
        let (error, _) = try await withKakao(answering: answer(200, body)) { kakao in
            await failure { () async throws(KakaoError) in
                try await kakao.register(userID: 1, deviceID: "a", pushType: .apns, pushToken: "b")
            }
        }
        guard case .unrecognized = error?.kind else {
            Issue.record("the call ended with \(String(describing: error))")
            return
        }
        #expect(error?.disposition == .unrecognized)
        #expect(error?.hasUnknownOutcome == true)
    }

    @Test(
        "A lookup sends user ids as a JSON array of strings and returns the devices in order",
        arguments: PushVersion.allCases
    )
    func tokens(version: PushVersion) async throws {
        let body = """
            [{"user_id":"1376016924429759228","device_id":"d1","push_type":"apns","push_token":"t1",
              "created_at":"2014-07-29T06:24:12Z","updated_at":"2014-07-30T06:24:12Z"},
             {"device_id":"d2","user_id":2,"push_type":"gcm","push_token":"t2:x","unknown":[1,{}]},
             {"user_id":"3","device_id":"d3","push_type":"fcm","push_token":"t3"},
             {"user_id":"4","device_id":"d4","push_type":"wns","push_token":"t4"}]
            """
        let (tokens, calls) = try await withKakao(answering: answer(200, body), version: version) { kakao in
            try await kakao.tokens(userIDs: [1, .max])
        }
        let call = try #require(calls.first)
        #expect(call.lines.first == "POST /\(version.rawValue)/push/tokens HTTP/1.1")
        #expect(call.form == [#"uuids=["1","9223372036854775807"]"#])
        #expect(
            tokens == [
                RetrievePushTokens.Token(
                    userID: 1_376_016_924_429_759_228,
                    deviceID: "d1",
                    pushType: "apns",
                    pushToken: "t1",
                    createdAt: "2014-07-29T06:24:12Z",
                    updatedAt: "2014-07-30T06:24:12Z"
                ),
                Self.token(2, "d2", "gcm", "t2:x"), Self.token(3, "d3", "fcm", "t3"),
                // A push type that Kakao may add later.
                Self.token(4, "d4", "wns", "t4"),
            ]
        )
    }

    private static func token(
        _ userID: Int64,
        _ deviceID: String,
        _ pushType: String,
        _ pushToken: String
    ) -> RetrievePushTokens.Token {
        RetrievePushTokens.Token(
            userID: userID,
            deviceID: deviceID,
            pushType: pushType,
            pushToken: pushToken,
            createdAt: nil,
            updatedAt: nil
        )
    }

    @Test("The response for users without devices is an empty array")
    func noTokens() async throws {
        let (tokens, _) = try await withKakao(answering: answer(200, "[]")) { try await $0.tokens(userIDs: [1]) }
        #expect(tokens.isEmpty)
    }

    @Test(
        "A device list with missing or invalid members is rejected",
        arguments: [
            "", "{}", "[1]", #"[{"device_id":"d","push_type":"apns","push_token":"t"}]"#,
            #"[{"user_id":"x","device_id":"d","push_type":"apns","push_token":"t"}]"#,
            #"[{"user_id":1.5,"device_id":"d","push_type":"apns","push_token":"t"}]"#,
            #"[{"user_id":"1","device_id":7,"push_type":"apns","push_token":"t"}]"#,
            #"[{"user_id":"1","device_id":"d","push_type":"apns"}]"#,
        ]
    )
    func badTokens(body: String) async throws {
        let (error, _) = try await withKakao(answering: answer(200, body)) { kakao in
            await failure { () async throws(KakaoError) in try await kakao.tokens(userIDs: [1]) }
        }
        guard case .unrecognized = error?.kind else {
            Issue.record("the call ended with \(String(describing: error))")
            return
        }
    }

    @Test("The response to a deregistration is empty", arguments: PushVersion.allCases)
    func deregister(version: PushVersion) async throws {
        let (_, calls) = try await withKakao(answering: answer(200, ""), version: version) { kakao in
            try await kakao.deregister(userID: 5, deviceID: "a/b", pushType: .fcm)
        }
        let call = try #require(calls.first)
        #expect(call.lines.first == "POST /\(version.rawValue)/push/deregister HTTP/1.1")
        #expect(call.form == ["uuid=5", "device_id=a/b", "push_type=\(version == .v1 ? "gcm" : "fcm")"])
    }

    @Test("A message is sent unchanged", arguments: PushVersion.allCases, [false, true])
    func send(version: PushVersion, bypass: Bool) async throws {
        let message = #"{ "for_apns":{"message":"50 % off + & = 안녕","badge":1e0} ,"x":"\u0041" }"#
        let (_, calls) = try await withKakao(answering: answer(200, ""), version: version) { kakao in
            try await kakao.send(message, to: [3, 1], bypass: bypass ? true : nil)
        }
        let call = try #require(calls.first)
        #expect(call.lines.first == "POST /\(version.rawValue)/push/send HTTP/1.1")
        #expect(call.form == [#"uuids=["3","1"]"#, "push_message=\(message)"] + (bypass ? ["bypass=true"] : []))
    }

    @Test(
        "JSON that reports no error is ignored in a successful send response",
        arguments: ["", "{}", "{\"code\":0}", "[1]"]
    )
    func sendAnswer(body: String) async throws {
        let (_, calls) = try await withKakao(answering: answer(200, body)) { kakao in
            try await kakao.send()
        }
        #expect(calls.count == 1)
    }

    @Test(
        "The API address may end with a slash or have a path",
        arguments: [("/", ""), ("/kakao", "/kakao"), ("/a/", "/a")]
    )
    func address(suffix: String, path: String) async throws {
        let (_, calls) = try await withKakao(answering: answer(200, "1"), path: suffix) { kakao in
            try await kakao.register(userID: 1, deviceID: "a", pushType: .apns, pushToken: "b")
        }
        #expect(calls.first?.lines.first == "POST \(path)/v1/push/register HTTP/1.1")
    }

    @Test("A push type has exactly one name per API version")
    func pushTypeNames() {
        #expect(PushType(name: "apns", version: .v1) == .apns)
        #expect(PushType(name: "apns", version: .v2) == .apns)
        #expect(PushType(name: "gcm", version: .v1) == .fcm)
        #expect(PushType(name: "fcm", version: .v2) == .fcm)
        #expect(PushType(name: "fcm", version: .v1) == nil)
        #expect(PushType(name: "gcm", version: .v2) == nil)
        #expect(PushType(name: "APNS", version: .v1) == nil)
    }
}
