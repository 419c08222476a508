import Devices
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Logging
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of devices while Kakao is unavailable or rejects calls.
@Suite(.timeLimit(.minutes(5))) struct KakaoOutageTests {
    @Test("While Kakao is down, a registration is accepted and stored. It completes when Kakao is back")
    func register() async throws {
        try await withService { service in
            service.kakao.fail("*", .down)
            let answer = try await service.api.register(1, "token")
            #expect(answer.isPending)
            #expect(answer.text == "30")
            #expect(try await service.api.get("/v1/users/1/devices").json?["items"]?[0]?["state"] == "pending")
            // The device is listed at once.
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).json?.array?.count == 1)

            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has the token") {
                try await service.kakao.tokens(of: 1) == ["phone gcm token"]
            }
            try await eventually("the device is registered") {
                try await service.api.get("/v1/users/1/devices").json?["items"]?[0]?["state"] == "registered"
            }
        }
    }

    @Test(
        "A pending registration is answered with the lifetime that Kakao last gave for the push type, on any loop; before the first, with the setting",
        arguments: ["v1", "v2"]
    )
    func lastLifetime(version: String) async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.tokenLifetimeDays = 12
        let adjust = { (settings: inout Settings) in settings.devices.tokenLifetimeDays = 21 }
        try await withService(adjust, sandbox: sandbox) { service in
            let android = version == "v1" ? "gcm" : "fcm"
            #expect(try await service.api.register(1, "token", type: android, version: version).text == "12")
            service.kakao.fail("register", .down)
            // Connections are spread over the loops.
            for user in Int64(2)...9 {
                let known = try await service.api.register(user, "token-\(user)", type: android, version: version)
                #expect(known.isPending)
                #expect(known.text == "12")
                let unknown = try await service.api.register(user, "t-\(user)", type: "apns", version: version)
                #expect(unknown.isPending)
                #expect(unknown.text == "21")
            }
        }
    }

    @Test("While Kakao is down, a deregistration is accepted. It completes when Kakao is back")
    func deregister() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("*", .down)
            let answer = try await service.api.deregister(1)
            #expect(answer.isPending)
            #expect(answer.body.isEmpty)
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")

            service.kakao.sandbox.removeFaults()
            try await eventually("the device is deleted") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test(
        "A page of a firewall moves no token: Kakao has it for one user, before and after",
        arguments: [403, 200, 401]
    )
    func anotherHost(status: Int) async throws {
        try await withService { service in
            _ = try await service.api.register(1, "shared")
            service.kakao.fail("*", .anotherHost, status: status)
            #expect(try await service.api.register(2, "shared").isPending)
            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has the token for user 2 only") {
                let (first, second) = (try await service.kakao.tokens(of: 1), try await service.kakao.tokens(of: 2))
                return first.isEmpty && second == ["phone gcm shared"]
            }
        }
    }

    @Test("A logout while something else responds in Kakao's place is carried out when Kakao is back")
    func logoutAtAnotherHost() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("*", .anotherHost)
            #expect(try await service.api.deregister(1).isPending)
            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has deregistered the token") { try await service.kakao.tokens(of: 1).isEmpty }
            try await eventually("the device is deleted") { try await service.database.count("devices") == 0 }
        }
    }

    @Test("A deregistration that Kakao refuses ends only once Kakao no longer lists the token")
    func refusedDeregistration() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("deregister", status: 400, code: -2, times: 2)
            #expect(try await service.api.deregister(1).isPending)
            #expect(try await service.database.count("devices WHERE withdrawn") == 1)
            try await eventually("Kakao has deregistered the token") { try await service.kakao.tokens(of: 1).isEmpty }
            try await eventually("the device is deleted") { try await service.database.count("devices") == 0 }
            #expect(try await service.api.metrics().value("kakao_push_refused_deregistrations_total") == 2)
            // Kakao does not know this device.
            service.kakao.fail("deregister", status: 400, code: -2)
            #expect(try await service.api.deregister(7).status == 200)
        }
    }

    @Test(
        "A deregistration that Kakao refuses because of the server's key or quota is pending, and the token stays",
        arguments: [-401, -3, -5, -9, -12, -1, -7, -10]
    )
    func unconfirmedDeregistration(code: Int) async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("deregister", status: code == -401 ? 401 : 400, code: code)
            #expect(try await service.api.deregister(1).isPending)
            #expect(service.kakao.requests("deregister") > 0)
            #expect(try await service.database.count("devices WHERE withdrawn") == 1)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token"])
        }
    }

    @Test("A token that its former owner has lost is not given back if Kakao refuses its registration")
    func refusedMove() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "shared")
            service.kakao.fail("register", status: 400, code: -2, times: 1)
            #expect(try await service.api.register(2, "shared").status == 400)
            try await eventually("both are deleted") { try await service.database.count("devices") == 0 }
            let (first, second) = (try await service.kakao.tokens(of: 1), try await service.kakao.tokens(of: 2))
            #expect(first.isEmpty && second.isEmpty)
        }
    }

    @Test(
        "The last of several requests for one device while Kakao is down counts",
        arguments: [true, false]
    )
    func lastChangeWins(endsRegistered: Bool) async throws {
        try await withService { service in
            service.kakao.fail("*", .down)
            #expect(try await service.api.register(1, "first").isPending)
            #expect(try await service.api.deregister(1).isPending)
            if endsRegistered { #expect(try await service.api.register(1, "second").isPending) }
            service.kakao.sandbox.removeFaults()
            try await eventually("no change is pending") {
                try await service.database.count("devices WHERE kakao_revision < revision") == 0
            }
            let tokens = try await service.kakao.tokens(of: 1)
            #expect(tokens == (endsRegistered ? ["phone gcm second"] : []))
            #expect(try await service.database.count("devices") == (endsRegistered ? 1 : 0))
        }
    }

    @Test("A change that one server could not send to Kakao is sent by the next server on the same database")
    func otherServer() async throws {
        try await withDatabaseAndKakao { database, kakao in
            // No process listens on port 1 of the loopback interface.
            let away = Settings.test(database.url, kakao: "http://127.0.0.1:1")
            try await RunningServer.with(away) { api in
                let answer = try await api.register(1, "token")
                #expect(answer.isPending)
            }
            try await RunningServer.with(Settings.test(database.url, kakao: kakao.sandbox.url)) { _ in
                try await eventually("Kakao has the token") { try await !kakao.tokens(of: 1).isEmpty }
            }
        }
    }

    @Test(
        "A registration that Kakao rejects fails with Kakao's code and words, without the token, and the device is deleted"
    )
    func refused() async throws {
        try await withService { service in
            let token = "dGhpcyBpcyBhIHRva2Vu:0123456789abcdef"
            _ = try await service.api.register(1, "earlier")
            service.kakao.fail("register", status: 400, code: -2, times: 1) { fault in
                fault.message =
                    "[app] Invalid Kpusher Param. ( appName=app, uid=1, did=phone, pushType=gcm, pushToken=\(token) )"
            }
            let answer = try await service.api.register(1, token)
            #expect(answer.status == 400)
            #expect(answer.headerFields[.contentType] == "application/problem+json")
            #expect(answer.json?["code"] == -2)
            #expect(answer.json?["type"] == "urn:kakao-push-server:error:refused-by-kakao")
            let message = "[app] Invalid Kpusher Param. ( appName=app, uid=1, did=phone, pushType=gcm, pushToken=*** )"
            #expect(answer.json?["msg"]?.string == message)
            #expect(answer.answerer == "kakao")
            #expect(!answer.text.contains(token))
            #expect(!answer.text.contains("0123456789abcdef"))
            try await eventually("the device is deleted") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test("A registration that arrives while Kakao rejects the previous one is sent to Kakao at once")
    func refusedMeanwhile() async throws {
        try await withService { service in
            let hold = service.kakao.hold("register", times: 1)
            service.kakao.fail("register", status: 400, code: -2, times: 1)
            let first = Task { try await service.api.register(1, "bad").status }
            try await eventually("the first registration is in flight") { service.kakao.requests("register") == 1 }
            #expect(try await service.api.register(1, "good").isPending)
            // The lease does not end within the test.
            try await service.database.pool.write("UPDATE devices SET lease_ends_at = now() + interval '1 hour'")
            service.kakao.release(hold)
            #expect(try await first.value == 400)
            try await eventually("Kakao has the second token") {
                try await service.kakao.tokens(of: 1) == ["phone gcm good"]
            }
        }
    }

    @Test("The response to a registration that Kakao rejects with 403 has Kakao's status")
    func forbidden() async throws {
        try await withService { service in
            service.kakao.fail("register", status: 403, code: -4, times: 1) { $0.message = "blocked account" }
            let answer = try await service.api.register(1, "token")
            #expect(answer.status == 403)
            #expect(answer.json?["code"] == -4)
        }
    }

    @Test(
        "While Kakao rejects the Admin key, registrations are accepted, and the status has the reason why they are pending"
    )
    func adminKeyRefused() async throws {
        try await withService { service in
            service.kakao.fail("register", status: 401, code: -401) { $0.message = "wrong appKey" }
            #expect(try await service.api.register(1, "token").isPending)
            let status = try await service.api.get("/v1/status").json
            #expect(status?["kakao"]?["state"] == "refusing")
            #expect(status?["kakao"]?["reason"]?.string?.contains("wrong appKey") == true)
            // Nothing is known of pushes.
            #expect(status?["sender"]?["state"] == "running")
            #expect(service.log.lines.contains { $0.level == .critical })
            // Further registrations find out now and then whether that has changed.
            #expect(try await service.api.register(2, "other").isPending)
            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has the tokens") {
                let (first, second) = (try await service.kakao.tokens(of: 1), try await service.kakao.tokens(of: 2))
                return !first.isEmpty && !second.isEmpty
            }
            #expect(try await service.api.get("/v1/status").json?["kakao"]?["state"] == "reachable")
        }
    }

    @Test("A token that moves to another user is not registered there until its deregistration succeeds")
    func movesLater() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "shared")
            service.kakao.fail("deregister", status: 500)
            #expect(try await service.api.register(2, "shared").isPending)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm shared"])
            #expect(try await service.kakao.tokens(of: 2).isEmpty)
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "2"]).json?.array?.count == 1)

            service.kakao.sandbox.removeFaults()
            try await eventually("the second user has the token") { try await !service.kakao.tokens(of: 2).isEmpty }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            let calls = service.kakao.calls.filter { $0 != "deregister 500" }
            #expect(calls == ["register 200", "deregister 200", "register 200"])
        }
    }

    @Test("A token with a pending deregistration is not registered for another user before that completes")
    func withdrawnBefore() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "shared")
            service.kakao.fail("deregister", status: 500)
            #expect(try await service.api.deregister(1).isPending)
            // A call to register it would succeed, but the deregistration must succeed first.
            #expect(try await service.api.register(2, "shared").isPending)
            #expect(try await service.kakao.tokens(of: 2).isEmpty)
            service.kakao.sandbox.removeFaults()
            try await eventually("the second user has it") { try await !service.kakao.tokens(of: 2).isEmpty }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            let calls = service.kakao.calls.filter { $0 != "deregister 500" }
            #expect(calls == ["register 200", "deregister 200", "register 200"])
        }
    }

    @Test("Only the second user has a token that moves while its first registration is in flight")
    func movesWhileUnderWay() async throws {
        try await withService { service in
            let hold = service.kakao.hold("register", times: 1, of: [1])
            async let first = service.api.register(1, "shared")
            try await eventually("the first registration is in flight") { service.kakao.requests("register") == 1 }
            #expect(try await service.api.register(2, "shared").isPending)
            service.kakao.release(hold)
            #expect(try await first.status == 200)
            try await eventually("the second user has it") { try await !service.kakao.tokens(of: 2).isEmpty }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(service.kakao.calls == ["register 200", "deregister 200", "register 200"])
        }
    }
}
