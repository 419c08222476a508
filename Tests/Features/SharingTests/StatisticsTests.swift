import Endpoints
import FoundationEssentials
import HTTPClient
import JSON
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import ServiceKit
@testable import Sharing

/// `GET /v1/link/stats`, and the counters behind it.
@Suite(.timeLimit(.minutes(5))) struct StatisticsTests {
    private static func stats(_ api: TestClient, _ query: KeyValuePairs<String, String>) async throws -> [JSONValue] {
        let answer = try await api.get("/v1/link/stats", query)
        #expect(answer.status == 200, "\(answer.text)")
        return answer.json?["items"]?.array ?? []
    }

    /// Enqueues arrivals at given times, as the statement that stores callbacks does.
    private static func arrive(
        _ database: TestDatabase,
        _ arrivals: [(time: String, type: String, args: String)]
    ) async throws {
        try await database.pool.write(
            """
            INSERT INTO share_events (kind, name, template_id, args, happened_at)
            SELECT 'arrival', type, 5, args::jsonb, at::timestamptz
            FROM unnest($1::text[], $2::text[], $3::text[]) AS arrival (at, type, args)
            """,
            [.texts(arrivals.map(\.time)), .texts(arrivals.map(\.type)), .texts(arrivals.map(\.args))]
        )
    }

    /// Counts all events that are not counted yet.
    private static func count(_ database: TestDatabase) async throws {
        try await eventually("all events are counted") {
            _ = try await StatisticsStore(pool: database.pool).mergeEvents(limit: 2)
            return try await database.count("share_events") == 0
        }
    }

    @Test("Callbacks, landings and conversions are counted by campaign, chat type, template and declared arguments")
    func groups() async throws {
        try await withService {
            ShareTests.adjust(&$0)
            $0.sharing.statisticsArgs = ["product_id"]
        } _: { service in
            let api = service.api
            for (campaign, product, rooms) in [("spring", "1", 3), ("summer", "2", 1)] {
                let created = try await ShareTests.create(
                    api,
                    ["template_id": 9, "campaign": .string(campaign), "args": ["product_id": .string(product)]]
                )
                let args = try #require(created["callback_args"]?.object)
                for room in 0..<rooms {
                    #expect(
                        try await ShareTests.callback(
                            api,
                            args,
                            room: "\(room)",
                            type: room == 0 ? "MemoChat" : "MultiChat"
                        ) == 200
                    )
                }
                let id = try #require(created["id"]?.string)
                let report: JSONValue = ["event": "purchase", "user_id": 1]
                #expect(try await api.post("/v1/link/shares/\(id)/conversions", json: report).status == 204)
            }
            // A callback of an app that does not sign.
            #expect(try await ShareTests.callback(api, ["x": "y"], room: "9", type: "OpenMultiChat") == 200)

            func counts(_ group: String?) async throws -> [String: [Int64]] {
                let items = try await Self.stats(api, group.map { ["group": $0] } ?? [:])
                return items.reduce(into: [:]) { counts, item in
                    // The test may run at midnight.
                    let old = counts[item["value"]?.string ?? "-"] ?? [0, 0, 0]
                    counts[item["value"]?.string ?? "-"] = zip(
                        old,
                        ["arrivals", "landings", "conversions"].map { item[$0]?.integer ?? -1 }
                    )
                    .map { $0 + $1 }
                }
            }
            // Now, and when all events are counted.
            for isCounted in [false, true] {
                if isCounted { try await Self.count(service.database) }
                #expect(try await counts(nil) == ["-": [5, 0, 2]])
                #expect(try await counts("campaign") == ["spring": [3, 0, 1], "summer": [1, 0, 1], "-": [1, 0, 0]])
                #expect(
                    try await counts("chat_type")
                        == [
                            "MemoChat": [2, 0, 0], "MultiChat": [2, 0, 0], "OpenMultiChat": [1, 0, 0], "-": [0, 0, 2],
                        ]
                )
                #expect(try await counts("template_id") == ["9": [4, 0, 2], "-": [1, 0, 0]])
                #expect(try await counts("arg.product_id") == ["1": [3, 0, 1], "2": [1, 0, 1], "-": [1, 0, 0]])
            }
            let other = try await api.get("/v1/link/stats", ["group": "arg.other"])
            #expect(other.status == 400)
            #expect(other.field == "group")
        }
    }

    @Test(
        "Periods are those of the time zone: a day in Seoul begins at 15:00 UTC, and summer time has a day of 23 hours"
    )
    func timeZones() async throws {
        // PostgreSQL reads the files of all time zones to find a name.
        try await withService {
            $0.databaseTimeout = .seconds(60)
        } _: { service in
            try await Self.arrive(
                service.database,
                [
                    ("2026-03-28T14:59:59Z", "a", "{}"), ("2026-03-28T15:00:00Z", "a", "{}"),
                    ("2026-03-28T23:30:00Z", "a", "{}"), ("2026-03-29T21:59:00Z", "a", "{}"),
                    ("2026-03-29T22:00:00Z", "a", "{}"),
                ]
            )
            func days(_ zone: String, by: String = "day") async throws -> [String: Int64] {
                let items = try await Self.stats(
                    service.api,
                    [
                        "since": "2026-03-28T00:00:00Z", "until": "2026-03-30T00:00:00Z", "time_zone": zone,
                        "by": by,
                    ]
                )
                return items.reduce(into: [:]) { $0[$1["period"]?.string ?? ""] = $1["arrivals"]?.integer }
            }
            #expect(try await days("UTC") == ["2026-03-28": 3, "2026-03-29": 2])
            // Days in Seoul have counters of their own.
            #expect(try await days("Asia/Seoul") == ["2026-03-28": 1, "2026-03-29": 2, "2026-03-30": 2])
            try await Self.count(service.database)
            #expect(try await days("UTC") == ["2026-03-28": 3, "2026-03-29": 2])
            #expect(try await days("Asia/Seoul") == ["2026-03-28": 1, "2026-03-29": 2, "2026-03-30": 2])
            #expect(try await days("Europe/Berlin") == ["2026-03-28": 2, "2026-03-29": 2, "2026-03-30": 1])
            #expect(
                try await days("Asia/Seoul", by: "hour") == [
                    "2026-03-28T23:00": 1, "2026-03-29T00:00": 1, "2026-03-29T08:00": 1, "2026-03-30T06:00": 1,
                    "2026-03-30T07:00": 1,
                ]
            )
            // The hour that comes twice when summer time ends is two hours, now and when it is counted.
            try await Self.arrive(
                service.database,
                [("2026-11-01T05:30:00Z", "a", "{}"), ("2026-11-01T06:30:00Z", "a", "{}")]
            )
            for isCounted in [false, true] {
                if isCounted { try await Self.count(service.database) }
                let hours = try await Self.stats(
                    service.api,
                    [
                        "since": "2026-11-01T04:00:00Z", "until": "2026-11-01T08:00:00Z", "by": "hour",
                        "time_zone": "America/New_York",
                    ]
                )
                #expect(hours.map { $0["period"] } == ["2026-11-01T01:00", "2026-11-01T01:00"])
                #expect(hours.map { $0["start"] } == ["2026-11-01T05:00:00.000Z", "2026-11-01T06:00:00.000Z"])
            }
            for zone in [
                "Asia/Kolkata", "Asia/Nowhere", "x", "+09:00", "Asia/Seoul'", "", "UTC+9", "ABC+5",
            ] {
                let answer = try await service.api.get("/v1/link/stats", ["time_zone": zone])
                #expect(answer.status == 400)
                #expect(answer.field == "time_zone")
            }
            let long = try await service.api.get(
                "/v1/link/stats",
                ["by": "hour", "since": "2026-01-01T00:00:00Z", "until": "2026-03-01T00:00:00Z"]
            )
            #expect(long.field == "since")
        }
    }

    @Test(
        "Beyond a thousand values an hour, and beyond the values asked for, the rest counts as other; no count is lost"
    )
    func manyValues() async throws {
        try await withService {
            $0.sharing.statisticsArgs = ["n"]
        } _: { service in
            let store = StatisticsStore(pool: service.database.pool)
            func arrive(_ values: [String]) async throws {
                try await Self.arrive(
                    service.database,
                    values.map { ("2026-03-28T12:00:00Z", "MemoChat", "{\"n\": \"\($0)\"}") }
                )
                try await eventually("they are counted, by this store or the server's") {
                    _ = try await store.mergeEvents(limit: 1000)
                    return try await service.database.count("share_events") == 0
                }
            }
            for start in [0, 600, 1200] { try await arrive((start..<min(start + 600, 1500)).map { String($0) }) }
            try await arrive(["7", String(repeating: "x", count: 101)])
            #expect(try await service.database.count("share_statistics WHERE dimension = 'arg.n'") == 1001)
            #expect(
                try await service.database.integer(
                    "SELECT arrivals::bigint FROM share_statistics WHERE dimension = 'arg.n' AND value = 'other'"
                ) == 501
            )
            let items = try await Self.stats(
                service.api,
                [
                    "group": "arg.n", "since": "2026-03-28T00:00:00Z", "until": "2026-03-29T00:00:00Z",
                    "values": "3", "time_zone": "UTC",
                ]
            )
            #expect(items.reduce(0) { $0 + ($1["arrivals"]?.integer ?? 0) } == 1502)
            #expect(items.contains { $0["value"] == "7" && $0["arrivals"] == 2 })
            #expect(items.count == 3)
        }
    }

    @Test("Events are counted once, while others are stored and several servers count")
    func counting() async throws {
        try await TestDatabase.with { database in
            let store = StatisticsStore(pool: database.pool)
            let share = UUID.v7()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        for number in 0..<50 {
                            try await database.pool.write(
                                """
                                INSERT INTO share_events (kind, name, share_id, template_id, args, happened_at)
                                VALUES ('arrival', 'MemoChat', $1, $2, '{}', '2026-03-28T12:00:00Z')
                                """,
                                [.uuid(share), .int64(Int64(number % 7))]
                            )
                        }
                    }
                }
                for _ in 0..<3 {
                    group.addTask { for _ in 0..<40 { _ = try await store.mergeEvents(limit: 3) } }
                }
                try await group.waitForAll()
            }
            try await Self.count(database)
            for dimension in ["all", "chat_type", "template_id", "campaign"] {
                for table in ["share_statistics", "share_statistics_days"] {
                    let sum = try await database.integer(
                        "SELECT sum(arrivals) FROM \(table) WHERE dimension = '\(dimension)'"
                    )
                    #expect(sum == 200)
                }
            }
            #expect(try await database.integer("SELECT sum(count)::bigint FROM share_counts") == 200)
            #expect(try await database.count("share_statistics") == 1 + 1 + 7 + 1)
        }
    }
}
