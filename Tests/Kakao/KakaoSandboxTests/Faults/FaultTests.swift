import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

/// Faults, mostly added over HTTP, as by a chaos script.
@Suite(.timeLimit(.minutes(1))) struct FaultTests {
    private static func add(_ fault: JSONValue, _ kakao: Fixture) async throws {
        let response = try await kakao.control(.post, "/sandbox/faults", fault)
        try #require(response.status == 201, "\(response.text)")
    }

    @Test("A status with a code is Kakao's error, and the push is not sent unless the fault has delivered")
    func status() async throws {
        try await withSandbox { kakao in
            let fault: JSONValue = [
                "kind": "status", "path": "/v1/push/send", "status": 429, "code": -10, "msg": "API limit",
                "retry_after": 7,
                "times": 1,
            ]
            try await Self.add(fault, kakao)
            let response = try await kakao.send("[1]", [:])
            #expect(response.status == 429)
            #expect(response.json == ["msg": "API limit", "code": -10])
            #expect(response.headerFields[.retryAfter] == "7")
            #expect(kakao.sandbox.stats.sends == 0)
            #expect(try await kakao.send("[1]", [:]).status == 200)

            try await Self.add(["kind": "status", "status": 500, "code": -1, "delivered": true], kakao)
            #expect(try await kakao.send("[1]", [:]).status == 500)
            #expect(kakao.sandbox.stats.sends == 2)
        }
    }

    @Test("A status without a code is an HTML page, as from a gateway")
    func gateway() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "status", "status": 502], kakao)
            let response = try await kakao.register(1, "a")
            #expect(response.status == 502)
            #expect(response.headerFields[.contentType] == "text/html")
            #expect(response.json == nil)
        }
    }

    @Test("A fault affects only its path, and never /sandbox/*")
    func path() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "status", "status": 500, "path": "/v1/push/register"], kakao)
            #expect(try await kakao.register(1, "a").status == 500)
            #expect(try await kakao.register(1, "a", type: "fcm", version: "v2").status == 200)
            try await Self.add(["kind": "down"], kakao)
            #expect(try await kakao.control(.get, "/sandbox/stats").status == 200)
        }
    }

    @Test("A fault for some users affects only calls that name one of them")
    func users() async throws {
        try await withSandbox { kakao in
            let fault: JSONValue = ["kind": "status", "status": 400, "code": -2, "user_ids": [7, "8"]]
            try await Self.add(fault, kakao)
            #expect(try await kakao.send("[6,7]", [:]).code == -2)
            #expect(try await kakao.send("[\"8\"]", [:]).code == -2)
            #expect(try await kakao.send("[5,6]", [:]).status == 200)
            #expect(try await kakao.register(7, "a").code == -2)
        }
    }

    @Test("While Kakao is down, every connection is closed at its first request")
    func down() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "down"], kakao)
            for _ in 0..<2 {
                let error = await failure { try await kakao.send("[1]", [:]) }
                #expect(error?.code == .connectionLost)
            }
            #expect(try await kakao.control(.delete, "/sandbox/faults").status == 204)
            #expect(try await kakao.send("[1]", [:]).status == 200)
            #expect(kakao.sandbox.stats.sends == 1)
        }
    }

    @Test("While Kakao is down with a status, requests are answered with it")
    func downWithStatus() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "down", "status": 503, "retry_after": 1], kakao)
            let response = try await kakao.send("[1]", [:])
            #expect(response.status == 503)
            #expect(response.headerFields[.retryAfter] == "1")
        }
    }

    @Test("A request that is dropped before its body is read is not executed")
    func dropBeforeBody() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "drop_before_body", "times": 1], kakao)
            #expect(await failure { try await kakao.send("[1]", [:]) }?.code == .connectionLost)
            #expect(kakao.sandbox.stats.sends == 0)
            #expect(kakao.sandbox.stats.requests == ["/v1/push/send": 1])
        }
    }

    @Test(
        "A request that is dropped after its body was read is executed or not, without the caller knowing",
        arguments: [true, false]
    )
    func dropAfterBody(delivered: Bool) async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "drop_after_body", "delivered": .bool(delivered), "times": 1], kakao)
            let error = await failure { try await kakao.send("[1]", [:]) }
            #expect(error?.code == .connectionLost)
            #expect(error?.mayHaveBeenSent == true)
            #expect(kakao.sandbox.stats.sends == (delivered ? 1 : 0))
            #expect(try await kakao.send("[1]", [:]).status == 200)
        }
    }

    @Test("With latency, the push is sent at once and only the response is delayed")
    func latency() async throws {
        // Long enough for the control and the send, even on a busy machine.
        try await withSandbox(client: HTTPClientSettings(totalTimeout: .seconds(2))) { kakao in
            try await Self.add(["kind": "latency", "milliseconds": 600_000, "times": 1], kakao)
            #expect(await failure { try await kakao.send("[1]", [:]) }?.code == .timedOut)
            #expect(kakao.sandbox.stats.sends == 1)
            // The fixture's shutdown does not wait for the ten minutes.
        }
    }

    @Test("A delayed response is unchanged")
    func shortLatency() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "latency", "milliseconds": 20], kakao)
            #expect(try await kakao.register(1, "a").text == "30")
        }
    }

    @Test("The same seed yields the same faults, and another seed yields different ones")
    func seed() async throws {
        func choices(seed: UInt64) async throws -> [Int] {
            var settings = KakaoSandboxSettings()
            settings.seed = seed
            return try await withSandbox(settings) { kakao in
                let fault = try JSONValue(parsing: #"{"kind":"status","status":500,"probability":0.5}"#)
                try await Self.add(fault, kakao)
                var statuses: [Int] = []
                for _ in 0..<64 { statuses.append(try await kakao.send("[1]", [:]).status) }
                return statuses
            }
        }
        let first = try await choices(seed: 1)
        #expect(Set(first) == [200, 500])
        #expect(try await choices(seed: 1) == first)
        #expect(try await choices(seed: 2) != first)
    }

    @Test("A fault with probability 0 never strikes, and one with 1 always does")
    func probability() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "down", "probability": 0], kakao)
            for _ in 0..<20 { #expect(try await kakao.send("[1]", [:]).status == 200) }
            try await Self.add(["kind": "status", "status": 500, "probability": 1], kakao)
            for _ in 0..<20 { #expect(try await kakao.send("[1]", [:]).status == 500) }
        }
    }

    @Test("Faults are listed with the number of affected requests, and removed one by one")
    func list() async throws {
        try await withSandbox { kakao in
            try await Self.add(
                ["kind": "status", "status": 400, "code": -2, "user_ids": ["9223372036854775807"]],
                kakao
            )
            try await Self.add(["kind": "latency", "milliseconds": 1, "path": "/v1/push/send"], kakao)
            _ = try await kakao.send("[1]", [:])
            let faults = try await kakao.control(.get, "/sandbox/faults").json?["items"]
            #expect(faults?[0]?["user_ids"] == ["9223372036854775807"])
            #expect(faults?.array?.map { $0["applied"] } == [0, 1])
            #expect(try await kakao.control(.delete, "/sandbox/faults/1").status == 204)
            #expect(try await kakao.control(.delete, "/sandbox/faults/1").status == 404)
            let left = try await kakao.control(.get, "/sandbox/faults").json?["items"]?.array
            #expect(left?.map { $0["id"] } == [2])
        }
    }

    @Test(
        "An invalid fault is rejected with the name of the invalid field",
        arguments: [
            (["status": 500], "kind"), (["kind": "fire"], "kind"), (["kind": "status", "status": 99], "status"),
            (["kind": "status", "statsu": 500], "statsu"), (["kind": "latency"], "milliseconds"),
            (["kind": "down", "probability": 2], "probability"), (["kind": "down", "times": 0], "times"),
            (["kind": "down", "user_ids": [1]], "user_ids"), (["kind": "status", "user_ids": [0]], "user_ids"),
            (["kind": "down", "path": "v1"], "path"), (["kind": "status", "delivered": 1], "delivered"),
        ] as [(JSONValue, String)]
    )
    func refused(fault: JSONValue, field: String) async throws {
        try await withSandbox { kakao in
            let response = try await kakao.control(.post, "/sandbox/faults", fault)
            #expect(response.status == 400)
            #expect(response.headerFields[.contentType] == "application/problem+json")
            #expect(response.json?["field"]?.string == field)
            #expect(try await kakao.control(.get, "/sandbox/faults").json?["items"] == [])
        }
    }

    @Test("More than 100 faults are rejected, unless spent ones can be replaced")
    func tooMany() async throws {
        try await withSandbox { kakao async throws in
            var spent = Fault(.status)
            spent.times = 1
            kakao.sandbox.add(spent)
            for _ in 1..<100 { #expect(kakao.sandbox.add(Fault(.latency)) != nil) }
            #expect(try await kakao.control(.post, "/sandbox/faults", ["kind": "down"]).status == 409)
            #expect(try await kakao.send("[1]", [:]).status == 500)
            #expect(try await kakao.control(.post, "/sandbox/faults", ["kind": "down"]).status == 201)
        }
    }
}
