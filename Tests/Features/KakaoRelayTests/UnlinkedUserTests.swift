import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Users who have logged in to an app that links its users when they sign up, and have not signed up yet.
@Suite(.timeLimit(.minutes(5))) struct UnlinkedUserTests {
    private static let info = "/v1/user/access_token_info"
    private static let me = "/v2/user/me"

    /// Lets user 7 log in without having signed up.
    private static func app(_ service: TestService, appID: Int64? = nil) throws -> TestClient {
        try service.kakao.sandbox.setUser(7, ["linked": false, "has_signed_up": false])
        let token = try #require(service.kakao.sandbox.accessToken(of: 7, appID: appID))
        return service.api.with("Bearer \(token)")
    }

    @Test("A user signs up with the calls that need no id, and has the id from then on")
    func signUp() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            let refused = ["/v2/user/scopes", "/v2/user/service_terms", "/v1/api/talk/profile", "/v1/push/tokens"]
            for _ in 0..<2 {
                let info = try await app.get(Self.info)
                #expect(info.status == 200)
                #expect(info.json?["app_id"] == 123_456)
                #expect(info.json?["id"] == nil)
                let me = try await app.get(Self.me)
                #expect(me.status == 400)
                #expect(me.json?["code"] == -101)
                #expect(me.problem == "refused-by-kakao")
                for path in refused {
                    let answer = try await app.get(path)
                    #expect(answer.status == 400, "\(path)")
                    #expect(answer.json?["code"] == -101)
                    #expect(answer.problem == "user-not-linked")
                }
                #expect(try await app.register(7, "token").problem == "user-not-linked")
            }
            for path in refused { #expect(service.kakao.sandbox.stats.requests[path] == nil) }
            let signedUp = try await app.post("/v1/user/signup", form: ["properties": #"{"age":23}"#])
            #expect(signedUp.status == 200)
            #expect(signedUp.json?["id"] == 7)
            #expect(try await app.get("/v1/push/tokens").status == 200)
            #expect(try await app.get(Self.info).json?["id"] == 7)
            #expect(try await app.get(Self.me).json?["properties"]?["age"] == "23")
            #expect(try await app.register(7, "token").status == 200)
        }
    }

    @Test("A user whom Kakao names only with the user's information has that id")
    func namedByInformation() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            try service.kakao.sandbox.setUser(7, ["linked": true])
            #expect(try await app.get(Self.info).json?["id"] == nil)
            #expect(try await app.get(Self.me).json?["has_signed_up"] == false)
            #expect(try await app.register(7, "token").status == 200)
            #expect(try await app.register(8, "token").problem == "another-user")
        }
    }

    @Test("A user logs out or unlinks the app without an id, and can name no user", arguments: ["logout", "unlink"])
    func ends(call: String) async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            let path = "/v1/user/\(call)"
            let named = try await app.post(path, form: ["target_id_type": "user_id", "target_id": "7"])
            #expect(named.problem == "another-user")
            let answer = try await app.post(path)
            #expect(answer.status == 200)
            #expect(answer.json?["id"] == 7)
            #expect(service.kakao.sandbox.stats.requests[path] == 1)
            #expect(try await app.get(Self.info).status == 401)
        }
    }

    @Test("Kakao's refusal of a logout comes back as it is")
    func refusedLogout() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            var fault = Fault(.status)
            fault.path = "/v1/user/logout"
            fault.status = 400
            fault.code = -101
            service.kakao.sandbox.add(fault)
            let answer = try await app.post("/v1/user/logout")
            #expect(answer.status == 400)
            #expect(answer.json?["code"] == -101)
        }
    }

    @Test("A token of another app is 401, and nothing is asked about its user")
    func anotherApp() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service, appID: 654_321)
            for path in [Self.info, Self.me, "/v1/push/tokens"] {
                #expect(try await app.get(path).problem == "unauthorized")
            }
            #expect(try await app.post("/v1/user/signup").problem == "unauthorized")
            #expect(service.kakao.sandbox.stats.requests[Self.me] == nil)
        }
    }

    @Test("The requests of such a user are limited by the token, and not by the address once it is known")
    func limits() async throws {
        func adjust(_ settings: inout Settings) {
            settings.identity.requestsPerMinutePerUser = 3
            settings.identity.requestsPerMinutePerAddress = 2
        }
        try await withKakaoLogin(adjust) { service in
            let (first, second) = (try Self.app(service), try Self.app(service))
            for app in [first, second] {
                for _ in 0..<3 { #expect(try await app.get(Self.info).status == 200) }
                let limited = try await app.get(Self.info)
                #expect(limited.status == 429)
                #expect(limited.json?["detail"]?.string?.contains("this user") == true)
            }
        }
    }

    @Test("While Kakao does not say whether the user has an id, the response is 503")
    func undecided() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            var fault = Fault(.status)
            fault.path = Self.me
            fault.status = 400
            fault.code = -1
            service.kakao.sandbox.add(fault)
            #expect(try await app.get(Self.info).problem == "identity-unavailable")
            service.kakao.endFaults()
            #expect(try await app.get(Self.info).status == 200)
        }
    }
}
