import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Testing

/// The quotas of messages, by Kakao's clock in Seoul.
@Suite struct MessageQuotaTests {
    private static let sender = "400 -532 daily message limit per sender has been exceeded."
    private static let app = "400 -10 API limit has been exceeded."

    private static func withQuotas(_ quotas: JSONValue, _ body: (Fixture) async throws -> Void) async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.setTalkApp(["quotas": quotas])
            for userID in 1...3 as ClosedRange<Int64> { try fixture.sandbox.befriend(userID, Array(11...16)) }
            try await body(fixture)
        }
    }

    @Test("Kakao's quotas apply, and the daily ones reset the next day")
    func defaults() async throws {
        try await withSandbox { fixture in
            let app = try await fixture.control(.get, "/sandbox/talk/app").json
            #expect(
                app == [
                    "reviewed": true,
                    "quotas": [
                        "app": 30_000, "unreviewed_app": 30, "sender": 100, "receiver": 100, "pair": 20,
                        "sender_month": .null,
                    ],
                    "memos_count_as_messages": false, "removed_templates": [],
                ]
            )
            try fixture.sandbox.befriend(1, Array(11...16))
            for _ in 0..<20 { _ = try await fixture.message(from: 1, to: [11, 12, 13, 14]) }
            let pair = "400 -536 daily message limit per sender and receiver has been exceeded."
            #expect(try await fixture.refusal(from: 1, to: [11]) == pair)
            for _ in 0..<20 { _ = try await fixture.message(from: 1, to: [15]) }
            #expect(try await fixture.refusal(from: 1, to: [16]) == Self.sender)
            fixture.sandbox.moveClock(by: .seconds(86_400))
            #expect(try await fixture.message(from: 1, to: [11, 16]).successfulReceivers.count == 2)
        }
    }

    @Test("A quota within a message reaches the first receivers, and fails the others")
    func partial() async throws {
        try await Self.withQuotas(["sender": 3]) { fixture in
            let answer = try await fixture.message(from: 1, to: [11, 12, 13, 14, 15])
            #expect(answer.codes == [[-532, 2]])
            #expect(answer.successfulReceivers == [11, 12, 13].map { fixture.sandbox.friendUUID(of: $0) })
            #expect(try await fixture.refusal(from: 1, to: [11]) == Self.sender)
            #expect(try await fixture.message(from: 2, to: [11]).failures.isEmpty)
        }
    }

    @Test("The quota of a receiver counts the messages of all senders")
    func receiver() async throws {
        try await Self.withQuotas(["receiver": 2]) { fixture in
            _ = try await fixture.message(from: 1, to: [11])
            _ = try await fixture.message(from: 2, to: [11])
            let receiver = "400 -533 daily message limit per receiver has been exceeded."
            #expect(try await fixture.refusal(from: 3, to: [11]) == receiver)
            #expect(try await fixture.message(from: 3, to: [11, 12]).codes == [[-533, 1]])
        }
    }

    @Test("The quota of the app counts messages and memos; a failed message takes nothing from it")
    func wholeApp() async throws {
        try await Self.withQuotas(["app": 3]) { fixture in
            try fixture.sandbox.setUser(11, ["allows_messages": false])
            #expect(try await fixture.message(from: 1, to: [11, 12]).codes == [[-530, 1]])
            let token = try fixture.token(of: 1)
            _ = try await fixture.kakao.call(SendCustomMemo(templateID: 7), as: token)
            #expect(try await fixture.message(from: 2, to: [12, 13]).codes == [[-10, 1]])
            #expect(try await fixture.refusal(from: 3, to: [12]) == Self.app)
            #expect(try await fixture.refusal(of: SendCustomMemo(templateID: 7), as: token) == Self.app)
            #expect(try await fixture.control(.delete, "/sandbox/talk/app").status == 204)
            #expect(try await fixture.message(from: 3, to: [12]).failures.isEmpty)
        }
    }

    @Test("A memo counts as a message of the user to itself, if that is set")
    func memos() async throws {
        try await Self.withQuotas(["pair": 1]) { fixture in
            let (token, memo) = (try fixture.token(of: 1), SendCustomMemo(templateID: 7))
            for _ in 0..<3 { _ = try await fixture.kakao.call(memo, as: token) }
            try await fixture.set("/sandbox/talk/app", ["memos_count_as_messages": true])
            _ = try await fixture.kakao.call(memo, as: token)
            #expect(try await fixture.refusal(of: memo, as: token).hasPrefix("400 -536 "))
        }
    }

    @Test("A month's quota outlasts the day")
    func month() async throws {
        try await Self.withQuotas(["sender_month": 2, "sender": 2]) { fixture in
            _ = try await fixture.message(from: 1, to: [11, 12])
            let month = "400 -531 monthly message limit per sender has been exceeded."
            #expect(try await fixture.refusal(from: 1, to: [13]) == month)
            // 32 days later, another month has begun.
            fixture.sandbox.moveClock(by: .seconds(32 * 86_400))
            #expect(try await fixture.message(from: 1, to: [13]).failures.isEmpty)
        }
    }

    @Test("Before the review, only members of the team receive messages, 30 a day")
    func review() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.setTalkApp(["reviewed": false, "quotas": ["pair": .null]])
            try fixture.sandbox.befriend(1, [2, 3])
            try fixture.sandbox.setUser(2, ["team_member": true])
            let refused =
                "400 -2 Constraints on the parameter [receiver_uuids] are unsatisfied. Not allowed to send a message to some of receivers."
            #expect(try await fixture.refusal(from: 1, to: [2, 3]) == refused)
            for _ in 0..<30 { _ = try await fixture.message(from: 1, to: [2]) }
            #expect(try await fixture.refusal(from: 1, to: [2]) == Self.app)
        }
    }

    @Test("An invalid quota is refused", arguments: [#"{"sender":-1}"#, "7", #"{"day":1}"#])
    func invalid(quotas: String) async throws {
        try await withSandbox { fixture in
            let body: JSONValue = ["quotas": try JSONValue(parsing: Array(quotas.utf8))]
            #expect(try await fixture.control(.post, "/sandbox/talk/app", body).status == 400)
        }
    }
}
