import FoundationEssentials
import Glibc
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import Subprocess
import TestSupport
import Testing

@testable import PushService

/// What becomes of batches by what Kakao answers, and by what it does not.
@Suite(.timeLimit(.minutes(5))) struct PushOutcomeTests {
    private static func batches(_ service: TestService, _ push: String) async throws -> [JSONValue] {
        try await service.api.get("\(push)/batches").json?["items"]?.array ?? []
    }

    /// Waits for a state while nothing that is to be tried again has to wait.
    private static func hurry(_ service: TestService, _ push: String, to state: String) async throws {
        try await eventually("\(push) is \(state)") {
            try await service.database.hurry()
            return try await service.api.state(push) == state
        }
    }

    @Test("A batch is tried ten times, each counted, and has then failed with what Kakao said last")
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

    @Test("A push whose end would be more than a year away, or before now, is shown without an estimate")
    func noEstimate() async throws {
        try await withService { service in
            try await service.database.addPhones(1...200)
            // A user at a time, so that one is sent and nearly all are not.
            let push = try await service.api.create(["everyone": true], gcm(), ["users_per_second": 1])
            try await eventually("a user is sent to") {
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

    @Test("A batch that waits to be tried again waits as long as Kakao asks for")
    func retryAfter() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 503, times: 1) { $0.retryAfterSeconds = 120 }
            let push = try await service.api.create()
            let waits = "push_batches WHERE state = 'waiting' AND attempts = 1"
            try await eventually("it waits") {
                try await service.database.count("\(waits) AND next_attempt_at > now() + interval '100 s'") == 1
            }
            #expect(try await service.database.count("\(waits) AND next_attempt_at > now() + interval '121 s'") == 0)
            let batch = try #require(try await Self.batches(service, push).first)
            #expect(batch["state"] == "waiting")
            #expect(batch["kakao_status"] == 503)
            #expect(batch["next_attempt_at"]?.string != nil)
            try await Self.hurry(service, push, to: "done")
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test("A large push that Kakao refuses the key for is halted: no attempt is burnt, nobody failed, and it goes on")
    func haltedLarge() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 4 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...3000)
            service.kakao.fail("send", status: 401, code: -401)
            let push = try await service.api.create()
            try await service.api.waitFor("halted", push)
            try await eventually("all is given back") {
                try await service.database.count(
                    "\(claimedBatches) WHERE state = 'waiting' AND attempts = 0 AND lease IS NULL"
                )
                    == service.database.count(claimedBatches)
            }
            // What lay ready when the first refusal came may have left; then it ended.
            #expect(service.kakao.requests("send") <= 8)
            #expect(try await service.database.count("devices WHERE withdrawn OR failures > 0") == 0)
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3000, sent: 3000))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 3000)
        }
    }

    @Test("A batch that Kakao refuses for good has failed; the others are sent")
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
        "A request that was sent and not answered is uncertain when it is to be sent at most once, and never sent again"
    )
    func uncertain() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            service.kakao.fail("send", .dropAfterBody) {
                $0.isDelivered = true
                $0.userIDs = [150]
            }
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(250, sent: 150, uncertain: 100))
            #expect(try await service.api.shown(push)["batches"] == counts(3, sent: 2, uncertain: 1))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 250)
            // Nor by an operator: only what has failed is.
            #expect(try await service.api.control(push, "retry") == 200)
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.requests("send") == 3)
            #expect(try await service.api.users(push) == counts(250, sent: 150, uncertain: 100))
        }
    }

    @Test("What Kakao clearly refuses for now is in no doubt: it is sent again, also at most once")
    func refusedForNow() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 503, times: 1)
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            try await Self.hurry(service, push, to: "done")
            #expect(try await service.api.users(push) == counts(1, sent: 1))
            #expect(service.kakao.requests("send") == 2)
        }
    }

    @Test("Without a connection to Kakao nothing is uncertain: it is sent when Kakao is back")
    func unreachable() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.apiURL = "http://127.0.0.1:1" }
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            adjust(&settings)
            var push = ""
            try await RunningServer.with(settings) { api in
                try await database.addPhones([1])
                push = try await api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
                try await eventually("it was tried and waits") {
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

    @Test("What a dead server had under way is uncertain when it is to be sent at most once, and else sent again")
    func takenOver() async throws {
        try await withDatabaseAndKakao { database, kakao in
            do {
                kakao.fail("send", .latency) { $0.milliseconds = 20_000 }
                var pushes: [String] = []
                let process = try await RunningProgram.start(environment: RunningProgram.environment(database, kakao))
                let api = Caller(url: try await process.url())
                try await database.addPhones([1, 2])
                pushes.append(try await api.create(uuids([1]), gcm("once"), ["delivery": "at_most_once"]))
                pushes.append(try await api.create(uuids([2]), gcm("least")))
                try await eventually("both are under way") { kakao.requests("send") == 2 }
                process.send(SIGKILL)
                #expect(await process.ended() == .signaled(SIGKILL))
                try await database.endLeases()
                kakao.sandbox.removeFaults()
                let intervals = SenderIntervals(lease: .seconds(2))
                try await RunningServer.with(.test(database.url, kakao: kakao.sandbox.url), intervals: intervals) {
                    api in
                    for push in pushes { try await api.waitUntilDone(push, within: .seconds(60)) }
                    #expect(try await api.users(pushes[0]) == counts(1, uncertain: 1))
                    #expect(try await api.users(pushes[1]) == counts(1, sent: 1))
                    let item = try await api.get("\(pushes[0])/batches").json?["items"]?[0]
                    #expect(item?["state"] == "uncertain")
                    #expect(item?["may_repeat"] == false)
                    let other = try await api.get("\(pushes[1])/batches").json?["items"]?[0]
                    #expect(other?["may_repeat"] == true)
                    #expect(kakao.sandbox.timesReached(1, marker: "once") == 1)
                    #expect(kakao.sandbox.timesReached(2, marker: "least") == 2)
                }
                #expect(try await database.count("push_leases") == 0)
            }
        }
    }

    @Test("What comes of a batch after another server has taken it over does not count")
    func lateResult() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", .latency) { $0.milliseconds = 1000 }
            let push = try await service.api.create()
            try await eventually("it is under way") {
                let inFlight = try await service.database.count("\(claimedBatches) WHERE state = 'sending'")
                return inFlight == 1 && service.kakao.requests("send") == 1
            }
            // A server that goes by this lease has it now, and lives.
            let other = "01990000-0000-7000-8000-000000000000"
            try await service.database.pool.write(
                "INSERT INTO push_leases VALUES ('\(other)', now() + interval '1 hour')"
            )
            try await service.database.pool.write("UPDATE push_claims SET lease = '\(other)'")
            try await eventually("Kakao has taken it") { service.kakao.sandbox.reached(marker: "m").times == 1 }
            service.kakao.sandbox.removeFaults()
            // The answer comes before that of one which is sent later.
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

    @Test("A push whose last server died between its last result and its end is ended by another")
    func endedByAnother() async throws {
        try await withService(intervals: SenderIntervals(lease: .seconds(2))) { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", .latency) { $0.milliseconds = 1000 }
            let push = try await service.api.create()
            try await eventually("it is under way") {
                try await service.database.count("\(claimedBatches) WHERE state = 'sending'") == 1
            }
            // Another server takes it, writes down that it was sent, and dies.
            let other = "01990000-0000-7000-8000-000000000000"
            try await service.database.pool.write(
                "INSERT INTO push_leases VALUES ('\(other)', now() + interval '3 s')"
            )
            try await service.database.pool.write("UPDATE push_claims SET lease = '\(other)'")
            try await service.database.addPhones([2])
            service.kakao.sandbox.removeFaults()
            try await eventually("the answer is there, and does not count") {
                service.kakao.sandbox.reached(marker: "m").times == 1
            }
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
            try await service.api.waitUntilDone(push, within: .seconds(60))
            #expect(try await service.api.users(push) == counts(1, sent: 1))
        }
    }
}
