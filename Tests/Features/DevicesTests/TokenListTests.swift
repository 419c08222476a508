import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of `/v1/push/tokens` with lists of several pages, and with users that are unknown here.
@Suite(.timeLimit(.minutes(5))) struct TokenListTests {
    /// Returns a list as texts: `1 phone gcm token`.
    private static func list(_ response: HTTPClientResponse) throws -> [String] {
        #expect(response.status == 200, "\(response.text)")
        #expect(response.headerFields[.contentType] == "application/json;charset=UTF-8")
        return try #require(response.json?.array).map { item in
            ["user_id", "device_id", "push_type", "push_token"].map { item[$0]?.string ?? "?" }.joined(separator: " ")
        }
    }

    private static func kakao(_ service: TestService) -> TestClient {
        TestClient(url: service.kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)")
    }

    @Test("The tokens of users that are unknown here come from Kakao in one call, merged with the others")
    func unknownUsers() async throws {
        try await withService { service in
            for user in [Int64(1), 3, 4, 6] {
                #expect(try await Self.kakao(service).register(user, "kakao-\(user)").status == 200)
            }
            try await service.database.addPhones([2, 5])
            // The withdrawal of this device is pending, so Kakao is not called for its user. (At `infinity` the worker that
            // paces imports would schedule it.)
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn, next_attempt_at)
                VALUES (4, 'phone', 'fcm', 'kakao-4', true, now() + interval '1 hour')
                """
            )
            let expected = [
                "1 phone gcm kakao-1", "2 phone gcm token-2", "3 phone gcm kakao-3", "5 phone gcm token-5",
                "6 phone gcm kakao-6",
            ]
            let calls = service.kakao.requests("tokens")
            let many = try await service.api.get("/v1/push/tokens", ["uuids": "[6,5,4,3,2,1,7,1]"])
            #expect(try Self.list(many) == expected)
            #expect(service.kakao.requests("tokens") == calls + 1)
            #expect(try Self.list(try await service.api.get("/v1/push/tokens", ["uuid": "3"])) == [expected[2]])
            #expect(service.kakao.requests("tokens") == calls + 2)
            let second = try await service.api.post("/v2/push/tokens", form: ["uuids": "[1,2]"])
            #expect(try Self.list(second) == ["1 phone fcm kakao-1", "2 phone fcm token-2"])

            for users in ["[2,5]", "[4]", "[2]"] {
                _ = try Self.list(try await service.api.get("/v1/push/tokens", ["uuids": users]))
            }
            #expect(
                service.kakao.requests("tokens") == calls + 3,
                "\(service.kakao.log.messages) \(service.log.messages)"
            )
        }
    }

    @Test("Users are named in uuid or in uuids, and the error of a request with both blames neither value")
    func bothNames() async throws {
        try await withSharedService { service in
            let both = try await service.api.get("/v1/push/tokens", ["uuid": "1", "uuids": "[2]"])
            #expect(both.status == 400 && both.field == "uuids" && both.json?["code"] == -2)
            #expect(
                both.json?["detail"] == "uuids must be absent beside uuid. Specify only one of them.",
                "\(both.text)"
            )
            let none = try await service.api.get("/v1/push/tokens")
            #expect(none.status == 400 && none.field == "uuid")
            #expect(none.json?["msg"] == "The Parameter [uuid] cannot be null.", "\(none.text)")
        }
    }

    @Test(
        "While Kakao is unavailable, a list with unknown users fails instead of being incomplete, and other lists work"
    )
    func outage() async throws {
        try await withService { service in
            try await service.database.addPhones([2])
            service.kakao.fail("tokens", .down)
            for query in ["[1,2]", "[1]"] {
                let answer = try await service.api.get("/v1/push/tokens", ["uuids": query])
                #expect(answer.status == 503)
                #expect(answer.json?["type"] == "urn:kakao-push-server:error:kakao-unavailable")
                #expect(answer.headerFields[.retryAfter] == "10")
            }
            let known = try await service.api.get("/v1/push/tokens", ["uuid": "2"])
            #expect(try Self.list(known) == ["2 phone gcm token-2"])
        }
    }

    @Test("A list of any length is streamed page by page, each device once and in order")
    func streamed() async throws {
        try await withService { service in
            // Whole pages of the first user's devices are withdrawn: the first page, and one in the middle.
            try await service.database.withoutDeviceLimit {
                try await service.database.pool.write(
                    """
                    INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, withdrawn, next_attempt_at)
                    SELECT user_id, 'phone-' || to_char(place, 'FM0000'), 'fcm', user_id || '-' || place, 1,
                        user_id = 1 AND (place <= 40 OR place BETWEEN 300 AND 700), 'infinity'
                    FROM unnest(ARRAY[1, 2, 4]) AS user_id
                    CROSS JOIN generate_series(1, 1000) AS place
                    """
                )
            }
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn, next_attempt_at)
                SELECT 5, 'phone-' || place, 'fcm', '5-' || place, true, 'infinity'
                FROM generate_series(1, 40) AS place
                """
            )
            for user in [Int64(3), 6] {
                #expect(try await Self.kakao(service).register(user, "kakao-\(user)").status == 200)
            }
            func devices(_ user: Int) -> [String] {
                (1...1000).filter { user != 1 || $0 > 40 && !(300...700).contains($0) }.map { place in
                    "\(user) phone-\(String(repeating: "0", count: 4 - "\(place)".count))\(place) gcm \(user)-\(place)"
                }
            }
            let kakao = ["3 phone gcm kakao-3", "6 phone gcm kakao-6"]
            let all = try await service.api.get("/v1/push/tokens", ["uuids": "[1,2,3,4,5,6]"])
            #expect(try Self.list(all) == devices(1) + devices(2) + [kakao[0]] + devices(4) + [kakao[1]])
            let one = try await service.api.get("/v1/push/tokens", ["uuid": "1"])
            #expect(try Self.list(one) == devices(1))
            for response in [all, one] {
                #expect(response.headerFields[.transferEncoding] == "chunked")
                #expect(response.headerFields[.contentLength] == nil)
            }
            #expect(try Self.list(try await service.api.get("/v1/push/tokens", ["uuid": "5"])).isEmpty)
        }
    }
}
