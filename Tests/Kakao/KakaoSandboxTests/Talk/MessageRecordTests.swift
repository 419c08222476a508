import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Testing

/// The record of messages, by which a test proves that each was sent once.
@Suite struct MessageRecordTests {
    private static func template(_ text: String) -> JSONObject {
        var template = Fixture.template
        template["text"] = .string(text)
        return template
    }

    @Test("Messages are listed in pages, also of one sender or receiver")
    func pages() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2, 3])
            try fixture.sandbox.befriend(4, [2])
            _ = try await fixture.message(from: 1, to: [2, 3])
            _ = try await fixture.message(from: 4, to: [2])
            let path = "/sandbox/talk/messages"
            let first = try await fixture.control(.get, "\(path)?limit=2").json
            #expect(first?["items"]?.array?.map { $0["receiver_id"] } == ["2", "3"])
            #expect(first?["next"] == 2)
            let item = first?["items"]?[0]
            #expect(item?["sender_id"] == "1")
            #expect(item?["uuid"]?.string == fixture.sandbox.friendUUID(of: 2))
            #expect(item?["call"] == "talk_message_default")
            #expect(item?["content"] == ["template_object": .object(Fixture.template)])
            #expect(try await fixture.control(.get, "\(path)?after=2").json?["items"]?.array?.count == 1)
            #expect(try await fixture.control(.get, "\(path)?sender_id=4").json?["items"]?.array?.count == 1)
            #expect(try await fixture.control(.get, "\(path)?receiver_id=2").json?["items"]?.array?.count == 2)
            let totals = try await fixture.control(.get, "\(path)/totals").json
            #expect(totals == ["delivered": ["talk_message_default": 3], "failed": [:], "kept": 3])
            #expect(try await fixture.control(.delete, path).status == 204)
            #expect(fixture.sandbox.talkMessages().isEmpty)
            #expect(fixture.sandbox.talkTotals.delivered.isEmpty)
        }
    }

    @Test("A content that one user received from another twice is found, and no other")
    func repeated() async throws {
        try await withSandbox { fixture in
            for sender in [1, 4] as [Int64] { try fixture.sandbox.befriend(sender, [2, 3]) }
            _ = try await fixture.message(from: 1, to: [2, 3], Self.template("a"))
            _ = try await fixture.message(from: 1, to: [2, 3], Self.template("b"))
            _ = try await fixture.message(from: 4, to: [2, 3], Self.template("a"))
            #expect(fixture.sandbox.repeatedTalkMessages().isEmpty)
            for _ in 0..<2 { _ = try await fixture.message(from: 1, to: [3], Self.template("b")) }
            let content = JSONValue.object(["template_object": .object(Self.template("b"))])
            let repeated = fixture.sandbox.repeatedTalkMessages()
            #expect(repeated.map(\.content) == [content.description])
            #expect(repeated.map(\.times) == [3])
            #expect(repeated.map { [$0.senderID, $0.receiverID] } == [[1, 3]])
            let items = try await fixture.control(.get, "/sandbox/talk/messages/repeated").json?["items"]
            #expect(items == [["sender_id": "1", "receiver_id": "3", "times": 3, "content": content]])
        }
    }

    @Test("Only the newest messages are kept")
    func bounds() async throws {
        var settings = KakaoSandboxSettings()
        settings.maximumMessages = 3
        try await withSandbox(settings) { fixture in
            try fixture.sandbox.befriend(1, [])
            let token = try fixture.token(of: 1)
            for id in 1...5 as ClosedRange<Int64> {
                _ = try await fixture.kakao.call(SendCustomMemo(templateID: id), as: token)
            }
            #expect(fixture.sandbox.talkMessages().map(\.sequence) == [3, 4, 5])
            #expect(fixture.sandbox.talkTotals.kept == 3)
            #expect(fixture.sandbox.talkTotals.delivered == ["talk_memo_custom": 5])
        }
    }
}
