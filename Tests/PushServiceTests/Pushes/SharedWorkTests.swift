import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import TestSupport
import Testing

@testable import PushService

/// Pushes side by side, servers side by side, and a server with nothing to do.
@Suite(.timeLimit(.minutes(5))) struct SharedWorkTests {
    @Test("A push to one user does not wait behind one to twenty thousand")
    func fairShare() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 8 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...20_000)
            service.kakao.fail("send", .latency) { $0.milliseconds = 200 }
            let large = try await service.api.create(["everyone": true], gcm("large"))
            try await eventually("the large one is under way") {
                service.kakao.sandbox.reached(marker: "large").sends >= 8
            }
            for number in 1...3 {
                try await service.api.waitUntilDone(service.api.create(uuids([1]), gcm("small \(number)")))
                #expect(service.kakao.sandbox.timesReached(1, marker: "small \(number)") == 1)
            }
            let sent = service.kakao.sandbox.reached(marker: "large").users
            #expect(sent < 20_000)
            #expect(try await service.api.state(large) != "done")
            // And it did not stand still.
            #expect(sent > 800)
            service.kakao.sandbox.removeFaults()
            try await service.api.waitUntilDone(large)
            #expect(service.kakao.sandbox.reached(marker: "large").times == 20_000)
        }
    }

    @Test("What one server is asked for while its sender waits, another takes up without waiting for its turn to look")
    func listening() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            let log = CollectedLog()
            try await RunningServer.with(settings, log: log) { waiting in
                try await database.addPhones([1, 2])
                kakao.fail("send", status: 429, code: -10, times: 1)
                let held = try await waiting.create(uuids([2]), gcm("held"))
                try await eventually("its sender waits") { log.messages.contains { $0.contains("sender paused") } }
                try await RunningServer.with(settings) { other in
                    // What it gave back is sent, too.
                    try await other.waitUntilDone(held)
                    let start = ContinuousClock.now
                    for number in 1...10 {
                        _ = try await waiting.create(uuids([1]), gcm("\(number)"))
                        try await eventually("it is sent") { kakao.sandbox.timesReached(1, marker: "\(number)") == 1 }
                    }
                    // By itself it looks each three seconds: that would be 27 for the nine that follow a look.
                    #expect(ContinuousClock.now - start < .seconds(20))
                }
                #expect(log.messages.count { $0.contains("sender paused") } == 1)
            }
        }
    }

    @Test("A server with nothing to do asks the database little more than once a second, also beside another one")
    func idle() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            func statements(_ api: Caller) async throws -> Double {
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
                    try await Task.sleep(for: .seconds(1))
                    let before = [try await statements(first), try await statements(second)]
                    // What there is to see is that nothing happens.
                    let seconds = 10.0
                    try await Task.sleep(for: .seconds(seconds))
                    let after = [try await statements(first), try await statements(second)]
                    for (before, after) in zip(before, after) { #expect(after - before <= seconds * 1.2) }
                }
            }
        }
    }
}
