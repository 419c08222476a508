import Endpoints
import HTTPClient
import HTTPTypes
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Identity
@testable import Settings

/// Access tokens whose revocation Kakao reports. Every server drops them from its cache.
@Suite(.timeLimit(.minutes(5))) struct RevokedTokenTests {
    private static let path = "/v1/user/access_token_info"
    private static let oauth = "https://schemas.openid.net/secevent/oauth/event-type/"
    private static let risc = "https://schemas.openid.net/secevent/risc/event-type/"

    private static func withIdentity(_ body: (TestService) async throws -> Void) async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.kakao.authURL = settings.kakao.apiURL
            settings.kakao.restAPIKey = KakaoSandboxSettings().restAPIKey
            settings.identity.acceptsKakaoAccessTokens = true
        }
        try await withService(adjust, body)
    }

    private static func questions(_ service: TestService) -> Int {
        service.kakao.sandbox.stats.requests[path] ?? 0
    }

    private static func status(_ api: TestClient, _ token: String) async throws -> Int {
        try await api.with("Bearer \(token)").get("/v1/push/tokens").status
    }

    private static func send(_ service: TestService, _ type: String, of userID: Int64 = 7) async throws {
        var event = AccountEvent(userID: userID)
        event.type = type
        #expect(try await service.kakao.send(event).status == 202)
    }

    /// Waits until a server has received all notifications sent so far. Causes two lookups at Kakao.
    ///
    /// - Parameter userID: A user that the test does not use otherwise.
    private static func hear(_ service: TestService, _ userID: Int64) async throws {
        let token = try #require(service.kakao.sandbox.accessToken(of: userID))
        #expect(try await status(service.api, token) == 200)
        service.kakao.sandbox.revokeAccessTokens(of: userID)
        // Notifications arrive in commit order.
        try await send(service, oauth + "tokens-revoked", of: userID)
        try await eventually("the cached token is dropped") { try await status(service.api, token) == 401 }
    }

    @Test(
        "A user's revoked tokens are rejected by all servers, and other users' tokens are not looked up again",
        arguments: [
            oauth + "tokens-revoked", oauth + "token-revoked", risc + "sessions-revoked", oauth + "user-unlinked",
            risc + "account-purged", risc + "account-disabled",
        ]
    )
    func revoked(type: String) async throws {
        try await Self.withIdentity { service in
            try await RunningServer.with(service.settings) { other in
                let sandbox = service.kakao.sandbox
                let tokens = [try #require(sandbox.accessToken(of: 7)), try #require(sandbox.accessToken(of: 7))]
                let somebodyElse = try #require(sandbox.accessToken(of: 8))
                let servers = [service.api, other]
                for server in servers {
                    for token in tokens + [somebodyElse] { #expect(try await Self.status(server, token) == 200) }
                }
                sandbox.revokeAccessTokens(of: 7)
                // The servers do not know of the revocation yet.
                for server in servers { #expect(try await Self.status(server, tokens[0]) == 200) }
                #expect(Self.questions(service) == 6)
                try await Self.send(service, type)
                for server in servers {
                    for token in tokens {
                        try await eventually("the cached token is dropped") {
                            try await Self.status(server, token) == 401
                        }
                    }
                    #expect(try await Self.status(server, somebodyElse) == 200)
                }
                #expect(Self.questions(service) == 10)

                // A new token of the user is accepted and cached.
                let new = try #require(sandbox.accessToken(of: 7))
                for _ in 0..<3 { #expect(try await Self.status(other, new) == 200) }
                #expect(Self.questions(service) == 11)
            }
        }
    }

    @Test("An unlink notice drops cached tokens as well; other types of event and duplicates do not")
    func notices() async throws {
        try await Self.withIdentity { service in
            let sandbox = service.kakao.sandbox
            var event = AccountEvent(userID: 7)
            event.type = Self.oauth + "tokens-revoked"
            event.tokenID = "token-1"
            #expect(try await service.kakao.send(event).status == 202)
            let token = try #require(sandbox.accessToken(of: 7))
            try await Self.hear(service, 8)
            #expect(try await Self.status(service.api, token) == 200)
            let before = Self.questions(service)
            #expect(try await service.kakao.send(event).status == 202)
            try await Self.send(service, Self.oauth + "user-scope-withdraw")
            try await Self.hear(service, 9)
            #expect(try await Self.status(service.api, token) == 200)
            #expect(Self.questions(service) == before + 2)

            sandbox.revokeAccessTokens(of: 7)
            #expect(await service.kakao.unlink(UnlinkNotice(userID: 7)).status == 200)
            try await eventually("the cached token is dropped") { try await Self.status(service.api, token) == 401 }
        }
    }

    @Test("A response of Kakao that was in flight when the tokens were revoked is discarded")
    func underWay() async throws {
        try await Self.withIdentity { service in
            let sandbox = service.kakao.sandbox
            let token = try #require(sandbox.accessToken(of: 7))
            // The first event generates and fetches a key, which takes long on a busy machine.
            try await Self.hear(service, 9)
            var latency = Fault(.latency)
            latency.path = Self.path
            latency.milliseconds = 600_000
            latency.userIDs = [7]
            latency.times = 1
            let fault = try #require(sandbox.add(latency))
            async let late = service.api.with("Bearer \(token)").get("/v1/push/tokens")
            try await eventually("Kakao has looked the token up") { sandbox.timesApplied(fault) == 1 }
            sandbox.revokeAccessTokens(of: 7)
            try await Self.send(service, Self.oauth + "tokens-revoked", of: 7)
            try await Self.hear(service, 8)
            service.kakao.release(fault)
            // Kakao had found the token valid. A 401 would log the user out, so the response is 503.
            let answer = try await late
            #expect(answer.status == 503)
            #expect(answer.headerFields[.retryAfter] == "1")
            #expect(try await Self.status(service.api, token) == 401)
        }
    }

    @Test("After the notification connection was lost, the cached tokens are dropped")
    func reconnection() async throws {
        try await Self.withIdentity { service in
            let sandbox = service.kakao.sandbox
            let token = try #require(sandbox.accessToken(of: 7))
            for _ in 0..<2 { #expect(try await Self.status(service.api, token) == 200) }
            #expect(Self.questions(service) == 1)
            sandbox.revokeAccessTokens(of: 7)
            let ended = try await service.database.integer(
                """
                SELECT count(pg_terminate_backend(pid))
                FROM pg_stat_activity
                WHERE datname = current_database()
                    AND query LIKE 'LISTEN %'
                """
            )
            #expect(ended == 1)
            try await eventually("the token is looked up again") { try await Self.status(service.api, token) == 401 }
        }
    }
}
