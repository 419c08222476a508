import HTTPClient
import JSON
import KakaoSandbox
import Logging
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Server
@testable import Settings

/// Tests of batches that Kakao rejects as invalid, which are split until the invalid user or message is found.
@Suite(.timeLimit(.minutes(5))) struct BisectionTests {
    private static func refuse(_ kakao: TestKakao, _ users: Set<Int64>?, status: Int = 400, code: Int? = -2) {
        kakao.fail("send", status: status, code: code) {
            $0.userIDs = users
            $0.message = "words of Kakao"
        }
    }

    @Test(
        "If Kakao rejects one user, that user fails and all others are sent to once",
        arguments: [1, 100, 137, 250] as [Int64]
    )
    func oneUser(bad: Int64) async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            Self.refuse(service.kakao, [bad])
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(250, sent: 249, failed: 1))
            let failed = try await service.api.get("\(push)/batches", ["state": "failed"]).json?["items"]?.array ?? []
            #expect(failed.map { $0["uuids"] } == [[.string(String(bad))]])
            #expect(failed.first?["kakao_code"] == -2)
            #expect(failed.first?["kakao_message"] == "words of Kakao")
            let reached = service.kakao.sandbox.reached(marker: "m")
            #expect(reached.users == 249)
            #expect(reached.times == 249)
            // Three batches, and two halves for each of the 7 splits of a batch of 100.
            #expect(service.kakao.requests("send") <= 3 + 14)
            #expect(try await service.database.count("pushes WHERE probe IS NULL") == 1)
        }
    }

    @Test("If Kakao rejects several users, only these fail", arguments: [4, 32])
    func someUsers(requests: Int) async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = requests }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...1000)
            let bad: Set<Int64> = [1, 2, 3, 99, 100, 101, 500, 777, 999]
            Self.refuse(service.kakao, bad)
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(1000, sent: 1000 - bad.count, failed: bad.count))
            let failed = try await service.api.get("\(push)/batches", ["state": "failed"]).json?["items"]?.array ?? []
            #expect(Set(failed.compactMap { $0["uuids"]?[0]?.string }) == Set(bad.map(String.init)))
            let reached = service.kakao.sandbox.reached(marker: "m")
            #expect(reached.users == 1000 - bad.count)
            #expect(reached.times == 1000 - bad.count)
            let batches = try #require(try await service.api.shown(push)["batches"])
            #expect(batches["failed"] == .integer(bad.count))
            #expect(batches["total"]?.integer == (batches["sent"]?.integer ?? 0) + Int64(bad.count))
        }
    }

    @Test(
        "A message that Kakao rejects for every user halts its push with Kakao's error text, without further requests",
        arguments: [1, 8]
    )
    func everybody(requests: Int) async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = requests }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...3000)
            Self.refuse(service.kakao, nil)
            let push = try await service.api.create()
            try await service.api.waitFor("halted", push)
            #expect(try await service.api.shown(push)["reason"]?.string?.contains("words of Kakao") == true)
            try await eventually("no batch is in flight") {
                try await service.database.count("\(claimedBatches) WHERE state = 'sending'") == 0
            }
            // 100 batches of one user, the 99 batches that were split to get them, and the requests in flight at the
            // first rejection.
            #expect(service.kakao.requests("send") <= 199 + requests)
            #expect(try await service.api.users(push)?["sent"] == 0)
            // Kakao does not reject the Admin key.
            try await service.api.waitUntilReady()

            // Once Kakao works again, the push continues with all users that were not tried alone.
            let failed = try await service.api.users(push)?["failed"]?.integer ?? 0
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3000, sent: 3000 - Int(failed), failed: Int(failed)))
            #expect(try await service.api.control(push, "retry") == 200)
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3000, sent: 3000))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 3000)
        }
    }

    @Test("Two servers detect a message that Kakao rejects for every user with no more requests than one server")
    func everybodyByTwo() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.maximumConcurrentRequests = 4
            try await RunningServer.with(settings) { first in
                try await RunningServer.with(settings) { second in
                    try await database.addPhones(1...3000)
                    Self.refuse(kakao, nil)
                    let push = try await first.create()
                    try await second.waitFor("halted", push)
                    try await eventually("no batch is in flight") {
                        try await database.count("\(claimedBatches) WHERE state = 'sending'") == 0
                    }
                    #expect(kakao.requests("send") <= 199 + 8)
                    #expect(try await second.users(push)?["sent"] == 0)
                }
            }
        }
    }

    @Test("A push to a single user that Kakao rejects is done, with one failed user")
    func alone() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            Self.refuse(service.kakao, nil, code: -2)
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.requests("send") == 1)
            #expect(try await service.api.users(push) == counts(1, failed: 1))
        }
    }

    @Test("A rejected user alone in a batch does not halt a push while batches to others are in flight")
    func aloneBesideOthers() async throws {
        try await withService { service in
            try await service.database.addPhones(1...101)
            service.kakao.fail("send", .latency) {
                $0.userIDs = [1]
                $0.milliseconds = 500
            }
            Self.refuse(service.kakao, [101])
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(101, sent: 100, failed: 1))
        }
    }

    @Test("A rejected message halts its push even if the first rejected batch has a single user")
    func messageBesideOthers() async throws {
        try await withService { service in
            try await service.database.addPhones(1...101)
            service.kakao.fail("send", .latency, times: 1) {
                $0.userIDs = [1]
                $0.milliseconds = 500
            }
            Self.refuse(service.kakao, nil)
            let push = try await service.api.create()
            try await service.api.waitFor("halted", push)
            #expect(service.kakao.requests("send") <= 200)
            #expect(try await service.api.users(push)?["sent"] == 0)
        }
    }

    @Test(
        "A message that Kakao rejects after it has accepted it for some users halts its push before most users are tried"
    )
    func rejectedLater() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 4 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...10_000)
            // After eight accepted batches, the next four stay in flight until Kakao rejects the message.
            let hold = service.kakao.hold("send", of: Set(801...10_000))
            let push = try await service.api.create()
            try await eventually("some batches are sent") { service.kakao.sandbox.reached(marker: "m").sends >= 12 }
            Self.refuse(service.kakao, nil)
            let before = service.kakao.requests("send")
            service.kakao.release(hold)
            try await service.api.waitFor("halted", push)
            #expect(try await service.api.shown(push)["reason"]?.string?.contains("words of Kakao") == true)
            // The requests to split one batch down to single users, the batches that raised the doubt, and those in
            // flight.
            #expect(service.kakao.requests("send") - before <= 199 + 3 * 16 + 8)
            // The line follows the commit that shows the state.
            try await eventually("the log says that the push is halted") {
                service.log.lines.contains { $0.message == "Push halted" }
            }
            let line = service.log.lines.first { $0.message == "Push halted" }
            #expect(line?.level == .warning)
            #expect(line?.metadata["push"].map { "/v1/pushes/\($0)" } == push)
            #expect(line?.metadata["reason"]?.contains("words of Kakao") == true)
            #expect(try await service.api.get("/metrics").text.contains("kakao_push_pushes{state=\"halted\"} 1\n"))
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.control(push, "resume") == 200)
            try await service.api.waitUntilDone(push)
            let failed = try await service.api.users(push)?["failed"]?.integer ?? 0
            #expect(
                try await service.api.users(push) == counts(10_000, sent: 10_000 - Int(failed), failed: Int(failed))
            )
            #expect(service.kakao.sandbox.reached(marker: "m").times == 10_000 - Int(failed))
        }
    }

    @Test("Once Kakao has accepted the message for a user, no user waits while a rejected user is being found")
    func noProbe() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 1 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...3000)
            try await service.database.note("probe")
            // One request at a time: Kakao has accepted all other batches before it rejects these users.
            Self.refuse(service.kakao, [2850, 2999])
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(3000, sent: 2998, failed: 2))
            #expect(try await service.database.count("noted") == 0)
        }
    }

    @Test("While the message may be invalid, only users of the first rejected batch are sent to")
    func probe() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 1 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...500)
            try await service.database.note("probe")
            // Only the last of the first 100 users is valid, so it takes long until a user is sent to.
            Self.refuse(service.kakao, Set(1...99))
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(500, sent: 401, failed: 99))
            let noted = try await service.database.text("SELECT string_agg(COALESCE(value, '-'), ' ') FROM noted")
            #expect(noted == "1 -")
            #expect(service.kakao.sandbox.deliveries().first?.userID == 100)
        }
    }

    @Test(
        "A batch of which Kakao rejects every user does not block the others if Kakao has accepted one of them meanwhile"
    )
    func wholeBatch() async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 2 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...1000)
            // The last users of the first batch are rejected late, after the second batch was sent.
            service.kakao.fail("send", .latency) {
                $0.userIDs = [100]
                $0.milliseconds = 150
            }
            service.kakao.fail("send", .latency) {
                $0.userIDs = [101]
                $0.milliseconds = 400
            }
            Self.refuse(service.kakao, Set(1...100))
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.users(push) == counts(1000, sent: 900, failed: 100))
        }
    }

    @Test("If it cannot be determined whether the message is invalid, the push continues", arguments: [true, false])
    func unknown(isUncertain: Bool) async throws {
        let adjust = { (settings: inout Settings) in settings.kakao.maximumConcurrentRequests = 1 }
        try await withService(adjust) { service in
            try await service.database.addPhones(1...500)
            // The first batch is rejected once, and its halves end in another way.
            service.kakao.fail("send", status: 400, code: -2, times: 1)
            if isUncertain {
                service.kakao.fail("send", .dropAfterBody) { $0.userIDs = Set(1...100) }
            } else {
                service.kakao.fail("send", status: 403, code: -4) { $0.userIDs = Set(1...100) }
            }
            let push = try await service.api.create(["everyone": true], gcm(), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            let expected =
                isUncertain ? counts(500, sent: 400, uncertain: 100) : counts(500, sent: 400, failed: 100)
            #expect(try await service.api.users(push) == expected)
        }
    }

    @Test("If a batch was sent without a response before it is split, both halves are marked with may_repeat")
    func halvesMayRepeat() async throws {
        try await withService { service in
            try await service.database.addPhones(1...2)
            service.kakao.fail("send", .dropAfterBody, times: 1) { $0.isCarriedOut = true }
            service.kakao.fail("send", status: 400, code: -2, times: 1)
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 4)
            #expect(try await service.database.count("\(claimedBatches) WHERE may_repeat AND state = 'sent'") == 2)
        }
    }
}
