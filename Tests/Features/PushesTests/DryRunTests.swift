import HTTPClient
import JSON
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes
@testable import Settings

/// Tests of what a dry run says about a push, and of the rate of pushes.
@Suite(.timeLimit(.minutes(5))) struct DryRunTests {
    @Test("The duration is that of the slowest limit, and unknown without one")
    func pace() {
        var pace = SendingPace(concurrentRequests: 10, servers: 2)
        #expect(pace.seconds(users: 1000, requests: 10) == nil)
        // 20 requests at a time, each of 0.1 s.
        pace.meanMilliseconds = 100
        #expect(pace.seconds(users: 100_000, requests: 1000) == 5)
        pace.requestsPerSecond = 25
        #expect(pace.seconds(users: 100_000, requests: 1000) == 20)
        pace.usersPerSecond = 1000
        #expect(pace.seconds(users: 100_000, requests: 1000) == 100)
        #expect(pace.seconds(users: 0, requests: 0) == 0)
        // A server that counts itself before its lease is stored.
        pace.servers = 0
        #expect(pace.seconds(users: 1000, requests: 1000) == 40)
    }

    @Test("A dry run names the app, and says how long the push takes and which share of the month's calls it needs")
    func estimate() async throws {
        try await withService {
            $0.kakao.appID = 123_456
            $0.kakao.appName = "Example Shop"
        } _: { service in
            try await service.database.addPhones(1...300)
            try await service.database.pool.write(
                "INSERT INTO kakao_calls VALUES (date_trunc('month', now() AT TIME ZONE 'Asia/Seoul')::date, 5000)"
            )
            let dry = pushBody(["everyone": true], gcm(), ["dry_run": true])
            let first = try #require(try await service.api.post("/v1/pushes", json: dry).json)
            #expect(first["app"] == ["id": 123_456, "name": "Example Shop"])
            #expect(first["requests"] == 3)
            // Kakao has not been called yet.
            #expect(first["duration_seconds"] == .null)
            #expect(first["monthly_quota"]?["calls"] == 3_000_000)
            #expect(first["monthly_quota"]?["used"] == 5000)
            #expect(first["monthly_quota"]?["share"]?.number.flatMap { Double($0.text) } == 0.000_001)
            let slow = pushBody(["everyone": true], gcm(), ["dry_run": true, "users_per_second": 10])
            let duration = try await service.api.post("/v1/pushes", json: slow).json?["duration_seconds"]
            #expect(duration?.number?.text == "30.0")
            try await service.api.waitUntilDone(try await service.api.create(uuids([1])))
            #expect(try await service.api.post("/v1/pushes", json: dry).json?["duration_seconds"] != .null)
        }
    }

    @Test("A push without a rate has that of the settings, unless it is in Kakao's format")
    func defaultRate() async throws {
        try await withService {
            $0.pushes.defaultUsersPerSecond = 20
        } _: { service in
            try await service.database.addPhones(1...30)
            let push = try await service.api.create(uuids(1...30))
            #expect(try await service.api.shown(push)["users_per_second"] == 20)
            let dry = pushBody(uuids(1...30), gcm(), ["dry_run": true])
            let duration = try await service.api.post("/v1/pushes", json: dry).json?["duration_seconds"]
            #expect(duration?.number?.text == "1.5")
            let fast = try await service.api.create(uuids(1...30), gcm(), ["users_per_second": 1000])
            #expect(try await service.api.shown(fast)["users_per_second"] == 1000)
            let native = try await service.api.push([1])
            #expect(try await service.api.shown(native)["users_per_second"] == .null)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.shown(push)["batches"]?["total"] == 2)
        }
    }
}
