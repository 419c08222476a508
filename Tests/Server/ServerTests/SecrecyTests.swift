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

@testable import Endpoints

/// Tests that logs and metrics contain no secrets.
@Suite(.timeLimit(.minutes(5))) struct SecrecyTests {
    @Test("The trace log and the metrics of a whole run contain no key, no secret and no push token")
    func wholeRun() async throws {
        let token = "fcmToken:APA91bH-0123456789_abcdefghijklmnopqrstuvwxyz"
        try await withService { service in
            let api = service.api
            let made = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "name", scopes: [.devices], expiresAt: nil)
            _ = try await api.register(1, token)
            _ = try await api.with("KakaoAK \(made)").register(2, token)
            _ = try await api.with("Bearer \(made)").get("/v1/users/1/devices")
            _ = try await api.get("/v1/push/tokens", ["uuid": "2"])
            // Kakao's error message repeats the token.
            service.kakao.fail("register", status: 400, code: -2, times: 1) { fault in
                fault.message =
                    "[app] Invalid Kpusher Param. ( appName=app, uid=3, did=d, pushType=gcm, pushToken=\(token) )"
            }
            _ = try await api.register(3, token, device: "other")
            service.kakao.fail("*", status: 401, code: -401, times: 2) { fault in
                fault.message = "wrong appKey(\(Keys.admin)) format"
            }
            _ = try await api.register(4, token)
            let bypass = try await api.post(
                "/v1/push/send",
                form: ["uuids": "[1]", "push_message": #"{"for_gcm":{"push_token":"\#(token)"}}"#, "bypass": "true"]
            )
            #expect(bypass.status == 200)
            service.kakao.sandbox.removeFaults()
            let message: JSONValue = ["for_gcm": ["push_token": .string(token)]]
            service.kakao.sandbox.failToken(token)
            _ = try await api.post("/v1/push/send", json: ["uuids": [1], "push_message": message, "bypass": true])
            try await service.database.addPhones([2])
            try await api.waitUntilDone(api.push([2]))
            var share = LinkShare()
            share.arguments = ["secret": "argument-of-a-phone"]
            _ = await service.kakao.share(share)
            let report: KeyValuePairs = ["userId": "2", "pushToken": token, "date": "1"]
            for secret in [Keys.feedback, "wrong-secret-that-is-nearly-right"] {
                _ = try await api.with(nil).post("/kakao/push/feedback/\(secret)", form: report)
                _ = try await api.with(nil).get("/kakao/push/feedback/\(secret)")
                for path in ["//kakao/push/feedback/", "/KAKAO/push/feedback/", "/kakao%2Fpush/feedback/"] {
                    _ = try await api.with(nil).post(path + secret, form: report)
                }
            }
            _ = try await api.with("Bearer wrong-\(Keys.operator)").register(5, token)
            _ = try await api.post("/v1/push/register", Array("push_token=\(token)&uuid=x".utf8), type: "text/plain")
            try await eventually("Kakao has reported failed tokens") {
                service.kakao.sandbox.stats.feedback.accepted >= 1
            }
            let metrics = try await api.get("/metrics")
            #expect(metrics.status == 200)

            let lines = service.log.lines.map(\.text)
            #expect(lines.count > 20)
            let feedback = lines.filter { $0.contains("/kakao/push/feedback/") }
            #expect(!feedback.isEmpty)
            #expect(feedback.allSatisfy { $0.contains("/kakao/push/feedback/***") })
            let secrets = [
                Keys.operator, Keys.admin, Keys.feedback, "nearly-right", made, token, "APA91bH", "argument-of-a-phone",
            ]
            for secret in secrets {
                #expect(lines.filter { $0.contains(secret) }.isEmpty, "\(secret)")
                #expect(!metrics.text.contains(secret), "\(secret)")
            }
        }
    }

    @Test("No log line, problem, list or metric contains a token, a code, a ticket or a key of accounts")
    func accounts() async throws {
        try await withAccounts { service in
            let api = service.api
            var browser = Browser(api)
            let ticket = try #require(
                try await browser.logIn(at: service.kakao, ["login_hint": "8"]).location?["ticket"]
            )
            _ = try await api.post("/v1/login/tickets", json: ["ticket": .string(ticket)])
            _ = try await api.post("/v1/login/tickets", json: ["ticket": .string(ticket)])
            let code = try await service.authorizationCode(of: 7)
            var shown: [String] = []
            for redirectURI in [TestService.redirectURI, "https://other.example"] {
                let body: JSONValue = ["code": .string(code), "redirect_uri": .string(redirectURI)]
                shown.append(try await api.post("/v1/login/code", json: body).text)
            }
            let used: JSONValue = ["code": .string(code + "x"), "redirect_uri": .string(TestService.redirectURI)]
            shown.append(try await api.post("/v1/login/code", json: used).text)
            let token = try #require(try await service.accessToken(of: 7).json?["access_token"]?.string)
            service.kakao.sandbox.revokeAccessTokens(of: 7)
            try await service.expireAccessTokens()
            shown.append(try await service.accessToken(of: 7).text)
            let tokens: JSONValue = [
                "access_token": .string(token), "refresh_token": .string("R\(token)"), "refreshed_by": "server",
                "app_key": "rest",
            ]
            shown.append(try await api.put("/v1/accounts/7/tokens", tokens.bytes(), type: "application/json").text)
            shown.append(try await api.get("/v1/accounts").text)
            shown.append(
                try await api.post("/v1/user/logout", form: ["target_id_type": "user_id", "target_id": "7"]).text
            )
            shown.append(try await api.get("/metrics").text)
            let lines = service.log.lines.map(\.text)
            #expect(lines.contains { $0.contains("GET /login/kakao/callback 302") })
            let secrets = [ticket, code, token, "sandbox-client-secret"] + browser.cookies.values
            for secret in secrets {
                #expect(lines.filter { $0.contains(secret) }.isEmpty, "\(secret)")
                #expect(shown.filter { $0.contains(secret) }.isEmpty, "\(secret)")
            }
        }
    }

    @Test("The log and the response of a request have the same request id")
    func requestID() async throws {
        try await withService { service in
            let answer = try await service.api.register(1, "token")
            let id = try #require(answer.headerFields[.requestID])
            #expect(service.log.lines.contains { $0.metadata["request_id"] == id })
            var own = service.api
            own.headerFields[.requestID] = "mine-1"
            #expect(try await own.register(1, "token").headerFields[.requestID] == "mine-1")
        }
    }
}
