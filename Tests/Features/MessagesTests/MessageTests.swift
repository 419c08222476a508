import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Messages
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints

/// `/v1/messages` against the sandbox.
@Suite(.timeLimit(.minutes(5))) struct MessageTests {
    private static let text: JSONValue = [
        "object_type": "text", "text": "Your order is on its way.", "link": ["web_url": "https://shop.example.com"],
    ]

    private static let sends = "/v1/api/talk/friends/message/default/send"

    private static func dryRun(_ body: JSONValue) -> JSONValue {
        var members = body.object ?? JSONObject()
        members["dry_run"] = true
        return .object(members)
    }

    @Test("A message to oneself is stored, sent once, and shown with its outcome")
    func memo() async throws {
        try await withAccounts { service in
            try await service.logIn(1, consentingTo: ["talk_message"])
            let message = try await service.createMessage(to: "me", ["template": Self.text])
            #expect(message.status == 202)
            let path = try #require(message.headerFields[.location])
            #expect(path == "/v1/messages/\(message.json?["id"]?.string ?? "")")
            try await service.waitUntilEnded(path)
            let shown = try await service.api.get(path).json
            #expect(shown?["state"] == "done" && shown?["receivers"]?["sent"] == 1)
            let sent = service.kakao.sandbox.talkMessages(from: 1)
            #expect(sent.count == 1 && sent.first?.receiverID == 1)
            #expect(try await service.receivers(path).first?["uuid"] == .null)
        }
    }

    @Test("Users are found among the sender's friends, and reached five at a time; others fail with the reason")
    func users() async throws {
        try await withAccounts { service in
            try await service.befriend(1, Array(101...112))
            let users: [JSONValue] = (101...113).map { .string(String($0)) }
            let path = try await service.send(to: ["users": .array(users)], ["template": Self.text])
            try await service.waitUntilEnded(path)
            let shown = try await service.api.get(path).json
            #expect(shown?["receivers"]?["sent"] == 12 && shown?["receivers"]?["failed"] == 1)
            let failed = try await service.receivers(path, "?state=failed")
            #expect(failed.map { $0["user_id"] } == ["113"])
            #expect(
                failed.first?["reason"] == "not_in_friends_list" && failed.first?["remedy"]?.string?.isEmpty == false
            )
            #expect(try await service.receivers(path, "?state=sent").allSatisfy { $0["attempts"] == 1 })
            #expect(Set(service.kakao.sandbox.talkMessages().map(\.receiverID)) == Set(101...112))
        }
    }

    @Test("What Kakao says of each receiver is stored for each, and nobody who was reached is sent to again")
    func partial() async throws {
        try await withAccounts { service in
            try await service.befriend(1, [101, 102, 103])
            try service.kakao.sandbox.setUser(102, ["allows_messages": false])
            let path = try await service.send(to: service.friends([101, 102, 103, 999]), ["template": Self.text])
            try await eventually("two outcomes and one wait") {
                let counts = try await service.api.get(path).json?["receivers"]
                return counts?["sent"] == 2 && counts?["failed"] == 1 && counts?["waiting"] == 1
            }
            let receivers = try await service.receivers(path)
            #expect(receivers.map { $0["reason"] ?? .null } == [.null, "refuses_messages", .null, "not_a_friend"])
            #expect(receivers.map { $0["code"] ?? .null } == [.null, -530, .null, -502])
            // Kakao learns of friendships within minutes: the receiver is tried once more.
            try await service.makeDue()
            try await service.waitUntilEnded(path)
            #expect(try await service.receivers(path)[3]["state"] == "failed")
            #expect(service.kakao.sandbox.repeatedTalkMessages().isEmpty)
        }
    }

    @Test("A request that is repeated with its Idempotency-Key sends nothing more")
    func idempotency() async throws {
        try await withAccounts { service in
            try await service.logIn(1, consentingTo: ["talk_message"])
            let fields: JSONObject = ["template": Self.text]
            let first = try await service.createMessage(to: "me", fields, key: "a")
            let second = try await service.createMessage(to: "me", fields, key: "a")
            #expect(first.status == 202 && second.status == 202 && first.body == second.body)
            let other = try await service.createMessage(to: "me", ["template_id": 7], key: "a")
            #expect(other.status == 422 && other.problem == "idempotency-key-in-use")
            try await service.waitUntilEnded(try #require(first.headerFields[.location]))
            #expect(service.kakao.sandbox.talkMessages().count == 1)
        }
    }

    @Test("A response that was lost leaves the receivers uncertain, and they are not sent to again")
    func lostResponse() async throws {
        try await withAccounts { service in
            try await service.befriend(1, [101, 102])
            service.kakao.fail(Self.sends, .dropAfterBody, times: 1) { $0.path = Self.sends }
            let path = try await service.send(to: service.friends([101, 102]), ["template": Self.text])
            try await service.waitUntilEnded(path)
            let receivers = try await service.receivers(path)
            #expect(receivers.map { $0["state"] } == ["uncertain", "uncertain"])
            #expect(receivers.allSatisfy { $0["reason"] == "no_response" })
            #expect(service.kakao.sandbox.repeatedTalkMessages().isEmpty)
        }
    }

    @Test("The metrics count the receivers that a killed server has left uncertain, and the log names their message")
    func leftByKilledServer() async throws {
        let id = UUID.v7().lowercased
        try await withAccounts { service in
            try await service.database.pool.write(
                """
                WITH message AS (
                    INSERT INTO messages (id, sender, addressing, state, template_id, delivery, when_over_quota, created_at)
                    VALUES ('\(id)', 1, 'friends', 'active', 1, 'at_most_once', 'wait', now())
                    RETURNING id
                )
                INSERT INTO message_receivers (message_id, position, uuid, state, claims, lease)
                SELECT id, number, 'uuid' || number, 'sending', 1, '00000000-0000-7000-8000-000000000001'
                FROM message, generate_series(0, 2) AS number
                """
            )
            try await service.waitUntilEnded("/v1/messages/\(id)")
            let uncertain = try await service.api.metrics()
                .value("kakao_push_message_receivers_total", ["outcome": "uncertain"])
            #expect(uncertain == 3)
            let line = service.log.lines.first { $0.message == "Work of an expired lease reclaimed" }
            #expect(line?.metadata["uncertain"] == "\(id): 3" && line?.metadata["queue"] == "messages")
        }
    }

    @Test("The metrics show unfinished messages by state, and receivers by outcome")
    func metrics() async throws {
        try await withAccounts {
            $0.messages.quotas.pair = 1
        } _: { service in
            try await service.befriend(1, [101, 102])
            func outcomes() async throws -> [Double?] {
                let metrics = try await service.api.metrics()
                return ["sent", "failed", "uncertain"].map {
                    metrics.value("kakao_push_message_receivers_total", ["outcome": $0])
                }
            }
            func messages(_ state: String) async throws -> Double? {
                try await service.api.metrics().value("kakao_push_messages", ["state": state])
            }
            #expect(try await outcomes() == [0, 0, 0])
            #expect(try await messages("sending") == 0)
            // User 103 is not among the friends.
            let users: JSONValue = ["users": ["101", "103"]]
            try await service.waitUntilEnded(try await service.send(to: users, ["template": Self.text]))
            #expect(try await outcomes() == [1, 1, 0])
            // The quota of the pair is used up.
            let over: JSONObject = ["template": Self.text, "when_over_quota": "fail"]
            try await service.waitUntilEnded(try await service.send(to: service.friends([101]), over))
            #expect(try await outcomes() == [1, 2, 0])
            service.kakao.fail(Self.sends, .dropAfterBody, times: 1) { $0.path = Self.sends }
            try await service.waitUntilEnded(
                try await service.send(to: service.friends([102]), ["template": Self.text])
            )
            #expect(try await outcomes() == [1, 2, 1])
            _ = try await service.send(to: service.friends([101]), ["template": Self.text])
            let later: JSONObject = ["template": Self.text, "send_at": "2099-01-01T00:00:00Z"]
            for _ in 0..<2 { _ = try await service.send(to: service.friends([101]), later) }
            try await eventually("a message waits for the quota") { try await messages("sending") == 1 }
            #expect(try await messages("scheduled") == 2)
        }
    }

    @Test("A fault of Kakao is retried; the receivers are reached once")
    func fault() async throws {
        try await withAccounts { service in
            try await service.befriend(1, [101, 102])
            service.kakao.fail(Self.sends, status: 500, code: -1, times: 2) { $0.path = Self.sends }
            let path = try await service.send(to: service.friends([101, 102]), ["template": Self.text])
            try await service.waitUntilEnded(path)
            #expect(try await service.receivers(path).map { $0["attempts"] } == [3, 3])
            #expect(service.kakao.sandbox.talkMessages().count == 2)
        }
    }

    @Test(
        "While something else responds in Kakao's place, receivers wait without a counted attempt, and are reached once"
    )
    func anotherHost() async throws {
        try await withAccounts { service in
            try await service.befriend(1, [101, 102])
            service.kakao.fail(Self.sends, .anotherHost, times: 2) { $0.path = Self.sends }
            let path = try await service.send(to: service.friends([101, 102]), ["template": Self.text])
            try await service.waitUntilEnded(path)
            let receivers = try await service.receivers(path)
            #expect(receivers.map { $0["state"] } == ["sent", "sent"])
            #expect(receivers.map { $0["attempts"] } == [1, 1])
            #expect(service.kakao.sandbox.talkMessages().count == 2)
            #expect(try await service.api.get("/v1/status").json?["sender"]?["state"] == "running")
        }
    }

    @Test("Without a login or a scope, the receivers fail with the page where the sender removes the cause")
    func sender() async throws {
        try await withAccounts { service in
            let unknown = try await service.send(to: "me", ["template": Self.text])
            try await service.waitUntilEnded(unknown)
            let first = try #require(try await service.receivers(unknown).first)
            #expect(first["reason"] == "login_required")
            #expect(first["consent_url"]?.string?.contains("/login/kakao?user_id=1") == true)
            try await service.logIn(1, consentingTo: [])
            let unconsented = try await service.send(to: "me", ["template": Self.text])
            try await service.waitUntilEnded(unconsented)
            let second = try #require(try await service.receivers(unconsented).first)
            #expect(second["reason"] == "missing_scope" && second["required_scopes"] == ["talk_message"])
            #expect(second["consent_url"]?.string?.contains("talk_message") == true)
        }
    }

    @Test("Beyond a quota a message waits for the next day, or fails; relayed messages count too")
    func quota() async throws {
        try await withAccounts {
            $0.messages.quotas.pair = 2
        } _: { service in
            try await service.befriend(1, [101])
            let uuid = service.kakao.sandbox.friendUUID(of: 101)
            let relayed = try await service.api.post(
                "/v1/api/talk/friends/message/send",
                json: [
                    "target_id": 1, "target_id_type": "user_id", "receiver_uuids": [.string(uuid)], "template_id": 7,
                ]
            )
            #expect(relayed.status == 200)
            try await service.waitUntilEnded(try await service.send(to: service.friends([101]), ["template_id": 7]))
            let waiting = try await service.send(to: service.friends([101]), ["template_id": 7])
            try await eventually("the receiver waits") {
                try await service.receivers(waiting).first?["state"] == "waiting"
            }
            let receiver = try #require(try await service.receivers(waiting).first)
            #expect(receiver["reason"] == "pair_quota" && receiver["retry_at"]?.string != nil)
            let failing = try await service.send(
                to: service.friends([101]),
                ["template_id": 7, "when_over_quota": "fail"]
            )
            try await service.waitUntilEnded(failing)
            #expect(try await service.receivers(failing).first?["reason"] == "pair_quota")
            let refused = try await service.api.post(
                "/v1/api/talk/friends/message/send",
                json: [
                    "target_id": 1, "target_id_type": "user_id", "receiver_uuids": [.string(uuid)], "template_id": 7,
                ]
            )
            #expect(refused.status == 400 && refused.problem == "message-quota-used-up")
            // A new day begins.
            try await service.database.pool.write("DELETE FROM message_quotas")
            try await service.makeDue()
            try await service.waitUntilEnded(waiting)
            #expect(service.kakao.sandbox.talkMessages().count == 3)
        }
    }

    @Test("Kakao's own count of a quota is believed: the receivers wait, and others of the same quota with them")
    func exhausted() async throws {
        try await withAccounts { service in
            try service.kakao.sandbox.setTalkApp(["quotas": ["sender": 5]])
            try await service.befriend(1, Array(101...120))
            let path = try await service.send(to: service.friends(Array(101...120)), ["template_id": 7])
            try await eventually("all have an outcome or wait") {
                let counts = try await service.api.get(path).json?["receivers"]
                return counts?["sent"] == 5 && counts?["waiting"] == 15
            }
            #expect(try await service.receivers(path, "?state=waiting").allSatisfy { $0["reason"] == "sender_quota" })
        }
    }

    @Test("A scheduled message can be canceled, and an expired one is not sent")
    func ends() async throws {
        try await withAccounts { service in
            try await service.logIn(1, consentingTo: ["talk_message"])
            let later = Date() + 3600
            let scheduled = try await service.send(
                to: "me",
                ["template": Self.text, "send_at": .string(later.rfc3339)]
            )
            #expect(try await service.api.get(scheduled).json?["state"] == "scheduled")
            let canceled = try await service.api.post("\(scheduled)/cancel")
            #expect(canceled.json?["state"] == "canceled" && canceled.json?["receivers"]?["skipped"] == 1)
            #expect(try await service.api.post("\(scheduled)/cancel").status == 200)
            let expiring = try await service.send(
                to: "me",
                [
                    "template": Self.text, "send_at": .string((later - 60).rfc3339),
                    "expires_at": .string(later.rfc3339),
                ]
            )
            try await service.database.pool.write(
                "UPDATE messages SET expires_at = now() - interval '1 s' WHERE state = 'active'"
            )
            try await service.waitUntilEnded(expiring)
            #expect(try await service.api.get(expiring).json?["state"] == "expired")
            #expect(try await service.api.post("\(expiring)/cancel").problem == "message-ended")
            #expect(try await service.receivers(expiring).first?["reason"] == "expired")
            #expect(service.kakao.sandbox.talkMessages().isEmpty)
        }
    }

    @Test("A dry run says who would be reached and why others would not, and sends nothing")
    func dryRun() async throws {
        try await withAccounts {
            $0.messages.quotas.receiver = 1
        } _: { service in
            try await service.befriend(1, [101, 102, 103])
            try await service.waitUntilEnded(try await service.send(to: service.friends([101]), ["template_id": 7]))
            let preview = try await service.createMessage(
                to: ["users": ["101", "102", "103", "104"]],
                ["template": Self.text, "dry_run": true]
            )
            #expect(preview.status == 200 && preview.json?["sendable"] == 2)
            let receivers = preview.json?["receivers"]?.array ?? []
            #expect(receivers.map { $0["state"] } == ["waiting", "pending", "pending", "failed"])
            #expect(receivers.map { $0["reason"] ?? .null } == ["receiver_quota", .null, .null, "not_in_friends_list"])
            #expect(receivers.first?["retry_at"]?.string != nil)
            let unknown = try await service.createMessage(to: "me", ["template_id": 7, "dry_run": true], sender: 2)
            #expect(unknown.json?["receivers"]?[0]?["reason"] == "login_required")
            #expect(service.kakao.sandbox.talkMessages().count == 1)
            #expect(try await service.database.count("messages") == 1)
        }
    }

    @Test("A user who is erased is no sender and no receiver any more")
    func erasure() async throws {
        try await withAccounts { service in
            try await service.befriend(1, [2])
            try await service.befriend(2, [1])
            for (sender, receiver) in [(1, 2), (2, 1)] {
                let path = try #require(
                    try await service.createMessage(
                        to: ["users": [.integer(Int64(receiver))]],
                        ["template_id": 7],
                        sender: Int64(sender)
                    )
                    .headerFields[.location]
                )
                try await service.waitUntilEnded(path)
            }
            #expect(try await service.api.delete("/v1/users/1").status == 204)
            #expect(try await service.database.count("messages WHERE sender = 1") == 0)
            #expect(try await service.database.count("message_receivers WHERE user_id = 1") == 0)
            #expect(try await service.database.count("messages") == 1)
        }
    }

    @Test("More messages than requests at a time are sent at the given rate, and each once")
    func many() async throws {
        try await withAccounts {
            $0.messages.requestsPerSecond = 20
        } _: { service in
            try await service.befriend(1, Array(101...140))
            let paths = try await (0..<40).asyncMap { index in
                try await service.send(to: service.friends([Int64(101 + index)]), ["template_id": 7])
            }
            for path in paths { try await service.waitUntilEnded(path) }
            #expect(service.kakao.sandbox.talkMessages().count == 40)
            #expect(service.kakao.sandbox.repeatedTalkMessages().isEmpty)
        }
    }

    @Test("A template that Kakao would reject is not stored; what it would cut is returned")
    func lint() async throws {
        try await withAccounts { service in
            try await service.logIn(1, consentingTo: ["talk_message"])
            let rejected = try await service.createMessage(
                to: "me",
                ["template": ["object_type": "text", "text": "a"]]
            )
            #expect(rejected.status == 400 && rejected.problem == "invalid-template")
            var huge = Self.text.object ?? JSONObject()
            huge["text"] = .string(String(repeating: "a", count: 10_240))
            let large = try await service.createMessage(to: "me", ["template": .object(huge)])
            #expect(large.status == 400 && large.json?["field"] == "template")
            let text = JSONValue.string(String(repeating: "가", count: 1800))
            let args = try await service.createMessage(
                to: "me",
                ["template_id": 7, "template_args": ["a": text, "b": text]]
            )
            #expect(args.status == 400 && args.json?["field"] == "template_args")
            var long = Self.text.object ?? JSONObject()
            long["text"] = .string(String(repeating: "가", count: 201))
            let stored = try await service.createMessage(to: "me", ["template": .object(long)])
            #expect(stored.status == 202)
            #expect(stored.json?["findings"]?[0]?["effect"] == "truncated")
        }
    }

    @Test(
        "Invalid requests name the field",
        arguments: [
            (["to": "you", "template_id": 7], "to"), (["to": ["friends": ["a", "a"]], "template_id": 7], "to"),
            (["to": ["users": []], "template_id": 7], "to"), (["to": "me"], "template"),
            (["to": "me", "template_id": 7, "template": [:]], "template"),
            (["to": "me", "template_id": 7, "expires_at": "2020-01-01T00:00:00Z"], "expires_at"),
            (
                [
                    "to": "me", "template_id": 7, "send_at": "2020-01-01T00:00:00Z",
                    "expires_at": "2020-01-02T00:00:00Z",
                ], "send_at"
            ),
        ] as [(JSONObject, String)]
    )
    func invalid(fields: JSONObject, field: String) async throws {
        try await withAccounts { service in
            var fields = fields
            fields["sender"] = 1
            let response = try await service.api.post("/v1/messages", json: .object(fields))
            #expect(response.status == 400 && response.json?["field"]?.string == field, "\(response.text)")
            // The body is JSON, whatever is wrong with a value.
            #expect(!response.text.contains("Invalid JSON"), "\(response.text)")
        }
    }

    @Test("A message of more than ten minutes ago is refused, unless its first response is stored under its key")
    func past() async throws {
        try await withAccounts { service in
            try await service.logIn(1, consentingTo: ["talk_message"])
            let body: JSONValue = [
                "sender": 1, "to": "me", "template": Self.text, "send_at": "2001-01-01T00:00:00Z",
                "expires_at": "2001-01-02T00:00:00Z",
            ]
            let caller = service.api.with(idempotencyKey: "key")
            for api in [caller, service.api] {
                let refused = try await api.post("/v1/messages", json: body)
                #expect(refused.status == 400 && refused.field == "send_at", "\(refused.text)")
            }
            let dryRun = try await service.api.post("/v1/messages", json: Self.dryRun(body))
            #expect(dryRun.status == 400 && dryRun.field == "send_at", "\(dryRun.text)")
            #expect(try await service.database.count("messages") == 0)
            let first = try await caller.post(
                "/v1/messages",
                json: ["sender": 1, "to": "me", "template": Self.text, "send_at": "2099-01-01T00:00:00Z"]
            )
            #expect(first.status == 202, "\(first.text)")
            // As if the message had been requested with these times before they were past.
            try await service.database.pool.write(
                """
                UPDATE messages
                SET request_sha256 = sha256(convert_to('/v1/messages' || chr(10) || '\(body.description)', 'UTF8'))
                """
            )
            let again = try await caller.post("/v1/messages", Array(body.description.utf8), type: "application/json")
            #expect(again.status == 202 && again.text == first.text, "\(again.text)")
            #expect(try await service.database.count("messages") == 1)
        }
    }
}

extension TestService {
    /// Logs a user in who agrees to scopes.
    fileprivate func logIn(_ userID: Int64, consentingTo scopes: [String]) async throws {
        try kakao.sandbox.setUser(userID, ["scopes": .array(scopes.map { .string($0) })])
        try #require(try await logIn(userID).status == 200)
    }

    /// Logs a user in who may send messages to these friends.
    fileprivate func befriend(_ userID: Int64, _ friends: [Int64]) async throws {
        try kakao.sandbox.befriend(userID, friends)
        try #require(try await logIn(userID).status == 200)
    }

    /// The receivers of a message, by their uuids.
    fileprivate func friends(_ userIDs: [Int64]) -> JSONValue {
        ["friends": .array(userIDs.map { .string(kakao.sandbox.friendUUID(of: $0)) })]
    }

    fileprivate func createMessage(
        to receivers: JSONValue,
        _ fields: JSONObject,
        sender: Int64 = 1,
        key: String? = nil
    ) async throws -> HTTPClientResponse {
        var fields = fields
        fields["sender"] = .string(String(sender))
        fields["to"] = receivers
        let caller = key.map { api.with(idempotencyKey: $0) } ?? api
        return try await caller.post("/v1/messages", json: .object(fields))
    }

    /// Stores a message, and returns its path.
    fileprivate func send(to receivers: JSONValue, _ fields: JSONObject) async throws -> String {
        let response = try await createMessage(to: receivers, fields)
        return try #require(response.headerFields[.location], "\(response.status) \(response.text)")
    }

    fileprivate func waitUntilEnded(_ path: String) async throws {
        try await eventually("the message has ended", within: .seconds(60)) {
            try await api.get(path).json?["finished_at"]?.string != nil
        }
    }

    fileprivate func receivers(_ path: String, _ query: String = "") async throws -> [JSONValue] {
        try await api.get("\(path)/receivers\(query)").json?["items"]?.array ?? []
    }

    /// Makes all waiting receivers due, as time would.
    fileprivate func makeDue() async throws {
        try await database.pool.write("UPDATE message_receivers SET due_at = now() WHERE state = 'waiting'")
    }
}
