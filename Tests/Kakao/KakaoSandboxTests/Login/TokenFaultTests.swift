import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import TestSupport
import Testing

/// Faults of the token endpoint, and what the sandbox reports of them.
@Suite(.timeLimit(.minutes(1))) struct TokenFaultTests {
    private static func add(_ fault: [String: JSONValue], _ kakao: Fixture) async throws {
        var object: JSONObject = ["path": "/oauth/token"]
        for (name, value) in fault { object[name] = value }
        let response = try await kakao.control(.post, "/sandbox/faults", .object(object))
        try #require(response.status == 201, "\(response.text)")
    }

    @Test("A rotation whose response is dropped has superseded the refresh token")
    func dropAfterRotation() async throws {
        try await withSandbox { kakao in
            try await Self.add(["kind": "drop_after_body", "when": "rotated", "user_ids": [7]], kakao)
            let kept = try #require(kakao.sandbox.logIn(7))
            _ = try await kakao.refresh(kept.refreshToken)
            let rotated = try #require(kakao.sandbox.logIn(7, refreshTokenSeconds: 600))
            let other = try #require(kakao.sandbox.logIn(8, refreshTokenSeconds: 600))
            _ = try await kakao.refresh(other.refreshToken)

            let error = await kakaoError { try await kakao.refresh(rotated.refreshToken) }
            guard case .unreachable(let cause) = error?.kind else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(cause.code == .connectionLost)
            #expect(cause.mayHaveBeenSent)
            let refused = await refusal { try await kakao.refresh(rotated.refreshToken) }
            #expect(refused == "KOE322")
            let report = kakao.sandbox.tokenReport(of: 7)
            #expect(report.rotations == 1)
            #expect(report.lostRotations == 1)
            #expect(report.reusesBeforeDelivery == 1)
            #expect(report.reusesAfterDelivery == 0)
            #expect(kakao.sandbox.tokenReport(of: 8).lostRotations == 0)
            #expect(kakao.sandbox.tokenReuses(of: 7).map(\.isAfterDelivery) == [false])
            #expect(try await kakao.control(.get, "/sandbox/faults").json?["items"]?[0]?["when"] == "rotated")
        }
    }

    @Test("A response that is replaced after a rotation is lost too")
    func statusAfterRotation() async throws {
        try await withSandbox(TokenEndpointTests.rotating) { kakao in
            try await Self.add(["kind": "status", "status": 502, "when": "rotated", "times": 1], kakao)
            let tokens = try #require(kakao.sandbox.logIn(7))
            let error = await kakaoError { try await kakao.refresh(tokens.refreshToken) }
            #expect(error?.disposition == .unrecognized)
            #expect(kakao.sandbox.tokenReport(of: 7).lostRotations == 1)
        }
    }

    @Test("A request that is dropped before it is executed changes nothing", arguments: [true, false])
    func drop(isExecuted: Bool) async throws {
        try await withSandbox(TokenEndpointTests.rotating) { kakao in
            try await Self.add(
                ["kind": "drop_after_body", "delivered": .bool(isExecuted), "times": 1, "user_ids": ["7"]],
                kakao
            )
            let tokens = try #require(kakao.sandbox.logIn(7))
            let error = await kakaoError { try await kakao.refresh(tokens.refreshToken) }
            #expect(error?.disposition == .retry)
            #expect(kakao.sandbox.tokenReport(of: 7).lostRotations == (isExecuted ? 1 : 0))
            let refused = await refusal { try await kakao.refresh(tokens.refreshToken) }
            #expect(refused == (isExecuted ? "KOE322" : nil))
        }
    }

    @Test("A status has the body of the authorization server, for the user of a code or a refresh token")
    func status() async throws {
        try await withSandbox { kakao in
            try await Self.add(
                [
                    "kind": "status", "status": 400, "error": "invalid_request", "error_code": "KOE237",
                    "msg": "slow down", "retry_after": 600, "user_ids": [7],
                ],
                kakao
            )
            let tokens = try #require(kakao.sandbox.logIn(7))
            let code = try await kakao.code(["login_hint": "7"])
            let errors = [
                await kakaoError { try await kakao.refresh(tokens.refreshToken) },
                await kakaoError { try await kakao.exchange(code) },
            ]
            for error in errors {
                #expect(error?.oauthError == OAuthError(error: "invalid_request", code: "KOE237"))
                #expect(error?.retryAfter == .seconds(600))
                #expect(error.map { "\($0)" } == "Kakao answered 400, KOE237 invalid_request: slow down")
            }
            _ = try await kakao.exchange(try await kakao.code(["login_hint": "8"]))
            let listed = try await kakao.control(.get, "/sandbox/faults").json?["items"]?[0]
            #expect(listed?["error_code"] == "KOE237")
            #expect(listed?["applied"] == 2)
        }
    }

    @Test("A login in a browser meets the faults of its user")
    func authorization() async throws {
        try await withSandbox { kakao async throws in
            var fault = Fault(.status)
            fault.path = "/oauth/authorize"
            fault.status = 503
            fault.userIDs = [7]
            kakao.sandbox.add(fault)
            #expect(try await kakao.authorize(["login_hint": "7"]).status == 503)
            #expect(try await kakao.authorize().status == 302)
        }
    }

    @Test("A refresh is in flight until its response, and until its client is gone")
    func inFlight() async throws {
        let client = HTTPClientSettings(totalTimeout: .seconds(2))
        try await withSandbox(TokenEndpointTests.rotating, client: client) { kakao in
            var fault = Fault(.latency)
            fault.milliseconds = 600_000
            fault.times = 1
            kakao.sandbox.add(fault)
            let tokens = try #require(kakao.sandbox.logIn(7))
            async let slow = kakaoError { try await kakao.refresh(tokens.refreshToken) }
            try await eventually("the refresh is in flight") { kakao.sandbox.tokenReport(of: 7).inFlight == 1 }
            // It was executed at once, and only its response is delayed.
            let refused = await refusal { try await kakao.refresh(tokens.refreshToken) }
            #expect(refused == "KOE322")
            #expect(kakao.sandbox.tokenReuses().map(\.isAfterDelivery) == [false])
            let other = try #require(kakao.sandbox.logIn(8))
            _ = try await kakao.refresh(other.refreshToken)
            #expect(kakao.sandbox.tokenReport(of: 7).maximumInFlight == 2)
            #expect(kakao.sandbox.tokenReport(of: 8).maximumInFlight == 1)
            #expect(kakao.sandbox.tokenReport().maximumInFlight == 2)

            guard case .unreachable(let cause) = await slow?.kind else {
                Issue.record("the slow refresh has ended")
                return
            }
            #expect(cause.code == .timedOut)
            try await eventually("the refresh has ended") { kakao.sandbox.tokenReport(of: 7).inFlight == 0 }
            #expect(kakao.sandbox.tokenReport(of: 7).lostRotations == 1)
        }
    }

    @Test(
        "An invalid fault is rejected with the name of the invalid field",
        arguments: [
            (["kind": "status", "when": "later"], "when"), (["kind": "down", "when": "rotated"], "when"),
            (["kind": "status", "error": 7], "error"), (["kind": "status", "error_code": 322], "error_code"),
        ] as [(JSONValue, String)]
    )
    func refused(fault: JSONValue, field: String) async throws {
        try await withSandbox { kakao in
            let response = try await kakao.control(.post, "/sandbox/faults", fault)
            #expect(response.status == 400)
            #expect(response.json?["field"]?.string == field)
        }
    }
}
