import HTTPClient
import HTTPTypes
import Identity
import JSON
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes

/// Tests of previews and warnings over real sockets.
@Suite(.timeLimit(.minutes(5))) struct PreviewRouteTests {
    private static func codes(_ json: JSONValue?) -> [String?]? { json?["warnings"]?.array?.map { $0["code"]?.string } }

    @Test("A preview shows what phones would show, the cuts, the mark and the warnings, and stores nothing")
    func preview() async throws {
        try await withService { service in
            let long = String(repeating: "가", count: 100)
            let message: JSONValue = [
                "for_apns": ["message": ["title": "(광고) Shop", "body": .string(long)]],
                "for_gcm": ["custom_field": ["title": "Shop", "url": "https://example.com"]], "notification": [:],
            ]
            let body: JSONValue = ["message": message, "kind": "advertising"]
            let answer = try await service.api.post("/v1/pushes/preview", json: body)
            #expect(answer.status == 200)
            let json = try #require(answer.json)
            #expect(
                json["phones"]?[0]?["title"] == [
                    "path": "for_apns.message.title", "text": "(광고) Shop", "key": .null, "visible": .null,
                ]
            )
            #expect(json["phones"]?[0]?["text"]?["visible"] == .string(String(repeating: "가", count: 89)))
            #expect(json["phones"]?.array?.map { $0["advertising_mark"] } == [true, false])
            #expect(json["phones"]?.array?.map { $0["shown_by"] } == ["system", "app"])
            #expect(
                json["phones"]?[1]?["links"] == [["path": "for_gcm.custom_field.url", "url": "https://example.com"]]
            )
            #expect(Self.codes(json) == ["mark-missing", "text-cut", "too-large", "unknown-member"])
            #expect(json["first_words"]?.string?.hasPrefix("(광고) Shop: 가") == true)
            #expect(try await service.database.count("pushes") == 0)
            // The message of Kakao's path for version 1.
            let other: JSONValue = ["message": ["for_fcm": ["custom_field": ["text": "a"]]], "version": "v1"]
            let addressed = try await service.api.post("/v1/pushes/preview", json: other).json
            #expect(Self.codes(addressed) == ["no-phone", "other-version"])
        }
    }

    @Test("Keys that send and keys that read may see a preview, and no others")
    func access() async throws {
        try await withService { service in
            let body: JSONValue = ["message": ["for_apns": ["message": "a"]]]
            for (scope, status) in [(Scope.send, 200), (.read, 200), (.devices, 403)] {
                let key = try await OperatorKeyStore(pool: service.database.pool)
                    .create(name: "name", scopes: [scope], expiresAt: nil)
                let answer = try await service.api.with("Bearer \(key)").post("/v1/pushes/preview", json: body)
                #expect(answer.status == status, "\(scope)")
            }
        }
    }

    @Test("A push has the warnings of its message, in the response to its creation and later, and so has a dry run")
    func warnings() async throws {
        try await withService { service in
            let message: JSONValue = ["for_apns": ["message": "a", "push_token": "t"], "for_gcm": [:], "title": "a"]
            let body = pushBody(["everyone": true], message)
            let created = try await service.api.post("/v1/pushes", json: body)
            let push = try #require(created.headerFields[.location])
            #expect(Self.codes(created.json) == ["token-unused", "nothing-shown", "unknown-member"])
            let shown = try await service.api.shown(push)
            for name in ["warnings", "first_words", "message_sha256"] { #expect(shown[name] == created.json?[name]) }
            #expect(shown["first_words"] == "a")
            let listed = try await service.api.get("/v1/pushes").json?["items"]?[0]
            #expect(Self.codes(listed) == Self.codes(created.json))
            let dry = pushBody(["everyone": true], message, ["dry_run": true])
            let run = try await service.api.post("/v1/pushes", json: dry).json
            #expect(run?["warnings"] == created.json?["warnings"])
            #expect(run?["phones"]?[0]?["text"]?["text"] == "a")
            let other = try await service.api.create(["everyone": true], ["for_apns": ["message": "a"]])
            #expect(Self.codes(try await service.api.shown(other)) == [])
        }
    }

    @Test(
        "No warning says that Kakao accepts a message that it rejects",
        arguments: [
            (#"{"for_gcm":"Hello"}"#, "no-phone, wrong-type"),
            (#"{"for_gcm":{"custom_field":"Hello"}}"#, "wrong-type, nothing-shown"),
            (#"{"for_gcm":{"custom_field":{"a":"\#(String(repeating: "a", count: 4200))"}}}"#, "too-large"),
        ]
    )
    func rejected(message: String, warnings: String) async throws {
        let header = try #require(HTTPField.Name("X-Warnings"))
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let answer = try await service.api.post("/v1/push/send", form: ["uuids": "[1]", "push_message": message])
            #expect(answer.status == 200 && answer.headerFields[header] == warnings)
            let push = try #require(answer.headerFields[.location])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(1, failed: 1))
            let batch = try await service.api.get("\(push)/batches?state=failed").json?["items"]?[0]
            #expect(batch?["kakao_status"] == 400 && batch?["kakao_code"] == -2, "\(String(describing: batch))")
            for warning in try await service.api.shown(push)["warnings"]?.array ?? [] {
                let text = warning["message"]?.string ?? ""
                #expect(text.contains("rejects the push") || !text.contains("Kakao accepts"), "\(text)")
                #expect(!text.contains("Kakao does not report"), "\(text)")
            }
        }
    }

    @Test("A push in Kakao's format keeps its response, which names the warnings in a header field")
    func header() async throws {
        let header = try #require(HTTPField.Name("X-Warnings"))
        try await withService { service in
            for (path, message, warnings) in [
                ("/v1/push/send", #"{"notification":{"title":"a"}}"#, "no-phone, unknown-member"),
                ("/v1/push/send", #"{"for_fcm":{"custom_field":{"text":"a"}}}"#, "no-phone, other-version"),
                ("/v2/push/send", #"{"for_fcm":{"custom_field":{"text":"a"}}}"#, nil),
                ("/v1/push/send", "{}", "no-phone"),
            ] {
                let answer = try await service.api.post(path, form: ["uuids": "[1]", "push_message": message])
                #expect(answer.status == 200)
                #expect(answer.body.isEmpty)
                #expect(answer.headerFields[header] == warnings, "\(message)")
                let push = try #require(answer.headerFields[.location])
                let codes = Self.codes(try await service.api.shown(push))?.compactMap(\.self).joined(separator: ", ")
                #expect(codes == warnings ?? "")
            }
        }
    }
}
