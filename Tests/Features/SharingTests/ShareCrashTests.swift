import Endpoints
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import Locking
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Sharing

/// Landings and conversions while servers are killed.
@Suite(.timeLimit(.minutes(10))) struct ShareCrashTests {
    /// The number of landings and of conversions. `SHARE_EVENTS=10000` makes it a longer proof.
    private static var count: Int {
        getenv("SHARE_EVENTS").flatMap { Int(String(cString: $0)) } ?? 500
    }

    @Test("Each landing and each conversion counts once, though servers are killed and requests repeated")
    func killed() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["SHARING_SIGNING_KEY"] = "signing-key-of-the-tests-0123456789"
            environment["SHARING_DOMAINS"] = "shop.example.com"
            environment["HTTP_PUBLIC_URL"] = "https://push.example.com"
            // All visitors have one address.
            environment["SHARING_VISITS_PER_MINUTE_PER_ADDRESS"] = "0"
            environment["SHARING_COUNTED_VISITS_PER_MINUTE_PER_ADDRESS"] = "0"
            let variables = environment
            let url = Locked("")
            let first = try await RunningProgram.start(environment: variables)
            try await url.set(first.url())
            let share = try await ShareTests.create(
                TestClient(url: url.value),
                ["request_url": "https://shop.example.com/", "campaign": "c"]
            )
            let id = try #require(share["id"]?.string)
            let done = Locked(0)

            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        for number in stride(from: worker, to: Self.count, by: 8) {
                            try await Self.repeatUntil(302) {
                                var caller = TestClient(url: url.value, authorization: nil)
                                caller.headerFields[.userAgent] = "Mozilla/5.0 (visitor \(number))"
                                return try await caller.get("/s/\(id)").status
                            }
                            try await Self.repeatUntil(204) {
                                try await TestClient(url: url.value).post(
                                    "/v1/link/shares/\(id)/conversions",
                                    json: ["event": "purchase", "user_id": .integer(number + 1)]
                                ).status
                            }
                            done.withLock { $0 += 1 }
                        }
                    }
                }
                group.addTask {
                    var server = first
                    for part in 1...3 {
                        try await eventually("part \(part) of the events is counted", within: .seconds(300)) {
                            done.value >= Self.count * part / 4
                        }
                        server.send(SIGKILL)
                        _ = await server.ended()
                        server = try await RunningProgram.start(environment: variables)
                        try await url.set(server.url())
                    }
                    try await eventually("all events are counted", within: .seconds(300)) { done.value == Self.count }
                    let shown = try await TestClient(url: url.value).get("/v1/link/shares/\(id)").json
                    #expect(shown?["landings"]?.integer == Int64(Self.count))
                    #expect(shown?["conversions"] == ["purchase": .integer(Self.count)])
                    server.send(SIGTERM)
                    _ = await server.ended()
                }
                try await group.waitForAll()
            }
            let store = StatisticsStore(pool: database.pool)
            try await eventually("the counters are written") {
                _ = try await store.mergeEvents(limit: 1000)
                return try await database.count("share_events") == 0
            }
            let sums = try await database.pool.read(
                "SELECT sum(landings), sum(conversions) FROM share_statistics WHERE dimension = 'campaign'"
            )
            let (landings, conversions) = try #require(sums.first).decode(Int64.self, Int64.self)
            #expect(landings == Int64(Self.count))
            #expect(conversions == Int64(Self.count))
            #expect(try await database.count("share_conversions") == Self.count)
        }
    }

    private static func repeatUntil(_ status: Int, _ request: () async throws -> Int) async throws {
        try await eventually("a request is answered \(status)", within: .seconds(120)) {
            (try? await request()) == status
        }
    }
}

extension Locked {
    fileprivate var value: Value { withLock { $0 } }
    fileprivate func set(_ state: Value) { withLock { $0 = state } }
}
