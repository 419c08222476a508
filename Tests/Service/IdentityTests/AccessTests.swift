import Crypto
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import KakaoSandbox
import ServiceTesting
import TestSupport
import Testing

@testable import Server
@testable import Settings

/// The checks of a request's head before its body is sent: credential, scopes and limits.
@Suite(.timeLimit(.minutes(5))) struct AccessTests {
    /// The endpoints with a body, and their status without a credential.
    static let endpoints: [(method: String, path: String, status: Int)] = [
        ("POST", "/v1/push/register", 401), ("POST", "/v1/push/tokens", 401), ("POST", "/v1/push/deregister", 401),
        ("POST", "/v1/push/send", 401), ("POST", "/v2/push/register", 401), ("POST", "/v2/push/send", 401),
        ("PUT", "/v1/devices/phone", 401), ("DELETE", "/v1/devices/phone", 401), ("POST", "/v1/devices/import", 401),
        ("POST", "/v1/pushes", 401), ("POST", "/v1/pushes/x/pause", 401), ("PUT", "/v1/audiences/a", 401),
        ("DELETE", "/v1/audiences/a", 401), ("DELETE", "/v1/users/7", 401), ("POST", "/v1/users/7/sync", 401),
        ("POST", "/kakao/link/callback", 401), ("POST", "/kakao/unlink", 401),
        ("POST", "/kakao/push/feedback/wrong", 404),
    ]

    private static func nameApp(_ settings: inout Settings) { settings.kakao.appID = 123_456 }

    private static func status(
        _ api: TestClient,
        _ method: String,
        _ path: String,
        length: Int = 50_000,
        type: String = "application/json"
    ) async throws -> String {
        let upload = try RawUpload(api, path, length: length, method: method, type: type)
        return String(try await upload.answer().dropFirst(9).prefix(3))
    }

    @Test("Without a valid credential every endpoint responds before the body is sent")
    func noCredential() async throws {
        try await withService(Self.nameApp) { service in
            for authorization in ["", "Bearer kps_unknown", "KakaoAK wrong"] {
                for (method, path, status) in Self.endpoints {
                    let answer = try await Self.status(service.api.with(authorization), method, path)
                    // From the sixth unknown key on, an address gets 429.
                    let isDelayed = answer == "429" && authorization != ""
                    #expect(answer == String(status) || isDelayed, "\(method) \(path) \(authorization)")
                }
            }
        }
    }

    @Test("A key without the scope is rejected before the body is sent, also if it is cached")
    func missingScope() async throws {
        try await withSharedService { service in
            let keys = OperatorKeyStore(pool: service.database.pool)
            let key = try await keys.create(name: "reader", scopes: [.read], expiresAt: nil)
            let reader = service.api.with("Bearer \(key)")
            for _ in 0..<2 {
                #expect(try await Self.status(reader, "POST", "/v1/pushes") == "403")
                #expect(try await Self.status(reader, "PUT", "/v1/audiences/a", type: "text/plain") == "403")
                #expect(try await Self.status(reader, "POST", "/v1/push/register") == "403")
            }
            #expect(try await reader.get("/v1/pushes").status == 200)
            #expect(try await reader.get("/v1/devices/export", ["reason": "Test"]).status == 403)
        }
    }

    @Test("Bodies of phones and Kakao are limited to 64 KiB, all others to http.max_body_bytes")
    func bodyLimits() async throws {
        try await withService(Self.nameApp) { service in
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            for (method, path, caller) in [
                ("POST", "/v1/push/register", service.api), ("POST", "/v1/push/tokens", service.api),
                ("POST", "/v2/push/deregister", service.api), ("PUT", "/v1/devices/phone", service.api),
                ("DELETE", "/v1/devices/phone", service.api), ("POST", "/kakao/link/callback", kakao),
                ("POST", "/kakao/unlink", kakao), ("POST", "/kakao/push/feedback/\(Keys.feedback)", service.api),
            ] {
                let answer = try await Self.status(caller, method, path, length: 65_537)
                #expect(answer == "413", "\(path)")
            }
            let large = [UInt8](repeating: 0x20, count: 65_536)
            #expect(try await service.api.post("/v1/push/register", large, type: "application/json").status == 400)
            #expect(try await service.api.post("/v1/pushes", large + large, type: "application/json").status == 400)
            #expect(try await Self.status(service.api, "POST", "/v1/pushes", length: 1 << 20 + 1) == "413")
        }
    }

    @Test("An address over its request limit is rejected before the body is sent")
    func addressLimit() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
            settings.identity.requestsPerMinutePerAddress = 1
        }
        try await withService(adjust) { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.get("/v1/push/tokens").status == 200)
            let stranger = service.api.with("Bearer invented")
            #expect(try await Self.status(stranger, "POST", "/v1/push/register") == "429")
        }
    }

    @Test("The timeout of the body does not run while Kakao verifies a token")
    func slowVerification() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
            settings.http.bodyTimeout = .milliseconds(300)
        }
        try await withService(adjust) { service in
            var fault = Fault(.latency)
            fault.path = "/v1/user/access_token_info"
            fault.milliseconds = 600_000
            let hold = try #require(service.kakao.sandbox.add(fault))
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            let app = service.api.with("Bearer \(token)")
            let body = Array(#"{"device_id":"phone","push_type":"gcm","push_token":"token"}"#.utf8)
            func request(_ caller: TestClient) throws -> RawUpload {
                try RawUpload(caller, "/v1/push/register", length: body.count, method: "POST", type: "application/json")
            }
            let upload = try request(app)
            try await eventually("Kakao is asked") {
                service.kakao.sandbox.stats.requests["/v1/user/access_token_info"] == 1
            }
            // Meanwhile, the timeout of another request's body expires.
            let late = try request(service.api)
            #expect(try await late.answer().hasPrefix("HTTP/1.1 408 "))
            try upload.send(body)
            service.kakao.release(hold)
            #expect(try await upload.answer().hasPrefix("HTTP/1.1 200 "))
            #expect(try await service.database.count("devices WHERE user_id = 7") == 1)
        }
    }

    @Test("Kakao's connections do not count towards the limit of their address")
    func kakaoConnections() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.http.maximumConnectionsPerAddress = 2
            // Long enough that no body times out, even on a busy machine.
            settings.http.bodyTimeout = .seconds(300)
        }
        try await withService(adjust) { service in
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            // Each upload is in the middle of its body, so that the server cannot close one in favor of another.
            var uploads: [RawUpload] = []
            for index in 0..<5 {
                let secret = index.isMultiple(of: 2) ? "/kakao/link/callback" : "/kakao/push/feedback/\(Keys.feedback)"
                let form = "application/x-www-form-urlencoded"
                let upload = try RawUpload(kakao, secret, length: 3, method: "POST", type: form, asksFirst: true)
                let leave = try #require(await upload.receive(4096))
                #expect(String(decoding: leave, as: UTF8.self).hasPrefix("HTTP/1.1 100 "))
                uploads.append(upload)
                // Another client is served at the same time.
                try await eventually("another client is served") {
                    (try? await service.api.get("/healthz").status) == 200
                }
            }
            for upload in uploads {
                try upload.send(Array("a=b".utf8))
                #expect(try await upload.answer().hasPrefix("HTTP/1.1 200 "))
            }
        }
    }

    @Test("An address may have 1,000 connections unless the settings say otherwise")
    func defaultLimit() throws {
        let settings = Settings(databaseURL: Secret("d"), operatorKey: Secret("o"), adminKey: Secret("a"))
        #expect(settings.http.maximumConnectionsPerAddress == 1000)
    }
}
