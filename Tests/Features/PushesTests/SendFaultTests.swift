import HTTPClient
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of sends that Kakao does not accept: which are retried, pause the sender, halt the push, or fail.
@Suite(.timeLimit(.minutes(5))) struct SendFaultTests {
    @Test(
        "A send with a temporary fault is retried and delivered once",
        arguments: [(500, -1), (503, -9798), (400, -1), (400, -7), (400, -603)]
    )
    func passingFault(status: Int, code: Int) async throws {
        try await withService { service in
            service.kakao.fail("send", status: status, code: code, times: 1)
            let push = try await service.push([1, 2], marker: "m")
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2)
            #expect(service.kakao.requests("send") == 2)
            #expect(try await service.database.count("\(claimedBatches) WHERE attempts = 2 AND NOT may_repeat") == 1)
            #expect(try await service.api.get(push).json?["users"]?["sent"] == 2)
        }
    }

    @Test("A send whose connection is lost before Kakao has read it is retried and delivered once")
    func droppedBefore() async throws {
        try await withService { service in
            service.kakao.fail("send", .dropBeforeBody, times: 1)
            try await service.api.waitUntilDone(service.push([1], marker: "m"))
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
            #expect(service.kakao.requests("send") == 2)
        }
    }

    @Test("A send that Kakao accepted without a response is sent again, and its batch is marked with may_repeat")
    func droppedAfter() async throws {
        try await withService { service in
            service.kakao.fail("send", .dropAfterBody, times: 1) { $0.isCarriedOut = true }
            try await service.api.waitUntilDone(service.push([1], marker: "m"))
            #expect(service.kakao.sandbox.timesReached(1, marker: "m") == 2)
            #expect(try await service.database.count("\(claimedBatches) WHERE may_repeat AND state = 'sent'") == 1)
        }
    }

    @Test("Sends that are stored while Kakao is down are delivered when it is back")
    func down() async throws {
        try await withService { service in
            service.kakao.fail("*", .down)
            let push = try await service.push([1], marker: "m")
            try await eventually("the batch was attempted") { service.kakao.requests("send") >= 1 }
            #expect(try await service.api.state(push) == "sending")
            #expect(try await service.api.get(push).json?["users"]?["pending"] == 1)
            service.kakao.sandbox.removeFaults()
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test(
        "A rejected Admin key halts a push without a counted attempt, the status has the reason, and the push can be resumed",
        arguments: [(401, -401), (403, -3), (403, -5), (400, -9), (403, -12)]
    )
    func halted(status: Int, code: Int) async throws {
        try await withService { service in
            service.kakao.fail("send", status: status, code: code) { $0.message = "words of Kakao" }
            let push = try await service.push([1], marker: "m")
            try await eventually("the push is halted") { try await service.api.state(push) == "halted" }
            #expect(try await service.api.get(push).json?["reason"]?.string?.contains("words of Kakao") == true)
            try await expectHalted(service, "words of Kakao")
            #expect(try await service.api.get("/healthz").status == 200)
            try await eventually("the batch is waiting") {
                try await service.database.count("\(claimedBatches) WHERE state = 'waiting' AND attempts = 0") == 1
            }
            #expect(service.kakao.requests("send") == 1)

            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.post("\(push)/resume").status == 200)
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
            try await service.api.waitUntilReady()
            #expect(try await service.api.get(push).json?["reason"] == .null)
        }
    }

    @Test("A registration that Kakao accepts does not end the halt of pushes that Kakao refuses")
    func acceptedRegistration() async throws {
        try await withService { service in
            service.kakao.fail("send", status: 401, code: -401)
            let push = try await service.push([1], marker: "m")
            try await eventually("the push is halted") { try await service.api.state(push) == "halted" }
            #expect(try await service.api.register(1, "token").status == 200)
            #expect(try await service.api.deregister(1).status == 200)
            try await expectHalted(service, "-401")
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.post("\(push)/resume").status == 200)
            try await service.api.waitUntilDone(push)
            let status = try await service.api.get("/v1/status").json
            #expect(status?["sender"]?["state"] == "running" && status?["kakao"]?["state"] == "reachable")
        }
    }

    @Test(
        "While something else responds in Kakao's place, no attempt counts, and the push goes on when Kakao is back",
        arguments: [(403, false), (200, true), (302, false), (500, false), (502, true)]
    )
    func anotherHost(status: Int, mayRepeat: Bool) async throws {
        try await withService { service in
            service.kakao.fail("send", .anotherHost, status: status) { $0.page.server = "squid" }
            let push = try await service.push([1], marker: "m")
            try await eventually("the batch was tried twice") { service.kakao.requests("send") >= 2 }
            try await eventually("the batch is waiting") {
                try await service.database.count("\(claimedBatches) WHERE state = 'waiting' AND attempts = 0") == 1
            }
            #expect(try await service.api.state(push) == "sending")
            let shown = try await service.api.get("/v1/status").json
            #expect(shown?["sender"]?["state"] == "waiting")
            #expect(shown?["sender"]?["reason"]?.string?.contains("squid") == true)
            #expect(shown?["kakao"]?["state"] == "intercepted")
            #expect(shown?["kakao"]?["foreign_response"]?["text"] == "Access Denied")
            service.kakao.sandbox.removeFaults()
            try await service.api.waitUntilDone(push)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
            let users = try await service.api.get(push).json?["users"]
            #expect(users?["sent"] == 1 && users?["may_repeat"] == (mayRepeat ? 1 : 0))
            #expect(try await service.api.get("/v1/status").json?["sender"]?["state"] == "running")
        }
    }

    @Test(
        "Batches that are sent at most once are uncertain if they may have been carried out before something else responded"
    )
    func anotherHostAtMostOnce() async throws {
        try await withService { service in
            service.kakao.fail("send", .anotherHost, status: 502, times: 1) { $0.isCarriedOut = true }
            try await service.database.addPhones(1...1)
            let push = try await service.api.create(["everyone": true], gcm("m"), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.get(push).json?["users"]?["uncertain"] == 1)
            #expect(service.kakao.sandbox.reached(marker: "m").times == 1)
        }
    }

    @Test(
        "An exhausted quota pauses the whole sender without a counted attempt, and a new server continues",
        arguments: [(429, -10), (400, -10)]
    )
    func quota(status: Int, code: Int) async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            let log = CollectedLog()
            var pushes: [String] = []
            try await RunningServer.with(settings, log: log) { api in
                try await database.addPhones(1...20)
                kakao.fail("send", status: status, code: code)
                pushes.append(try await api.push([1], marker: "m"))
                try await eventually("the sender is paused") { log.messages.contains { $0.contains("Sender paused") } }
                try await eventually("the batch is released") {
                    try await database.count("\(claimedBatches) WHERE state = 'waiting' AND attempts = 0") == 1
                }
                let asked = kakao.requests("send")
                kakao.sandbox.removeFaults()
                // Each new push wakes the sender. Without the pause, the first would be sent long before the last is
                // stored.
                for user in Int64(2)...20 { pushes.append(try await api.push([user], marker: "m")) }
                #expect(kakao.requests("send") == asked)
                #expect(try await api.state(pushes[1]) == "sending")
            }
            try await RunningServer.with(settings) { api in
                for push in pushes { try await api.waitUntilDone(push) }
                #expect(kakao.sandbox.reached(marker: "m").times == 20)
            }
        }
    }

    @Test(
        "A send that Kakao rejects permanently fails, with Kakao's status and code",
        arguments: [(403, -4), (400, -8), (404, -5000)]
    )
    func refused(status: Int, code: Int) async throws {
        try await withService { service in
            service.kakao.fail("send", status: status, code: code)
            let push = try await service.push([1])
            try await service.api.waitUntilDone(push)
            #expect(try await service.api.get(push).json?["users"]?["failed"] == 1)
            #expect(service.kakao.requests("send") == 1)
            let condition = "state = 'failed' AND kakao_status = \(status) AND kakao_code = \(code)"
            #expect(try await service.database.count("push_batches WHERE \(condition)") == 1)
            try await service.api.waitUntilReady()
        }
    }
}
