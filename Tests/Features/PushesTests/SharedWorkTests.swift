import Endpoints
import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Pushes
import ServiceTesting
import TestSupport
import Testing
import Webhooks

@testable import Runtime
@testable import Server
@testable import Settings

/// Tests of concurrent pushes, concurrent servers, and idle servers.
@Suite(.timeLimit(.minutes(5))) struct SharedWorkTests {
    @Test("A push to one user does not wait for a push to 20,000 users")
    func fairShare() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 8 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...20_000)
            // Kakao responds to the large push only where the test lets it: eight requests at a time.
            _ = service.kakao.hold("send", of: Set(2...20_000))
            func largeSends() -> Int { service.kakao.sandbox.reached(marker: "large").sends }
            let large = try await service.api.create(["everyone": true], gcm("large"))
            try await eventually("all requests are of the large push") { largeSends() == 8 }
            for number in 1...3 {
                let small = try await service.api.create(uuids([1]), gcm("small \(number)"))
                try await eventually("the small push can be sent") {
                    ["sending", "done"].contains(try await service.api.state(small))
                }
                while try await service.api.state(small) != "done" {
                    let sends = largeSends()
                    service.kakao.sandbox.skipDelays()
                    try await eventually("the next requests are made") {
                        if largeSends() > sends { return true }
                        return try await service.api.state(small) == "done"
                    }
                }
                #expect(service.kakao.sandbox.timesReached(1, marker: "small \(number)") == 1)
            }
            let sent = service.kakao.sandbox.reached(marker: "large").users
            #expect(sent < 20_000)
            #expect(try await service.api.state(large) != "done")
            // The large push made progress meanwhile.
            #expect(sent > 800)
            service.kakao.endFaults()
            try await service.api.waitUntilDone(large)
            #expect(service.kakao.sandbox.reached(marker: "large").times == 20_000)
        }
    }

    @Test(
        "A push created on a server whose sender is paused is sent by another server at once, without waiting for its poll"
    )
    func listening() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            // A server would poll after half an hour.
            settings.pushes.intervals = WorkIntervals(lease: .seconds(7200))
            let log = CollectedLog()
            try await RunningServer.with(settings, log: log) { waiting in
                try await database.addPhones([1, 2])
                kakao.fail("send", status: 429, code: -10, times: 1)
                let held = try await waiting.create(uuids([2]), gcm("held"))
                try await eventually("its sender is paused") { log.messages.contains { $0.contains("Sender paused") } }
                try await RunningServer.with(settings) { other in
                    // The batch that the paused server released is sent too.
                    try await other.waitUntilDone(held)
                    for number in 1...10 {
                        _ = try await waiting.create(uuids([1]), gcm("\(number)"))
                        try await eventually("the push is sent") {
                            kakao.sandbox.timesReached(1, marker: "\(number)") == 1
                        }
                    }
                }
                #expect(log.messages.count { $0.contains("Sender paused") } == 1)
            }
        }
    }

    @Test("An idle server executes at most 1.2 statements per second, even beside another server")
    func idle() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.sendWebhooks(to: kakao)
            settings.webhooks.intervals = WebhookIntervals()
            func statements(_ api: TestClient) async throws -> Double {
                let metrics = try Exposition(try await api.get("/metrics").body)
                return try #require(metrics.value("kakao_push_database_statements_total"))
            }
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    try await database.addPhones([1])
                    try await second.waitUntilDone(first.create())
                    _ = try await first.create(uuids([1]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
                    let paused = try await first.create(uuids([1]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
                    #expect(try await first.control(paused, "pause") == 200)
                    try await eventually("the servers are idle after the pushes", within: .seconds(120)) {
                        let start = ContinuousClock.now
                        let before = [try await statements(first), try await statements(second)]
                        try await Task.sleep(for: .seconds(10))
                        let after = [try await statements(first), try await statements(second)]
                        let seconds = start.duration(to: .now) / .seconds(1)
                        // Ten seconds may begin and end with a look for work, with renewals of the two leases and with a
                        // cleanup: four statements more than their share.
                        return zip(before, after).allSatisfy { $1 - $0 <= seconds * 1.2 + 4 }
                    }
                }
            }
        }
    }
}
