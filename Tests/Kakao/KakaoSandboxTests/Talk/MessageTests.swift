import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Net
import Testing

/// Messages to friends and to the user's own chatroom.
@Suite struct MessageTests {
    private static let notFriend = "400 -502 the receiver is not a friend of the sender."
    private static let constraints = "400 -2 Constraints on the parameter [receiver_uuids] are unsatisfied."

    @Test("Each kind of message reaches its receivers with its content")
    func kinds() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2, 3])
            let uuids = [2, 3].map { fixture.sandbox.friendUUID(of: $0) }
            let token = try fixture.token(of: 1)
            let (args, page): (JSONObject, String) = (["title": "Hi"], "https://example.com/a")
            let answers = [
                try await fixture.message(from: 1, to: [2, 3]),
                try await fixture.kakao.call(
                    SendCustomMessage(receivers: uuids, templateID: 7, templateArgs: args),
                    as: token
                ),
                try await fixture.kakao.call(
                    SendScrapMessage(receivers: uuids, requestURL: page, templateID: 7, receiverIDType: "uuid"),
                    as: token
                ),
            ]
            for answer in answers {
                #expect(answer.successfulReceivers == uuids)
                #expect(answer.failures.isEmpty)
            }
            let memos = [
                try await fixture.kakao.call(SendDefaultMemo(template: Fixture.template), as: token),
                try await fixture.kakao.call(SendCustomMemo(templateID: 7), as: token),
                try await fixture.kakao.call(SendScrapMemo(requestURL: page, templateArgs: args), as: token),
            ]
            #expect(memos.map(\.resultCode) == [0, 0, 0])
            let messages = fixture.sandbox.talkMessages()
            #expect(messages.map(\.sequence) == Array(1...9))
            #expect(messages.allSatisfy { $0.senderID == 1 })
            #expect(messages.map(\.receiverID) == [2, 3, 2, 3, 2, 3, 1, 1, 1])
            #expect(messages.map(\.uuid) == messages.map { fixture.sandbox.friendUUID(of: $0.receiverID) })
            let contents = try messages.map { try JSONValue(parsing: Array($0.content.utf8)) }
            let template: JSONValue = ["template_object": .object(Fixture.template)]
            #expect(
                [0, 2, 4, 6, 7, 8].map { contents[$0] } == [
                    template, ["template_id": 7, "template_args": ["title": "Hi"]],
                    ["request_url": "https://example.com/a", "template_id": 7], template, ["template_id": 7],
                    ["request_url": "https://example.com/a", "template_args": ["title": "Hi"]],
                ]
            )
            #expect(
                fixture.sandbox.talkTotals.delivered == [
                    "talk_message_default": 2, "talk_message_custom": 2, "talk_message_scrap": 2,
                    "talk_memo_default": 1, "talk_memo_custom": 1, "talk_memo_scrap": 1,
                ]
            )
        }
    }

    @Test("A message that reaches some receivers succeeds, with the reasons of the others grouped by cause")
    func partial() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2, 3, 4, 5])
            for userID in [3, 4] as [Int64] { try fixture.sandbox.setUser(userID, ["allows_messages": false]) }
            try fixture.sandbox.setUser(5, ["talk_user": false])
            let answer = try await fixture.message(from: 1, to: [3, 2, 6, 4, 5])
            #expect(answer.successfulReceivers == [fixture.sandbox.friendUUID(of: 2)])
            #expect(answer.codes == [[-530, 2], [-502, 1], [-501, 1]])
            #expect(answer.failures[0].receivers == [3, 4].map { fixture.sandbox.friendUUID(of: $0) })
            #expect(fixture.sandbox.talkTotals.failed == [-530: 2, -502: 1, -501: 1])
        }
    }

    @Test("A message that reaches no receiver is the error of the first cause")
    func allFailed() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2, 3])
            try fixture.sandbox.setUser(2, ["linked": false])
            #expect(try await fixture.refusal(from: 1, to: [2, 4]) == "400 -101 NotRegisteredUserException")
            #expect(try await fixture.refusal(from: 1, to: [4, 2]) == Self.notFriend)
            // Friendship has a direction.
            try fixture.sandbox.befriend(3, [])
            #expect(try await fixture.refusal(from: 3, to: [1]) == Self.notFriend)
            #expect(fixture.sandbox.talkMessages().isEmpty)
        }
    }

    @Test("A new friend is listed at once, but receives messages only after two minutes")
    func newFriend() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.setFriends([
                "users": [["user_id": 1, "friends": [["user_id": 2, "new": true]]]]
            ])
            let friends = try await fixture.kakao.call(RetrieveFriends(), as: try fixture.token(of: 1))
            #expect(friends.friends.count == 1)
            fixture.sandbox.moveClock(by: .seconds(60))
            #expect(try await fixture.refusal(from: 1, to: [2]) == Self.notFriend)
            fixture.sandbox.moveClock(by: .seconds(60))
            #expect(try await fixture.message(from: 1, to: [2]).successfulReceivers.count == 1)
        }
    }

    @Test("A receiver who is named twice receives one message")
    func duplicates() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2])
            #expect(try await fixture.message(from: 1, to: [2, 2]).successfulReceivers.count == 1)
            #expect(fixture.sandbox.talkMessages().count == 1)
        }
    }

    @Test("Messages need the scopes of the sender; those of a memo are fewer")
    func scopes() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2])
            try fixture.sandbox.setUser(1, ["scopes": ["profile_nickname"]])
            let token = try #require(fixture.sandbox.accessToken(of: 1))
            func scopes(_ path: String, _ fields: KeyValuePairs<String, String>) async throws -> JSONValue? {
                let answer = try await fixture.call(path, fields, authorization: "Bearer \(token)")
                #expect(answer.status == 403)
                #expect(answer.json?["allowed_scopes"] == ["profile_nickname"])
                return [answer.json?["api_type"] ?? .null, answer.json?["required_scopes"] ?? .null]
            }
            let memo = try await scopes("/v2/api/talk/memo/send", ["template_id": "7"])
            #expect(memo == ["TALK_MEMO_DEFAULT_SEND", ["talk_message"]])
            let uuids = #"["\#(fixture.sandbox.friendUUID(of: 2))"]"#
            let fields: KeyValuePairs = ["template_id": "7", "receiver_uuids": uuids]
            let message = try await scopes("/v1/api/talk/friends/message/send", fields)
            #expect(message == ["TALK_MESSAGE_SEND", ["friends", "talk_message"]])
            try fixture.sandbox.setUser(1, ["scopes": ["talk_message"]])
            #expect(try await fixture.kakao.call(SendCustomMemo(templateID: 7), as: .userToken(token)).error == nil)
        }
    }

    @Test("Receivers must be 1 to 5 friends other than the sender, by uuids of this app")
    func receivers() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, Array(2...7))
            let own = "400 -2 Cannot contain a receiver who is identical to the sender in multicast mode."
            #expect(try await fixture.refusal(from: 1, to: [2, 1]) == own)
            let token = try #require(fixture.sandbox.accessToken(of: 1))
            func text(_ uuids: String?) async throws -> String? {
                var form = FormBody()
                form.append("template_id", "7")
                if let uuids { form.append("receiver_uuids", uuids) }
                var request = HTTPClientRequest(
                    method: .post,
                    url: "\(fixture.sandbox.url)/v1/api/talk/friends/message/send",
                    body: form.bytes
                )
                request.headerFields[.contentType] = FormBody.contentType
                request.headerFields[.authorization] = "bearer \(token)"
                let answer = try await fixture.client.send(request)
                #expect(answer.status == 400)
                #expect(answer.code == -2)
                return answer.json?["msg"]?.string
            }
            #expect(try await text(nil) == "The Parameter [receiver_uuids] cannot be null.")
            #expect(try await text("[]") == "The Parameter [receiver_uuids] cannot be empty.")
            let format =
                "Constraints on the parameter [receiver_uuids] are unsatisfied. The input receiver id(s) is invalid format."
            #expect(try await text(#"["abcdefg0001"]"#) == format)
            let six = (2...7 as ClosedRange<Int64>).map { "\"\(fixture.sandbox.friendUUID(of: $0))\"" }.joined(
                separator: ","
            )
            #expect(try await text("[\(six)]")?.hasPrefix("failed to parse parameter. name=receiver_uuids, ") == true)
            #expect(fixture.sandbox.talkMessages().isEmpty)
        }
    }

    @Test("A bad template, an unknown custom template, and a page of another domain are refused")
    func contents() async throws {
        var settings = KakaoSandboxSettings()
        settings.domains = ["example.com"]
        try await withSandbox(settings) { fixture in
            try fixture.sandbox.befriend(1, [])
            let token = try fixture.token(of: 1)
            var template = Fixture.template
            template["link"] = nil
            let bad = try await fixture.refusal(of: SendDefaultMemo(template: template), as: token)
            #expect(bad.hasPrefix("400 -2 failed to parse parameter. name=template_object, "))
            for page in ["ftp://example.com/", "https://other.example/"] {
                let refusal = try await fixture.refusal(of: SendScrapMemo(requestURL: page), as: token)
                #expect(refusal.hasPrefix("400 -2 failed to parse parameter. name=request_url, "))
            }
            #expect(try await fixture.kakao.call(SendCustomMemo(templateID: 7), as: token).error == nil)
            try fixture.sandbox.setTalkApp(["removed_templates": [7]])
            let removed = try await fixture.refusal(of: SendCustomMemo(templateID: 7), as: token)
            #expect(removed.hasPrefix("400 -2 failed to parse parameter. name=template_id, "))
            let scrap = SendScrapMemo(requestURL: "https://example.com/a", templateID: 7)
            #expect(try await fixture.refusal(of: scrap, as: token) == removed)
        }
    }

    // MARK: Faults

    @Test("A fault makes a part of the receivers fail, in a share of the messages")
    func partialFault() async throws {
        var settings = KakaoSandboxSettings()
        settings.seed = 7
        try await withSandbox(settings) { fixture in
            try fixture.sandbox.setTalkApp(["quotas": ["sender": .null, "receiver": .null, "pair": .null]])
            try fixture.sandbox.befriend(1, Array(2...6))
            let fault = try JSONValue(
                parsing: Array(
                    #"""
                    {"kind":"receivers","path":"/v1/api/talk/friends/message/default/send","code":-1,"share":0.4,
                    "probability":0.34,"msg":"internal server error!"}
                    """#.utf8
                )
            )
            #expect(try await fixture.control(.post, "/sandbox/faults", fault).status == 201)
            var partial = 0
            for _ in 0..<90 {
                let answer = try await fixture.message(from: 1, to: Array(2...6))
                guard !answer.failures.isEmpty else { continue }
                partial += 1
                #expect(answer.codes == [[-1, 2]])
                #expect(answer.failures[0].message == "internal server error!")
                #expect(answer.successfulReceivers.count == 3)
            }
            #expect((20...40).contains(partial))
            #expect(fixture.sandbox.talkTotals.failed == [-1: partial * 2])
            #expect(fixture.sandbox.talkTotals.delivered == ["talk_message_default": 90 * 5 - partial * 2])
        }
    }

    @Test("A fault for some users fails these receivers; with one receiver, the whole message")
    func userFault() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2, 3])
            var fault = Fault(.receivers)
            fault.code = -530
            fault.userIDs = [3]
            let id = try #require(fixture.sandbox.add(fault))
            #expect(try await fixture.message(from: 1, to: [2, 3]).codes == [[-530, 1]])
            #expect(try await fixture.refusal(from: 1, to: [3]) == "400 -530 a fault of the sandbox")
            #expect(try await fixture.message(from: 1, to: [2]).failures.isEmpty)
            #expect(fixture.sandbox.timesApplied(id) == 2)
        }
    }

    @Test("A lost response leaves the message delivered; other faults keep it from being sent")
    func lostResponse() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2])
            var fault = Fault(.dropAfterBody)
            fault.isCarriedOut = true
            fault.times = 1
            fault.userIDs = [2]
            fixture.sandbox.add(fault)
            let lost = try await fixture.refusal(from: 1, to: [2])
            #expect(lost.hasPrefix("Kakao did not answer"))
            #expect(fixture.sandbox.talkMessages().count == 1)
            var down = Fault(.status)
            down.status = 500
            down.code = -1
            down.times = 1
            fixture.sandbox.add(down)
            #expect(try await fixture.refusal(from: 1, to: [2]) == "500 -1 a fault of the sandbox")
            #expect(fixture.sandbox.talkMessages().count == 1)
        }
    }

    @Test("A fault of receivers needs a code")
    func invalidFault() async throws {
        try await withSandbox { fixture in
            let missing = try await fixture.control(.post, "/sandbox/faults", ["kind": "receivers"])
            #expect(missing.json?["field"] == "code")
            let share: JSONValue = ["kind": "receivers", "code": -1, "share": 2]
            #expect(try await fixture.control(.post, "/sandbox/faults", share).json?["field"] == "share")
        }
    }
}
