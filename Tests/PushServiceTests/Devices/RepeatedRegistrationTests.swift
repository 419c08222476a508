import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import PushService
import TestSupport
import Testing

/// Apps that register, at each start, what is registered already.
@Suite(.timeLimit(.minutes(5))) struct RepeatedRegistrationTests {
    /// What stands in the only device's row: how often Kakao was to hear of it, and how often it has.
    private func revisions(_ service: TestService) async throws -> String {
        try await service.database.text("SELECT revision || ' ' || kakao_revision FROM devices")
    }

    @Test(
        "A repetition is told to Kakao, keeps what the app says of the phone, and asks for nothing that could be left over"
    )
    func repetition() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            try await service.database.pool.write(
                "UPDATE devices SET failures = 2, last_failure_at = now(), expires_at = now() + interval '5 days', renew_at = now() + interval '1 day'"
            )
            let answer = try await service.api.post(
                "/v1/push/register",
                form: ["uuid": "1", "device_id": "phone", "push_type": "gcm", "push_token": "token", "locale": "ko-KR"]
            )
            #expect(answer.status == 200)
            #expect(answer.text == "30")
            #expect(service.kakao.calls == ["register 200", "register 200"])
            #expect(try await revisions(service) == "1 1")
            let noted = """
                devices WHERE locale = 'ko-KR' AND failures = 0 AND lease IS NULL AND expires_at > now() + interval '29 days'
                    AND renew_at > now() + interval '20 days'
                """
            #expect(try await service.database.count(noted) == 1)
            #expect(try await service.api.deregister(1).status == 200)
        }
    }

    @Test("The time of a renewal stays when it would move by less than a day")
    func renewalStays() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let before = try await service.database.text("SELECT renew_at::text FROM devices")
            for _ in 1...3 { #expect(try await service.api.register(1, "token").status == 200) }
            #expect(
                try await service.database.text("SELECT renew_at::text FROM devices") == before
            )
        }
    }

    @Test(
        "What differs from what Kakao has is no repetition",
        arguments: [
            "push_token = 'another'", "expires_at = now() - interval '1 second'", "withdrawn = true",
        ]
    )
    func otherwise(change: String) async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            try await service.database.pool.write("UPDATE devices SET \(change)")
            #expect(try await service.api.register(1, "token").status == 200)
            #expect(try await revisions(service) == "2 2")
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token"])
        }
    }

    @Test("A repetition while Kakao is down is accepted, and Kakao hears of it when it is back")
    func outage() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("*", .down)
            #expect(try await service.api.register(1, "token").status == 202)
            #expect(try await service.api.get("/v1/users/1/devices").json?["items"]?[0]?["state"] == "pending")
            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has heard") { try await revisions(service) == "2 2" }
        }
    }

    @Test("A repetition that Kakao refuses is answered so, and the device is withdrawn")
    func refusal() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("register", status: 400, code: -2, times: 1)
            let answer = try await service.api.register(1, "token")
            #expect(answer.status == 400)
            #expect(answer.json?["code"] == -2)
            try await eventually("the device is gone") { try await service.database.count("devices") == 0 }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test("A repetition whose answer was lost with the server leaves nothing to be told, and the next one may follow")
    func lostAnswer() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            // What a server leaves that dies while Kakao is being told.
            try await service.database.pool.write(
                "UPDATE devices SET lease = gen_random_uuid(), lease_ends_at = now() + interval '1 second'"
            )
            #expect(try await service.database.count("devices WHERE kakao_revision < revision") == 0)
            try await eventually("the lease ends") {
                try await service.database.count("devices WHERE lease_ends_at > now()") == 0
            }
            #expect(try await service.api.register(1, "token").status == 200)
            #expect(try await revisions(service) == "1 1")
        }
    }

    @Test("A withdrawal does not overtake a repetition that Kakao is slow to answer")
    func withdrawal() async throws {
        try await withSlowRepetition { service in
            let answer = try await service.api.deregister(1)
            #expect(answer.status == 202)
            #expect(service.kakao.requests("deregister") == 0)
        } afterwards: { service in
            try await eventually("the device is gone") { try await service.database.count("devices") == 0 }
            let tokens = try await service.kakao.tokens(of: 1)
            #expect(tokens.isEmpty)
            #expect(service.kakao.calls == ["register 200", "register 200", "deregister 200"])
        }
    }

    @Test("Another user who takes the token during a repetition has it in the end")
    func otherUser() async throws {
        try await withSlowRepetition { service in
            let answer = try await service.api.register(2, "token")
            #expect(answer.status == 202)
        } afterwards: { service in
            try await eventually("the second user has it") {
                try await service.kakao.tokens(of: 2) == ["phone gcm token"]
            }
            let (tokens, devices) = try await (service.kakao.tokens(of: 1), service.database.count("devices"))
            #expect(tokens.isEmpty)
            #expect(devices == 1)
        }
    }

    @Test("Another repetition meanwhile is noted, and Kakao is not told a third time")
    func twice() async throws {
        try await withSlowRepetition { service in
            let answer = try await service.api.post(
                "/v1/push/register",
                form: ["uuid": "1", "device_id": "phone", "push_type": "gcm", "push_token": "token", "locale": "ko-KR"]
            )
            #expect(answer.status == 202)
        } afterwards: { service in
            let settled = "devices WHERE locale = 'ko-KR' AND lease IS NULL AND revision = 1 AND kakao_revision = 1"
            let devices = try await service.database.count(settled)
            #expect(devices == 1)
            #expect(service.kakao.calls == ["register 200", "register 200"])
        }
    }

    @Test("Of many at a time each is answered, and the device stands as one of them says")
    func many() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let statuses = try await withThrowingTaskGroup { group in
                for _ in 1...40 { group.addTask { try await service.api.register(1, "token").status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.contains(200))
            #expect(statuses.allSatisfy { $0 == 200 || $0 == 202 })
            try await eventually("nothing is left to be told") {
                try await service.database.count(
                    "devices WHERE revision = kakao_revision AND lease IS NULL AND NOT withdrawn"
                ) == 1
            }
            let tokens = try await service.kakao.tokens(of: 1)
            #expect(tokens == ["phone gcm token"])
        }
    }

    /// Runs `meanwhile` while Kakao has been told of a repetition and has not answered.
    private func withSlowRepetition(
        _ meanwhile: (TestService) async throws -> Void,
        afterwards: (TestService) async throws -> Void
    ) async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("register", .latency, times: 1) { $0.milliseconds = 500 }
            async let repetition = service.api.register(1, "token")
            try await eventually("Kakao is being told") { service.kakao.requests("register") == 2 }
            try await meanwhile(service)
            #expect(try await repetition.status == 200)
            try await afterwards(service)
        }
    }
}
