import Devices
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Tests of the limits of a user's devices.
@Suite(.timeLimit(.minutes(5))) struct DeviceLimitTests {
    /// Adds devices of a user, of which `phone-1` was registered first.
    private static func add(_ count: Int, of user: Int64, _ database: TestDatabase) async throws {
        try await database.pool.write(
            """
            INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, updated_at)
            SELECT $1, 'phone-' || place, 'fcm', $1 || '-' || place, 1, now() - interval '1 day' + place * interval '1 second'
            FROM generate_series(1, $2::integer) AS place
            """,
            [.int64(user), .int32(Int32(count))]
        )
    }

    private static func active(_ user: Int64, _ database: TestDatabase) async throws -> Int {
        try await database.count("devices WHERE user_id = \(user) AND NOT withdrawn")
    }

    private static func gone(_ device: String, _ database: TestDatabase) async throws -> Bool {
        try await database.count("devices WHERE device_id = '\(device)' AND NOT withdrawn") == 0
    }

    @Test("A registration beyond the limit withdraws the device that was registered longest ago, here and at Kakao")
    func oldest() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "first", device: "first")
            try await service.database.pool.write("UPDATE devices SET updated_at = now() - interval '2 days'")
            try await Self.add(99, of: 1, service.database)
            try await Self.add(100, of: 2, service.database)
            #expect(try await service.api.register(1, "1-5", device: "phone-5").status == 200)
            #expect(try await Self.active(1, service.database) == 100)

            #expect(try await service.api.register(1, "new", device: "new").status == 200)
            try await eventually("Kakao has deregistered the first device") {
                try await Set(service.kakao.tokens(of: 1)) == ["new gcm new", "phone-5 gcm 1-5"]
            }
            // Until then, the worker that has called Kakao holds the device's lease.
            try await eventually("its deregistration is stored") {
                try await service.database.count("devices WHERE device_id = 'first'") == 0
            }
            #expect(try await Self.gone("first", service.database))
            #expect(try await Self.active(1, service.database) == 100)
            // A withdrawn device that is registered again counts like a new one. `phone-5` is not the oldest, because
            // it was registered again.
            #expect(try await service.api.register(1, "first", device: "first").status == 200)
            let own =
                "devices WHERE user_id = 1 AND NOT withdrawn AND device_id IN ('phone-1', 'first', 'new', 'phone-5')"
            #expect(try await service.database.count(own) == 3)
            #expect(try await Self.active(1, service.database) == 100)
            #expect(try await Self.active(2, service.database) == 100)
        }
    }

    @Test("The limit holds while two servers concurrently register many devices of a user, even if Kakao is down")
    func concurrent() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    kakao.fail("*", .down)
                    defer { kakao.sandbox.removeFaults() }
                    try await withThrowingTaskGroup(of: Bool.self) { group in
                        for place in 1...300 {
                            let api = place.isMultiple(of: 2) ? first : second
                            group.addTask {
                                try await api.register(1, "token-\(place)", device: "phone-\(place)").isPending
                            }
                        }
                        for try await isPending in group { #expect(isPending) }
                    }
                    #expect(try await Self.active(1, database) == 100)
                    #expect(try await database.count("devices WHERE withdrawn") == 200)
                }
            }
        }
    }

    @Test(
        "An app adds a bounded number of new devices in an hour; what it may repeat, replace and remove has no such limit"
    )
    func newDevices() async throws {
        try await withKakaoLogin {
            $0.devices.newPerHourPerUser = 3
        } _: { service in
            let app = service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))")
            for place in 1...2 {
                #expect(try await app.register(7, "token-\(place)", device: "phone-\(place)").status == 200)
            }
            // A new token replaces the one of the same phone.
            #expect(try await app.register(7, "token-3", device: "phone-1").status == 200)
            for (token, device) in [("token-4", "phone-4"), ("token-4", "phone-1"), ("token-1", "phone-1")] {
                let refused = try await app.register(7, token, device: device)
                #expect(refused.status == 429)
                #expect(refused.problem == "too-many-requests")
                #expect((1...1200).contains(refused.headerFields[.retryAfter].flatMap { Int($0) } ?? 0))
            }
            // A device that is unknown here would be stored until Kakao has confirmed that it is gone.
            #expect(try await app.deregister(7, device: "unknown").status == 429)
            #expect(try await app.delete("/v1/devices/unknown").status == 429)
            #expect(try await service.kakao.tokens(of: 7) == ["phone-1 gcm token-3", "phone-2 gcm token-2"])
            #expect(try await service.database.count("devices") == 2)

            #expect(try await app.register(7, "token-2", device: "phone-2").status == 200)
            #expect(try await app.deregister(7, device: "phone-2").status == 200)
            #expect(try await service.api.register(7, "token-5", device: "phone-5").status == 200)
            #expect(try await service.api.deregister(7, device: "unknown").status == 200)
            let other = service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 8)))")
            #expect(try await other.register(8, "token-8", device: "phone-8").status == 200)
        }
    }

    @Test("An app may repeat a new registration as often as it likes while Kakao is unavailable")
    func pendingDevice() async throws {
        try await withKakaoLogin {
            $0.devices.newPerHourPerUser = 1
        } _: { service in
            _ = service.kakao.fail("register", .down)
            let app = service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))")
            for _ in 0..<3 { #expect(try await app.register(7, "token", device: "phone").isPending) }
            #expect(try await app.register(7, "another", device: "phone").status == 429)
        }
    }

    @Test("A registration that waits for another server's registration of the same user counts that device")
    func overlapping() async throws {
        try await withService { service in
            try await Self.add(99, of: 1, service.database)
            let other = try await service.database.pool.withTransaction { transaction in
                // Another server has stored the hundredth device and not committed yet.
                _ = try await transaction.query(
                    "INSERT INTO devices (user_id, device_id, push_type, push_token) VALUES (1, 'other', 'fcm', 'other')"
                )
                let registered = Task { try await service.api.register(1, "own", device: "own").status }
                try await eventually("the registration waits for the other one") {
                    try await service.database.count(
                        "pg_locks WHERE locktype = 'advisory' AND classid = 16 AND NOT granted"
                    ) == 1
                }
                return registered
            }
            #expect(try await other.value == 200)
            #expect(try await Self.active(1, service.database) == 100)
            #expect(try await Self.gone("other", service.database) == false)
            #expect(try await Self.gone("phone-1", service.database))
        }
    }

    @Test("An import keeps the 100 devices of a user that were registered last, regardless of the order of its lines")
    func imported() async throws {
        try await withService { service in
            try await Self.add(60, of: 1, service.database)
            // Half of the lines are older than the stored devices. The others have the time of the import.
            let lines = (1...1200).shuffled().map { place in
                let user = place.isMultiple(of: 2) ? 1 : 2
                let time = place <= 600 ? #""updated_at":"2020-01-01T00:00:00Z","# : ""
                return #"""
                    {"user_id":\#(user),"device_id":"d\#(place)","push_type":"fcm","push_token":"t\#(place)",\#(time)"expires_at":"never"}
                    """#
            }
            let answer = try await service.api.post(
                "/v1/devices/import",
                Array(lines.joined(separator: "\n").utf8),
                type: "application/x-ndjson"
            )
            #expect(answer.status == 200, "\(answer.text)")
            for user in [Int64(1), 2] { #expect(try await Self.active(user, service.database) == 100) }
            let old = "devices WHERE NOT withdrawn AND updated_at < now() - interval '1 hour'"
            #expect(try await service.database.count(old) == 0)
        }
    }

    @Test("Each registration of a user with devices from before the limit withdraws 100 devices")
    func oldData() async throws {
        try await withService { service in
            try await service.database.withoutDeviceLimit { try await Self.add(350, of: 1, service.database) }
            for expected in [250, 150, 100, 100] {
                #expect(try await service.api.register(1, "new-\(expected)", device: "\(expected)").status == 200)
                #expect(try await Self.active(1, service.database) == expected)
            }
        }
    }
}
