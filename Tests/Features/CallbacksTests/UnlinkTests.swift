import Channels
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Runtime
import ServiceKit
import ServiceTesting
import TestSupport
import Testing

@testable import Callbacks
@testable import Devices
@testable import Identity
@testable import Server
@testable import Settings

/// The effect of a departure on devices, without the calls to Kakao.
private struct Withdrawal: UserObserver {
    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)? {
        _ = try await transaction.query(WithdrawDepartedDevices(departures: events))
        return nil
    }
}

/// Kakao's unlink notices, and the operators' list of events: `/kakao/unlink`, `/v1/events`.
@Suite(.timeLimit(.minutes(5))) struct UnlinkTests {
    private static let path = "/kakao/unlink"

    /// A notice as Kakao sends it.
    private static let notice: KeyValuePairs = [
        "app_id": "123456", "user_id": "1", "referrer_type": "UNLINK_FROM_APPS",
    ]

    private static func withApp(_ body: (TestService) async throws -> Void) async throws {
        func adjust(_ settings: inout Settings) { settings.kakao.appID = 123_456 }
        try await withService(adjust, body)
    }

    private static func kakao(_ service: TestService, resourceID: String? = nil) -> TestClient {
        var caller = service.api.with("KakaoAK \(Keys.admin)")
        if let name = HTTPField.Name("X-Kakao-Resource-ID") { caller.headerFields[name] = resourceID }
        return caller
    }

    private static func events(_ service: TestService) async throws -> [JSONValue] {
        try await service.api.get("/v1/events").json?["items"]?.array ?? []
    }

    @Test(
        "The devices of a user who unlinks the app are removed here and at Kakao, and no other user's",
        arguments: [true, false]
    )
    func unlink(byGet: Bool) async throws {
        try await Self.withApp { service in
            _ = try await service.api.register(1, "android")
            _ = try await service.api.register(1, "apple", type: "apns")
            _ = try await service.api.register(2, "other")
            let kakao = Self.kakao(service)
            let answer =
                byGet ? try await kakao.get(Self.path, Self.notice) : try await kakao.post(Self.path, form: Self.notice)
            #expect(answer.status == 200)
            // The devices are removed here at once, and at Kakao by the next call.
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")
            try await eventually("the devices are removed at Kakao") {
                try await service.database.count("devices") == 1
            }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm other"])
        }
    }

    @Test("An unlink does not withdraw the devices of users whom the service numbers itself")
    func ownUserIDs() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.identity.userIDs = .own
        }
        try await withService(adjust) { service in
            _ = try await service.api.register(1, "android")
            #expect(try await Self.kakao(service).get(Self.path, Self.notice).status == 200)
            #expect(try await Self.events(service).count == 1)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm android"])
            #expect(try await service.database.count("devices WHERE NOT withdrawn") == 1)
        }
    }

    @Test("The sandbox's notices are accepted, by GET and by POST", arguments: UnlinkNotice.Method.allCases)
    func sandbox(method: UnlinkNotice.Method) async throws {
        try await Self.withApp { service in
            _ = try await service.api.register(1, "token")
            var notice = UnlinkNotice(userID: 1)
            notice.method = method
            notice.referrerType = "ACCOUNT_DELETE"
            #expect(await service.kakao.unlink(notice).status == 200)
            try await eventually("the device is removed at Kakao") { try await service.database.count("devices") == 0 }
            #expect(try await Self.events(service).map { $0["referrer_type"] } == ["ACCOUNT_DELETE"])
        }
    }

    @Test("A notice is listed with all of Kakao's parameters, for any reason, also for a user without devices")
    func list() async throws {
        try await Self.withApp { service in
            let kakao = Self.kakao(service)
            let answer = try await kakao.post(
                Self.path,
                form: [
                    "app_id": "123456", "user_id": "9223372036854775807", "referrer_type": "A_NEW_REASON",
                    "group_user_token": "값",
                ]
            )
            #expect(answer.status == 200)
            #expect(try await kakao.post(Self.path, json: ["app_id": 123_456, "user_id": 2]).status == 200)

            let list = try await service.api.get("/v1/events", ["type": "unlink"])
            #expect(list.json?["next"] == .null)
            let items = try #require(list.json?["items"]?.array)
            #expect(items.map { $0["user_id"] } == ["2", "9223372036854775807"])
            #expect(items[0]["referrer_type"] == .null)
            let item = try #require(items.last?.object)
            #expect(
                item.members.map(\.name) == [
                    "id", "type", "user_id", "referrer_type", "payload", "malformed", "raw", "received_at",
                    "stored_at",
                ]
            )
            #expect(item["type"] == "unlink")
            #expect(item["referrer_type"] == "A_NEW_REASON")
            #expect(item["payload"] == ["group_user_token": "값"])
            #expect(item["received_at"]?.string?.hasSuffix("Z") == true)

            #expect(try await service.api.get("/v1/events", ["type": "other"]).json?["items"] == [])
            let ofUser = try await service.api.get("/v1/events", ["user_id": "2"])
            #expect(ofUser.json?["items"]?.array == [items[0]])
            #expect(try await service.api.get("/v1/events", ["user_id": "2", "type": "other"]).json?["items"] == [])
            #expect(try await service.api.get("/v1/events", ["user_id": "x"]).field == "user_id")
            let first = try await service.api.get("/v1/events", ["limit": "1"])
            let next = try #require(first.json?["next"]?.string)
            let second = try await service.api.get("/v1/events", ["limit": "1", "cursor": next])
            #expect(second.json?["items"]?.array == [items[1]])
        }
    }

    @Test("A duplicate notice with the same resource id has no effect, even if the user has registered again")
    func repeated() async throws {
        try await Self.withApp { service in
            let kakao = Self.kakao(service, resourceID: "notice-1")
            _ = try await service.api.register(1, "first")
            #expect(try await kakao.post(Self.path, form: Self.notice).status == 200)
            try await eventually("the device is removed at Kakao") { try await service.database.count("devices") == 0 }
            #expect(try await service.api.register(1, "second").status == 200)
            #expect(try await kakao.post(Self.path, form: Self.notice).status == 200)
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).json?.array?.count == 1)
            #expect(try await Self.events(service).count == 1)
            // Without a resource id, a duplicate cannot be distinguished from a second unlink.
            #expect(try await Self.kakao(service).post(Self.path, form: Self.notice).status == 200)
            #expect(try await Self.events(service).count == 2)
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")
        }
    }

    @Test("While Kakao's Push API is down a notice is accepted, and the devices are deregistered later")
    func outage() async throws {
        try await Self.withApp { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("*", .down)
            #expect(try await Self.kakao(service).get(Self.path, Self.notice).status == 200)
            service.kakao.sandbox.removeFaults()
            try await eventually("the device is removed at Kakao") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test("Only Kakao's notices are accepted")
    func refused() async throws {
        try await Self.withApp { service in
            _ = try await service.api.register(1, "token")
            for authorization in [nil, "KakaoAK \(Keys.operator)", "KakaoAK wrong", "Bearer \(Keys.admin)"] {
                let caller = service.api.with(authorization)
                #expect(try await caller.post(Self.path, form: Self.notice).status == 401)
                #expect(try await caller.get(Self.path, Self.notice).status == 401)
            }
            let kakao = Self.kakao(service)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token"])
            #expect(try await Self.events(service).isEmpty)

            // The Admin key is not an operator's key, so it cannot list events.
            #expect(try await kakao.get("/v1/events").status == 401)
        }
    }

    @Test("Without the app id the endpoint is switched off")
    func noApp() async throws {
        try await withSharedService { service in
            let answer = try await Self.kakao(service).get(Self.path, Self.notice)
            #expect(answer.status == 409)
            #expect(answer.problem == "not-configured")
            #expect(answer.json?["detail"]?.string?.contains("`kakao.app_id`") == true)
        }
    }

    // MARK: Concurrent registrations

    private static func withTokens(_ body: (TestService) async throws -> Void) async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
        }
        try await withService(adjust, body)
    }

    private static func active(_ user: Int64, _ service: TestService) async throws -> Int {
        try await service.database.count("devices WHERE user_id = \(user) AND NOT withdrawn")
    }

    private static func waits(_ condition: String, _ service: TestService) async throws -> Bool {
        try await service.database.count(
            "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND \(condition)"
        ) > 0
    }

    @Test(
        "A registration authorized before its user left is not stored afterwards, and the app must retry"
    )
    func authorizedBefore() async throws {
        try await Self.withTokens { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 1))
            let app = service.api.with("Bearer \(token)")
            #expect(try await app.register(1, "token").status == 200)
            let delayed = try await service.database.pool.withTransaction { transaction in
                _ = try await transaction.query("SELECT 1 FROM devices WHERE user_id = 1 FOR UPDATE")
                let delayed = Task { try await app.register(1, "token") }
                try await eventually("the registration waits") {
                    try await Self.waits("query LIKE '%/* RepeatRegistrations */%'", service)
                }
                // The effect of a notice that is stored in between, without its notification that the token was revoked.
                _ = try await transaction.query(
                    """
                    INSERT INTO events (key, id, type, user_id, payload, received_at, happened_at)
                    VALUES ('unlink', gen_random_uuid(), 'unlink', 1, '{}', clock_timestamp(), clock_timestamp())
                    """
                )
                _ = try await transaction.query(
                    "UPDATE devices SET withdrawn = true, revision = revision + 1, next_attempt_at = now() + interval '1 hour'"
                )
                return delayed
            }
            let answer = try await delayed.value
            #expect(answer.status == 503)
            #expect(answer.json?["type"] == "urn:kakao-push-server:error:identity-unavailable")
            #expect(answer.headerFields[.retryAfter] == "1")
            #expect(try await Self.active(1, service) == 0)
            // The old authorization registers no other device either, and does not displace the token's current device.
            #expect(try await service.api.register(2, "other", device: "other").status == 200)
            #expect(try await app.register(1, "other", device: "another").status == 503)
            #expect(try await Self.active(1, service) == 0)
            #expect(try await Self.active(2, service) == 1)
            // Registrations by an operator, or with a token that was verified since, are stored.
            #expect(try await service.api.register(1, "operator", device: "operator").status == 200)
            let second = try #require(service.kakao.sandbox.accessToken(of: 1))
            #expect(try await service.api.with("Bearer \(second)").register(1, "token").status == 200)
            #expect(try await Self.active(1, service) == 2)
        }
    }

    @Test("A registration and an unlink whose transactions overlap leave no device")
    func overlapping() async throws {
        try await Self.withTokens { service in
            let token = try #require(service.kakao.sandbox.accessToken(of: 1))
            #expect(try await service.api.register(2, "token").status == 200)
            let (registered, unlinked) = try await service.database.pool.withTransaction { transaction in
                // Locks the device that the registration displaces.
                _ = try await transaction.query("SELECT 1 FROM devices WHERE user_id = 2 FOR UPDATE")
                let registered = Task {
                    try await service.api.with("Bearer \(token)").register(1, "token").status
                }
                try await eventually("the registration waits") {
                    try await Self.waits("query LIKE '%/* RegisterDevices */%'", service)
                }
                let unlinked = Task { try await Self.kakao(service).post(Self.path, form: Self.notice).status }
                try await eventually("the notice waits") {
                    try await Self.waits("query LIKE '%/* WithdrawDepartedDevices */%'", service)
                }
                return (registered, unlinked)
            }
            #expect(try await registered.value == 200)
            #expect(try await unlinked.value == 200)
            #expect(try await Self.active(1, service) == 0)
            try await eventually("the device is removed at Kakao") { try await service.kakao.tokens(of: 1).isEmpty }
        }
    }

    @Test("A notice that is stored late withdraws devices authorized before its receipt, whenever they were stored")
    func late() async throws {
        try await Self.withTokens { service in
            let store = service.database.pool
            for (user, age) in [(1, "2 hours"), (2, "1 minute"), (3, nil)] as [(Int64, String?)] {
                try await store.write(
                    """
                    INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, authorized_at)
                    VALUES ($1, 'phone', 'fcm', $1::text, 1, now() - $2::text::interval)
                    """,
                    [.int64(user), .text(age)]
                )
                let event = KakaoEvent(
                    id: UUID(),
                    key: "\(user)",
                    type: "unlink",
                    userID: user,
                    referrerType: nil,
                    payload: Array("{}".utf8),
                    raw: nil,
                    receivedAt: Date() - 3600
                )
                _ = try await EventStore(pool: store, webhooks: WebhookNotice()).insert(
                    [event],
                    UserLifecycle.Observers([Withdrawal()])
                )
            }
            #expect(try await [1, 2, 3].asyncMap { try await Self.active($0, service) } == [0, 1, 1])
        }
    }

    @Test("The database treats the same event types as a departure as the server does")
    func departures() async throws {
        try await TestDatabase.with { database in
            let schemas = "https://schemas.openid.net/secevent/"
            let types = [
                KakaoEvent.unlinkType, "unlinked", schemas + "oauth/event-type/user-unlinked",
                schemas + "oauth/event-type/tokens-revoked", schemas + "oauth/event-type/token-revoked",
                schemas + "risc/event-type/account-purged", schemas + "risc/event-type/account-disabled",
                schemas + "risc/event-type/account-enabled", schemas + "risc/event-type/sessions-revoked",
            ]
            for type in types {
                let event = KakaoEvent(
                    id: .v7(),
                    key: type,
                    type: type,
                    userID: 1,
                    referrerType: nil,
                    payload: Array("{}".utf8),
                    raw: nil,
                    receivedAt: .now
                )
                let rows = try await database.pool.read("SELECT is_departure($1)", [.text(type)])
                #expect(try rows.first?.decode(Bool.self) == (event.userEventKind == .left), "\(type)")
            }
        }
    }
}
