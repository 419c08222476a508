import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import ServiceTesting
import TestSupport
import Testing

/// Tests of pushes to users of whom Kakao has yet to confirm a change of a device.
@Suite(.timeLimit(.minutes(5))) struct PendingDevicesTests {
    /// Sends a push in Kakao's format, and returns the header field with its warnings. The push has the same ones.
    private static func send(_ users: String, _ service: TestService) async throws -> String? {
        let header = try #require(HTTPField.Name("X-Warnings"))
        let form: KeyValuePairs = ["uuids": users, "push_message": #"{"for_gcm":{"custom_field":{"text":"a"}}}"#]
        let answer = try await service.api.post("/v1/push/send", form: form)
        #expect(answer.status == 200)
        let push = try await service.api.shown(try #require(answer.headerFields[.location]))
        let codes = codes(push)
        #expect(codes.isEmpty ? answer.headerFields[header] == nil : answer.headerFields[header] == codes.joined())
        return answer.headerFields[header]
    }

    private static func codes(_ json: JSONValue?) -> [String] {
        (json?["warnings"]?.array ?? []).compactMap { $0["code"]?.string }
    }

    @Test("A send has a warning while a registration of one of its users is still to reach Kakao")
    func registration() async throws {
        try await withService { service in
            _ = try await service.api.register(2, "known")
            service.kakao.fail("register", .down)
            #expect(try await service.api.register(1, "new").isPending)
            #expect(try await Self.send("[1,2]", service) == "pending-devices")
            #expect(try await Self.send("[2]", service) == nil)
            try await eventually("the push is sent without the new device") {
                service.kakao.sandbox.deliveries().contains { $0.userID == 1 && $0.outcome == .noDevice }
            }
            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has the device") { try await Self.send("[1,2]", service) == nil }
        }
    }

    @Test("A removal that is still to reach Kakao is a reason for the warning, a renewal is none")
    func removal() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            try await service.database.pool.write(
                """
                UPDATE devices
                SET revision = revision + 1, renewal_revision = revision + 1, next_attempt_at = 'infinity'
                """
            )
            #expect(try await Self.send("[1]", service) == nil)
            service.kakao.fail("deregister", .down)
            #expect(try await service.api.deregister(1).isPending)
            #expect(try await Self.send("[1]", service) == "pending-devices")
        }
    }

    @Test("A push to a few named users has the warning if it is sent at once, and so has its dry run")
    func created() async throws {
        try await withService { service in
            service.kakao.fail("register", .down)
            #expect(try await service.api.register(1, "new").isPending)
            for (audience, other, codes) in [
                (["uuids": [1]], [:], ["pending-devices"]), (["uuids": [1]], ["dry_run": true], ["pending-devices"]),
                (["uuids": [1]], ["send_at": "2100-01-01T00:00:00Z"], []), (["uuids": [2]], [:], []),
                (["everyone": true], [:], []),
            ] as [(JSONValue, JSONObject, [String])] {
                let answer = try await service.api.post("/v1/pushes", json: pushBody(audience, gcm(), other))
                #expect(Self.codes(answer.json) == codes, "\(audience) \(other) \(answer.text)")
                guard let push = answer.headerFields[.location] else { continue }
                #expect(Self.codes(try await service.api.shown(push)) == codes)
            }
        }
    }

    @Test("A repeated request gets its first response, also after the device has reached Kakao")
    func repetition() async throws {
        try await withService { service in
            service.kakao.fail("register", .down)
            #expect(try await service.api.register(1, "new").isPending)
            let api = service.api.with(idempotencyKey: "key")
            let first = try await api.post("/v1/pushes", json: pushBody(["uuids": [1]], gcm()))
            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has the device") { try await !service.kakao.tokens(of: 1).isEmpty }
            let second = try await api.post("/v1/pushes", json: pushBody(["uuids": [1]], gcm()))
            #expect(second.text == first.text && Self.codes(second.json) == ["pending-devices"])
        }
    }
}
