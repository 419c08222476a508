import Crypto
import Endpoints
import EventLoop
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Locking
import Postgres
import Server
import ServiceKit
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts
@testable import Identity
@testable import KakaoAPI
@testable import KakaoRelay
@testable import Messages
@testable import Runtime
@testable import Sharing

/// Calls of operators that Kakao accepts only with the user's token, which another feature keeps.
@Suite(.timeLimit(.minutes(5))) struct StoredTokenTests {
    private static let path = "/v1/user/update_profile"

    /// Tokens that a test sets.
    private final class Tokens: UserTokenSource {
        /// The tokens to return, the last one again and again.
        private let tokens: Locked<[String]>
        private let received = Locked<[String]>([])

        /// The requests for a token: the user and the rejected token.
        var requests: [String] { received.withLock { $0 } }

        init(_ tokens: [String]) {
            self.tokens = Locked(tokens)
        }

        func accessToken(of userID: Int64, replacing rejected: String?) throws -> String {
            received.withLock { $0.append("\(userID) \(rejected ?? "-")") }
            let token = tokens.withLock { $0.count > 1 ? $0.removeFirst() : $0.first }
            guard let token else { throw Problem(of: .accountLoginRequired, "The user must log in.") }
            return token
        }
    }

    /// Runs `body` with a server that has the relay only.
    private static func withRelay(
        _ kakao: String,
        _ tokens: Tokens?,
        _ body: (TestClient) async throws -> Void
    ) async throws {
        try await TestDatabase.with { database in
            try await withRelay(kakao, tokens, database, body)
        }
    }

    private static func withRelay(
        _ kakao: String,
        _ tokens: Tokens?,
        _ database: TestDatabase,
        _ body: (TestClient) async throws -> Void
    ) async throws {
        let settings = Settings.test(database.url, kakao: kakao)
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let context = try ServerContext(
            kakao: settings.kakao,
            identity: settings.identity,
            document: .service,
            migrator: Migrator(directory: TestFiles.migrations),
            database: PostgresSettings(url: settings.databaseURL.revealed),
            journal: nil,
            loops: loops.loops,
            secretPaths: [],
            openPaths: [],
            logger: quietLogger
        )
        // Without tokens of the test: those of a server that keeps none.
        let accounts = AccountFeature(context, settings.accounts)
        let relay = KakaoRelayRoutes(
            settings: settings.relay,
            kakao: context.background.kakao(.requests),
            kakaoForApps: context.background.kakao(.appKeys),
            audit: context.background.audit,
            images: settings.sharing.images,
            uploads: ConcurrencyLimit(4),
            appUploads: ConcurrencyLimit(2),
            tokens: tokens ?? accounts.tokens(context.background),
            reservations: QuotaReservations(pool: context.background.pool, quotas: settings.messages.quotas),
            consentURL: { userID, scopes in
                guard tokens != nil else { return accounts.consentURL(userID: userID, scopes: scopes) }
                return "https://push.example.com/login?user=\(userID)&scope=\(scopes.joined(separator: ","))"
            },
            publicURL: { nil }
        )
        let http = try HTTPServer(settings: HTTPServerSettings(), loops: loops, logger: quietLogger) { _ in
            var routes = Routes(
                context.identity.authenticator(context.background),
                recordingIn: context.background.audit
            )
            routes.add(relay)
            return Application(router: routes.router, middleware: [], logger: quietLogger)
        }
        for loop in context.loops { loop.pool.start() }
        http.start()
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(TestClient(url: "http://127.0.0.1:\(http.port)")))
        } catch {
            result = .failure(error)
        }
        await http.shutdown(within: .seconds(1))
        for loop in context.loops {
            await loop.client.shutdown()
            await loop.pool.shutdown()
        }
        try result.get()
    }

    private static func update(_ api: TestClient) async throws -> HTTPClientResponse {
        try await api.post(path, json: ["properties": ["age": 23], "target_id_type": "user_id", "target_id": 7])
    }

    @Test("The token of the user's account is used, and Kakao's response comes back")
    func used() async throws {
        try await TestKakao.with { kakao in
            let tokens = Tokens([try #require(kakao.sandbox.accessToken(of: 7))])
            try await Self.withRelay(kakao.sandbox.url, tokens) { api in
                let answer = try await Self.update(api)
                #expect(answer.status == 200)
                #expect(answer.json?["id"] == 7)
                #expect(tokens.requests == ["7 -"])
                // Kakao accepts the Admin key for this call, so that no token is needed.
                let me = try await api.get("/v2/user/me", ["target_id_type": "user_id", "target_id": "7"])
                #expect(me.json?["properties"]?["age"] == "23")
                #expect(tokens.requests.count == 1)
            }
        }
    }

    @Test("A token that Kakao rejects is replaced once")
    func replaced() async throws {
        try await TestKakao.with { kakao in
            let valid = try #require(kakao.sandbox.accessToken(of: 7))
            let tokens = Tokens(["stale", valid])
            try await Self.withRelay(kakao.sandbox.url, tokens) { api in
                let answer = try await Self.update(api)
                #expect(answer.status == 200)
                #expect(tokens.requests == ["7 -", "7 stale"])
                #expect(kakao.sandbox.stats.requests[Self.path] == 2)
            }
        }
    }

    @Test("If Kakao rejects the replacement too, the user must log in")
    func rejected() async throws {
        try await TestKakao.with { kakao in
            let tokens = Tokens(["stale", "staler", "never"])
            try await Self.withRelay(kakao.sandbox.url, tokens) { api in
                let answer = try await Self.update(api)
                #expect(answer.status == 401)
                #expect(answer.problem == "login-required")
                #expect(answer.json?["code"] == -401)
                #expect(answer.json?["consent_url"] == "https://push.example.com/login?user=7&scope=")
                #expect(tokens.requests == ["7 -", "7 stale"])
            }
        }
    }

    @Test("A user without a token must log in: 409, with the page where that is possible")
    func none() async throws {
        try await TestKakao.with { kakao in
            try await Self.withRelay(kakao.sandbox.url, Tokens([])) { api in
                let answer = try await Self.update(api)
                #expect(answer.status == 409)
                #expect(answer.problem == "login-required")
                #expect(answer.json?["detail"] == "The user must log in.")
                #expect(answer.json?["consent_url"] == "https://push.example.com/login?user=7&scope=")
            }
            try await Self.withRelay(kakao.sandbox.url, nil) { api in
                let answer = try await Self.update(api)
                #expect(answer.status == 409)
                #expect(answer.problem == "login-required")
                #expect(answer.json?["consent_url"] == nil)
            }
            #expect(kakao.sandbox.stats.requests[Self.path] == nil)
        }
    }

    @Test("A missing scope is answered with the page where the user agrees to it, by token and by Admin key")
    func consent() async throws {
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        // Kakao's members are passed on, unless they would replace one of the server.
        let body = #"""
            {"code":-402,"msg":"insufficient scopes.","required_scopes":["friends","talk_message"],"api_type":"FRIENDS",
            "allowed_scopes":["profile"],"later":{"a":[1]},"type":"x","title":"x","status":1,"detail":"x","instance":"x",
            "field":1,"allowed":1,"consent_url":"x","kauth_error":"x"}
            """#
        var router = Router()
        router.add(.post, Self.path, .immediate { _ in .json(Array(body.utf8), status: .forbidden) })
        router.add(.get, "/v2/user/me", .immediate { _ in .json(Array(body.utf8), status: .forbidden) })
        let application = Application(router: router, middleware: [], logger: quietLogger)
        let kakao = try HTTPServer(settings: HTTPServerSettings(), loops: loops, logger: quietLogger) { _ in
            application
        }
        kakao.start()
        try await Self.withRelay("http://127.0.0.1:\(kakao.port)", Tokens(["token"])) { api in
            let me = try await api.get("/v2/user/me", ["target_id_type": "user_id", "target_id": "8"])
            for (answer, userID) in [(try await Self.update(api), 7), (me, 8)] {
                #expect(answer.status == 403)
                #expect(answer.json?["code"] == -402)
                #expect(answer.problem == "consent-required")
                #expect(answer.json?["required_scopes"] == ["friends", "talk_message"])
                #expect(answer.json?["api_type"] == "FRIENDS")
                #expect(answer.json?["allowed_scopes"] == ["profile"])
                #expect(answer.json?["later"] == ["a": [1]])
                #expect(answer.json?["msg"] == "insufficient scopes.")
                #expect(answer.json?["title"] == "Forbidden")
                #expect(answer.json?["status"] == 403)
                #expect(answer.json?["detail"]?.string?.hasPrefix("The user has not consented") == true)
                for name in ["instance", "field", "allowed", "kauth_error"] { #expect(answer.json?[name] == nil) }
                #expect(answer.answerer == "kakao")
                let page = "https://push.example.com/login?user=\(userID)&scope=friends,talk_message"
                #expect(answer.json?["consent_url"]?.string == page)
            }
        }
        await kakao.shutdown(within: .seconds(1))
    }
}
