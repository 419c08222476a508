import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Net
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes
@testable import Server
@testable import Settings

/// Tests of `POST /v1/pushes`: valid and invalid requests, and their responses.
@Suite(.timeLimit(.minutes(5))) struct PushCreationTests {
    /// The members of a push.
    static let members = [
        "id", "name", "created_by", "kind", "state", "reason", "awaits_approval", "approve_before", "approved_by",
        "approved_at", "stopped_by", "first_words", "message_sha256", "warnings", "audience", "to_testers", "except",
        "counted_users",
        "last_tested_at", "waits_for", "waits_until", "delivery", "send_at", "expires_at", "created_at", "started_at",
        "finished_at", "users", "batches", "opened", "unreached", "users_per_second", "estimated_end",
    ]

    @Test(
        "Each kind of audience is accepted as JSON and as a form, and reaches its users",
        arguments: [true, false]
    )
    func audiences(isForm: Bool) async throws {
        try await withService { service in
            try await service.database.addPhones(1...4)
            for (user, tags) in [(1, "{a,b}"), (2, "{a}"), (3, "{c}")] {
                try await service.database.pool.write("UPDATE devices SET tags = '\(tags)' WHERE user_id = \(user)")
            }
            #expect(try await service.api.put("/v1/audiences/named", Array("2\n3\n".utf8)).status == 201)
            let audiences: [(String, JSONValue, Set<Int64>)] = [
                ("uuids", ["uuids": ["1", "3"]], [1, 3]), ("stored", ["audience": "named"], [2, 3]),
                ("any", ["tags_any": ["b", "c", "d"]], [1, 3]), ("all", ["tags_all": ["a", "b"]], [1]),
                ("everyone", ["everyone": true], [1, 2, 3, 4]),
            ]
            for (marker, audience, users) in audiences {
                let answer =
                    isForm
                    ? try await service.api.post(
                        "/v1/pushes",
                        form: [
                            "audience": audience.description, "message": gcm(marker).description, "name": "한 \(marker)",
                            "users_per_second": "1000000", "delivery": "at_most_once", "dry_run": "false",
                        ]
                    )
                    : try await service.api.post(
                        "/v1/pushes",
                        json: pushBody(
                            audience,
                            gcm(marker),
                            [
                                "name": .string("한 \(marker)"), "users_per_second": 1_000_000,
                                "delivery": "at_most_once", "dry_run": false,
                            ]
                        )
                    )
                #expect(answer.status == 202, "\(answer.text)")
                let push = try #require(answer.headerFields[.location])
                let shown = try #require(answer.json)
                #expect(push == "/v1/pushes/\(shown["id"]?.string ?? "")")
                #expect(shown.object?.members.map(\.name) == Self.members)
                #expect(shown["name"] == .string("한 \(marker)"))
                #expect(shown["state"] == "preparing")
                #expect(shown["audience"] == audience)
                #expect(shown["delivery"] == "at_most_once")
                #expect(shown["users_per_second"] == 1_000_000)
                for name in ["reason", "send_at", "expires_at", "started_at", "finished_at", "estimated_end"] {
                    #expect(shown[name] == .null)
                }
                #expect(shown["users"] == counts(0))
                #expect(shown["batches"] == batchCounts(0))
                try await service.api.waitUntilDone(push)
                let done = try await service.api.shown(push)
                for name in ["id", "name", "audience", "except", "delivery", "created_at", "users_per_second"] {
                    #expect(done[name] == shown[name], "\(name)")
                }
                #expect(done["users"] == counts(users.count, sent: users.count))
                #expect(done["batches"] == batchCounts(1, sent: 1))
                let reached = (Int64(1)...4).filter { service.kakao.sandbox.timesReached($0, marker: marker) == 1 }
                #expect(Set(reached) == users, "\(marker)")
            }
        }
    }

    @Test("A message is sent to users with a phone that it addresses; the others are skipped and counted")
    func platforms() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 4])
            try await service.database.addPhones([2, 4], type: "apns")
            // A withdrawn phone does not count.
            try await service.database.addPhones([5])
            try await service.database.pool.write("UPDATE devices SET withdrawn = true WHERE user_id = 5")
            func field(_ marker: String) -> JSONValue { ["custom_field": ["marker": .string(marker)]] }
            let messages: [(String, JSONValue, Set<Int64>)] = [
                ("gcm", ["for_gcm": field("gcm")], [1, 4]), ("fcm", ["for_fcm": field("fcm")], [1, 4]),
                ("apns", ["for_apns": field("apns")], [2, 4]),
                ("both", ["for_apns": field("both"), "for_gcm": field("both")], [1, 2, 4]),
            ]
            for (marker, message, users) in messages {
                let push = try await service.api.create(uuids(1...5), message)
                try await service.api.waitUntilDone(push)
                #expect(
                    try await service.api.users(push)
                        == counts(5, sent: users.count, skipped: 5 - users.count),
                    "\(marker)"
                )
                let reached = (Int64(1)...5).filter { service.kakao.sandbox.timesReached($0, marker: marker) == 1 }
                #expect(Set(reached) == users, "\(marker)")
            }
            // The audience everyone has only users with a phone.
            let push = try await service.api.create(["everyone": true], ["for_apns": field("e")])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3, sent: 2, skipped: 1))
        }
    }

    @Test(
        "With skip_unknown false, listed users are sent to regardless of their devices; other audiences do not allow it"
    )
    func skipUnknown() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            try await service.database.addPhones([2], type: "apns")
            let lines = (Int64(1)...150).map { "\($0)\n" }.joined()
            #expect(try await service.api.put("/v1/audiences/all", Array(lines.utf8)).status == 201)
            let lists: [(JSONValue, Int)] = [(uuids(1...3), 3), (uuids(1...150), 150), (["audience": "all"], 150)]
            for (index, (audience, users)) in lists.enumerated() {
                for skips in [true, false] {
                    let more: JSONObject = ["skip_unknown": .bool(skips)]
                    let marker = "\(index) \(skips)"
                    let sent = skips ? 1 : users
                    let dry = pushBody(audience, gcm(marker), ["skip_unknown": .bool(skips), "dry_run": true])
                    let shown = try await service.api.post("/v1/pushes", json: dry).json
                    #expect(
                        shown?["users"] == [
                            "total": .integer(users), "skipped": .integer(users - sent), "excluded": 0,
                            "without_consent": 0,
                        ]
                    )
                    let push = try await service.api.create(audience, gcm(marker), more)
                    try await service.api.waitUntilDone(push)
                    #expect(try await service.api.users(push) == counts(users, sent: sent, skipped: users - sent))
                    // Counts users, not phones, because users without a phone are sent to as well.
                    #expect(try await Self.users(of: push, service) == sent)
                }
            }
            for audience in [["everyone": true], ["tags_any": ["t"]], ["tags_all": ["t"]]] as [JSONValue] {
                let answer = try await service.api.post(
                    "/v1/pushes",
                    json: pushBody(audience, gcm(), ["skip_unknown": false])
                )
                #expect(answer.field == "skip_unknown")
                _ = try await service.api.create(audience, gcm(), ["skip_unknown": true])
            }
            let answer = try await service.api.post(
                "/v1/pushes",
                json: pushBody(uuids([1]), gcm(), ["skip_unknown": 0])
            )
            #expect(answer.field == "skip_unknown")
        }
    }

    /// Returns the number of users in the batches of a push.
    private static func users(of push: String, _ service: TestService) async throws -> Int {
        let batches = try await service.api.get("\(push)/batches").json?["items"]?.array ?? []
        return batches.reduce(0) { $0 + ($1["uuids"]?.array?.count ?? 0) }
    }

    /// Invalid requests, and the invalid field of each.
    private static let refusals: [(field: String, body: String)] = {
        let message = #""message":{"for_gcm":{}}"#
        let audience = #""audience":{"everyone":true}"#
        func many(_ count: Int) -> String { (1...count).map(String.init).joined(separator: ",") }
        let tags = (1...51).map { "\"t\($0)\"" }.joined(separator: ",")
        let audiences = [
            #""x""#, "5", "[]", "true", "{}", #"{"everyone":true,"uuids":[1]}"#, #"{"uuids":[]}"#, #"{"uuids":[0]}"#,
            #"{"uuids":[1.5]}"#, #"{"uuids":["+1"]}"#, #"{"uuids":["01"]}"#, #"{"uuids":[-1]}"#, #"{"uuids":1}"#,
            #"{"uuids":[9223372036854775808]}"#, #"{"uuids":[1e2]}"#, #"{"uuids":[null]}"#,
            #"{"uuids":[\#(many(10_001))]}"#,
            #"{"everyone":false}"#, #"{"everyone":1}"#, #"{"everyone":"true"}"#, #"{"audience":""}"#,
            #"{"audience":"nobody-stored-it"}"#, #"{"audience":5}"#, #"{"audience":"a/b"}"#, #"{"tags_any":[]}"#,
            #"{"tags_any":[1]}"#, #"{"tags_all":[""]}"#, #"{"tags_all":"a"}"#, #"{"tags_any":[\#(tags)]}"#,
            #"{"tags_any":["\#(String(repeating: "t", count: 65))"]}"#, #"{"other":1}"#,
        ]
        var refusals = audiences.map { ("audience", "{\(message),\"audience\":\($0)}") }
        refusals += [("audience", "{\(message)}"), ("message", "{\(audience)}")]
        refusals += ["5", "\"x\"", "[]", "{}", #"{"other":{}}"#, #"{"for_gcm":{},"for_fcm":{}}"#].map {
            ("message", "{\(audience),\"message\":\($0)}")
        }
        let fields: [(String, [String])] = [
            ("name", [#""""#, "\"\(String(repeating: "n", count: 201))\"", "5", #""a\nb""#]),
            ("delivery", [#""twice""#, "1", #""""#]),
            ("users_per_second", ["0", "-1", "1.5", #""x""#, "1000001", "true", #""+5""#]),
            (
                "send_at",
                [
                    #""tomorrow""#, "5", #""2099-13-01T00:00:00Z""#, #""2099-11-21T08:15:30""#, #""2099-11-21""#,
                    #""2099-11-21T08:15:30Z?""#, #""294277-01-01T00:00:00Z""#, #""999999999-01-01T00:00:00Z""#,
                    #""""#, #""2099-02-30T00:00:00Z""#,
                ]
            ),
            (
                "expires_at",
                [
                    #""2001-01-01T00:00:00Z""#, #""soon""#, #""2098-12-31T23:59:59Z","send_at":"2099-01-01T00:00:00Z""#,
                    #""2099-01-01T00:00:00Z","send_at":"2099-01-01T00:00:00Z""#,
                ]
            ),
            ("dry_run", [#""maybe""#, "1", #""""#]),
        ]
        for (field, values) in fields {
            refusals += values.map { (field, "{\(message),\(audience),\"\(field)\":\($0)}") }
        }
        return refusals
    }()

    @Test("The response to an invalid field has its name and the allowed values, and nothing is stored")
    func refused() async throws {
        try await withService { service in
            for (field, body) in Self.refusals {
                let answer = try await service.api.post("/v1/pushes", Array(body.utf8), type: "application/json")
                #expect(answer.status == 400, "\(body.prefix(200)): \(answer.text)")
                #expect(answer.field == field, "\(body.prefix(200)): \(answer.text)")
                #expect(answer.json?["allowed"]?.string?.isEmpty == false)
            }
            for key in ["", " ", "a b", "키", String(repeating: "k", count: 256)] {
                let answer = try await service.api.with(idempotencyKey: key).post(
                    "/v1/pushes",
                    json: pushBody(["everyone": true])
                )
                #expect(answer.status == 400, "\(key)")
                #expect(answer.field == "Idempotency-Key")
            }
            #expect(try await service.database.count("pushes") == 0)
            #expect(try await service.database.count("idempotency_keys") == 0)
            #expect(try await service.api.post("/v1/pushes", [1], type: "text/plain").status == 415)
        }
    }

    @Test("The properties of a push are stored unchanged, times to the millisecond")
    func kept() async throws {
        try await withService { service in
            let name = String(repeating: "이", count: 200)
            let push = try await service.api.create(
                ["everyone": true],
                gcm(),
                [
                    "name": .string(name), "send_at": "2099-01-01T09:00:00.123+09:00",
                    "expires_at": "2099-01-01T00:00:00.457Z", "users_per_second": "1",
                ]
            )
            let shown = try await service.api.shown(push)
            #expect(shown["state"] == "scheduled")
            #expect(shown["name"] == .string(name))
            #expect(shown["send_at"] == "2099-01-01T00:00:00.123Z")
            #expect(shown["expires_at"] == "2099-01-01T00:00:00.457Z")
            #expect(shown["users_per_second"] == 1)
            #expect(shown["delivery"] == "at_least_once")
        }
    }

    @Test("A scheduled push is sent at its send_at, and not earlier")
    func scheduled() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(uuids([1]), gcm(), ["send_at": time(in: 2)])
            let sendAt = try #require(try await service.api.shown(push)["send_at"]?.string)
            try await service.api.waitUntilDone(push)
            // RFC 3339 times in the same format sort as text.
            #expect(try await service.api.shown(push)["started_at"]?.string ?? "" >= sendAt)
            let delivered = try #require(service.kakao.sandbox.deliveries().first?.deliveredAt)
            #expect(Date(timeIntervalSince1970: Double(delivered) / 1000 + 0.001).rfc3339 >= sendAt)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test("A push that reaches its expires_at while Kakao is down expires, and none of it is sent afterwards")
    func expired() async throws {
        try await withService { service in
            try await service.database.addPhones(1...300)
            service.kakao.fail("send", .down)
            let push = try await service.api.create(uuids(1...300), gcm(), ["expires_at": "2099-01-01T00:00:00Z"])
            try await eventually("a batch was attempted") { service.kakao.requests("send") > 0 }
            try await service.database.pool.write("UPDATE pushes SET expires_at = now()")
            try await service.api.waitFor("expired", push)
            service.kakao.sandbox.removeFaults()
            try await service.database.hurry()
            for control in ["pause", "resume", "cancel", "retry"] {
                #expect(try await service.api.control(push, control) == 409)
            }
            // Each push wakes the sender.
            for _ in 1...3 { try await service.api.waitUntilDone(service.api.create(uuids([1]), gcm("other"))) }
            #expect(service.kakao.sandbox.reached(marker: "m").times == 0)
            let shown = try await service.api.shown(push)
            #expect(shown["users"] == counts(300, pending: 300))
            #expect(shown["finished_at"]?.string ?? "" >= shown["expires_at"]?.string ?? "Z")
        }
    }

    @Test("Claimed batches are not sent after the expires_at of their push")
    func expiredWhileClaimed() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 16 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...5000)
            // The requests take longer than the push lasts, so only the first ones are sent in time.
            let hold = service.kakao.hold("send", of: Set(1...5000))
            let push = try await service.api.create(uuids(1...5000), gcm(), ["expires_at": "2099-01-01T00:00:00Z"])
            try await eventually("the first requests are in flight") { service.kakao.requests("send") == 16 }
            try await service.database.pool.write("UPDATE pushes SET expires_at = now() + interval '1 second'")
            // Another push lets the sender read when this one expires.
            _ = try await service.api.create(uuids(6000...6000), gcm("other"), ["skip_unknown": false])
            try await service.api.waitFor("expired", push)
            service.kakao.release(hold)
            try await eventually("no batch is in flight") {
                try await service.database.count("\(claimedBatches) WHERE state = 'sending'") == 0
            }
            #expect(service.kakao.sandbox.reached(marker: "m").sends <= 16)
            let sent = service.kakao.sandbox.reached(marker: "m").users
            #expect(try await service.api.users(push) == counts(5000, sent: sent, pending: 5000 - sent))
        }
    }

    // MARK: Idempotency

    @Test("A repeated request with the same key gets the first response, byte for byte, and creates no second push")
    func repeated() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let caller = service.api.with(idempotencyKey: "a-key")
            let body = pushBody(uuids([1]))
            let first = try await caller.post("/v1/pushes", json: body)
            #expect(first.status == 202)
            let push = try #require(first.headerFields[.location])
            // Also after the push is done.
            for _ in 1...2 {
                let again = try await caller.post("/v1/pushes", json: body)
                #expect(again.status == 202)
                #expect(again.body == first.body)
                #expect(again.headerFields[.location] == push)
                #expect(again.headerFields[.contentType] == first.headerFields[.contentType])
                try await service.api.waitUntilDone(push)
            }
            #expect(try await service.database.count("pushes") == 1)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)

            let others: [(String, JSONValue)] = [
                ("/v1/pushes", pushBody(uuids([2]))),
                ("/v1/push/send", ["uuids": [1], "push_message": gcm()]),
            ]
            for (path, body) in others {
                let answer = try await caller.post(path, json: body)
                #expect(answer.status == 422)
                #expect(answer.json?["type"]?.string?.hasSuffix("idempotency-key-in-use") == true)
            }
            let other = try await service.api.with(idempotencyKey: "b-key").post("/v1/pushes", json: body)
            #expect(other.status == 202)
            #expect(other.headerFields[.location] != push)
            #expect(try await service.database.count("pushes") == 2)
        }
    }

    @Test("Operators with the same idempotency key do not get each other's push, and each gets its own again")
    func operators() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let store = OperatorKeyStore(pool: service.database.pool)
            var callers = [service.api.with(idempotencyKey: "key")]
            for name in ["a", "b"] {
                let key = try await store.create(name: name, scopes: [.send], expiresAt: nil)
                callers.append(service.api.with("Bearer \(key)").with(idempotencyKey: "key"))
            }
            let pushes = try await callers.asyncMap { try await $0.create(uuids([1])) }
            #expect(Set(pushes).count == 3)
            #expect(try await callers.asyncMap { try await $0.create(uuids([1])) } == pushes)
            for caller in callers {
                #expect(try await caller.post("/v1/pushes", json: pushBody(uuids([2]))).status == 422)
            }
            #expect(try await service.database.count("pushes") == 3)
            #expect(try await service.database.count("idempotency_keys WHERE octet_length(operator_key) = 0") == 1)
        }
    }

    @Test("A send in Kakao's format is also carried out once for each key", arguments: ["v1", "v2"])
    func repeatedSend(version: String) async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let caller = service.api.with(idempotencyKey: "key")
            let first = try await caller.push([1], marker: "m", version: version)
            try await service.api.waitUntilDone(first)
            #expect(try await caller.push([1], marker: "m", version: version) == first)
            await #expect(throws: TestClient.Refused.self) { try await caller.push([1], marker: "n", version: version) }
            #expect(try await service.database.count("pushes") == 1)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test("A rejected request or a dry run does not use its key, and a key outlives the audience of its push")
    func keyWithoutPush() async throws {
        try await withService { service in
            let caller = service.api.with(idempotencyKey: "key")
            let body = pushBody(["audience": "later"])
            #expect(try await caller.post("/v1/pushes", json: body).field == "audience")
            #expect(try await caller.post("/v1/pushes", json: pushBody(["everyone": 1])).field == "audience")
            let dry = pushBody(["everyone": true], gcm(), ["dry_run": true])
            #expect(try await caller.post("/v1/pushes", json: dry).status == 200)
            #expect(try await service.database.count("idempotency_keys") == 0)
            #expect(try await service.api.put("/v1/audiences/later", Array("1\n".utf8)).status == 201)
            let first = try await caller.post("/v1/pushes", json: body)
            #expect(first.status == 202)
            #expect(try await service.api.delete("/v1/audiences/later").status == 204)
            let again = try await caller.post("/v1/pushes", json: body)
            #expect(again.status == 202)
            #expect(again.body == first.body)
        }
    }

    @Test("Concurrent requests with the same key to two servers create one push")
    func atOnce() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    try await database.addPhones([1])
                    for number in 1...10 {
                        let answers = try await withThrowingTaskGroup(of: HTTPClientResponse.self) { group in
                            for api in [first, second, first, second] {
                                group.addTask {
                                    try await api.with(idempotencyKey: "key-\(number)").post(
                                        "/v1/pushes",
                                        json: pushBody(uuids([1]), gcm("\(number)"))
                                    )
                                }
                            }
                            return try await group.reduce(into: []) { $0.append($1) }
                        }
                        #expect(answers.map(\.status) == [202, 202, 202, 202])
                        #expect(Set(answers.map(\.body)).count == 1)
                        try await first.waitUntilDone(answers[0].headerFields[.location] ?? "")
                        #expect(kakao.sandbox.timesReached(1, marker: "\(number)") == 1)
                    }
                    #expect(try await database.count("pushes") == 10)
                }
            }
        }
    }

    // MARK: Dry runs

    @Test("A dry run shows the requests of the push and their number, sends nothing, and shows no secrets")
    func dryRun() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            try await service.database.addPhones([1000], type: "apns")
            let lines = (Int64(1)...300).map { "\($0)\n" }.joined()
            #expect(try await service.api.put("/v1/audiences/all", Array(lines.utf8)).status == 201)
            try await service.database.pool.write("UPDATE devices SET tags = '{t}' WHERE user_id <= 120")
            let audiences: [(JSONValue, JSONObject, total: Int, skipped: Int, sends: Int)] = [
                (["everyone": true], [:], 251, 1, 3), (["audience": "all"], [:], 300, 50, 3),
                (["tags_any": ["t"]], [:], 120, 0, 2), (["tags_all": ["t"]], ["users_per_second": 50], 120, 0, 3),
                (uuids([3, 1, 3, 999]), [:], 3, 1, 1), (uuids([999]), [:], 1, 1, 0),
            ]
            for (index, (audience, more, total, skipped, sends)) in audiences.enumerated() {
                var dry = more
                dry["dry_run"] = true
                let before = service.kakao.sandbox.stats.requests
                let answer = try await service.api.post("/v1/pushes", json: pushBody(audience, gcm("\(index)"), dry))
                #expect(answer.status == 200, "\(answer.text)")
                #expect(service.kakao.sandbox.stats.requests == before)
                #expect(!answer.text.contains(Keys.admin))
                #expect(!answer.text.contains(Keys.feedback))
                let shown = try #require(answer.json)
                #expect(shown["dry_run"] == true)
                #expect(
                    shown["users"] == [
                        "total": .integer(total), "skipped": .integer(skipped), "excluded": 0, "without_consent": 0,
                    ]
                )
                #expect(shown["requests"] == .integer(sends))
                let bodies = shown["first_requests"]?.array?.compactMap { $0["body"]?.string } ?? []
                #expect(bodies.count == min(sends, 3))

                let push = try await service.api.create(audience, gcm("\(index)"), more)
                try await service.api.waitUntilDone(push)
                let done = try await service.api.shown(push)
                #expect(done["users"] == counts(total, sent: total - skipped, skipped: skipped))
                #expect(service.kakao.sandbox.reached(marker: "\(index)").sends == sends)
                let batches = try await service.api.get("\(push)/batches").json?["items"]?.array ?? []
                for (request, batch) in zip(bodies, batches) {
                    let users = (batch["uuids"]?.array ?? []).compactMap(\.string).map { "%22\($0)%22" }
                    #expect(request.contains("uuids=%5B\(users.joined(separator: "%2C"))%5D&"), "\(request.prefix(80))")
                }
                for request in shown["first_requests"]?.array ?? [] {
                    #expect(request["method"] == "POST")
                    #expect(request["url"] == .string("\(service.kakao.sandbox.url)/v1/push/send"))
                    #expect(
                        request["headers"]?["authorization"] ?? request["headers"]?["Authorization"] == "KakaoAK ***"
                    )
                }
            }
            #expect(try await service.database.count("pushes") == audiences.count)
            let unknown = pushBody(["audience": "nobody-stored-it"], gcm(), ["dry_run": true])
            #expect(try await service.api.post("/v1/pushes", json: unknown).field == "audience")
        }
    }

    @Test("Dry runs use connections of their own, a third concurrent one is rejected, and reads continue")
    func dryRunsBounded() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(uuids([1]))
            let body = pushBody(["everyone": true], gcm(), ["dry_run": true])
            try await service.database.pool.withTransaction { transaction in
                // Reads of the audience wait for this lock.
                _ = try await transaction.query("LOCK TABLE devices IN ACCESS EXCLUSIVE MODE")
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for _ in 1...DryRuns.maxConcurrentRuns {
                        group.addTask { try await service.api.post("/v1/pushes", json: body).status }
                    }
                    try await eventually("the dry runs wait") {
                        let waiting = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                        return try await service.database.count("\(waiting) AND query LIKE '%/* ReadPhones */%'")
                            == DryRuns.maxConcurrentRuns
                    }
                    let refused = try await service.api.post("/v1/pushes", json: body)
                    #expect(refused.status == 503)
                    #expect(refused.json?["type"] == "urn:kakao-push-server:error:too-many-dry-runs")
                    #expect(refused.headerFields[.retryAfter] == "5")
                    // Requests on both loops use connections that no dry run blocks.
                    for _ in 1...8 { #expect(try await service.api.get(push).status == 200) }
                    group.cancelAll()
                }
            }
            try await eventually("a dry run is accepted again") {
                try await service.api.post("/v1/pushes", json: body).status == 200
            }
        }
    }

    @Test("The requests that a dry run shows, sent to Kakao unchanged, have the same effect as the push")
    func dryRunReplayed() async throws {
        try await withService { service in
            try await service.database.addPhones(1...150)
            let kakao = TestClient(url: service.kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)")
            for user in Int64(1)...150 { #expect(try await kakao.register(user, "token-\(user)").status == 200) }
            let body = pushBody(["everyone": true], gcm(), ["dry_run": true])
            let shown = try await service.api.post("/v1/pushes", json: body).json
            for request in shown?["first_requests"]?.array ?? [] {
                let answer = try await kakao.post(
                    "/v1/push/send",
                    Array((request["body"]?.string ?? "").utf8),
                    type: FormBody.contentType
                )
                #expect(answer.status == 200, "\(answer.text)")
            }
            let replayed = service.kakao.sandbox.deliveries()
            #expect(replayed.count == 150)
            service.kakao.sandbox.deleteDeliveries()
            try await service.api.waitUntilDone(service.api.create())
            let sent = service.kakao.sandbox.deliveries()
            #expect(Set(sent.map(\.userID)) == Set(replayed.map(\.userID)))
            // The payloads differ only in the secret in the URL for failure reports.
            let payloads = sent.map { String(decoding: $0.payload ?? [], as: UTF8.self) }
            let shownPayloads = replayed.map { String(decoding: $0.payload ?? [], as: UTF8.self) }
            #expect(payloads.filter { !$0.contains("/kakao/push/feedback/\(Keys.feedback)") } == [])
            #expect(Set(payloads.map { $0.replacing(Keys.feedback, with: "***") }) == Set(shownPayloads))
            #expect(Set(sent.map(\.send)).count == 2)
        }
    }
}
