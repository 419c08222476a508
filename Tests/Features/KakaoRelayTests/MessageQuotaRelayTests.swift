import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Messages
import Server
import ServiceTesting
import Testing

/// Relayed messages beyond the quotas of a day, by the server's own count and by Kakao's.
@Suite(.timeLimit(.minutes(5))) struct MessageQuotaRelayTests {
    private static let message = "/v1/api/talk/friends/message/send"
    private static let memo = "/v2/api/talk/memo/send"
    private static let app = "API limit has been exceeded."
    private static let sender = "daily message limit per sender has been exceeded."
    private static let receiver = "The receiver's messages of the day are used up. Kakao counts anew at midnight."
    private static let pair =
        "The messages of the day from this sender to this receiver are used up. Kakao counts anew at midnight."

    /// A server with quotas, where users 7 and 6 are friends of users 8 to 12.
    private struct Sender {
        let service: TestService

        var sandbox: KakaoSandbox { service.kakao.sandbox }
        /// The calls that Kakao has received.
        var calls: Int { sandbox.stats.requests[MessageQuotaRelayTests.message, default: 0] }

        func uuids(_ userIDs: [Int64]) -> JSONValue { .array(userIDs.map { .string(sandbox.friendUUID(of: $0)) }) }

        func send(to userIDs: [Int64], from sender: Int64 = 7) async throws -> HTTPClientResponse {
            let token = try #require(sandbox.accessToken(of: sender))
            return try await service.api.with("Bearer \(token)")
                .post(MessageQuotaRelayTests.message, json: ["receiver_uuids": uuids(userIDs), "template_id": 7])
        }

        func sendMemo() async throws -> HTTPClientResponse {
            let token = try #require(sandbox.accessToken(of: 7))
            return try await service.api.with("Bearer \(token)").post(
                MessageQuotaRelayTests.memo,
                json: ["template_id": 7]
            )
        }

        func failure(_ code: Int, _ text: String, _ userIDs: [Int64]) -> JSONValue {
            ["code": .integer(code), "msg": .string(text), "receiver_uuids": uuids(userIDs)]
        }

        func used(_ quota: String) async throws -> Int64? {
            try await service.database.integer("SELECT sum(used) FROM message_quotas WHERE quota = '\(quota)'")
        }
    }

    private static func withQuotas(
        _ adjust: (inout MessageQuotaSettings) -> Void,
        _ body: (Sender) async throws -> Void
    ) async throws {
        try await withKakaoLogin {
            adjust(&$0.messages.quotas)
        } _: { service in
            for userID in [7, 6] as [Int64] { try service.kakao.sandbox.befriend(userID, Array(8...12)) }
            try await body(Sender(service: service))
        }
    }

    // MARK: Receivers left out

    @Test("A receiver without quota is left out, the others get the message, and nobody gets it twice")
    func leftOut() async throws {
        try await Self.withQuotas {
            $0.pair = 1
        } _: { sender in
            #expect(try await sender.send(to: [8]).status == 200)
            let answer = try await sender.send(to: [8, 9])
            #expect(answer.status == 200)
            #expect(answer.json?["successful_receiver_uuids"] == sender.uuids([9]))
            #expect(answer.json?["failure_info"] == [sender.failure(-536, Self.pair, [8])])
            #expect(sender.sandbox.talkMessages().map(\.receiverID) == [8, 9])
            // The receiver who was left out is not counted.
            #expect(try await sender.used("receiver") == 2)
            #expect(try await sender.used("app") == 2)
        }
    }

    @Test("A sender's quota reaches the first receivers; a receiver's quota counts the messages of all senders")
    func codes() async throws {
        try await Self.withQuotas {
            $0.sender = 2
            $0.receiver = 1
        } _: { sender in
            #expect(try await sender.send(to: [8], from: 6).status == 200)
            let answer = try await sender.send(to: [8, 9, 10, 11, 12])
            #expect(answer.json?["successful_receiver_uuids"] == sender.uuids([9, 10]))
            let failures: JSONValue = [
                sender.failure(-532, Self.sender, [11, 12]), sender.failure(-533, Self.receiver, [8]),
            ]
            #expect(answer.json?["failure_info"] == failures)
        }
    }

    @Test("The last messages of the app reach the first receivers, and the others are reported with -10")
    func app() async throws {
        try await Self.withQuotas {
            $0.app = 1
        } _: { sender in
            let answer = try await sender.send(to: [8, 9])
            #expect(answer.json?["successful_receiver_uuids"] == sender.uuids([8]))
            #expect(answer.json?["failure_info"] == [sender.failure(-10, Self.app, [9])])
        }
    }

    @Test("Receivers that were left out join those whom Kakao does not reach, by code")
    func merged() async throws {
        try await Self.withQuotas {
            $0.pair = 2
        } _: { sender in
            for _ in 0..<2 { #expect(try await sender.send(to: [8]).status == 200) }
            #expect(try await sender.send(to: [9]).status == 200)
            // By Kakao's count, user 9 can have no more messages.
            try sender.sandbox.setTalkApp(["quotas": ["pair": 1]])
            try sender.sandbox.setUser(10, ["allows_messages": false])
            let answer = try await sender.send(to: [8, 9, 10, 11])
            #expect(answer.json?["successful_receiver_uuids"] == sender.uuids([11]))
            let failures = answer.json?["failure_info"]
            #expect(failures?.array?.count == 2)
            #expect(failures?[0]?["code"] == -536)
            #expect(failures?[0]?["receiver_uuids"] == sender.uuids([9, 8]))
            // Kakao's text.
            #expect(failures?[0]?["msg"]?.string?.hasPrefix("daily message limit") == true)
            #expect(failures?[1]?["code"] == -530)
            #expect(failures?[1]?["receiver_uuids"] == sender.uuids([10]))
        }
    }

    // MARK: No receiver left

    @Test("A message without receivers is answered as Kakao does, and is not sent to Kakao")
    func noneLeft() async throws {
        try await Self.withQuotas {
            $0.pair = 1
        } _: { sender in
            #expect(try await sender.send(to: [8]).status == 200)
            let answer = try await sender.send(to: [8])
            #expect(answer.status == 400)
            #expect(answer.problem == "message-quota-used-up")
            #expect(answer.json?["code"] == -536)
            #expect(answer.json?["msg"]?.string == Self.pair)
            #expect(answer.json?["quota"] == "pair")
            #expect(answer.json?["failure_info"] == [sender.failure(-536, Self.pair, [8])])
            // The next day in Seoul.
            let seconds = try #require(answer.headerFields[.retryAfter].flatMap { Int($0) })
            #expect((1...86_400).contains(seconds))
            #expect(sender.calls == 1)
            #expect(try await sender.used("pair") == 1)
        }
    }

    @Test("If the causes differ, the error has the code of the quota that counts most users")
    func mixed() async throws {
        try await Self.withQuotas {
            $0.pair = 1
            $0.receiver = 2
        } _: { sender in
            #expect(try await sender.send(to: [8]).status == 200)
            for user in [7, 6] as [Int64] { #expect(try await sender.send(to: [9], from: user).status == 200) }
            let answer = try await sender.send(to: [8, 9])
            #expect(answer.status == 400)
            #expect(answer.json?["code"] == -533)
            #expect(answer.json?["quota"] == "receiver")
            let failures: JSONValue = [
                sender.failure(-533, Self.receiver, [9]), sender.failure(-536, Self.pair, [8]),
            ]
            #expect(answer.json?["failure_info"] == failures)
        }
    }

    @Test(
        "The server's own count and Kakao's give the same answers, apart from texts of Kakao's that are not known",
        arguments: [("app", -10), ("sender", -532), ("receiver", -533), ("pair", -536)]
    )
    func sameAsKakao(quota: String, code: Int64) async throws {
        // The answers to a message to users 8 and 9, and to one to user 8, after a first one to user 8.
        func answers(_ adjust: (inout MessageQuotaSettings) -> Void, sandbox: JSONObject) async throws -> [JSONValue?] {
            var answers: [JSONValue?] = []
            try await Self.withQuotas(adjust) { sender in
                try sender.sandbox.setTalkApp(["quotas": .object(sandbox)])
                #expect(try await sender.send(to: [8]).status == 200)
                for receivers in [[8, 9], [8]] as [[Int64]] {
                    let answer = try await sender.send(to: receivers)
                    answers += [
                        .integer(answer.status), answer.json?["code"], answer.json?["successful_receiver_uuids"],
                    ]
                    if quota == "app" || quota == "sender" { answers.append(answer.json?["msg"]) }
                    if answer.status == 200 {
                        let failure = answer.json?["failure_info"]?[0]
                        answers += [failure?["code"], failure?["receiver_uuids"]]
                    }
                }
            }
            return answers
        }
        let limit = quota == "receiver" || quota == "pair" ? 1 : 2
        let own = try await answers(
            { quotas in
                switch quota {
                case "app": quotas.app = limit
                case "sender": quotas.sender = limit
                case "receiver": quotas.receiver = limit
                default: quotas.pair = limit
                }
            },
            sandbox: [:]
        )
        let kakao = try await answers({ _ in }, sandbox: [quota: .integer(limit)])
        #expect(own == kakao)
        #expect(own.contains(.integer(code)))
    }

    // MARK: Messages to oneself

    @Test("A memo beyond the quota is answered with Kakao's code")
    func memo() async throws {
        try await Self.withQuotas {
            $0.memo = 1
        } _: { sender in
            #expect(try await sender.sendMemo().status == 200)
            let answer = try await sender.sendMemo()
            #expect(answer.status == 400)
            #expect(answer.json?["code"] == -536)
            #expect(answer.json?["msg"]?.string == Self.pair)
            #expect(answer.json?["quota"] == "pair")
            #expect(answer.json?["failure_info"] == nil)
            #expect(answer.headerFields[.retryAfter] != nil)
            #expect(sender.sandbox.stats.requests[Self.memo] == 1)
            // Messages to others have quotas of their own.
            #expect(try await sender.send(to: [8]).status == 200)
        }
    }

    @Test("A memo counts against the quotas of the sender and of the app", arguments: [("sender", -532), ("app", -10)])
    func memoOfSender(quota: String, code: Int64) async throws {
        try await Self.withQuotas {
            if quota == "app" { $0.app = 1 } else { $0.sender = 1 }
        } _: { sender in
            #expect(try await sender.send(to: [8]).status == 200)
            let answer = try await sender.sendMemo()
            #expect(answer.status == 400)
            #expect(answer.json?["code"] == .integer(code))
            #expect(answer.json?["quota"]?.string == quota)
        }
    }

    // MARK: Errors of Kakao

    @Test("If Kakao rejects the rest, its error names the receivers that were left out too")
    func refused() async throws {
        try await Self.withQuotas {
            $0.pair = 1
        } _: { sender in
            #expect(try await sender.send(to: [8]).status == 200)
            try sender.sandbox.setUser(9, ["allows_messages": false])
            let answer = try await sender.send(to: [8, 9])
            #expect(answer.status == 400)
            #expect(answer.json?["code"] == -530)
            #expect(answer.json?["failure_info"] == [sender.failure(-536, Self.pair, [8])])
            #expect(try await sender.used("pair") == 1)
        }
    }

    @Test("Without a response of Kakao, the receivers that were sent to stay counted, and the others are certain")
    func lost() async throws {
        try await Self.withQuotas {
            $0.pair = 1
        } _: { sender in
            #expect(try await sender.send(to: [8]).status == 200)
            var fault = Fault(.dropAfterBody)
            fault.isCarriedOut = true
            fault.path = Self.message
            sender.sandbox.add(fault)
            let answer = try await sender.send(to: [8, 9])
            #expect(answer.status == 504)
            #expect(answer.problem == "outcome-unknown")
            #expect(answer.json?["failure_info"] == [sender.failure(-536, Self.pair, [8])])
            #expect(try await sender.used("pair") == 2)
            #expect(sender.sandbox.talkMessages().map(\.receiverID) == [8, 9])
        }
    }
}
