import Endpoints
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Identity
@testable import Settings

/// Requests of many users that a backend sends from one address.
@Suite(.timeLimit(.minutes(5))) struct BackendCallTests {
    private static let path = "/v1/push/tokens"

    /// Runs a server that accepts Kakao's access tokens, of which an address may send one unknown one a minute.
    private static func withIdentity(
        perUser: Int? = nil,
        proxies: String? = nil,
        trusted: String? = nil,
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withKakaoLogin(
            { settings in
                settings.identity.requestsPerMinutePerUser = perUser
                settings.identity.requestsPerMinutePerAddress = 1
                settings.http.trustedProxies = proxies.flatMap { TrustedProxies($0) } ?? .none
                settings.identity.trustedAddresses = trusted.flatMap { TrustedProxies($0) } ?? .none
            },
            body
        )
    }

    private static func makeKey(_ service: TestService, _ scopes: Set<Scope> = [.userCalls]) async throws -> String {
        try await OperatorKeyStore(pool: service.database.pool).create(name: "shop", scopes: scopes, expiresAt: nil)
    }

    /// Returns a client that sends a user's token, and a key if one is given.
    private static func user(
        _ userID: Int64,
        _ service: TestService,
        key: String? = nil
    ) throws -> TestClient {
        let token = try #require(service.kakao.sandbox.accessToken(of: userID))
        var app = service.api.with("Bearer \(token)")
        app.headerFields[.operatorKey] = key
        return app
    }

    /// Returns the statuses of calls of several users, sixteen at a time.
    private static func statuses(_ callers: [TestClient]) async throws -> [Int: Int] {
        var statuses: [Int: Int] = [:]
        for start in stride(from: 0, to: callers.count, by: 16) {
            try await withThrowingTaskGroup(of: Int.self) { group in
                for caller in callers[start..<min(start + 16, callers.count)] {
                    group.addTask { try await caller.get(path).status }
                }
                for try await status in group { statuses[status, default: 0] += 1 }
            }
        }
        return statuses
    }

    private static func isLimited(_ callers: [TestClient]) async throws -> Bool {
        let statuses = try await statuses(callers)
        #expect(Set(statuses.keys).isSubset(of: [200, 429]))
        return statuses[429] != nil
    }

    @Test("With a key beside their tokens, 640 users of one address are served, and none is answered 429")
    func manyUsers() async throws {
        try await Self.withIdentity { service in
            let key = try await Self.makeKey(service)
            let callers = try (1...640).map { try Self.user($0, service, key: key) }
            #expect(try await Self.statuses(callers) == [200: 640])
            try await eventually("without a key the address is limited") {
                try await Self.isLimited(try (1001...1008).map { try Self.user($0, service) })
            }
        }
    }

    @Test("A bad key beside a valid token is a 401 that says nothing of the token, so that no SDK logs its user out")
    func ownProblem() async throws {
        try await Self.withIdentity(proxies: "127.0.0.1") { service in
            for (number, path) in [Self.path, "/v1/devices", "/v2/user/me", "/v1/user/logout"].enumerated() {
                let app = try Self.user(7, service, key: "kps_unknown").from("203.0.113.\(number)")
                let answer = path.hasSuffix("logout") ? try await app.post(path) : try await app.get(path)
                #expect(answer.status == 401 && answer.problem == "invalid-operator-key", "\(path) \(answer.text)")
                #expect(answer.json?["code"] == -1401)
                #expect(answer.headerFields[.wwwAuthenticate] == "OperatorKey realm=\"X-Operator-Key\"")
                for text in ["detail", "msg"].map({ answer.json?[$0]?.string }) {
                    #expect(text?.contains("X-Operator-Key") == true && text?.contains("user-calls") == true)
                }
            }
            #expect(service.log.lines.contains { $0.metadata["reason"] == "unknown-key" })
            #expect(service.kakao.sandbox.stats.requests["/v1/user/logout"] == nil)
        }
    }

    @Test("A bad key beside a valid token is 401, a key without the scope 403, also if the token is known")
    func badKey() async throws {
        try await Self.withIdentity(proxies: "127.0.0.1") { service in
            let reader = try await Self.makeKey(service, [.read, .devices])
            let known = try Self.user(7, service)
            #expect(try await known.get(Self.path).status == 200)
            let bad = [
                ("kps_unknown", 401, "invalid-operator-key"), ("", 401, "invalid-operator-key"),
                (Keys.admin, 401, "invalid-operator-key"), (reader, 403, "missing-scope"),
            ]
            for (number, (key, status, problem)) in bad.enumerated() {
                for var app in [known, try Self.user(8, service)] {
                    app.headerFields[.operatorKey] = key
                    let answer = try await app.from("203.0.113.\(number)").get(Self.path)
                    #expect(answer.status == status)
                    #expect(answer.problem == problem)
                    #expect(answer.json?["detail"]?.string?.contains("X-Operator-Key") == true)
                }
                #expect(try await known.get(Self.path).status == 200)
            }
            #expect(service.log.lines.contains { $0.metadata["reason"] == "admin-key" })
            let all = [try await Self.makeKey(service, [.admin]), Keys.operator]
            for key in all { #expect(try await Self.user(7, service, key: key).get(Self.path).status == 200) }
        }
    }

    @Test("The key makes no call by itself, and is neither logged nor sent to Kakao nor returned")
    func confined() async throws {
        try await Self.withIdentity { service in
            let key = try await Self.makeKey(service)
            let alone = service.api.with("Bearer \(key)")
            #expect(try await alone.get(Self.path, ["uuid": "7"]).problem == "missing-scope")
            let answers = [
                try await Self.user(7, service, key: key).get("/v2/user/me"),
                try await Self.user(7, service, key: "invented-key").get("/v2/user/me"),
            ]
            #expect(answers.map(\.status) == [200, 401])
            for answer in answers {
                for secret in [key, "invented-key"] {
                    #expect(!answer.text.contains(secret))
                    #expect(!answer.headerFields.contains { $0.value.contains(secret) })
                }
            }
            for line in service.log.lines + service.kakao.log.lines {
                #expect(!line.text.contains(key) && !line.text.contains("invented-key"))
            }
        }
    }

    @Test("The limit of a user remains")
    func userLimit() async throws {
        try await Self.withIdentity(perUser: 2) { service in
            let key = try await Self.makeKey(service)
            let statuses = try await (0..<3).asyncMap { _ in
                try await Self.user(7, service, key: key).get(Self.path).status
            }
            #expect(statuses == [200, 200, 429])
            #expect(try await Self.user(8, service, key: key).get(Self.path).status == 200)
        }
    }

    @Test("The public port beside a port for operators accepts no key beside a token")
    func publicPort() async throws {
        let adjust = { (settings: inout Settings) in settings.operatorPort = 0 }
        try await withKakaoLogin(adjust) { service in
            let key = try await Self.makeKey(service)
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            for (url, status) in [(service.server.url, 401), (service.server.operatorURL, 200)] {
                var app = TestClient(url: url, authorization: "Bearer \(token)")
                app.headerFields[.operatorKey] = key
                #expect(try await app.get(Self.path).status == status)
            }
        }
    }

    @Test("A trusted address needs no key: that of the peer, or the one that a trusted proxy reports")
    func trustedAddresses() async throws {
        func callers(_ service: TestService, from address: String?) throws -> [TestClient] {
            try (1...8).map { _ in
                let app = try Self.user(.random(in: 1...Int64.max), service)
                return address.map { app.from($0) } ?? app
            }
        }
        func isLimited(_ service: TestService, from address: String?) async throws -> Bool {
            try await Self.isLimited(try callers(service, from: address))
        }
        try await Self.withIdentity(proxies: "127.0.0.1", trusted: "203.0.113.0/24, 127.0.0.1") { service in
            #expect(try await !isLimited(service, from: "203.0.113.7"))
            #expect(try await !isLimited(service, from: "198.51.100.1, 203.0.113.7"))
            // A client cannot report another address, and a proxy that reports none is no backend.
            for address in ["198.51.100.1", "203.0.113.7, 198.51.100.1", "unknown", nil] {
                try await eventually("\(address ?? "no address") is limited") {
                    try await isLimited(service, from: address)
                }
            }
        }
        try await Self.withIdentity(trusted: "127.0.0.1") { service in
            let limited = try await isLimited(service, from: nil)
            #expect(!limited)
        }
        // Without a trusted proxy, nothing that the client reports is believed.
        try await Self.withIdentity(trusted: "203.0.113.7") { service in
            try await eventually("the peer is limited") { try await isLimited(service, from: "203.0.113.7") }
        }
    }
}
