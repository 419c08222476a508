import Devices
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of token renewals before the expiry at Kakao, and of tokens that two devices register.
@Suite(.timeLimit(.minutes(5))) struct DeviceRenewalTests {
    /// Registers devices of users 1 to 5 as their apps do, with a server that stops afterwards.
    private static func registerFive(_ settings: Settings) async throws {
        try await RunningServer.with(settings) { api in
            for user in Int64(1)...5 { _ = try await api.register(user, "token-\(user)") }
        }
    }

    @Test("A token's renewal time is the configured number of days before its expiry, or up to a day earlier")
    func time() async throws {
        func adjust(_ settings: inout Settings) { settings.devices.renewDaysBeforeExpiry = 10 }
        try await withService(adjust) { service in
            _ = try await service.api.register(1, "token")
            let inTime = "renew_at BETWEEN now() + interval '18.9 days' AND now() + interval '20 days'"
            #expect(try await service.database.count("devices WHERE \(inTime)") == 1)
        }
    }

    @Test(
        "A token whose lifetime is not longer than the days before the expiry is renewed after half of its lifetime",
        arguments: [1, 7]
    )
    func shortLife(days: Int) async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.tokenLifetimeDays = days
        try await withService(sandbox: sandbox) { service in
            _ = try await service.api.register(1, "token")
            let inTime =
                "renew_at BETWEEN now() + interval '8 hours' * \(days) AND now() + interval '12 hours' * \(days)"
            #expect(try await service.database.count("devices WHERE \(inTime)") == 1)
        }
    }

    @Test("A token that never expires, or expires at once, is not renewed", arguments: [-1, 0])
    func never(days: Int) async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.tokenLifetimeDays = days
        try await withService(sandbox: sandbox) { service in
            _ = try await service.api.register(1, "token")
            #expect(try await service.database.count("devices WHERE renew_at IS NULL") == 1)
        }
    }

    @Test("Two servers on one database renew each token that is due exactly once")
    func renew() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await Self.registerFive(settings)
            try await database.pool.write(
                """
                UPDATE devices
                SET renew_at = CASE WHEN user_id = 5 THEN renew_at ELSE now() - interval '1 hour' END,
                    expires_at = now() + interval '7 days'
                """
            )
            try await RunningServer.with(settings) { _ in
                try await RunningServer.with(settings) { _ in
                    let renewed = "kakao_revision = 2 AND revision = 2 AND expires_at > now() + interval '29 days'"
                    try await eventually("four tokens are renewed") {
                        try await database.count("devices WHERE \(renewed) AND renew_at > now() + interval '21 days'")
                            == 4
                    }
                }
            }
            #expect(kakao.requests("register") == 9)
            #expect(kakao.requests("deregister") == 0)
            #expect(try await database.count("devices WHERE user_id = 5 AND revision = 1") == 1)
        }
    }

    @Test(
        "A renewed token outlives its first lifetime at Kakao, and a token that was not renewed does not"
    )
    func outlives() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await Self.registerFive(settings)
            kakao.sandbox.moveClock(by: .seconds(25 * 86_400))
            try await database.pool.write("UPDATE devices SET renew_at = now() WHERE user_id = 1")
            try await RunningServer.with(settings) { _ in
                try await eventually("the token is renewed") {
                    try await database.count("devices WHERE kakao_revision = 2 AND revision = 2") == 1
                }
            }
            kakao.sandbox.moveClock(by: .seconds(10 * 86_400))
            #expect(try await kakao.tokens(of: 1) == ["phone gcm token-1"])
            #expect(try await kakao.tokens(of: 2).isEmpty)
        }
    }

    @Test("A device without a registration for longer than the configured time is left to expire")
    func inactive() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.devices.activeWithinDays = 10
            try await Self.registerFive(settings)
            try await database.pool.write(
                """
                UPDATE devices
                SET renew_at = now(),
                    updated_at = now() - make_interval(days => CASE WHEN user_id = 1 THEN 11 ELSE 9 END)
                """
            )
            try await RunningServer.with(settings) { api in
                try await eventually("the others are renewed") {
                    try await database.count("devices WHERE kakao_revision = 2 AND revision = 2") == 4
                }
                let devices = try await api.get("/v1/users/1/devices").json?["items"]?.array
                #expect(devices?.map { $0["state"] } == ["registered"])
            }
            #expect(try await database.count("devices WHERE user_id = 1 AND revision = 1 AND renew_at IS NULL") == 1)
            #expect(kakao.requests("register") == 9)
        }
    }

    @Test("A renewal that Kakao rejects withdraws nothing, and is retried a day later")
    func refused() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await Self.registerFive(settings)
            try await database.pool.write("UPDATE devices SET renew_at = now() WHERE user_id = 1")
            kakao.fail("register", status: 400, code: -2, times: 1)
            let log = CollectedLog()
            try await RunningServer.with(settings, log: log) { _ in
                try await eventually("the renewal is postponed") {
                    try await database.count(
                        """
                        devices
                        WHERE user_id = 1 AND kakao_revision = 2 AND revision = 2 AND NOT withdrawn
                            AND renew_at > now() + interval '23 hours'
                        """
                    ) == 1
                }
            }
            #expect(try await kakao.tokens(of: 1) == ["phone gcm token-1"])
            #expect(kakao.requests("deregister") == 0)
            #expect(log.messages.contains { $0.contains("Token renewal rejected") })
        }
    }

    @Test("An app's request while a renewal is pending replaces the renewal")
    func overtaken() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await Self.registerFive(settings)
            try await database.pool.write("UPDATE devices SET renew_at = now() WHERE user_id <= 2")
            kakao.fail("*", .down)
            try await RunningServer.with(settings) { api in
                try await eventually("the calls to Kakao have failed") {
                    try await database.count("devices WHERE renewal_revision = revision AND attempts > 0") == 2
                }
                #expect(try await api.deregister(1).isPending)
                #expect(try await api.register(2, "newer").isPending)
                kakao.sandbox.removeFaults()
                try await eventually("no change is pending") {
                    try await database.count("devices WHERE kakao_revision < revision") == 0
                }
            }
            #expect(try await kakao.tokens(of: 1).isEmpty)
            #expect(try await kakao.tokens(of: 2) == ["phone gcm newer"])
        }
    }

    @Test("No tokens are renewed while too many devices are pending")
    func backlog() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await Self.registerFive(settings)
            try await database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, next_attempt_at)
                SELECT id, 'phone', 'fcm', 'waiting-' || id, now() + interval '1 day'
                FROM generate_series(1001, 2198) AS id
                """
            )
            try await database.pool.write("UPDATE devices SET renew_at = now() WHERE user_id <= 5")
            try await RunningServer.with(settings) { _ in
                try await eventually("two tokens are renewed") {
                    try await database.count("devices WHERE kakao_revision = 2") == 2
                }
            }
            #expect(try await database.count("devices WHERE renew_at <= now()") == 3)
        }
    }

    // MARK: One token, one device

    @Test("A token registered under another device id of the same user moves there, after the old one is deregistered")
    func otherDeviceID() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token", device: "old")
            let answer = try await service.api.register(1, "token", device: "new")
            #expect(answer.text == "30")
            #expect(service.kakao.calls == ["register 200", "deregister 200", "register 200"])
            #expect(try await service.kakao.tokens(of: 1) == ["new gcm token"])
            #expect(try await service.database.count("devices") == 1)
        }
    }

    @Test("If two users register one token in overlapping transactions, the later one keeps it", arguments: [1, 2])
    func overlappingRegistrations(laterUser: Int64) async throws {
        try await withDatabaseAndKakao { database, kakao in
            let earlierUser = 3 - laterUser
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    _ = try await first.register(earlierUser, "own")
                    var earlier: Task<Int, any Error>?
                    try await database.pool.withTransaction { transaction in
                        // Blocks the registration after its search for other devices with the token, and before its
                        // commit.
                        try await transaction.query(
                            "SELECT FROM devices WHERE user_id = $1 FOR UPDATE",
                            [.int64(earlierUser)]
                        )
                        earlier = Task { try await first.register(earlierUser, "shared").status }
                        try await transaction.execute(script: DeviceTests.waitUntilAwaited)
                        #expect(try await second.register(laterUser, "shared").text == "30")
                    }
                    let status = try await earlier?.value ?? 0
                    #expect(status == 200)
                    try await eventually("one device has the token") {
                        try await database.count("devices") == 1
                    }
                    #expect(try await database.count("devices WHERE user_id = \(laterUser) AND NOT withdrawn") == 1)
                    #expect(try await kakao.tokens(of: laterUser) == ["phone gcm shared"])
                    #expect(try await kakao.tokens(of: earlierUser).isEmpty)
                }
            }
        }
    }
}
