import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Locking
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Identity
@testable import Settings

/// Calls of users' apps with a Kakao Login access token.
@Suite(.timeLimit(.minutes(5))) struct AccessTokenTests {
    private static let path = "/v1/user/access_token_info"

    private static func questions(_ service: TestService) -> Int {
        service.kakao.sandbox.stats.requests[path] ?? 0
    }

    private static func fail(_ service: TestService, _ adjust: (inout Fault) -> Void) {
        var fault = Fault(.status)
        fault.path = path
        adjust(&fault)
        service.kakao.sandbox.add(fault)
    }

    /// The body of a registration without a user, which the token determines.
    private static let phone: KeyValuePairs = ["device_id": "phone", "push_type": "gcm", "push_token": "token"]

    @Test("A user registers, lists and deregisters its own devices, with one token lookup at Kakao")
    func ownDevices() async throws {
        try await withKakaoLogin { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            for version in ["v1", "v2"] {
                let type = version == "v1" ? "gcm" : "fcm"
                let fields: KeyValuePairs = ["device_id": version, "push_type": type, "push_token": "of \(version)"]
                #expect(try await app.post("/\(version)/push/register", form: fields).text == "30")
            }
            // The request may also name the user.
            #expect(try await app.register(7, "third").status == 200)
            #expect(try await service.kakao.tokens(of: 7).count == 3)
            for query in [[:], ["uuid": "7"], ["uuids": "[7]"], ["uuids": "[\"7\",7]"]]
                as [KeyValuePairs<String, String>]
            {
                let answer = try await app.get("/v1/push/tokens", query)
                #expect(answer.json?.array?.compactMap { $0["user_id"]?.string } == ["7", "7", "7"])
            }
            let gone = try await app.post("/v1/push/deregister", form: ["device_id": "v1", "push_type": "gcm"])
            #expect(gone.status == 200)
            #expect(try await service.kakao.tokens(of: 7).count == 2)
            #expect(Self.questions(service) == 1)
        }
    }

    @Test("A user cannot list, register or deregister another user's devices")
    func otherUsers() async throws {
        try await withKakaoLogin { service in
            _ = try await service.api.register(8, "of 8")
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            let answers = [
                try await app.register(8, "mine"), try await app.deregister(8),
                try await app.get("/v1/push/tokens", ["uuid": "8"]),
                try await app.get("/v1/push/tokens", ["uuids": "[7,8]"]),
                try await app.post("/v2/push/tokens", json: ["uuids": ["8"]]),
            ]
            for answer in answers {
                #expect(answer.status == 403)
                #expect(answer.json?["type"] == "urn:kakao-push-server:error:another-user")
            }
            #expect(try await service.kakao.tokens(of: 8) == ["phone gcm of 8"])
            #expect(try await app.get("/v1/push/tokens").text == "[]")
            // A device with the same id belongs to this user, not to the other one.
            let own = try await app.post("/v1/push/deregister", form: ["device_id": "phone", "push_type": "gcm"])
            #expect(own.status == 200)
            #expect(try await service.kakao.tokens(of: 8) == ["phone gcm of 8"])
        }
    }

    @Test("A user's valid token gets 403 from operators' endpoints, for which no SDK logs the user out")
    func operators() async throws {
        // Requests come from different addresses, because an address may present only a few invalid keys.
        let adjust = { (settings: inout Settings) in
            settings.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
        }
        try await withKakaoLogin(adjust) { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.register(7, "token").status == 200)
            for path in ["/v1/push/send", "/v2/push/send", "/v1/pushes"] {
                let phone = app.from("203.0.113.1")
                let answer = try await phone.post(path, form: ["uuids": "[7]", "push_message": "{}"])
                #expect(answer.status == 403 && answer.json?["code"] == -5, "\(answer.text)")
                #expect(answer.problem == "missing-scope" && answer.headerFields[.wwwAuthenticate] == nil)
            }
            let paths = ["/v1/users/7/devices", "/v1/pushes/x", "/v1/link/callbacks", "/v1/audiences", "/metrics"]
            for (number, path) in paths.enumerated() {
                #expect(try await app.from("203.0.113.\(number + 2)").get(path).status == 403)
            }
            // This server has not verified this token before, and Kakao does not know the other one.
            let new = try #require(service.kakao.sandbox.accessToken(of: 8))
            #expect(try await service.api.with("Bearer \(new)").from("203.0.113.9").get("/v1/pushes").status == 403)
            let invented = service.api.with("Bearer invented").from("203.0.113.10")
            #expect(try await invented.get("/v1/pushes").json?["code"] == -401)
            #expect(try await service.api.with("KakaoAK \(token)").register(7, "token").status == 401)
        }
    }

    @Test(
        "An unknown, expired or malformed token, or one of another app, gets 401 after at most one lookup at Kakao"
    )
    func refused() async throws {
        try await withKakaoLogin { service in
            let sandbox = service.kakao.sandbox
            let expired = try #require(sandbox.accessToken(of: 7, expiresInSeconds: 0))
            let foreign = try #require(sandbox.accessToken(of: 7, appID: 654_321))
            for token in ["unknown", expired, foreign] {
                let before = Self.questions(service)
                let app = service.api.with("Bearer \(token)")
                let answers = [try await app.register(7, "token"), try await app.get("/v1/push/tokens")]
                for answer in answers {
                    #expect(answer.status == 401)
                    #expect(answer.headerFields[.wwwAuthenticate]?.hasPrefix("Bearer") == true)
                    #expect(!answer.text.contains(token))
                }
                #expect(Self.questions(service) == before + 1)
            }
            let before = Self.questions(service)
            for token in ["", "two words", "comma,comma", "\u{e9}", String(repeating: "a", count: 2049)] {
                #expect(try await service.api.with("Bearer \(token)").register(7, "token").status == 401)
            }
            #expect(Self.questions(service) == before)
            #expect(try await service.database.count("devices") == 0)
        }
    }

    @Test("While Kakao fails, the response is 503 with Retry-After, never 401, and a cached token is accepted")
    func kakaoAway() async throws {
        try await withKakaoLogin { service in
            let sandbox = service.kakao.sandbox
            let known = try #require(sandbox.accessToken(of: 7))
            let unknown = try #require(sandbox.accessToken(of: 8))
            #expect(try await service.api.with("Bearer \(known)").get("/v1/push/tokens").status == 200)
            let hiccups: [(inout Fault) -> Void] = [
                {
                    $0.status = 400
                    $0.code = -1
                },
                { $0.status = 500 }, { $0.status = 502 },
                {
                    $0.status = 503
                    $0.code = -9798
                    $0.retryAfterSeconds = 9
                },
                // Responses of a gateway, not of Kakao.
                { $0.status = 401 }, { $0.status = 404 },
                { $0 = Fault(.dropAfterBody) }, { $0 = Fault(.down) },
                {
                    $0.status = 429
                    $0.code = -10
                    $0.retryAfterSeconds = 1
                },
            ]
            for hiccup in hiccups {
                Self.fail(service) { fault in
                    hiccup(&fault)
                    fault.path = Self.path
                }
                let answer = try await service.api.with("Bearer \(unknown)").get("/v1/push/tokens")
                #expect(answer.status == 503)
                #expect(answer.json?["type"] == "urn:kakao-push-server:error:identity-unavailable")
                #expect((answer.headerFields[.retryAfter].flatMap { Int($0) } ?? 0) >= 1)
                #expect(try await service.api.with("Bearer \(known)").get("/v1/push/tokens").status == 200)
                sandbox.removeFaults()
            }
            // Failures are not cached, except for the pause after a rate limit.
            try await eventually("Kakao is asked again") {
                try await service.api.with("Bearer \(unknown)").get("/v1/push/tokens").status == 200
            }
        }
    }

    @Test("Concurrent requests with one token, over all loops, cause one lookup at Kakao")
    func asksOnce() async throws {
        try await withKakaoLogin { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            var latency = Fault(.latency)
            latency.path = Self.path
            latency.milliseconds = 300
            service.kakao.sandbox.add(latency)
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<40 {
                    group.addTask { try await service.api.with("Bearer \(token)").get("/v1/push/tokens").status }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses == [Int](repeating: 200, count: 40))
            #expect(Self.questions(service) == 1)
        }
    }

    @Test("A token is rejected after it has expired")
    func expiry() async throws {
        try await withKakaoLogin { service in
            try await withLifetime { seconds in
                let token = try #require(service.kakao.sandbox.accessToken(of: 7, expiresInSeconds: seconds))
                let app = service.api.with("Bearer \(token)")
                guard try await app.get("/v1/push/tokens").status == 200 else { return false }
                try await eventually("the token has expired") { try await app.get("/v1/push/tokens").status == 401 }
                return true
            }
        }
    }

    @Test("Unless access tokens are enabled, none is accepted, and Kakao is not called")
    func off() async throws {
        try await withService { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let answer = try await service.api.with("Bearer \(token)").register(7, "token")
            #expect(answer.status == 403 && answer.problem == "not-configured")
            #expect(Self.questions(service) == 0)
        }
    }

    @Test("A flood of invalid tokens from one address causes few lookups, and its valid users are still accepted")
    func flood() async throws {
        let adjust = { (settings: inout Settings) in
            settings.identity.requestsPerMinutePerAddress = nil
            settings.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
        }
        try await withKakaoLogin(adjust) { service in
            let tokens = try [7, 8, 9].map { try #require(service.kakao.sandbox.accessToken(of: $0)) }
            #expect(try await Self.status(service, tokens[0]) == 200)
            let start = ContinuousClock.now
            for round in 0..<4 {
                try await withThrowingTaskGroup(of: HTTPClientResponse.self) { group in
                    for number in 0..<200 {
                        let api = service.api.with("Bearer bad-\(round)-\(number)")
                        group.addTask { try await api.get("/v1/push/tokens") }
                    }
                    for try await answer in group {
                        // It is no fault of the server's or of Kakao's.
                        #expect([401, 429].contains(answer.status))
                        #expect(answer.status == 401 || answer.headerFields[.retryAfter] == "2")
                    }
                }
                #expect(try await Self.status(service, tokens[0]) == 200)
            }
            // One lookup for the user, 32 in flight before the first rejection, 20 rejections of a minute, and two per
            // second.
            let seconds = Int((ContinuousClock.now - start).components.seconds) + 1
            #expect((22...1 + 32 + 20 + 2 * seconds).contains(Self.questions(service)))
            // Other addresses are not affected, and other tokens of this address are verified in turn.
            #expect(try await Self.status(service, tokens[1], from: "203.0.113.9") == 200)
            try await eventually("an unknown token is verified") {
                try await Self.status(service, tokens[2]) == 200
            }
        }
    }

    @Test("Valid tokens are verified without delay, even if many share an address")
    func carrier() async throws {
        let adjust = { (settings: inout Settings) in settings.identity.requestsPerMinutePerAddress = nil }
        try await withKakaoLogin(adjust) { service in
            let tokens = try (1...300).map { try #require(service.kakao.sandbox.accessToken(of: $0)) }
            // An address may have 32 unknown tokens verified at a time; more would wait for their turn, for at most 2 s.
            for start in stride(from: 0, to: tokens.count, by: 30) {
                let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                    for token in tokens[start..<start + 30] { group.addTask { try await Self.status(service, token) } }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                #expect(statuses == [Int](repeating: 200, count: 30))
            }
            #expect(Self.questions(service) == 300)
        }
    }

    @Test("Look-ups of invented tokens that wait for Kakao do not hold up registrations")
    func connections() async throws {
        // One connection of each event loop for look-ups, and one for requests.
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 1 }
        try await withKakaoLogin(adjust) { service in
            var attempt = 0
            // A look-up times out after 5 s, which is too soon now and then if the machine is slow.
            try await eventually("registrations overtake the look-ups") {
                attempt += 1
                let before = Self.questions(service)
                Self.fail(service) { fault in
                    fault = Fault(.latency)
                    fault.path = Self.path
                    fault.milliseconds = 600_000
                }
                // Those without a connection are answered 429.
                let isAnswered = Locked(false)
                let invented = (0..<16).map { [attempt] number in
                    Task {
                        let status = try await Self.status(service, "invented-\(attempt)-\(number)")
                        if status != 429 { isAnswered.withLock { $0 = true } }
                    }
                }
                try await eventually("look-ups wait for Kakao") { Self.questions(service) >= before + 2 }
                for number in 1...4 {
                    let status = try await service.api.register(Int64(number), "token-\(attempt)-\(number)").status
                    #expect(status == 200)
                }
                let isOvertaken = !isAnswered.withLock { $0 }
                service.kakao.endFaults()
                for task in invented { try await task.value }
                return isOvertaken
            }
        }
    }

    private static func status(_ service: TestService, _ token: String, from address: String) async throws -> Int {
        try await service.api.from(address).with("Bearer \(token)").get("/v1/push/tokens").status
    }

    private static func status(_ service: TestService, _ token: String) async throws -> Int {
        try await service.api.with("Bearer \(token)").get("/v1/push/tokens").status
    }

    @Test("No token is logged")
    func secrecy() async throws {
        try await withKakaoLogin { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            _ = try await service.api.with("Bearer \(token)").post("/v1/push/register", form: Self.phone)
            _ = try await service.api.with("Bearer refused-\(token)").post("/v1/push/register", form: Self.phone)
            #expect(!service.log.messages.contains { $0.contains(token) })
        }
    }
}
