import Glibc
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity

/// Tests of `http.operator_port`: a port for operators beside the one that Kakao and apps call.
@Suite(.timeLimit(.minutes(5))) struct OperatorPortTests {
    /// Runs `body` with a server that has both ports, and with a client of the public one.
    private static func with(
        _ adjust: @escaping (inout Settings) -> Void = { _ in },
        _ body: (TestService, TestClient) async throws -> Void
    ) async throws {
        try await withKakaoLogin { settings in
            settings.operatorPort = 0
            adjust(&settings)
        } _: { service in
            try await body(service, TestClient(url: service.server.url))
        }
    }

    @Test("The public port answers Kakao and apps, and the port for operators answers everybody")
    func ports() async throws {
        try await Self.with { service, open in
            #expect(open.url != service.api.url)
            for path in ["/metrics", "/openapi.json", "/v1/status", "/v1/pushes", "/v1/users/1/devices"] {
                let known = try await open.get(path)
                // The response is that to any unknown path, apart from the request's id.
                let unknown = try await open.get("/no\(path)")
                #expect(known.status == 404)
                #expect(known.body == unknown.body)
                #expect(known.headerFields.map(\.name) == unknown.headerFields.map(\.name))
                #expect(try await service.api.get(path).status == 200, "\(path)")
            }
            let app = "Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))"
            for port in [open, service.api] {
                #expect(try await port.with(nil).get("/healthz").status == 200)
                #expect(try await port.with(nil).get("/readyz").isReadyOrLate)
                #expect(try await port.with(app).register(7, "token").status == 200)
                #expect(try await port.with(app).get("/v2/user/me").status == 200)
            }
            var share = LinkShare()
            share.arguments = ["order": "1"]
            #expect(await service.kakao.share(share).status == 200)
            #expect(try await service.database.count("link_callbacks") == 1)
        }
    }

    @Test("At the public port, a valid operator key is rejected and counted as an unknown one")
    func keys() async throws {
        let trusting = { (settings: inout Settings) in
            settings.http.trustedProxies = .init("127.0.0.1") ?? .none
        }
        try await Self.with(trusting) { service, open in
            let store = OperatorKeyStore(pool: service.database.pool)
            let valid = try await store.create(name: "name", scopes: [.devices], expiresAt: nil)
            #expect(try await service.api.with("Bearer \(valid)").register(1, "token").status == 200)
            let unknown = "kps_" + String(repeating: "0", count: valid.utf8.count - 4)
            let others = try await [
                open.from("203.0.113.1").with("Bearer \(unknown)").register(1, "token"),
                open.from("203.0.113.2").with("KakaoAK \(unknown)").register(1, "token"),
            ]
            let keys = ["Bearer \(valid)", "KakaoAK \(valid)", "Bearer \(Keys.operator)", "KakaoAK \(Keys.operator)"]
            for (index, authorization) in keys.enumerated() {
                let address = "198.51.100.\(index)"
                let caller = open.from(address).with(authorization)
                for attempt in 0..<6 {
                    let response = try await caller.register(1, "token")
                    #expect(response.status == (attempt < 5 ? 401 : 429), "\(authorization)")
                    if attempt == 0 { #expect(response.body == others[index % 2].body) }
                }
                // The address does not have to wait at the port for operators, whose keys pass there only.
                let operators = service.api.from(address)
                #expect(try await operators.with("Bearer \(unknown)").register(1, "token").status == 401)
                #expect(try await operators.with(authorization).register(1, "token").status == 200)
            }
            // No key of an operator reaches Kakao as if it were a user's token.
            #expect(service.kakao.sandbox.stats.requests["/v1/user/access_token_info"] == nil)
        }
    }

    @Test("The metrics count the requests of both ports")
    func metrics() async throws {
        try await Self.with { service, open in
            let app = "Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))"
            for port in [open, service.api, open] {
                #expect(try await port.with(app).register(7, "token").status == 200)
            }
            #expect(try await open.get("/v1/pushes").status == 404)
            #expect(try await service.api.get("/v1/pushes").status == 200)
            let metrics = try await service.api.metrics()
            func count(_ operation: String, _ status: String) -> Double? {
                metrics.value("kakao_push_http_requests_total", ["operation": operation, "status": status])
            }
            #expect(count("registerDevice", "200") == 3)
            #expect(count("other", "404") == 1)
            #expect(count("listPushes", "200") == 1)
            #expect(
                metrics.value("kakao_push_http_request_duration_seconds_count", ["operation": "registerDevice"]) == 3
            )
        }
    }

    @Test("Connections that occupy the public port leave the port for operators free")
    func connections() async throws {
        let limiting = { (settings: inout Settings) in settings.http.maximumConnections = 2 }
        try await Self.with(limiting) { service, open in
            let port = try #require(open.url.split(separator: ":").last.flatMap { UInt16($0) })
            let idle = try (0..<3).map { _ in try LoopbackSocket.connect(to: port) }
            defer { for descriptor in idle { close(descriptor) } }
            for _ in 0..<3 { #expect(try await service.api.get("/v1/status").status == 200) }
        }
    }

    @Test("The ready line of the log names both addresses, and SIGTERM closes both ports")
    func addresses() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["HTTP_OPERATOR_HOST"] = "127.0.0.2"
            environment["HTTP_OPERATOR_PORT"] = "0"
            try await RunningProgram.with(environment: environment) { process, open in
                let line = try #require(process.lines.first { $0.contains("Listening") })
                let address = try #require(line.firstMatch(of: /operator_address=(127\.0\.0\.2:\d+)/)).output.1
                #expect(try await open.get("/v1/status").status == 404)
                #expect(try await TestClient(url: "http://\(address)").get("/v1/status").status == 200)
                process.send(SIGTERM)
                #expect(await process.ended() == .exited(0))
            }
        }
    }
}
