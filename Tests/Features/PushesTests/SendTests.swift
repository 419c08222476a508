import Endpoints
import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Tests of `/v1/push/send`, `/v2/push/send` and `GET /v1/pushes/{id}` while everything works.
@Suite(.timeLimit(.minutes(5))) struct SendTests {
    @Test(
        "A send gets its response once it is stored, reaches Kakao exactly once, and is then shown as done",
        arguments: ["v1", "v2"],
        [true, false]
    )
    func send(version: String, isForm: Bool) async throws {
        try await withService { service in
            _ = try await service.api.register(1, "android")
            _ = try await service.api.register(2, "apple", type: "apns")
            let android = version == "v1" ? "for_gcm" : "for_fcm"
            let message: JSONValue = .object([
                "for_apns": ["message": "안녕", "badge": 3], android: ["custom_field": ["marker": "m"]],
            ])
            let path = "/\(version)/push/send"
            let answer =
                isForm
                ? try await service.api.post(path, form: ["uuids": "[1,\"2\"]", "push_message": message.description])
                : try await service.api.post(path, json: ["uuids": [1, "2"], "push_message": message])
            #expect(answer.status == 200)
            #expect(answer.body.isEmpty)
            #expect(answer.headerFields[.contentType] == "application/json;charset=UTF-8")
            let push = try #require(answer.headerFields[.location])
            #expect(push.hasPrefix("/v1/pushes/"))
            try await service.api.waitUntilDone(push)

            let deliveries = service.kakao.sandbox.deliveries()
            #expect(deliveries.map(\.userID) == [1, 2])
            #expect(deliveries.map(\.outcome) == [.delivered, .delivered])
            #expect(deliveries.map(\.pushToken) == ["android", "apple"])
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2)
            #expect(service.kakao.sandbox.stats.sends == 1)

            let shown = try #require(try await service.api.get(push).json?.object)
            #expect(shown.members.map(\.name) == PushCreationTests.members + ["message", "phones", "app"])
            #expect(shown["id"]?.string == push.split(separator: "/").last.map(String.init))
            #expect(shown["audience"] == ["uuids": ["1", "2"]])
            #expect(shown["delivery"] == "at_least_once")
            #expect(shown["users"] == counts(2, sent: 2))
            #expect(shown["batches"]?["sent"] == 1)
            #expect(shown["finished_at"]?.string?.hasSuffix("Z") == true)
        }
    }

    @Test("A message reaches Kakao unchanged, including the order of members, numbers and characters")
    func messageUntouched() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let payload =
                #"{"custom_field":{"z":1.0,"a":12345678901234567890123,"e":1E+400,"m":-0,"한글":"값 \" \\ 👋"},"priority":"high"}"#
            let message = #"{"for_gcm":\#(payload),"x":[1.50,null,true]}"#
            for isForm in [true, false] {
                let answer =
                    isForm
                    ? try await service.api.post("/v1/push/send", form: ["uuids": "[1]", "push_message": message])
                    : try await service.api.post(
                        "/v1/push/send",
                        Array(#"{"uuids":[1],"push_message":\#(message)}"#.utf8),
                        type: "application/json; charset=utf-8"
                    )
                try await service.api.waitUntilDone(try #require(answer.headerFields[.location]))
            }
            let payloads = service.kakao.sandbox.deliveries().map { String(decoding: $0.payload ?? [], as: UTF8.self) }
            // Only the URL for failure reports is added, as the last member.
            let address = #","return_url":"\#(service.api.url)/kakao/push/feedback/\#(Keys.feedback)"}"#
            #expect(payloads == [String](repeating: payload.dropLast() + address, count: 2))
            #expect(try await service.database.count("pushes WHERE message = '\(message)'") == 2)
        }
    }

    @Test(
        "A message in the format of one version is converted to the version that the server uses with Kakao",
        arguments: [("v1", "v2"), ("v2", "v1")]
    )
    func renamed(given: String, spoken: String) async throws {
        let adjust = { (settings: inout Settings) in
            settings.kakao.pushVersion = spoken == "v2" ? .v2 : .v1
            settings.publicURL = nil
        }
        try await withService(adjust) { service in
            let type = given == "v1" ? "gcm" : "fcm"
            #expect(try await service.api.register(1, "token", type: type, version: given).status == 200)
            let push = try await service.push([1], marker: "m", version: given)
            try await service.api.waitUntilDone(push)
            let delivery = try #require(service.kakao.sandbox.deliveries().first)
            #expect(delivery.outcome == .delivered)
            #expect(delivery.pushType == (spoken == "v2" ? "fcm" : "gcm"))
            #expect(String(decoding: delivery.payload ?? [], as: UTF8.self) == #"{"custom_field":{"marker":"m"}}"#)
            #expect(service.kakao.sandbox.stats.requests["/\(spoken)/push/send"] == 1)
        }
    }

    @Test(
        "The message for iPhones has a return_url too where Kakao documents one: in v2",
        arguments: ["v1", "v2"]
    )
    func returnURLs(version: String) async throws {
        try await withService {
            $0.kakao.pushVersion = version == "v2" ? .v2 : .v1
        } _: { service in
            _ = try await service.api.register(1, "android")
            _ = try await service.api.register(1, "iphone", type: "apns")
            let payloads = try await service.payloads(#"{"for_apns":{"badge":1},"for_gcm":{"priority":"high"}}"#)
            let address = #","return_url":"\#(service.api.url)/kakao/push/feedback/\#(Keys.feedback)"}"#
            #expect(payloads["iphone"] == (version == "v2" ? #"{"badge":1"# + address : #"{"badge":1}"#))
            #expect(payloads["android"] == #"{"priority":"high""# + address)
        }
    }

    @Test("The failure of an iPhone's token is reported to this server, and counted")
    func failedTokenOfAPNS() async throws {
        try await withService {
            $0.kakao.pushVersion = .v2
        } _: { service in
            _ = try await service.api.register(1, "iphone", type: "apns")
            service.kakao.sandbox.failToken("iphone")
            for _ in 0..<3 { _ = try await service.payloads(#"{"for_apns":{"message":"Hi"}}"#) }
            try await eventually("the device is gone") { try await service.database.count("devices") == 0 }
        }
    }

    @Test("A return_url of the caller is not changed, and that of the other platform is this server's")
    func ownReturnURL() async throws {
        try await withService {
            $0.kakao.pushVersion = .v2
        } _: { service in
            _ = try await service.api.register(1, "android")
            _ = try await service.api.register(1, "iphone", type: "apns")
            let own = #"{"return_url":"http://127.0.0.1:1/own"}"#
            let ours = #"{"return_url":"\#(service.api.url)/kakao/push/feedback/\#(Keys.feedback)"}"#
            #expect(
                try await service.payloads(#"{"for_apns":{},"for_gcm":\#(own)}"#) == ["android": own, "iphone": ours]
            )
            #expect(
                try await service.payloads(#"{"for_apns":\#(own),"for_gcm":{}}"#) == ["android": ours, "iphone": own]
            )
        }
    }

    @Test("With bypass, the message contains the token, and Kakao gets the bypass flag", arguments: ["true", "false"])
    func bypass(bypass: String) async throws {
        try await withService { service in
            let answer = try await service.api.post(
                "/v1/push/send",
                form: ["uuids": "[1]", "push_message": #"{"for_gcm":{"push_token":"own"}}"#, "bypass": bypass]
            )
            try await service.api.waitUntilDone(try #require(answer.headerFields[.location]))
            let delivery = service.kakao.sandbox.deliveries().first
            #expect(delivery?.outcome == (bypass == "true" ? .delivered : .noDevice))
            #expect(delivery?.pushToken == (bypass == "true" ? "own" : nil))
        }
    }

    @Test("A send reaches users whose tokens only Kakao has, in one request with the others", arguments: ["v1", "v2"])
    func unknownUsers(version: String) async throws {
        try await withService { service in
            // These phones were registered at Kakao before this server was used. User 2 has a phone here that the
            // message does not address.
            let kakao = TestClient(url: service.kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)")
            for user in [Int64(1), 2] { #expect(try await kakao.register(user, "token-\(user)").status == 200) }
            _ = try await service.api.register(2, "apple", type: "apns")
            _ = try await service.api.register(3, "android")
            let push = try await service.api.push([1, 2, 3, 4], marker: "m", version: version)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(4, sent: 4))
            let delivered = service.kakao.sandbox.deliveries().filter { $0.outcome == .delivered }
            #expect(Set(delivered.map(\.userID)) == [1, 2, 3])
            #expect(service.kakao.sandbox.stats.sends == 1)
        }
    }

    @Test("The response for an unknown push is 404")
    func unknown() async throws {
        try await withSharedService { service in
            for id in ["0199aaaa-0000-7000-8000-000000000000", "x", "1"] {
                let answers = [
                    try await service.api.get("/v1/pushes/\(id)"),
                    try await service.api.post("/v1/pushes/\(id)/resume"),
                ]
                #expect(answers.map(\.status) == [404, 404])
            }
        }
    }

    @Test("Two servers on one database send each of many pushes exactly once")
    func twoServers() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.maximumConcurrentRequests = 4
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    try await database.addPhones(1...200)
                    let pushes = try await withThrowingTaskGroup(of: String.self) { group in
                        for user in Int64(1)...60 {
                            let api = user.isMultiple(of: 2) ? first : second
                            group.addTask { try await api.push([user, user + 100], marker: "m") }
                        }
                        return try await group.reduce(into: []) { $0.append($1) }
                    }
                    for push in pushes { try await first.waitUntilDone(push) }
                    let reached = kakao.sandbox.reached(marker: "m")
                    #expect(reached.users == 120)
                    #expect(reached.times == 120)
                }
            }
        }
    }
}

extension TestService {
    /// Sends a message to user 1, and returns what each push token gets, as text.
    fileprivate func payloads(_ message: String) async throws -> [String: String] {
        let sent = kakao.sandbox.deliveries().count
        let answer = try await api.post("/v1/push/send", form: ["uuids": "[1]", "push_message": message])
        try await api.waitUntilDone(try #require(answer.headerFields[.location]))
        let payloads = kakao.sandbox.deliveries(after: sent).compactMap { delivery in
            delivery.pushToken.map { ($0, String(decoding: delivery.payload ?? [], as: UTF8.self)) }
        }
        return Dictionary(payloads) { _, last in last }
    }
}
