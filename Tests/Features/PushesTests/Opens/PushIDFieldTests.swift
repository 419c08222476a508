import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes
@testable import Settings

/// Tests of `pushes.id_field`: the id of a push in the `custom_field` that phones receive.
@Suite(.timeLimit(.minutes(5))) struct PushIDFieldTests {
    private static func on(_ settings: inout Settings) { settings.pushes.idField = PushIDField("push_id") }

    private static func id(_ push: String) -> JSONValue {
        .string(push.split(separator: "/").last.map(String.init) ?? "")
    }

    /// Waits for the only delivery to a user, and returns what the phone has received.
    private static func payload(_ user: Int64, _ service: TestService) async throws -> JSONValue {
        try await eventually("the phone of user \(user) receives a push") {
            service.kakao.sandbox.deliveries(to: user).count == 1
        }
        let delivery = try #require(service.kakao.sandbox.deliveries(to: user).first)
        return try JSONValue(parsing: try #require(delivery.payload))
    }

    private static func register(_ user: Int64, _ type: String, _ service: TestService) async throws {
        #expect(try await service.api.register(user, "0a\(user)", type: type).status == 200)
    }

    // MARK: Sending

    @Test(
        "Each phone receives the id beside the other members of custom_field, in either version of Kakao's API, and the stored message has none",
        arguments: PushVersion.allCases
    )
    func sent(version: PushVersion) async throws {
        try await withService {
            Self.on(&$0)
            $0.kakao.pushVersion = version
        } _: { service in
            try await Self.register(1, "gcm", service)
            try await Self.register(2, "apns", service)
            let message: JSONValue = [
                "for_apns": ["message": "a"], "for_gcm": ["custom_field": ["text": "a", "n": 1]],
            ]
            let push = try await service.api.create(uuids([1, 2]), message)
            let id = Self.id(push)
            #expect(try await Self.payload(1, service)["custom_field"] == ["text": "a", "n": 1, "push_id": id])
            #expect(try await Self.payload(2, service)["custom_field"] == ["push_id": id])
            let shown = try await service.api.shown(push)
            #expect(shown["message"] == message)
            // The test of a message is recognized, and a copy has an id of its own.
            let copied = try await service.api.post("\(push)/copy", json: [:])
            #expect(copied.json?["message_sha256"] == shown["message_sha256"])
            let copy = try #require(copied.headerFields[.location])
            try await eventually("the copy is delivered") { service.kakao.sandbox.deliveries(to: 1).count == 2 }
            let second = try #require(service.kakao.sandbox.deliveries(to: 1).last?.payload)
            #expect(try JSONValue(parsing: second)["custom_field"]?["push_id"] == Self.id(copy))
        }
    }

    @Test("A push in Kakao's format has its id too, under which the server knows it", arguments: PushVersion.allCases)
    func kakaoFormat(version: PushVersion) async throws {
        try await withService(Self.on) { service in
            try await Self.register(1, "gcm", service)
            let push = try await service.api.push([1], version: version.rawValue)
            #expect(try await Self.payload(1, service)["custom_field"]?["push_id"] == Self.id(push))
            #expect(try await service.api.get(push).status == 200)
            let taken: JSONObject = [version.androidMember: ["custom_field": ["push_id": "7"]]]
            let answer = try await service.api.post(
                "\(version.path)/send",
                form: ["uuids": "[1]", "push_message": JSONValue.object(taken).description]
            )
            #expect(answer.status == 400)
            #expect(answer.field == "push_message")
            #expect(answer.json?["code"] == -2)
        }
    }

    @Test("Without the setting, and after a reload that removes it, phones receive what the operator wrote")
    func reload() async throws {
        try await withService { service in
            for user in Int64(1)...3 { try await Self.register(user, "gcm", service) }
            let plain: JSONValue = ["custom_field": ["marker": "m"]]
            func received(_ user: Int64) async throws -> JSONValue {
                _ = try await service.api.create(uuids([user]))
                var payload = try await Self.payload(user, service).object ?? [:]
                payload["return_url"] = nil
                return .object(payload)
            }
            #expect(try await received(1) == plain)
            var settings = service.settings
            Self.on(&settings)
            await service.server.reload(settings)
            #expect(try await received(2)["custom_field"]?["push_id"] != nil)
            settings.pushes.idField = nil
            await service.server.reload(settings)
            #expect(try await received(3) == plain)
        }
    }

    @Test("A push that was stored before the setting keeps a member of that name")
    func kept() async throws {
        try await withService { service in
            try await Self.register(1, "gcm", service)
            let message: JSONValue = ["for_gcm": ["custom_field": ["push_id": "own"]]]
            _ = try await service.api.create(uuids([1]), message, ["send_at": time(in: 3600)])
            var settings = service.settings
            Self.on(&settings)
            await service.server.reload(settings)
            try await service.database.pool.write("UPDATE pushes SET send_at = now()")
            #expect(try await Self.payload(1, service)["custom_field"] == ["push_id": "own"])
        }
    }

    // MARK: Requests

    @Test("A message with a member of that name is refused wherever phones would receive it, also in a copy")
    func taken() async throws {
        try await withService { service in
            let message: JSONValue = [
                "for_apns": ["message": "a", "custom_field": ["push_id": .null]], "for_gcm": ["custom_field": [:]],
            ]
            try await service.database.addPhones([1])
            let push = try await service.api.create(uuids([1]), message)
            var settings = service.settings
            Self.on(&settings)
            await service.server.reload(settings)
            for body in [pushBody(uuids([1]), message), pushBody(uuids([1]), message, ["dry_run": true])] {
                let answer = try await service.api.post("/v1/pushes", json: body)
                #expect(answer.status == 400)
                #expect(answer.field == "message")
                #expect(answer.json?["detail"]?.string?.contains("for_apns.custom_field.push_id") == true)
                #expect(answer.json?["detail"]?.string?.contains("pushes.id_field") == true)
            }
            #expect(try await service.api.post("\(push)/copy", json: [:]).field == "message")
            #expect(try await service.database.count("pushes") == 1)
            // A preview rejects nothing.
            let preview = try await service.api.post("/v1/pushes/preview", json: ["message": message])
            #expect(preview.status == 200)
            let codes = preview.json?["warnings"]?.array?.map { $0["code"]?.string }
            #expect(codes?.first == "id-field-taken")
        }
    }

    @Test("The dry run shows the member with an id of zeros, and counts it in the size")
    func dryRun() async throws {
        try await withService(Self.on) { service in
            try await service.database.addPhones([1])
            let dry = pushBody(uuids([1]), gcm(), ["dry_run": true])
            let run = try #require(try await service.api.post("/v1/pushes", json: dry).json)
            let body = run["first_requests"]?[0]?["body"]?.string ?? ""
            #expect(body.contains("%22push_id%22%3A%2200000000-0000-0000-0000-000000000000%22"))
            let preview = try await service.api.post("/v1/pushes/preview", json: ["message": gcm()]).json
            // {"data":{"marker":"m","push_id":"…36…"}}
            #expect(run["phones"]?[0]?["payload_bytes"] == 72)
            #expect(preview?["phones"]?[0]?["payload_bytes"] == 72)
            let push = try await service.api.create(uuids([1]))
            #expect(try await service.api.shown(push)["phones"]?[0]?["payload_bytes"] == 72)
        }
    }

    // MARK: Sizes and names

    private static func preview(_ message: JSONObject, _ field: String?) -> PushPreview {
        var conditions = PushPreview.Conditions(kakaoVersion: .v2, format: .format(of: message))
        conditions.idField = field.flatMap { PushIDField($0) }
        return PushPreview(message, conditions)
    }

    @Test(
        "A custom_field that fits without the id, and not with it, is too large; an absent one counts with the id alone"
    )
    func size() {
        let text = String(repeating: "a", count: 4096 - #"{"text":""}"#.utf8.count)
        let android: JSONObject = ["for_fcm": ["custom_field": ["text": .string(text)]]]
        #expect(Self.preview(android, nil).warnings.allSatisfy { $0.path != "for_fcm.custom_field" })
        let warning = Self.preview(android, "push_id").warnings.first { $0.code == .tooLarge }
        #expect(warning?.path == "for_fcm.custom_field")
        #expect(warning?.message.contains("4145 bytes") == true)
        let iPhone: JSONObject = ["for_apns": ["message": "a"]]
        let sizes = [nil, "push_id"].map { Self.preview(iPhone, $0).phones.first?.payloadBytes }
        #expect(sizes == [21, 21 + #","push_id":"00000000-0000-0000-0000-000000000000""#.utf8.count])
    }

    @Test("The id makes no notification visible that shows nothing")
    func invisible() {
        let messages: [JSONObject] = [["for_fcm": [:]], ["for_fcm": ["custom_field": .null]], ["for_apns": [:]]]
        let shown = messages.map { Self.preview($0, "push_id").phones.map(\.shownBy) }
        #expect(shown == [[nil], [nil], [nil]])
    }

    @Test(
        "A name that Apple or Google reserves, or that is no plain name, is no setting",
        arguments: ["aps", "from", "message_type", "google.id", "gcm", "gcm.n", "", "push id", "푸시", "a\u{7F}"]
    )
    func invalid(name: String) {
        #expect(PushIDField(name) == nil)
        #expect(PushIDField(String(repeating: "a", count: 65)) == nil)
        #expect(PushIDField("push_id")?.text == "push_id")
    }
}
