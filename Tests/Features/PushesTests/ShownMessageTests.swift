import Crypto
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import Settings
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes

/// Tests of the message of a push as operators read it, and of copies of pushes.
@Suite(.timeLimit(.minutes(5))) struct ShownMessageTests {
    private static let message: JSONValue = [
        "for_apns": [
            "message": ["title": "Shop", "body": "Half price"], "custom_field": ["url": "https://example.com/sale"],
        ],
        "for_gcm": ["custom_field": ["marker": "m", "text": "Half price"]],
    ]

    // MARK: Messages

    @Test("A push shows its message and what phones show of it; lists have its first words and its digest")
    func shown() async throws {
        try await withService {
            $0.kakao.appName = "Example Shop"
        } _: { service in
            let push = try await service.api.create(["everyone": true], Self.message)
            let shown = try await service.api.shown(push)
            #expect(shown["message"] == Self.message)
            #expect(shown["phones"]?.array?.map { $0["platform"] } == ["apns", "fcm"])
            #expect(shown["phones"]?[0]?["title"]?["text"] == "Shop")
            #expect(shown["phones"]?[0]?["links"]?[0]?["url"] == "https://example.com/sale")
            #expect(shown["app"]?["name"] == "Example Shop")
            let listed = try #require(try await service.api.get("/v1/pushes").json?["items"]?[0])
            #expect(listed["first_words"] == "Shop: Half price")
            let digest = SHA256Digest.of(Self.message.bytes())
            let hexadecimal = digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            for json in [shown, listed] { #expect(json["message_sha256"] == .string(hexadecimal)) }
            #expect(listed["message"] == nil && listed["phones"] == nil && listed["app"] == nil)
            try await service.api.waitUntilDone(push)
            let events = try await service.api.get("\(push)/events").text
            #expect(events.contains(#""first_words":"Shop: Half price""#))
            #expect(!events.contains("phones") && !events.contains("example.com"))
        }
    }

    @Test("A key that approves and reads sees the message of a push that waits for it")
    func approver() async throws {
        try await withService {
            $0.pushes.approvalAboveUsers = 0
        } _: { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(["everyone": true], Self.message)
            let key = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "name", scopes: [.approve, .read], expiresAt: nil)
            let shown = try await service.api.with("Bearer \(key)").shown(push)
            #expect(shown["state"] == "proposed")
            #expect(shown["message"] == Self.message)
        }
    }

    @Test("The push tokens of a message with its own tokens are shown nowhere")
    func masked() async throws {
        try await withService { service in
            let token = "secret-token"
            let message: JSONValue = [
                "for_apns": ["message": "Hello", "push_token": .string(token)],
                "for_gcm": ["push_token": .string(token), "custom_field": ["list": [["push_token": .string(token)]]]],
            ]
            let body: JSONValue = ["uuids": [1], "push_message": message, "bypass": true]
            let answer = try await service.api.post("/v1/push/send", json: body)
            let push = try #require(answer.headerFields[.location])
            let shown = try await service.api.shown(push)
            #expect(shown["message"]?["for_apns"] == ["message": "Hello", "push_token": "***"])
            #expect(shown["message"]?["for_gcm"]?["custom_field"]?["list"]?[0] == ["push_token": "***"])
            let preview: JSONValue = ["message": message, "bypass": true]
            for text in [
                shown.description, try await service.api.get("/v1/pushes").text,
                try await service.api.post("/v1/pushes/preview", json: preview).text,
                try await service.api.post("\(push)/copy", json: ["dry_run": true]).text,
            ] {
                #expect(!text.contains(token))
            }
        }
    }

    // MARK: Copies

    @Test("A copy has the message, the audience and the limits of a push, and neither its times nor its approval")
    func copy() async throws {
        try await withService { service in
            let api = service.api
            try await service.database.addPhones(1...4)
            try await service.database.pool.write("UPDATE devices SET tags = '{staff}' WHERE user_id = 4")
            let more: JSONObject = [
                "name": "Sale", "kind": "informational", "except": ["tags_any": ["staff"]], "send_at": time(in: 3600),
                "expires_at": time(in: 7200), "users_per_second": 1000, "delivery": "at_most_once",
            ]
            let push = try await api.create(["everyone": true], Self.message, more)
            let answer = try await api.post("\(push)/copy")
            #expect(answer.status == 202)
            let copy = try #require(answer.headerFields[.location])
            #expect(copy != push)
            try await api.waitUntilDone(copy)
            #expect(service.kakao.reachedOnce(1...3))
            let (shown, original) = (try await api.shown(copy), try await api.shown(push))
            for name in [
                "name", "kind", "audience", "except", "users_per_second", "delivery", "message", "message_sha256",
            ] {
                #expect(shown[name] == original[name], "\(name)")
            }
            #expect(shown["send_at"] == .null && shown["expires_at"] == .null)
            #expect(original["state"] == "scheduled")
            // Its own name, kind and time.
            let body: JSONValue = ["name": "Again", "kind": "informational", "send_at": time(in: 3600)]
            let later = try await api.post("\(push)/copy", json: body)
            #expect(later.json?["name"] == "Again")
            #expect(later.json?["state"] == "scheduled")
        }
    }

    @Test("A copy goes to all users that a push listed, also to those without a device here, if the push did")
    func listedUsers() async throws {
        try await withService { service in
            let api = service.api
            let many = try await api.create(uuids(1...150), Self.message, ["skip_unknown": false])
            let native = try await api.push([200, 201], marker: "native")
            for (push, marker, users) in [(many, "m", 1...150), (native, "native", 200...201)] {
                try await api.waitUntilDone(push)
                let copy = try #require(try await api.post("\(push)/copy").headerFields[.location])
                try await api.waitUntilDone(copy)
                #expect(try await api.users(copy)?["total"] == .integer(users.count))
                #expect(service.kakao.sandbox.reached(marker: marker).sends >= 2)
            }
            // Users without a device are skipped again.
            let skipping = try await api.create(uuids(1...3), Self.message)
            let copy = try #require(try await api.post("\(skipping)/copy").headerFields[.location])
            try await api.waitUntilDone(copy)
            #expect(try await api.users(copy) == counts(3, skipped: 3))
        }
    }

    @Test("A copy of a push with its own token has that token, and one to testers goes to the present testers")
    func specialCopies() async throws {
        try await withService {
            $0.pushes.testers = [1]
        } _: { service in
            try await service.database.addPhones([1, 2])
            let message: JSONValue = ["for_gcm": ["push_token": "t", "custom_field": ["marker": "own"]]]
            let body: JSONValue = ["uuids": [7], "push_message": message, "bypass": true]
            let own = try #require(try await service.api.post("/v1/push/send", json: body).headerFields[.location])
            let copy = try #require(try await service.api.post("\(own)/copy").headerFields[.location])
            try await service.api.waitUntilDone(copy)
            #expect(
                try await service.database.count("pushes WHERE bypass AND message LIKE '%\"push_token\":\"t\"%'") == 2
            )
            let test: JSONValue = ["to_testers": true, "message": gcm("test")]
            let tested = try #require(try await service.api.post("/v1/pushes", json: test).headerFields[.location])
            var settings = service.settings
            settings.pushes.testers = [2]
            await service.server.reload(settings)
            let again = try await service.api.post("\(tested)/copy")
            #expect(again.json?["audience"] == ["uuids": ["2"]])
            #expect(again.json?["to_testers"] == true)
        }
    }

    @Test(
        "The rules for pushes hold for a copy: approval, the mark of advertising, the audience and the idempotency key"
    )
    func rules() async throws {
        try await withService { service in
            let api = service.api
            try await service.database.addPhones(1...10)
            let push = try await api.create(["everyone": true], Self.message)
            try await api.waitUntilDone(push)
            let dry = try await api.post("\(push)/copy", json: ["dry_run": true])
            #expect(dry.status == 200)
            #expect(dry.json?["users"]?["total"] == 10)
            #expect(try await api.post("\(push)/copy", json: ["kind": "advertising"]).field == "message")
            #expect(try await api.post("/v1/pushes/\(UUID())/copy").status == 404)
            let reader = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "reader", scopes: [.read], expiresAt: nil)
            #expect(try await api.with("Bearer \(reader)").post("\(push)/copy").status == 403)
            let caller = api.with(idempotencyKey: "again")
            let first = try await caller.post("\(push)/copy")
            let second = try await caller.post("\(push)/copy")
            #expect(first.status == 202 && second.body == first.body)
            #expect(try await service.database.count("pushes") == 2)
            #expect(try await api.put("/v1/audiences/some", Array("1\n".utf8)).status == 201)
            let stored = try await api.create(["audience": "some"], Self.message)
            let leaving = try await api.create(uuids([1]), Self.message, ["except": ["audience": "some"]])
            #expect(try await api.delete("/v1/audiences/some").status == 204)
            // The request for the copy names no audience.
            for path in [stored, leaving] {
                for body in [[:], ["dry_run": true]] as [JSONValue] {
                    let refused = try await api.post("\(path)/copy", json: body)
                    #expect(refused.status == 409 && refused.problem == "not-copyable", "\(refused.text)")
                    let detail = refused.json?["detail"]?.string ?? ""
                    #expect(detail.contains("the stored audience some, which was deleted"), "\(detail)")
                }
            }
            var settings = service.settings
            settings.pushes.approvalAboveUsers = 5
            await service.server.reload(settings)
            #expect(try await api.post("\(push)/copy").json?["state"] == "proposed")
            #expect(try await caller.post("\(push)/copy").body == first.body)
        }
    }
}
