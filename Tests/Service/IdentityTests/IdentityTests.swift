import Crypto
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// The credentials and scopes of each endpoint.
@Suite(.timeLimit(.minutes(5))) struct IdentityTests {
    /// The operators' endpoints, and the scopes of which each requires one.
    private static let calls: [(path: String, isPost: Bool, scopes: Set<Scope>)] = [
        ("/v1/push/register", true, [.devices]), ("/v2/push/register", true, [.devices]),
        ("/v1/push/tokens", true, [.devices]), ("/v1/push/tokens", false, [.devices]),
        ("/v1/push/deregister", true, [.devices]), ("/v1/push/send", true, [.send]), ("/v2/push/send", true, [.send]),
        ("/v1/devices", false, [.devices]),
        ("/v1/users/1/devices", false, [.read]), ("/v1/pushes/x", false, [.read]),
        ("/v1/pushes/x/resume", true, [.send, .operate]),
        ("/v1/pushes", true, [.send]), ("/v1/pushes", false, [.read]), ("/v1/pushes/x/batches", false, [.read]),
        ("/v1/pushes/x/events", false, [.read]), ("/v1/pushes/x/pause", true, [.send, .operate]),
        ("/v1/pushes/x/cancel", true, [.send, .operate]), ("/v1/pushes/x/retry", true, [.send, .operate]),
        ("/v1/link/callbacks", false, [.read]), ("/v1/audiences", false, [.read]), ("/v1/audiences/a", false, [.read]),
        ("/v1/sender/stop", true, [.operate]), ("/v1/sender/start", true, [.operate]), ("/metrics", false, [.read]),
    ]

    private static func call(_ caller: TestClient, _ path: String, isPost: Bool) async throws -> HTTPClientResponse {
        isPost ? try await caller.post(path, form: [:]) : try await caller.get(path)
    }

    @Test("Without a valid key, or with a user's token, every call gets 401 with the expected scheme")
    func unauthorized() async throws {
        let wrong = [
            nil, "Bearer wrong", "Bearer", "Bearer ", "Basic \(Keys.operator)", Keys.operator,
            "KakaoAK \(Keys.admin)", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "Bearer \(Keys.operator)x",
        ]
        // Each key comes from its own address, because an address with many invalid keys is delayed.
        let adjust = { (settings: inout Settings) in
            settings.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
            settings.identity.backend = IdentitySettings.Backend(
                issuer: "https://api.example.com",
                audience: "push",
                keys: .secret(Secret("secret-of-the-backend-of-the-tests"))
            )
        }
        try await withKakaoLogin(adjust) { service in
            for (index, authorization) in wrong.enumerated() {
                for (number, (path, isPost, _)) in Self.calls.enumerated() {
                    let api = service.api.with(authorization).from("10.0.\(index).\(number)")
                    let answer = try await Self.call(api, path, isPost: isPost)
                    #expect(answer.status == 401, "\(path)")
                    let scheme = authorization?.hasPrefix("KakaoAK ") == true ? "KakaoAK" : "Bearer"
                    #expect(answer.headerFields[.wwwAuthenticate] == "\(scheme) error=invalid_token")
                    #expect(answer.headerFields[.contentType] == "application/problem+json")
                    #expect(answer.json?["code"] == -401)
                }
            }
        }
    }

    @Test("The operator's key is accepted as Bearer and as KakaoAK, in any case")
    func schemes() async throws {
        try await withService { service in
            for scheme in ["Bearer", "KakaoAK", "bearer", "KAKAOAK"] {
                let answer = try await service.api.with("\(scheme) \(Keys.operator)").register(1, "token")
                #expect(answer.status == 200, "\(scheme)")
            }
        }
    }

    @Test("A created key allows only its scopes, until it is revoked or expires")
    func scopes() async throws {
        try await withService { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            for scope in Scope.allCases {
                let key = try await store.create(name: scope.rawValue, scopes: [scope], expiresAt: nil)
                for (path, isPost, needed) in Self.calls {
                    let answer = try await Self.call(service.api.with("Bearer \(key)"), path, isPost: isPost)
                    if needed.contains(scope) || scope == .admin {
                        // The call is authorized; it may still fail because the push or a field is missing.
                        #expect([200, 400, 404].contains(answer.status), "\(scope) \(path)")
                    } else {
                        #expect(answer.status == 403, "\(scope) \(path)")
                        #expect(answer.json?["type"] == "urn:kakao-push-server:error:missing-scope")
                        #expect(answer.json?["code"] == -5)
                    }
                }
            }

            let key = try await store.create(name: "both", scopes: [.devices, .send], expiresAt: Date() + 3600)
            let caller = service.api.with("KakaoAK \(key)")
            #expect(try await caller.register(1, "token").status == 200)
            #expect(try await caller.get("/v1/users/1/devices").status == 403)
            #expect(try await store.revoke(name: "both") == 1)
            try await eventually("the key is rejected") { try await caller.register(1, "token").status == 401 }
            #expect(try await store.revoke(name: "both") == 0)

            let ended = try await store.create(name: "ended", scopes: [.admin], expiresAt: Date() - 1)
            #expect(try await service.api.with("Bearer \(ended)").register(1, "token").status == 401)
        }
    }

    @Test("A key is stored only as its SHA-256")
    func stored() async throws {
        try await TestDatabase.with { database in
            let store = OperatorKeyStore(pool: database.pool)
            let key = try await store.create(name: "name", scopes: [.read], expiresAt: nil)
            #expect(key.hasPrefix("kps_"))
            #expect(key.utf8.count >= 32)
            let found = try await database.count("operator_keys WHERE sha256 = sha256('\(key)')")
            #expect(found == 1)
            #expect(try await database.count("operator_keys AS key WHERE key::text LIKE '%\(key)%'") == 0)
            let listed = try await store.list()
            #expect(listed.map(\.name) == ["name"])
            #expect(listed.map(\.scopes) == [[.read]])
        }
    }

    @Test("Probes need no key")
    func probes() async throws {
        try await withSharedService { service in
            let caller = service.api.with(nil)
            #expect(try await caller.get("/healthz").status == 200)
            try await caller.waitUntilReady()
        }
    }
}
