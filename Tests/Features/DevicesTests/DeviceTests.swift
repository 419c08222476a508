import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of `/v1/push/register`, `/tokens`, `/deregister` and the operators' view of devices while everything works.
@Suite(.timeLimit(.minutes(5))) struct DeviceTests {
    @Test(
        "The response to a registration is the token's lifetime at Kakao in days, as a bare number",
        arguments: [("v1", "gcm"), ("v1", "apns"), ("v2", "fcm"), ("v2", "apns")]
    )
    func register(version: String, type: String) async throws {
        try await withService { service in
            let path = "/\(version)/push/register"
            let form = try await service.api.post(
                path,
                form: [
                    "uuid": "9223372036854775807", "device_id": "전화 + &", "push_type": type,
                    "push_token": "a:b+c/d=", "tags": #"["여행","deals"]"#,
                ]
            )
            let json = try await service.api.post(
                path,
                json: [
                    "uuid": 1, "device_id": "phone", "push_type": .string(type), "push_token": "token",
                    "tags": ["deals"], "locale": "ko-KR", "timezone": "Asia/Seoul", "app_version": nil,
                ]
            )
            for answer in [form, json] {
                #expect(answer.status == 200)
                #expect(answer.text == "30")
                #expect(answer.headerFields[.contentType] == "application/json;charset=UTF-8")
            }
            // The server uses version 1 of Kakao's API, whichever version the request uses.
            let name = type == "apns" ? "apns" : "gcm"
            #expect(try await service.kakao.tokens(of: .max) == ["전화 + & \(name) a:b+c/d="])
            #expect(try await service.kakao.tokens(of: 1) == ["phone \(name) token"])
            #expect(try await service.database.count("devices WHERE kakao_revision = revision AND NOT withdrawn") == 2)
        }
    }

    @Test("The response to the registration of a token that never expires is -1")
    func neverExpires() async throws {
        var settings = KakaoSandboxSettings()
        settings.tokenLifetimeDays = -1
        try await withService(sandbox: settings) { service in
            let answer = try await service.api.register(1, "token")
            #expect(answer.text == "-1")
            #expect(try await service.database.count("devices WHERE expires_at IS NULL") == 1)
        }
    }

    @Test("A lifetime at Kakao beyond any time that PostgreSQL stores is a hundred years")
    func expiresLate() async throws {
        var settings = KakaoSandboxSettings()
        settings.tokenLifetimeDays = .max
        try await withService(sandbox: settings) { service in
            let answer = try await service.api.register(1, "token")
            #expect(answer.text == "36500")
            #expect(try await service.database.count("devices WHERE expires_at > now() + interval '99 years'") == 1)
        }
    }

    @Test("Tokens of one or several users are listed in exactly Kakao's format, by GET and by POST")
    func tokens() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "android", device: "a")
            _ = try await service.api.register(1, "apple", device: "b", type: "apns")
            _ = try await service.api.register(.max, "other", device: "c")

            let one = try await service.api.get("/v1/push/tokens", ["uuid": "1"])
            #expect(one.status == 200)
            #expect(one.headerFields[.contentType] == "application/json;charset=UTF-8")
            let items = try #require(one.json?.array)
            #expect(items.map { $0["push_token"] } == ["android", "apple"])
            #expect(items.map { $0["push_type"] } == ["gcm", "apns"])
            for item in items {
                let names = item.object?.members.map(\.name)
                #expect(names == ["user_id", "device_id", "push_type", "push_token", "created_at", "updated_at"])
                #expect(item["user_id"] == "1")
                for name in ["created_at", "updated_at"] {
                    let time = try #require(item[name]?.string)
                    #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil)
                }
            }
            #expect(try await service.api.post("/v1/push/tokens", form: ["uuid": "1"]).json == one.json)

            let all = try await service.api.get("/v1/push/tokens", ["uuids": "[1,\"9223372036854775807\",5]"])
            #expect(all.json?.array?.map { $0["user_id"] } == ["1", "1", "9223372036854775807"])
            let posted = try await service.api.post("/v1/push/tokens", form: ["uuids": "[\"1\",9223372036854775807]"])
            #expect(posted.json == all.json)
            let json = try await service.api.post("/v1/push/tokens", json: ["uuids": ["1", 9_223_372_036_854_775_807]])
            #expect(json.json == all.json)

            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "2"]).text == "[]")
            let second = try await service.api.get("/v2/push/tokens", ["uuid": "1"])
            #expect(second.json?.array?.map { $0["push_type"] } == ["fcm", "apns"])
        }
    }

    @Test("A deregistration deletes the device here and at Kakao, and its response is empty")
    func deregister() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "android")
            _ = try await service.api.register(1, "apple", type: "apns")
            let answer = try await service.api.deregister(1)
            #expect(answer.status == 200)
            #expect(answer.body.isEmpty)
            #expect(answer.headerFields[.contentType] == "application/json;charset=UTF-8")
            #expect(try await service.kakao.tokens(of: 1) == ["phone apns apple"])
            #expect(try await service.database.count("devices") == 1)

            let second = try await service.api.post(
                "/v2/push/deregister",
                json: ["uuid": "1", "device_id": "phone", "push_type": "apns"]
            )
            #expect(second.status == 200)
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.database.count("devices") == 0)
            // Kakao is called even for a device that is unknown here, because Kakao may know it.
            #expect(try await service.api.deregister(1).status == 200)
            #expect(service.kakao.requests("deregister") == 3)
        }
    }

    @Test("Another registration of a device replaces all of its properties, here and at Kakao")
    func registerAgain() async throws {
        try await withService { service in
            for (token, tags) in [("first", "[\"a\"]"), ("second", "[\"b\",\"c\"]")] {
                let answer = try await service.api.post(
                    "/v1/push/register",
                    form: [
                        "uuid": "1", "device_id": "phone", "push_type": "gcm", "push_token": token, "tags": tags,
                        "app_version": token,
                    ]
                )
                #expect(answer.text == "30")
            }
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm second"])
            #expect(try await service.database.count("devices") == 1)
            let devices = try await service.api.get("/v1/users/1/devices").json?["items"]?.array
            #expect(devices?.map { $0["tags"] } == [["b", "c"]])
            #expect(devices?.map { $0["app_version"] } == ["second"])
        }
    }

    @Test("Operators see all properties of a user's devices, with masked tokens")
    func devicesOfUser() async throws {
        try await withService { service in
            let token = "abcdefghijklmnopqrstuvwxyz"
            _ = try await service.api.post(
                "/v2/push/register",
                json: [
                    "uuid": 7, "device_id": "phone", "push_type": "fcm", "push_token": .string(token),
                    "locale": "ko-KR", "timezone": "Asia/Seoul", "app_version": "1.2.3", "tags": ["여행"],
                ]
            )
            let answer = try await service.api.get("/v1/users/7/devices")
            #expect(answer.status == 200)
            #expect(answer.json?["next"] == .null)
            let device = try #require(answer.json?["items"]?[0]?.object)
            #expect(
                device.members.map(\.name) == [
                    "user_id", "device_id", "push_type", "push_token", "state", "locale", "timezone", "app_version",
                    "tags", "failures", "expires_at", "created_at", "updated_at", "changed_by",
                ]
            )
            #expect(device["user_id"] == "7")
            #expect(device["push_type"] == "fcm")
            #expect(device["push_token"] == "abcd…wxyz")
            #expect(device["state"] == "registered")
            #expect(device["locale"] == "ko-KR")
            #expect(device["timezone"] == "Asia/Seoul")
            #expect(device["app_version"] == "1.2.3")
            #expect(device["tags"] == ["여행"])
            #expect(device["failures"] == 0)
            #expect(device["expires_at"]?.string?.hasSuffix("Z") == true)
            #expect(!answer.text.contains(token))
            #expect(try await service.api.get("/v1/users/8/devices").json == ["items": [], "next": nil])
        }
    }

    @Test(
        "A token that moves to another user is deregistered for the first user before it is registered for the second"
    )
    func tokenMoves() async throws {
        try await withService { service in
            let answers = [
                try await service.api.register(1, "shared"), try await service.api.register(2, "shared"),
            ]
            #expect(answers.map(\.text) == ["30", "30"])
            #expect(service.kakao.calls == ["register 200", "deregister 200", "register 200"])
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm shared"])
            #expect(try await service.api.get("/v1/push/tokens", ["uuid": "1"]).text == "[]")
            #expect(try await service.database.count("devices") == 1)
        }
    }

    @Test(
        "A registration concurrent with the storing of the device's deregistration is sent to Kakao at once"
    )
    func registeredMeanwhile() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "first")
            let hold = service.kakao.hold("deregister", times: 1)
            let deregistration = Task { try await service.api.deregister(1).status }
            try await eventually("the deregistration is in flight") { service.kakao.requests("deregister") == 1 }
            try await service.database.pool.withTransaction { transaction in
                // The statement of a registration, blocked before its commit. The lease would not end within the test.
                try await transaction.query(
                    """
                    UPDATE devices
                    SET withdrawn = false, push_token = 'second', revision = revision + 1,
                        lease_ends_at = now() + interval '1 hour'
                    """
                )
                service.kakao.release(hold)
                // Waits until the statement that stores Kakao's response is blocked by this transaction.
                try await transaction.execute(script: Self.waitUntilAwaited)
            }
            #expect(try await deregistration.value == 200)
            try await eventually("Kakao has the second token") {
                try await service.kakao.tokens(of: 1) == ["phone gcm second"]
            }
        }
    }

    @Test("A token leaves a former owner whose device is changed at the same time before it is registered for another")
    func changedMeanwhile() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "shared")
            _ = try await service.api.register(2, "own")
            let registration = try await service.database.pool.withTransaction { transaction in
                try await transaction.query("UPDATE devices SET locale = 'ko'")
                let registration = Task { try await service.api.register(2, "shared") }
                try await transaction.execute(script: Self.waitUntilAwaited)
                return registration
            }
            #expect(try await registration.value.status == 200)
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm shared"])
        }
    }

    @Test("A registration that PostgreSQL aborts because of a deadlock is retried and succeeds")
    func deadlock() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "shared")
            _ = try await service.api.register(2, "own")
            var registration: Task<HTTPClientResponse, any Error>?
            // PostgreSQL aborts the session that detects the deadlock first: usually the server's, which waited first.
            for _ in 0..<5 where registration == nil {
                registration = try await Self.registerIntoDeadlock(service)
            }
            let answer = try await registration?.value
            #expect(answer?.text == "30", "\(answer?.text ?? "the server never gave way")")
            try await eventually("there was a deadlock") {
                let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
                return try await service.database.integer(sql) > 0
            }
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm shared"])
        }
    }

    /// Waits in the database until another session waits for a lock of this transaction, for at most 20 s.
    static let waitUntilAwaited: SQL = """
        DO $$
        BEGIN
            FOR turn IN 1..2000 LOOP
                EXIT WHEN EXISTS (
                    SELECT
                    FROM pg_locks
                    WHERE NOT granted
                        AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
                );
                PERFORM pg_sleep(0.01);
            END LOOP;
            -- Long enough for the server to send no further statement over the connection that waits.
            PERFORM pg_sleep(0.1);
        END
        $$
        """

    /// Registers the token of user 1 for user 2, and locks the rows of both in the opposite order.
    ///
    /// - Returns: The registration if PostgreSQL aborted its transaction; `nil` if it aborted the test's transaction.
    private static func registerIntoDeadlock(
        _ service: TestService
    ) async throws -> Task<HTTPClientResponse, any Error>? {
        var registration: Task<HTTPClientResponse, any Error>?
        do {
            try await service.database.pool.withTransaction { transaction in
                try await transaction.query("UPDATE devices SET locale = 'ko' WHERE user_id = 2")
                registration = Task { try await service.api.register(2, "shared") }
                try await transaction.execute(script: Self.waitUntilAwaited)
                try await transaction.query("UPDATE devices SET locale = 'ko' WHERE user_id = 1")
            }
            return registration
        } catch let error as PostgresError where error.sqlState == "40P01" {
            _ = try await registration?.value
            _ = try await service.api.register(1, "shared")
            _ = try await service.api.register(2, "own")
            return nil
        }
    }

    @Test("Concurrent registrations of one token by several users never fail")
    func tokenContended() async throws {
        try await withService { service in
            for _ in 0..<3 {
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for user in Int64(1)...3 {
                        group.addTask { try await service.api.register(user, "shared").status }
                    }
                    for try await status in group { #expect(status == 200) }
                }
            }
            // The next user to register it is the only one to have it.
            _ = try await service.api.register(7, "shared")
            try await eventually("only the last user has the token") {
                let others = try await (1...3).asyncMap { try await service.kakao.tokens(of: Int64($0)) }
                let last = try await service.kakao.tokens(of: 7)
                return others.allSatisfy(\.isEmpty) && last == ["phone gcm shared"]
            }
            try await eventually("no withdrawal is pending") { try await service.database.count("devices") == 1 }
        }
    }
}
