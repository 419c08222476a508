import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

/// The receiver of the push server's webhooks, over HTTP.
@Suite(.timeLimit(.minutes(1))) struct WebhookReceiverTests {
    private static func post(_ kakao: Fixture, _ id: String) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(method: .post, url: kakao.sandbox.url + "/webhooks")
        if let name = HTTPField.Name("Webhook-Id") { request.headerFields[name] = id }
        request.body = Array(#"{"type":"push.done","data":{"id":"\#(id)"}}"#.utf8)
        return try await kakao.client.send(request)
    }

    @Test("Webhooks are listed as they were received, the oldest first, and can be cleared")
    func list() async throws {
        try await withSandbox { kakao in
            for number in 1...3 { #expect(try await Self.post(kakao, "msg_\(number)").status == 200) }
            let page = try await kakao.control(.get, "/sandbox/webhooks?after=1&limit=1").json
            let item = try #require(page?["items"]?.array?.first)
            #expect(item["sequence"] == 2 && item["id"] == "msg_2" && item["type"] == "push.done")
            #expect(item["headers"]?["webhook-id"] == "msg_2")
            #expect(item["body"]?.string == #"{"type":"push.done","data":{"id":"msg_2"}}"#)
            #expect(page?["next"] == 2)
            #expect(try await kakao.control(.get, "/sandbox/webhooks?after=3").json == ["items": [], "next": .null])
            #expect(try await kakao.control(.delete, "/sandbox/webhooks").status == 204)
            #expect(kakao.sandbox.webhooks().isEmpty)
        }
    }

    @Test("Faults apply: a redirect, a long body, and a webhook that is received but not answered")
    func faults() async throws {
        try await withSandbox { kakao in
            func add(_ fault: JSONValue) async throws {
                try #require(try await kakao.control(.post, "/sandbox/faults", fault).status == 201)
            }
            try await add(["path": "/webhooks", "kind": "status", "status": 302, "times": 1])
            let redirect = try await Self.post(kakao, "msg_1")
            #expect(redirect.status == 302 && redirect.headerFields[.location] == "?redirected=true")
            try await add(["path": "/webhooks", "kind": "status", "status": 200, "body_bytes": 100_000, "times": 1])
            #expect(try await Self.post(kakao, "msg_2").body.count == 100_000)
            #expect(kakao.sandbox.webhooks().isEmpty)
            try await add(["path": "/webhooks", "kind": "drop_after_body", "delivered": true, "times": 1])
            await #expect(throws: HTTPClientError.self) { try await Self.post(kakao, "msg_3") }
            #expect(kakao.sandbox.webhooks().map(\.id) == ["msg_3"])
        }
    }
}
