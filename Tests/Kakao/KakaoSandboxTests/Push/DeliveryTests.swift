import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

/// The deliveries of a send, and the sandbox's records of them.
@Suite(.timeLimit(.minutes(1))) struct DeliveryTests {
    @Test("A send has an empty response and is delivered to all devices of all users, each with its platform's part")
    func delivery() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "android")
            _ = try await kakao.register(1, "iphone", type: "apns")
            let message: JSONValue = [
                "for_apns": ["message": "hi", "badge": 1], "for_gcm": ["custom_field": ["id": 9_007_199_254_740_993]],
            ]
            let response = try await kakao.send(#"["1", 2]"#, message)
            #expect(response.status == 200)
            #expect(response.body.isEmpty)
            #expect(response.headerFields[.contentType] == "application/json;charset=UTF-8")

            let page = try await kakao.control(.get, "/sandbox/deliveries").json
            let items = try #require(page?["items"]?.array)
            #expect(page?["next"] == .null)
            #expect(items.map { $0["sequence"] } == [1, 2, 3])
            #expect(items.map { $0["send"] } == [1, 1, 1])
            #expect(items.map { $0["user_id"] } == ["1", "1", "2"])
            #expect(items.map { $0["outcome"] } == ["delivered", "delivered", "no_device"])
            #expect(items.map { $0["push_type"] } == ["gcm", "apns", .null])
            #expect(items.map { $0["push_token"] } == ["android", "iphone", .null])
            #expect(items.map { $0["payload"] } == [message["for_gcm"], message["for_apns"], .null])
        }
    }

    @Test("A message without a part for a device's platform is not delivered to it, nor is a dry run")
    func outcomes() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "android")
            for message: JSONValue in [[:], ["for_apns": [:]], ["for_gcm": ["dry_run": true]], ["for_gcm": [:]]] {
                _ = try await kakao.send("[1]", message)
            }
            #expect(kakao.sandbox.deliveries().map(\.outcome) == [.noMessage, .noMessage, .dryRun, .delivered])
        }
    }

    @Test("With bypass the message carries the token, and registered tokens are ignored")
    func bypass() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "registered")
            let message: JSONValue = ["for_gcm": ["push_token": "own"], "for_apns": [:]]
            #expect(try await kakao.send("[1]", message, bypass: "true").status == 200)
            let deliveries = kakao.sandbox.deliveries()
            #expect(deliveries.map(\.pushToken) == ["own"])
            #expect(deliveries.map(\.deviceID) == [nil])
            #expect(try await kakao.send("[1]", ["for_gcm": [:]], bypass: "true").code == -2)
        }
    }

    @Test("Deliveries are listed in pages, of one user or of all users")
    func pages() async throws {
        try await withSandbox { kakao in
            for _ in 0..<3 { _ = try await kakao.send("[1,2]", [:]) }
            let first = try await kakao.control(.get, "/sandbox/deliveries?user_id=2&limit=2").json
            #expect(first?["items"]?.array?.map { $0["sequence"] } == [2, 4])
            #expect(first?["next"] == 4)
            let rest = try await kakao.control(.get, "/sandbox/deliveries?user_id=2&limit=2&after=4").json
            #expect(rest?["items"]?.array?.map { $0["sequence"] } == [6])
            #expect(rest?["next"] == .null)
        }
    }

    @Test("Only the newest deliveries are kept, and all are counted")
    func bounded() async throws {
        var settings = KakaoSandboxSettings()
        settings.maximumDeliveries = 3
        try await withSandbox(settings) { kakao in
            for user in 1...5 { _ = try await kakao.send("[\(user)]", [:]) }
            #expect(kakao.sandbox.deliveries().map(\.sequence) == [3, 4, 5])
            #expect(kakao.sandbox.deliveries().map(\.userID) == [3, 4, 5])
            #expect(kakao.sandbox.deliveries(after: .max).isEmpty)
            #expect(kakao.sandbox.stats.deliveries == [.noDevice: 5])
        }
    }

    @Test("A token beyond the limit is rejected with a temporary error, and an existing one is still updated")
    func tokenLimit() async throws {
        var settings = KakaoSandboxSettings()
        settings.maximumTokens = 1
        try await withSandbox(settings) { kakao async throws in
            #expect(try await kakao.register(1, "a").status == 200)
            #expect(try await kakao.register(2, "b").code == -1)
            #expect(try await kakao.register(1, "a").status == 200)
        }
    }

    @Test("Users are counted by the marker in custom_field, which reveals a user who was reached twice")
    func reached() async throws {
        try await withSandbox { kakao in
            func marked(_ marker: JSONValue) -> JSONValue { ["for_gcm": ["custom_field": ["marker": marker]]] }
            _ = try await kakao.send("[1,2,3]", marked("a"))
            _ = try await kakao.send("[3,4]", marked("a"))
            _ = try await kakao.send("[3]", ["for_apns": ["custom_field": ["marker": 7]]])
            _ = try await kakao.send("[3]", [:])

            let all = try await kakao.control(.get, "/sandbox/reached").json
            #expect(all?["items"]?.array?.map { $0["marker"] } == ["a", "7", ""])

            let one = try await kakao.control(.get, "/sandbox/reached?marker=a").json
            #expect(one?["sends"] == 2)
            #expect(one?["users"] == 4)
            #expect(one?["times"] == 5)
            #expect(one?["more_than_once"] == 1)
            #expect(one?["items"] == [["user_id": "3", "times": 2]])

            let page = try await kakao.control(.get, "/sandbox/reached?marker=a&min_times=1&after=1&limit=2").json
            #expect(page?["items"]?.array?.map { $0["user_id"] } == ["2", "3"])
            #expect(page?["next"] == "3")

            let user = try await kakao.control(.get, "/sandbox/reached?marker=a&user_id=5").json
            #expect(user?["items"] == [["user_id": "5", "times": 0]])
            #expect(kakao.sandbox.timesReached(3, marker: "7") == 1)
            #expect(kakao.sandbox.reached(marker: "").users == 1)
        }
    }

    @Test("Users beyond the limit are reported as uncounted")
    func uncounted() async throws {
        var settings = KakaoSandboxSettings()
        settings.maximumReached = 2
        try await withSandbox(settings) { kakao in
            _ = try await kakao.send("[1,2,3]", [:])
            #expect(kakao.sandbox.reached(marker: "").users == 2)
            #expect(kakao.sandbox.stats.uncounted == 1)
        }
    }

    @Test("Statistics count requests by path, sends, users, and deliveries by outcome")
    func stats() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "a")
            _ = try await kakao.send("[1,2]", ["for_gcm": [:]])
            _ = try await kakao.send("[]", [:])
            let stats = try await kakao.control(.get, "/sandbox/stats").json
            #expect(stats?["requests"] == ["/v1/push/register": 1, "/v1/push/send": 2])
            #expect(stats?["sends"] == 1)
            #expect(stats?["users"] == 2)
            #expect(stats?["tokens"] == 1)
            #expect(stats?["deliveries"]?["delivered"] == 1)
            #expect(stats?["deliveries"]?["no_device"] == 1)
        }
    }

    @Test("Deliveries can be cleared, and tokens are kept")
    func forget() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "a")
            _ = try await kakao.send("[1]", ["for_gcm": [:]])
            #expect(try await kakao.control(.delete, "/sandbox/deliveries").status == 204)
            #expect(kakao.sandbox.deliveries().isEmpty)
            #expect(kakao.sandbox.reached(marker: "").users == 0)
            #expect(kakao.sandbox.stats.sends == 0)
            #expect(kakao.sandbox.stats.tokens == 1)
        }
    }
}
