import Endpoints
import FoundationEssentials
import Glibc
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import Pushes
import Runtime
import ServiceTesting
import Subprocess
import TestSupport
import Testing

@testable import Server
@testable import Settings

/// Tests of the results of batches by Kakao's responses, and without a response.
@Suite(.timeLimit(.minutes(5))) struct PushOutcomeTests {
    private static func batches(_ service: TestService, _ push: String) async throws -> [JSONValue] {
        try await service.api.get("\(push)/batches").json?["items"]?.array ?? []
    }

    /// Waits until a push is in a state, and makes all retries due meanwhile.
    private static func hurry(_ service: TestService, _ push: String, to state: String) async throws {
        try await eventually("\(push) is \(state)", within: .seconds(120)) {
            try await service.database.hurry()
            return try await service.api.state(push) == state
        }
    }

    @Test("A batch is attempted ten times, and then fails with Kakao's last response")
    func tenAttempts() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 500, code: -1) { $0.message = "words" }
            let push = try await service.api.create()
            try await Self.hurry(service, push, to: "done")
            #expect(service.kakao.requests("send") == 10)
            let batch = try #require(try await Self.batches(service, push).first)
            #expect(
                batch.object?.members.map(\.name) == [
                    "number", "state", "uuids", "attempts", "may_repeat", "kakao_status", "kakao_code",
                    "kakao_message", "next_attempt_at", "finished_at",
                ]
            )
            #expect(batch["state"] == "failed")
            #expect(batch["attempts"] == 10)
            #expect(batch["kakao_status"] == 500)
            #expect(batch["kakao_code"] == -1)
            #expect(batch["kakao_message"] == "words")
            #expect(batch["may_repeat"] == false)
            #expect(batch["next_attempt_at"] == .null)
            #expect(batch["finished_at"]?.string != nil)
            #expect(try await service.api.users(push) == counts(1, failed: 1))
        }
    }

    @Test("A push whose estimated end is more than a year away, or in the past, is shown without an estimate")
    func noEstimate() async throws {
        try await withService { service in
            try await service.database.addPhones(1...200)
            // One user at a time, so that nearly all users are pending.
            let push = try await service.api.create(["everyone": true], gcm(), ["users_per_second": 1])
            try await eventually("one batch is sent") {
                (try await service.api.users(push)?["sent"]?.integer ?? 0) > 0
            }
            #expect(try await service.api.shown(push)["estimated_end"]?.string != nil)
            for start in ["4713-01-01 00:00:00+00 BC", "2000-01-01 00:00:00+00", "9999-01-01 00:00:00+00"] {
                try await service.database.pool.write("UPDATE pushes SET started_at = '\(start)'")
                #expect(try await service.api.shown(push)["estimated_end"] == .null, "\(start)")
            }
            #expect(try await service.api.control(push, "cancel") == 200)
        }
    }

    @Test("A batch is retried after the delay that Kakao requests")
    func retryAfter() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 503, code: -9798, times: 1) { $0.retryAfterSeconds = 120 }
            let before = try await service.database.text("SELECT clock_timestamp()::text")
            let push = try await service.api.create()
            let waits = "push_batches WHERE state = 'waiting' AND attempts = 1"
            try await eventually("the batch is waiting") { try await service.database.count(waits) == 1 }
            let isDue =
                "next_attempt_at BETWEEN '\(before)'::timestamptz + interval '100 s' AND now() + interval '121 s'"
            #expect(try await service.database.count("\(waits) AND \(isDue)") == 1)
            let batch = try #require(try await Self.batches(service, push).first)
            #expect(batch["state"] == "waiting")
            #expect(batch["kakao_status"] == 503)
            #expect(batch["next_attempt_at"]?.string != nil)
            try await Self.hurry(service, push, to: "done")
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test(
        "A large push is halted if Kakao rejects the key, without a failed user or a counted attempt, and can be resumed"
    )
    func haltedLarge() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 4 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...3000)
            service.kakao.fail("send", status: 401, code: -401)
            let push = try await service.api.create()
            try await service.api.waitFor("halted", push)
            try await eventually("all batches are released") {
                try await service.database.count(
                    "\(claimedBatches) WHERE state = 'waiting' AND attempts = 0 AND lease IS NULL"
                )
                    == service.database.count(claimedBatches)
            }
            // Only requests in flight at the first rejection, and those that followed at once, were sent.
            #expect(service.kakao.requests("send") <= 8)
            #expect(try await service.database.count("devices WHERE withdrawn OR failures > 0") == 0)
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3000, sent: 3000))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 3000)
        }
    }

    @Test("A batch that Kakao rejects permanently fails, and the others are sent")
    func oneFails() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            service.kakao.fail("send", status: 400, code: -8) { $0.userIDs = [150] }
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(250, sent: 150, failed: 100))
            #expect(service.kakao.requests("send") == 3)
        }
    }

    // MARK: At most once

    @Test(
        "With at-most-once delivery, a request without a response is uncertain and never sent again"
    )
    func uncertain() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            service.kakao.fail("send", .dropAfterBody) {
                $0.isCarriedOut = true
                $0.userIDs = [150]
            }
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(250, sent: 150, uncertain: 100))
            #expect(try await service.api.shown(push)["batches"] == batchCounts(3, sent: 2, uncertain: 1))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 250)
            // A plain retry does not send it again either: it includes only failed batches, of which there are none.
            let finishedAt = try await service.api.shown(push)["finished_at"]
            let retried = try await service.api.post("\(push)/retry")
            #expect(retried.status == 409 && retried.problem == "wrong-state", "\(retried.text)")
            #expect(retried.json?["detail"]?.string?.contains("only with `uncertain`") == true, "\(retried.text)")
            let shown = try await service.api.shown(push)
            #expect(shown["state"] == "done" && shown["finished_at"] == finishedAt)
            #expect(service.kakao.requests("send") == 3)
            #expect(try await service.api.users(push) == counts(250, sent: 150, uncertain: 100))
        }
    }

    @Test("A request that Kakao rejects temporarily is retried, even with at-most-once delivery")
    func refusedForNow() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 503, code: -9798, times: 1)
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            try await Self.hurry(service, push, to: "done")
            #expect(try await service.api.users(push) == counts(1, sent: 1))
            #expect(service.kakao.requests("send") == 2)
        }
    }

    @Test("A request without a connection to Kakao is not uncertain, and is retried when Kakao is back")
    func unreachable() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.apiURL = "http://127.0.0.1:1" }
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            adjust(&settings)
            var push = ""
            try await RunningServer.with(settings) { api in
                try await database.addPhones([1])
                push = try await api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
                try await eventually("the batch was attempted and is waiting") {
                    try await database.count(
                        "\(claimedBatches) WHERE attempts > 0 AND state = 'waiting' AND NOT may_repeat"
                    )
                        == 1
                }
            }
            try await RunningServer.with(Settings.test(database.url, kakao: kakao.sandbox.url)) { api in
                try await api.waitUntilDone(push)
                #expect(kakao.sandbox.reached(marker: "m").times == 1)
            }
        }
    }

    // MARK: Leases

    @Test(
        "The requests in flight of a killed server are uncertain with at-most-once delivery, and otherwise sent again"
    )
    func takenOver() async throws {
        try await withDatabaseAndKakao { database, kakao in
            do {
                _ = kakao.hold("send")
                var pushes: [String] = []
                let process = try await RunningProgram.start(environment: RunningProgram.environment(database, kakao))
                let api = TestClient(url: try await process.url())
                try await database.addPhones([1, 2])
                pushes.append(try await api.create(uuids([1]), gcm("once"), ["delivery": "at_most_once"]))
                pushes.append(try await api.create(uuids([2]), gcm("least")))
                try await eventually("both batches are in flight") { kakao.requests("send") >= 2 }
                process.send(SIGKILL)
                #expect(await process.ended() == .signaled(SIGKILL))
                try await database.endLeases()
                kakao.endFaults()
                var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
                settings.pushes.intervals = WorkIntervals(lease: .seconds(2))
                let log = CollectedLog()
                try await RunningServer.with(settings, log: log) { api in
                    for push in pushes { try await api.waitUntilDone(push, within: .seconds(60)) }
                    #expect(try await api.users(pushes[0]) == counts(1, uncertain: 1))
                    // The alert UsersUncertain fires, and the log names the push.
                    #expect(try await api.metrics().value("kakao_push_users_total", ["outcome": "uncertain"]) == 1)
                    let line = log.lines.first { $0.message == "Work of an expired lease reclaimed" }
                    #expect(line?.metadata["uncertain"] == pushes[0].split(separator: "/").last.map { "\($0): 1" })
                    #expect(try await api.users(pushes[1]) == counts(1, sent: 1, mayRepeat: 1))
                    let item = try await api.get("\(pushes[0])/batches").json?["items"]?[0]
                    #expect(item?["state"] == "uncertain")
                    #expect(item?["may_repeat"] == false)
                    let other = try await api.get("\(pushes[1])/batches").json?["items"]?[0]
                    #expect(other?["may_repeat"] == true)
                    #expect(kakao.sandbox.timesReached(1, marker: "once") == 1)
                    #expect(kakao.sandbox.timesReached(2, marker: "least") == 2)
                }
                #expect(try await database.count("work_leases WHERE queue = 'pushes'") == 0)
            }
        }
    }

    @Test("The result of a batch that another server has reclaimed does not count")
    func lateResult() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let hold = service.kakao.hold("send", times: 1)
            let push = try await service.api.create()
            try await eventually("the batch is in flight") {
                let inFlight = try await service.database.count("\(claimedBatches) WHERE state = 'sending'")
                return inFlight == 1 && service.kakao.requests("send") == 1
            }
            // A running server with this lease holds the batch now.
            let other = "01990000-0000-7000-8000-000000000000"
            try await service.database.pool.write(
                "INSERT INTO work_leases VALUES ('\(other)', 'pushes', now() + interval '1 hour')"
            )
            try await service.database.pool.write("UPDATE push_claims SET lease = '\(other)'")
            service.kakao.release(hold)
            try await eventually("Kakao has accepted the batch") { service.kakao.calls.contains("send 200") }
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
            // The response to the first push arrives before the response to this later one.
            service.kakao.fail("send", .latency) { $0.milliseconds = 1500 }
            try await service.database.addPhones([2])
            try await service.api.waitUntilDone(service.api.create(uuids([2]), gcm("other")))
            #expect(try await service.api.users(push) == counts(1, pending: 1))
            #expect(
                try await service.database.count("\(claimedBatches) WHERE lease = '\(other)' AND state = 'sending'")
                    == 1
            )
            #expect(try await service.api.state(push) == "sending")
        }
    }

    @Test("A push whose server died after it stored the last result is ended by another server")
    func endedByAnother() async throws {
        try await withService(intervals: WorkIntervals(lease: .seconds(2))) { service in
            try await service.database.addPhones([1])
            let hold = service.kakao.hold("send", times: 1)
            let push = try await service.api.create()
            try await eventually("the batch is in flight") {
                let inFlight = try await service.database.count("\(claimedBatches) WHERE state = 'sending'")
                return inFlight == 1 && service.kakao.requests("send") == 1
            }
            // Another server reclaims the batch, stores that it was sent, and dies.
            let other = "01990000-0000-7000-8000-000000000000"
            try await service.database.pool.write(
                "INSERT INTO work_leases VALUES ('\(other)', 'pushes', now() + interval '1 hour')"
            )
            try await service.database.pool.write("UPDATE push_claims SET lease = '\(other)'")
            service.kakao.release(hold)
            try await service.database.addPhones([2])
            try await eventually("Kakao has accepted the batch") { service.kakao.calls.contains("send 200") }
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
            service.kakao.fail("send", .latency) { $0.milliseconds = 1500 }
            try await service.api.waitUntilDone(service.api.create(uuids([2]), gcm("other")))
            try await service.database.pool.write(
                """
                WITH claim AS (
                    UPDATE push_claims SET settled = ~settled, lease = NULL, finished_at = now()
                    WHERE lease = '\(other)'
                    RETURNING push_id, users
                )
                INSERT INTO push_counts SELECT push_id, 999, 'sent', users, 1 FROM claim
                """
            )
            try await service.database.pool.write("UPDATE work_leases SET ends_at = now() WHERE id = '\(other)'")
            try await service.api.waitUntilDone(push, within: .seconds(60))
            #expect(try await service.api.users(push) == counts(1, sent: 1))
        }
    }
}
