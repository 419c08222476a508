import Endpoints
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

/// The relayed calls of KakaoTalk.
@Suite(.timeLimit(.minutes(5))) struct TalkRelayTests {
    private static let template = #"{"object_type":"text","text":"Hi","link":{"web_url":"https://example.com"}}"#
    private static let memo = "/v2/api/talk/memo/default/send"
    private static let message = "/v1/api/talk/friends/message/default/send"
    private static let friends = "/v1/api/talk/friends"

    private static func app(_ service: TestService) throws -> TestClient {
        service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))")
    }

    /// Returns the uuids of users as a parameter.
    private static func uuids(_ service: TestService, _ userIDs: [Int64]) -> String {
        JSONValue.array(userIDs.map { .string(service.kakao.sandbox.friendUUID(of: $0)) }).description
    }

    @Test("A user sends messages to friends from the list, and a partial result comes back as it is")
    func messages() async throws {
        try await withKakaoLogin { service in
            try service.kakao.sandbox.befriend(7, [8, 9])
            try service.kakao.sandbox.setUser(9, ["allows_messages": false])
            let app = try Self.app(service)
            let list = try await app.get(Self.friends)
            let uuids = try #require(list.json?["elements"]?.array?.compactMap { $0["uuid"]?.string })
            #expect(uuids.count == 2)
            let fields: KeyValuePairs = [
                "receiver_uuids": JSONValue.array(uuids.map(JSONValue.string)).description,
                "receiver_id_type": "uuid", "template_id": "7", "template_args": "null",
            ]
            let sent = try await app.post("/v1/api/talk/friends/message/send", form: fields)
            #expect(sent.status == 200)
            #expect(sent.json?["successful_receiver_uuids"] == [.string(uuids[0])])
            #expect(sent.json?["failure_info"]?[0]?["code"] == -530)
            #expect(sent.json?["failure_info"]?[0]?["receiver_uuids"] == [.string(uuids[1])])
            let messages = service.kakao.sandbox.talkMessages()
            #expect(messages.map(\.receiverID) == [8])
            #expect(messages.map(\.content) == [#"{"template_id":7}"#])
        }
    }

    @Test("An operator's message is sent with the token of the user's account")
    func operatorCall() async throws {
        try await withAccounts { service in
            #expect(try await service.logIn(7).status == 200)
            try service.kakao.sandbox.befriend(7, [8])
            let fields: KeyValuePairs = [
                "target_id_type": "user_id", "target_id": "7", "template_object": Self.template,
                "receiver_uuids": Self.uuids(service, [8]),
            ]
            #expect(try await service.api.post(Self.message, form: fields).status == 200)
            #expect(try await service.api.post(Self.memo, form: fields).json == ["result_code": 0])
            #expect(service.kakao.sandbox.talkMessages(from: 7).map(\.receiverID) == [8, 7])
            let unknown: KeyValuePairs = ["target_id_type": "user_id", "target_id": "8"]
            #expect(try await service.api.get(Self.friends, unknown).problem == "login-required")
            // Kakao accepts the Admin key for channels.
            #expect(try await service.api.get("/v2/api/talk/channels", unknown).json?["user_id"] == 8)
        }
    }

    @Test("A missing scope is answered with the page where the user agrees to it")
    func consent() async throws {
        try await withAccounts { service in
            #expect(try await service.logIn(7).status == 200)
            let target: KeyValuePairs = ["target_id_type": "user_id", "target_id": "7"]
            let list = try await service.api.get(Self.friends, target)
            #expect(list.status == 403)
            #expect(list.json?["code"] == -402)
            #expect(list.problem == "consent-required")
            #expect(list.json?["required_scopes"] == ["friends"])
            #expect(list.json?["consent_url"]?.string?.hasSuffix("scope=friends") == true)
            let fields: KeyValuePairs = [
                "target_id_type": "user_id", "target_id": "7", "template_object": Self.template,
                "receiver_uuids": Self.uuids(service, [8]),
            ]
            let message = try await service.api.post(Self.message, form: fields)
            #expect(message.json?["required_scopes"] == ["friends", "talk_message"])
            #expect(message.json?["consent_url"]?.string?.contains("talk_message") == true)
        }
    }

    @Test("A template that Kakao would reject is not sent, unless the caller turns the linter off")
    func linted() async throws {
        try await withKakaoLogin { service in
            try service.kakao.sandbox.befriend(7, [])
            let app = try Self.app(service)
            let fields: KeyValuePairs = ["template_object": #"{"object_type":"text","text":"Hi"}"#]
            let linted = try await app.post(Self.memo, form: fields)
            #expect(linted.status == 400)
            #expect(linted.problem == "invalid-template")
            // A text that is no JSON, as the linter shows it.
            let text = #"{"object_type":"text",}"#
            let broken = try await app.post(Self.memo, form: ["template_object": text])
            let lint = try await service.api.post("/v1/templates/lint", Array(text.utf8), type: "application/json")
            let finding = try #require(lint.json?["findings"]?[0])
            #expect(broken.problem == "invalid-template" && broken.status == 400, "\(broken.text)")
            #expect(broken.json?["findings"]?[0]?["message"] == finding["message"])
            #expect(finding["message"]?.string?.contains("line 1, column 23") == true, "\(finding)")
            let unlinted = try await app.post("\(Self.memo)?lint=off", form: ["template_object": text])
            #expect(unlinted.field == "template_object", "\(unlinted.text)")
            #expect(service.kakao.sandbox.stats.requests[Self.memo] == nil)
            let sent = try await app.post("\(Self.memo)?lint=off", form: fields)
            #expect(sent.status == 400)
            #expect(sent.problem == "refused-by-kakao")
            #expect(sent.json?["code"] == -2)
            #expect(service.kakao.sandbox.stats.requests[Self.memo] == 1)
        }
    }

    /// A template of so many bytes.
    private static func template(bytes: Int) -> String {
        template.replacing("Hi", with: String(repeating: "a", count: bytes - template.utf8.count + 2))
    }

    @Test("A template of more than 10,240 bytes is rejected unread, as are its arguments")
    func size() async throws {
        try await withKakaoLogin { service in
            try service.kakao.sandbox.befriend(7, [])
            let app = try Self.app(service)
            #expect(
                try await app.post(Self.memo, form: ["template_object": Self.template(bytes: 10_240)]).status == 200
            )
            let broken = String(repeating: "[", count: 10_241)
            for template in [Self.template(bytes: 10_241), broken] {
                let answer = try await app.post("\(Self.memo)?lint=off", form: ["template_object": template])
                #expect(answer.status == 400)
                #expect(answer.json?["code"] == -2)
                #expect(answer.json?["field"] == "template_object")
                #expect(answer.json?["allowed"] == "a JSON object, of at most 10240 bytes")
            }
            let object = try JSONValue(parsing: Array(Self.template(bytes: 10_241).utf8))
            #expect(try await app.post(Self.memo, json: ["template_object": object]).json?["code"] == -2)
            let args: KeyValuePairs = [
                "template_id": "7", "template_args": #"{"a":"\#(String(repeating: "a", count: 10_240))"}"#,
            ]
            let answer = try await app.post("/v2/api/talk/memo/send", form: args)
            #expect(answer.status == 400 && answer.json?["field"] == "template_args")
            #expect(service.kakao.sandbox.stats.requests.filter { $0.key.contains("memo") }.values.reduce(0, +) == 1)
        }
    }

    @Test("The addresses of other pages of friends lead to this server")
    func pages() async throws {
        let adjust = { (settings: inout Settings) in settings.publicURL = .given("https://push.example.com") }
        try await withKakaoLogin(adjust) { service in
            try service.kakao.sandbox.befriend(7, [8, 9, 10])
            let app = try Self.app(service)
            let page = try await app.get(Self.friends, ["offset": "1", "limit": "1"])
            let query = "limit=1&order=asc&friend_order=favorite"
            let url = "https://push.example.com\(Self.friends)"
            #expect(page.json?["before_url"]?.string == "\(url)?offset=0&\(query)")
            let after = try #require(page.json?["after_url"]?.string)
            #expect(after == "\(url)?offset=2&\(query)")
            let last = try await app.get(String(after.dropFirst("https://push.example.com".count)))
            #expect(last.json?["elements"]?.array?.count == 1)
            #expect(last.json?["after_url"] == nil)
        }
    }

    @Test("A list without friends comes back without elements, as Kakao sends it")
    func withoutFriends() async throws {
        try await withKakaoLogin { service in
            try service.kakao.sandbox.befriend(7, [])
            let list = try await Self.app(service).get(Self.friends)
            #expect(list.text == #"{"total_count":0,"favorite_count":0}"#)
        }
    }

    @Test("More than five receivers are rejected here")
    func receivers() async throws {
        try await withKakaoLogin { service in
            let fields: KeyValuePairs = [
                "receiver_uuids": Self.uuids(service, Array(11...16)), "template_object": Self.template,
            ]
            let app = try Self.app(service)
            #expect(try await app.post(Self.message, form: fields).field == "receiver_uuids")
            #expect(service.kakao.sandbox.stats.requests[Self.message] == nil)
        }
    }

    @Test("A message without a response is answered 504, because it may have been sent")
    func lost() async throws {
        try await withKakaoLogin { service in
            try service.kakao.sandbox.befriend(7, [])
            let app = try Self.app(service)
            var fault = Fault(.dropAfterBody)
            fault.isCarriedOut = true
            fault.path = Self.memo
            service.kakao.sandbox.add(fault)
            let answer = try await app.post(Self.memo, form: ["template_object": Self.template])
            #expect(answer.status == 504)
            #expect(answer.problem == "outcome-unknown")
            #expect(service.kakao.sandbox.talkMessages().count == 1)
        }
    }

    @Test(
        "A message counts against the quotas unless Kakao says that it was not sent",
        arguments: [(502, 1), (400, 0)]
    )
    func counted(status: Int, used: Int64) async throws {
        try await withKakaoLogin { service in
            try service.kakao.sandbox.befriend(7, [])
            let app = try Self.app(service)
            service.kakao.fail(Self.memo, status: status) { $0.path = Self.memo }
            _ = try await app.post(Self.memo, form: ["template_object": Self.template])
            #expect(try await service.database.integer("SELECT used FROM message_quotas WHERE quota = 'app'") == used)
        }
    }

    @Test("Messages that Kakao refuses leave no rows of quotas, whoever their receivers are")
    func refusedQuotas() async throws {
        try await withKakaoLogin { service in
            try service.kakao.sandbox.befriend(7, [])
            let app = try Self.app(service)
            for message in 0..<3 {
                let receivers = (1...5).map { JSONValue.string("stranger-\(message)-\($0)") }
                let fields: KeyValuePairs = [
                    "receiver_uuids": JSONValue.array(receivers).description, "template_object": Self.template,
                ]
                #expect(try await app.post(Self.message, form: fields).problem == "refused-by-kakao")
            }
            #expect(service.kakao.sandbox.stats.requests[Self.message] == 3)
            // That of the app.
            #expect(try await service.database.count("message_quotas") == 1)
        }
    }

    @Test("Calls of KakaoTalk need a key with the scope talk")
    func scope() async throws {
        try await withAccounts { service in
            let target: KeyValuePairs = ["target_id_type": "user_id", "target_id": "7"]
            for (scope, status) in [(Scope.talk, 409), (.accounts, 403), (.send, 403)] {
                let caller = service.api.with("Bearer \(try await service.operatorKey(scope))")
                #expect(try await caller.get(Self.friends, target).status == status)
            }
        }
    }

    @Test(
        "The channels of several users are relayed, in both forms of the ids, and the lookup is recorded for each user"
    )
    func channelsOfUsers() async throws {
        try await withService { service in
            try service.kakao.sandbox.setUser(8, ["channels": ["_ZeUTxl": "BLOCKED"]])
            try service.kakao.sandbox.setUser(9, ["talk_user": false])
            let path = "/v2/api/talk/channels/multi"
            for ids in ["7,8,9", "[7,8,9]"] {
                let answer = try await service.api.get(path, ["target_id_type": "user_id", "target_ids": ids])
                #expect(answer.status == 200)
                // The one who does not use KakaoTalk is left out.
                #expect(answer.json?.array?.map { $0["user_id"] } == [7, 8])
                let relations = answer.json?[1]?["channels"]?.array?.map { $0["relation"] }
                #expect(relations?.contains("BLOCKED") == true)
            }
            for count in [200, 201] {
                let ids = (1...count).map { String(1000 + $0) }.joined(separator: ",")
                let answer = try await service.api.get(path, ["target_id_type": "user_id", "target_ids": ids])
                #expect(answer.status == (count == 200 ? 200 : 400))
            }
            try await eventually("the lookups are recorded") {
                try await service.database.count("audit_records WHERE operation = 'talkChannelsMulti'") >= 206
            }
            #expect(try await service.database.count("audit_records WHERE user_id IN (7, 8, 9)") == 6)
        }
    }
}
