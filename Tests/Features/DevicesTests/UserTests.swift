import Callbacks
import Endpoints
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import ServiceKit
@testable import Settings

/// Tests of `DELETE /v1/users/{user_id}` and `POST /v1/users/{user_id}/sync`, which operators call for one user.
@Suite(.timeLimit(.minutes(5))) struct UserTests {
    /// Registers a token at Kakao without the server.
    private static func registerAtKakao(
        _ service: TestService,
        _ userID: Int64,
        _ token: String,
        device: String
    ) async throws {
        let kakao = TestClient(url: service.kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)")
        #expect(try await kakao.register(userID, token, device: device).status == 200)
    }

    private static func deregisterAtKakao(_ service: TestService, _ userID: Int64, device: String) async throws {
        let kakao = TestClient(url: service.kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)")
        #expect(try await kakao.deregister(userID, device: device).status == 200)
    }

    private static func settled(_ service: TestService) async throws {
        try await eventually("no change is pending") {
            try await service.database.count("devices WHERE kakao_revision < revision") == 0
        }
    }

    // MARK: Deletion

    @Test(
        "Deletion of a user removes its devices here and at Kakao, its events, and its id in callbacks, but no other user's"
    )
    func forget() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.callbacks.userIDArgument = "member"
        }
        try await withService(adjust) { service in
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            for user in ["1", "2"] {
                _ = try await kakao.get("/kakao/unlink", ["app_id": "123456", "user_id": user])
                for product in ["a", "b"] {
                    let arguments: KeyValuePairs = [
                        "CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "hash", "member": user, "product": product,
                    ]
                    #expect(try await kakao.get("/kakao/link/callback", arguments).status == 200)
                }
            }
            for user in Int64(1)...2 {
                _ = try await service.api.register(user, "android-\(user)")
                _ = try await service.api.register(user, "apple-\(user)", type: "apns")
                try await Self.registerAtKakao(service, user, "elsewhere-\(user)", device: "elsewhere")
            }

            let answer = try await service.api.delete("/v1/users/1")
            #expect(answer.status == 204)
            #expect(answer.body.isEmpty)
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.kakao.tokens(of: 2).count == 3)
            #expect(try await service.database.count("devices WHERE user_id = 1") == 0)
            #expect(try await service.database.count("devices WHERE user_id = 2") == 2)
            let events = try await service.api.get("/v1/events").json?["items"]?.array
            #expect(events?.map { $0["user_id"] } == ["2"])
            let callbacks = try await service.api.get("/v1/link/callbacks").json?["items"]?.array ?? []
            let args = callbacks.map {
                ($0["args"]?["member"]?.string ?? "-") + ($0["args"]?["product"]?.string ?? "-")
            }
            #expect(args.sorted() == ["-a", "-b", "2a", "2b"])
            // The deletion of an unknown user succeeds.
            #expect(try await service.api.delete("/v1/users/1").status == 204)
            #expect(try await service.api.delete("/v1/users/3").status == 204)
        }
    }

    @Test("Any number of callbacks is searched, in steps")
    func manyCallbacks() async throws {
        func adjust(_ settings: inout Settings) { settings.callbacks.userIDArgument = "member" }
        try await withService(adjust) { service in
            try await service.database.pool.write(
                """
                INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, args, received_at)
                SELECT number, gen_random_uuid(), 'MemoChat', 'hash', jsonb_build_object('member', (number % 3)::text), now()
                FROM generate_series(1, 25000) AS number
                """
            )
            #expect(try await service.api.delete("/v1/users/1").status == 204)
            #expect(try await service.database.count("link_callbacks WHERE args ->> 'member' = '1'") == 0)
            #expect(try await service.database.count("link_callbacks WHERE args ->> 'member' = '2'") == 8333)
            #expect(try await service.database.count("link_callbacks") == 25_000)
        }
    }

    @Test("While Kakao is down, a user is deleted here at once, and at Kakao when it is back")
    func forgetInOutage() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "android")
            _ = try await service.api.register(1, "apple", type: "apns")
            service.kakao.fail("*", .down)
            let answer = try await service.api.delete("/v1/users/1")
            #expect(answer.status == 202)
            #expect(answer.json == ["state": "pending"])
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")
            service.kakao.sandbox.removeFaults()
            try await eventually("no device is left") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.api.delete("/v1/users/1").status == 204)
        }
    }

    @Test("The first devices of a user with many devices are deleted at once, the rest in the background")
    func manyDevices() async throws {
        try await withService { service in
            for device in 1...14 { _ = try await service.api.register(1, "token-\(device)", device: "\(device)") }
            #expect(try await service.api.delete("/v1/users/1").status == 202)
            try await eventually("no device is left") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    // MARK: Reconciliation with Kakao

    @Test("Differences from Kakao's list are reported, and Kakao is updated to the state here")
    func reconcile() async throws {
        try await withService { service in
            for device in ["alike", "changed", "missing"] {
                _ = try await service.api.register(1, "token-\(device)", device: device)
            }
            try await Self.registerAtKakao(service, 1, "token-of-old", device: "changed")
            try await Self.deregisterAtKakao(service, 1, device: "missing")
            try await Self.registerAtKakao(service, 1, "token-unknown", device: "unknown")

            let answer = try await service.api.post("/v1/users/1/sync")
            #expect(answer.status == 202)
            #expect(answer.json?["user_id"] == "1")
            let differences = answer.json?["differences"]?.array ?? []
            #expect(differences.map { $0["device_id"] } == ["changed", "missing", "unknown"])
            #expect(differences.map { $0["push_type"] } == ["fcm", "fcm", "fcm"])
            #expect(
                differences.map { $0["difference"] } == ["other_token_at_kakao", "missing_at_kakao", "unknown_here"]
            )
            try await Self.settled(service)
            #expect(
                try await service.kakao.tokens(of: 1).sorted() == [
                    "alike gcm token-alike", "changed gcm token-changed", "missing gcm token-missing",
                ]
            )
            #expect(try await service.database.count("devices WHERE NOT withdrawn") == 3)
            // A second reconciliation finds no differences, and does not call Kakao.
            let registrations = service.kakao.requests("register")
            let again = try await service.api.post("/v1/users/1/sync")
            #expect(again.status == 200)
            #expect(again.json?["differences"] == [])
            #expect(service.kakao.requests("register") == registrations)
        }
    }

    @Test("A dry run reports the differences, and changes nothing here or at Kakao")
    func dryRun() async throws {
        try await withService { service in
            for device in ["changed", "missing"] {
                _ = try await service.api.register(1, "token-\(device)", device: device)
            }
            try await Self.registerAtKakao(service, 1, "token-of-old", device: "changed")
            try await Self.deregisterAtKakao(service, 1, device: "missing")
            try await Self.registerAtKakao(service, 1, "token-unknown", device: "unknown")
            let atKakao = try await service.kakao.tokens(of: 1).sorted()
            let dry = try await service.api.post("/v1/users/1/sync", json: ["dry_run": true])
            #expect(dry.status == 200)
            #expect(dry.json?["dry_run"] == true)
            #expect(
                dry.json?["differences"]?.array?.map { $0["difference"] }
                    == ["other_token_at_kakao", "missing_at_kakao", "unknown_here"]
            )
            #expect(try await service.database.count("devices WHERE revision = kakao_revision") == 2)
            #expect(try await service.database.count("devices") == 2)
            #expect(try await service.kakao.tokens(of: 1).sorted() == atKakao)
            #expect(try await service.database.count("audit_records WHERE object = 'dry_run' AND user_id = 1") == 1)
            let synced = try await service.api.post("/v1/users/1/sync", form: ["dry_run": "false"])
            #expect(synced.status == 202)
            #expect(synced.json?["dry_run"] == false)
            #expect(synced.json?["differences"] == dry.json?["differences"])
        }
    }

    @Test("A device with a pending change is reported as pending, and causes no second call")
    func pending() async throws {
        try await withService { service in
            service.kakao.fail("register", .down)
            #expect(try await service.api.register(1, "token").isPending)
            let answer = try await service.api.post("/v1/users/1/sync")
            #expect(answer.status == 202)
            #expect(answer.json?["differences"]?.array?.map { $0["difference"] } == ["pending"])
            #expect(try await service.database.count("devices WHERE revision = 1") == 1)
            service.kakao.sandbox.removeFaults()
            try await Self.settled(service)
            #expect(try await service.api.post("/v1/users/1/sync").status == 200)
        }
    }

    @Test("While Kakao's list is unavailable, nothing is compared or changed")
    func mendInOutage() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("tokens", .down)
            let answer = try await service.api.post("/v1/users/1/sync")
            #expect(answer.status == 503)
            #expect(answer.json?["type"] == "urn:kakao-push-server:error:kakao-unavailable")
            #expect(answer.headerFields[.retryAfter] == "10")
            #expect(try await service.database.count("devices WHERE revision = 1 AND kakao_revision = 1") == 1)
        }
    }

    @Test("Both routes require an operator key and a valid user id")
    func refused() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            for authorization in [nil, "Bearer wrong", "KakaoAK \(Keys.admin)"] {
                #expect(try await service.api.with(authorization).delete("/v1/users/1").status == 401)
                #expect(try await service.api.with(authorization).post("/v1/users/1/sync").status == 401)
            }
            for user in ["0", "-1", "x", "9223372036854775808", "%201"] {
                #expect(try await service.api.delete("/v1/users/\(user)").field == "user_id")
                #expect(try await service.api.post("/v1/users/\(user)/sync").field == "user_id")
            }
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token"])
        }
    }
}
