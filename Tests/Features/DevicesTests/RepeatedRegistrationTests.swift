import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of registrations that repeat an earlier one, as apps send them at each start.
@Suite(.timeLimit(.minutes(5))) struct RepeatedRegistrationTests {
    /// Returns the revision of the only device and the revision that Kakao has confirmed.
    private func revisions(_ service: TestService) async throws -> String {
        try await service.database.text("SELECT revision || ' ' || kakao_revision FROM devices")
    }

    @Test(
        "A repetition calls Kakao, stores the app's properties of the phone, and leaves no change pending"
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

    @Test("The renewal time is not updated if it would change by less than a day")
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
        "A registration that differs from the state at Kakao is not a repetition",
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

    @Test("A repetition while Kakao is down is accepted, and completes when Kakao is back")
    func outage() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            service.kakao.fail("*", .down)
            #expect(try await service.api.register(1, "token").isPending)
            #expect(try await service.api.get("/v1/users/1/devices").json?["items"]?[0]?["state"] == "pending")
            service.kakao.sandbox.removeFaults()
            try await eventually("Kakao has confirmed it") { try await revisions(service) == "2 2" }
        }
    }

    @Test("A repetition that Kakao rejects fails, and the device is withdrawn")
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

    @Test("A repetition whose server stopped during the call leaves no change pending, and the next one succeeds")
    func lostAnswer() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            // The state that a server leaves if it dies during the call to Kakao.
            try await service.database.pool.write(
                "UPDATE devices SET lease = gen_random_uuid(), lease_ends_at = now() + interval '1 second'"
            )
            #expect(try await service.database.count("devices WHERE kakao_revision < revision") == 0)
            try await eventually("the lease expires") {
                try await service.database.count("devices WHERE lease_ends_at > now()") == 0
            }
            #expect(try await service.api.register(1, "token").status == 200)
            #expect(try await revisions(service) == "1 1")
        }
    }

    @Test("A withdrawal does not overtake a repetition that is in flight")
    func withdrawal() async throws {
        try await withSlowRepetition { service in
            let answer = try await service.api.deregister(1)
            #expect(answer.isPending)
            #expect(service.kakao.requests("deregister") == 0)
        } afterwards: { service in
            try await eventually("the device is gone") { try await service.database.count("devices") == 0 }
            let tokens = try await service.kakao.tokens(of: 1)
            #expect(tokens.isEmpty)
            #expect(service.kakao.calls == ["register 200", "register 200", "deregister 200"])
        }
    }

    @Test("Another user who registers the token during a repetition has it in the end")
    func otherUser() async throws {
        try await withSlowRepetition { service in
            let answer = try await service.api.register(2, "token")
            #expect(answer.isPending)
        } afterwards: { service in
            try await eventually("the second user has the token") {
                try await service.kakao.tokens(of: 2) == ["phone gcm token"]
            }
            let (tokens, devices) = try await (service.kakao.tokens(of: 1), service.database.count("devices"))
            #expect(tokens.isEmpty)
            #expect(devices == 1)
        }
    }

    @Test("A second repetition while the first is in flight is stored, without another call to Kakao")
    func twice() async throws {
        try await withSlowRepetition { service in
            let answer = try await service.api.post(
                "/v1/push/register",
                form: ["uuid": "1", "device_id": "phone", "push_type": "gcm", "push_token": "token", "locale": "ko-KR"]
            )
            #expect(answer.isPending)
        } afterwards: { service in
            let settled = "devices WHERE locale = 'ko-KR' AND lease IS NULL AND revision = 1 AND kakao_revision = 1"
            let devices = try await service.database.count(settled)
            #expect(devices == 1)
            #expect(service.kakao.calls == ["register 200", "register 200"])
        }
    }

    @Test("Many concurrent repetitions all succeed, and the device is registered once")
    func many() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let answers = try await withThrowingTaskGroup { group in
                for _ in 1...40 { group.addTask { try await service.api.register(1, "token") } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.contains { !$0.isPending })
            #expect(answers.allSatisfy { $0.status == 200 })
            try await eventually("no change is pending") {
                try await service.database.count(
                    "devices WHERE revision = kakao_revision AND lease IS NULL AND NOT withdrawn"
                ) == 1
            }
            let tokens = try await service.kakao.tokens(of: 1)
            #expect(tokens == ["phone gcm token"])
        }
    }

    /// Runs `meanwhile` while a repetition's call to Kakao is in flight.
    private func withSlowRepetition(
        _ meanwhile: (TestService) async throws -> Void,
        afterwards: (TestService) async throws -> Void
    ) async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let hold = service.kakao.hold("register", times: 1)
            async let repetition = service.api.register(1, "token")
            try await eventually("the call is in flight") { service.kakao.requests("register") == 2 }
            try await meanwhile(service)
            service.kakao.release(hold)
            #expect(try await repetition.status == 200)
            try await afterwards(service)
        }
    }
}
