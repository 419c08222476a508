import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import KakaoRelay
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Kakao's calls on behalf of users.
@Suite(.timeLimit(.minutes(5))) struct KakaoRelayTests {
    private static let path = "/v1/user/access_token_info"

    private static func withRelay(_ body: (TestService) async throws -> Void) async throws {
        try await withKakaoLogin(
            { settings in
                settings.kakao.nativeAppKey = "sandbox-native-app-key"
                settings.kakao.makesAppKeyCalls = true
                settings.kakao.kaHeader = "sdk/2.27.3 os/ios-17.0"
                settings.relay.relaysStory = true
            },
            body
        )
    }

    /// Returns a caller with an access token of user 7 that has been verified, so that a fault affects only relayed
    /// calls.
    private static func app(_ service: TestService) async throws -> TestClient {
        let token = try #require(service.kakao.sandbox.accessToken(of: 7))
        let app = service.api.with("Bearer \(token)")
        #expect(try await app.get(path).status == 200)
        return app
    }

    private static func fail(_ service: TestService, _ kind: Fault.Kind, _ adjust: (inout Fault) -> Void) {
        service.kakao.sandbox.removeFaults()
        var fault = Fault(kind)
        fault.path = path
        adjust(&fault)
        service.kakao.sandbox.add(fault)
    }

    @Test("A user's call is made with the user's token, and Kakao's response comes back as it is")
    func relayed() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            let answer = try await app.get(Self.path, ["target_id": "7", "target_id_type": "user_id", "more": "x"])
            #expect(answer.status == 200)
            #expect(answer.json?["id"]?.integer == 7)
            #expect(answer.json?["app_id"]?.integer == 123_456)
            #expect(answer.headerFields[.contentType] == "application/json;charset=UTF-8")
            #expect(answer.answerer == "kakao")
            let ignored = try #require(HTTPField.Name("X-Ignored-Parameters"))
            #expect(answer.headerFields[ignored] == "more")
        }
    }

    @Test("A template that Kakao would reject is not relayed, unless the caller turns the linter off")
    func linted() async throws {
        try await Self.withRelay { service in
            let path = "/v2/api/kakaolink/talk/template/default"
            let list =
                #"{"object_type":"list","header_title":"x","header_link":{"web_url":"https://a.example"},"contents":[]}"#
            let fields: KeyValuePairs = ["link_ver": "4.0", "template_object": list]
            let text = #"{"object_type":"text","text":"Hi","link":{"web_url":"https://a.example"}}"#
            for answer in [try await service.api.post(path, form: fields), try await service.api.get(path, fields)] {
                #expect(answer.status == 400)
                #expect(answer.problem == "invalid-template")
                #expect(answer.json?["findings"]?[0]?["rule"] == "too-few")
            }
            #expect(service.kakao.sandbox.stats.requests[path] == nil)
            #expect(try await service.api.post("\(path)?lint=off", form: fields).status == 200)
            let good: KeyValuePairs = ["link_ver": "4.0", "template_object": text]
            #expect(try await service.api.post(path, form: good).status == 200)
        }
    }

    @Test("Each relayed call reaches Kakao with the parameters of its documentation")
    func fixtures() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            try service.kakao.sandbox.befriend(7, [8, 9])
            let friends = [8, 9].map { service.kakao.sandbox.friendUUID(of: $0) }
            let ignored = try #require(HTTPField.Name("X-Ignored-Parameters"))
            for fixture in try KakaoFixture.relayed() {
                try await service.allowAllCalls(of: 7)
                // An operator has a key of its own here, where Kakao's SDKs send an app key.
                let answer = try await fixture.send(by: fixture.isOfUser ? app : service.api, friends: friends)
                #expect(answer.status == 200, "\(fixture.name): \(answer.text)")
                #expect(answer.headerFields[ignored] == nil)
            }
        }
    }

    @Test("A path that older clients use has the response of the path that replaced it")
    func aliases() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            try await service.allowAllCalls(of: 7)
            for (alias, path) in [("/v1/user/check_access_token", Self.path), ("/v1/friends", "/v1/api/talk/friends")] {
                let (old, new) = (try await app.get(alias), try await app.get(path))
                #expect(old.status == 200)
                let members = [old, new].map { Set($0.json?.object?.members.map(\.name) ?? []) }
                #expect(members[0] == members[1])
                #expect(!members[0].isEmpty)
            }
        }
    }

    @Test("A user can name no other user, and only an access token of Kakao Login is accepted")
    func otherUser() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            let answer = try await app.get(Self.path, ["target_id": "8"])
            #expect(answer.status == 403)
            #expect(answer.problem == "another-user")
            #expect(answer.json?["msg"] == "permission denied")
            #expect(answer.answerer == "server")
            let json = try await service.api.with("Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln").get(Self.path)
            #expect(json.status == 401)
            #expect(json.json?["detail"]?.string?.contains("Kakao Login") == true)
            #expect(try await service.api.with("Bearer unknown").get(Self.path).status == 401)
        }
    }

    @Test("An operator names the user; a call for which Kakao wants the user's token needs the user's login")
    func operatorCall() async throws {
        try await Self.withRelay { service in
            let missing = try await service.api.get(Self.path)
            #expect(missing.status == 400)
            #expect(missing.field == "target_id")
            #expect(missing.json?["msg"] == "The Parameter [target_id] cannot be null.")
            let answer = try await service.api.get(Self.path, ["target_id_type": "user_id", "target_id": "7"])
            #expect(answer.status == 409)
            #expect(answer.problem == "login-required")
            let type = try await service.api.get(Self.path, ["target_id_type": "user", "target_id": "7"])
            #expect(type.field == "target_id_type")
        }
    }

    @Test("A key needs the scope of the call")
    func scope() async throws {
        try await Self.withRelay { service in
            let query: KeyValuePairs = ["target_id": "7", "target_id_type": "user_id"]
            let store = OperatorKeyStore(pool: service.database.pool)
            for (scope, status) in [(Scope.accounts, 409), (.talk, 403), (.devices, 403)] {
                let key = try await store.create(name: scope.rawValue, scopes: [scope], expiresAt: nil)
                #expect(try await service.api.with("Bearer \(key)").get(Self.path, query).status == status)
            }
        }
    }

    @Test("An invalid token and a missing scope are the user's, not the app's, and halt nothing")
    func user() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            for (status, code, problem) in [(401, -401, "login-required"), (403, -402, "consent-required")] {
                Self.fail(service, .status) {
                    $0.status = status
                    $0.code = code
                }
                let answer = try await app.get(Self.path)
                #expect(answer.status == status)
                #expect(answer.json?["code"]?.integer == Int64(code))
                #expect(answer.problem == problem)
                #expect(answer.answerer == "kakao")
                #expect(answer.headerFields[.wwwAuthenticate] == (status == 401 ? "Bearer error=invalid_token" : nil))
            }
            let state = try await service.api.get("/v1/status").json?["sender"]?["state"]?.string
            #expect(state == "running")
        }
    }

    @Test("A rejected call has Kakao's status, code and words, and a quota pauses no push")
    func rejected() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            for (status, code) in [(400, -101), (400, -10), (429, -10), (403, -3), (400, -2)] {
                Self.fail(service, .status) {
                    $0.status = status
                    $0.code = code
                    $0.message = "said, token=secret"
                    $0.retryAfterSeconds = code == -10 ? 60 : nil
                }
                let answer = try await app.get(Self.path)
                #expect(answer.status == status)
                #expect(answer.json?["code"]?.integer == Int64(code))
                #expect(answer.json?["detail"]?.string == "Kakao rejected the call: said, token=***")
                #expect(answer.json?["msg"]?.string == "said, token=secret")
                #expect(answer.answerer == "kakao")
                #expect(answer.problem == "refused-by-kakao")
                #expect(answer.headerFields[.retryAfter] == (code == -10 ? "60" : nil))
            }
            let state = try await service.api.get("/v1/status").json?["sender"]?["state"]?.string
            #expect(state == "running")
        }
    }

    @Test("A maintenance that Kakao reports has Kakao's code and words")
    func maintenance() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            for (code, isKakaos) in [(-9798, true), (nil, false)] as [(Int?, Bool)] {
                Self.fail(service, .status) {
                    $0.status = 503
                    $0.code = code
                    $0.message = "under maintenance"
                }
                let answer = try await app.get(Self.path)
                #expect(answer.status == 503)
                #expect(answer.problem == "kakao-unavailable")
                #expect(answer.json?["code"] == -9798)
                #expect((answer.json?["msg"] == "under maintenance") == isKakaos)
                #expect(answer.answerer == (isKakaos ? "kakao" : "server"))
            }
        }
    }

    @Test("That Kakao refuses the server's own key or address is no user's fault: 502, and never 401 with -401")
    func serverRefused() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            var fault = Fault(.status)
            fault.path = "*"
            fault.status = 401
            fault.code = -401
            fault.message = "wrong appKey"
            service.kakao.sandbox.add(fault)
            let operators = try await service.api.get("/v2/user/me", ["target_id_type": "user_id", "target_id": "7"])
            service.kakao.sandbox.removeFaults()
            // Kakao gives a refused address the code of a bad token, even though the user's is valid.
            fault.message = "ip mismatched! callerIp=198.51.100.7. check out registered ips."
            service.kakao.sandbox.add(fault)
            let users = try await app.get("/v2/user/me")
            for (answer, object) in [(operators, "Admin key"), (users, "address")] {
                #expect(answer.status == 502)
                #expect(answer.problem == "server-refused-by-kakao")
                #expect(answer.json?["code"] == -1502)
                #expect(answer.json?["detail"]?.string?.hasPrefix("Kakao rejected this server's \(object)") == true)
                #expect(answer.json?["msg"] == answer.json?["detail"])
                #expect(answer.answerer == "server")
                #expect(answer.headerFields[.wwwAuthenticate] == nil)
            }
            // A token that is not verified yet.
            let token = try #require(service.kakao.sandbox.accessToken(of: 8))
            let unverified = try await service.api.with("Bearer \(token)").get("/v2/user/me")
            #expect(unverified.status == 503)
            #expect(unverified.problem == "identity-unavailable")
        }
    }

    @Test("While Kakao is unavailable, a call that may be repeated is answered 503 with Retry-After")
    func unavailable() async throws {
        try await Self.withRelay { service in
            let app = try await Self.app(service)
            for kind in [Fault.Kind.down, .dropAfterBody] {
                Self.fail(service, kind) { _ in }
                let answer = try await app.get(Self.path)
                #expect(answer.status == 503)
                #expect(answer.problem == "kakao-unavailable")
                #expect(answer.headerFields[.retryAfter] == "5")
            }
            Self.fail(service, .status) {
                $0.status = 502
                $0.retryAfterSeconds = 7
            }
            let answer = try await app.get(Self.path)
            #expect(answer.status == 503)
            #expect(answer.headerFields[.retryAfter] == "7")
        }
    }
}
