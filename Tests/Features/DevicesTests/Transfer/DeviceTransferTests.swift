import Endpoints
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Devices

/// `/v1/devices/import` and `/v1/devices/export`, which move all devices from one system to another.
@Suite(.timeLimit(.minutes(5))) struct DeviceTransferTests {
    private static let ndjson = "application/x-ndjson"

    /// Returns a line of NDJSON. `more` contains further members.
    private static func line(_ userID: Int, _ token: String, device: String = "phone", _ more: String = "") -> String {
        #"{"user_id":\#(userID),"device_id":"\#(device)","push_type":"fcm","push_token":"\#(token)"\#(more.isEmpty ? "" : ",\(more)")}"#
    }

    /// Returns the member `updated_at` of a line for a time in the past.
    private static func updated(minutesAgo minutes: Double) -> String {
        #""updated_at":"\#((Date() - minutes * 60).rfc3339Microseconds)""#
    }

    private static let never = #""expires_at":"never""#

    private static func send(_ api: TestClient, _ lines: [String]) async throws -> HTTPClientResponse {
        try await api.post("/v1/devices/import", Array(lines.joined(separator: "\n").utf8), type: ndjson)
    }

    /// Imports lines of NDJSON and returns `created updated unchanged displaced`.
    private static func importing(_ api: TestClient, _ lines: [String]) async throws -> String {
        let answer = try await send(api, lines)
        guard answer.status == 200, let json = answer.json else { return answer.text }
        #expect(json.object?.members.map(\.name) == ["lines", "created", "updated", "unchanged", "displaced"])
        #expect(json["lines"]?.integer == Int64(lines.count))
        return ["created", "updated", "unchanged", "displaced"].map { json[$0]?.description ?? "?" }
            .joined(separator: " ")
    }

    /// Exports all devices as lines.
    private static func exported(_ api: TestClient, _ format: String = "ndjson") async throws -> String {
        let answer = try await api.get("/v1/devices/export", ["format": format, "reason": "Test"])
        #expect(answer.status == 200)
        return answer.text
    }

    /// Returns a digest of the whole table of devices.
    private static func digest(_ database: TestDatabase) async throws -> String {
        try await database.text(
            "SELECT md5(string_agg(devices::text, ' ' ORDER BY user_id, device_id, push_type)) FROM devices"
        )
    }

    /// Returns the devices that are not withdrawn, as `user device token`.
    private static func live(_ database: TestDatabase) async throws -> [String] {
        let rows = try await database.pool.read(
            """
            SELECT user_id || ' ' || device_id || ' ' || push_token
            FROM devices
            WHERE NOT withdrawn
            ORDER BY user_id, device_id
            """
        )
        return try rows.map { try $0.decode(String.self) }
    }

    private static func settled(_ database: TestDatabase) async throws {
        try await eventually("the calls to Kakao are done") {
            try await database.count("devices WHERE kakao_revision < revision") == 0
        }
    }

    // MARK: Round trip

    @Test("An export as NDJSON or CSV yields the same devices after an import")
    func roundTrip() async throws {
        let lines = [
            #"{"user_id":"1","device_id":"a","push_type":"fcm","push_token":"t1"}"#,
            #"{"user_id":"1","device_id":"b","push_type":"apns","push_token":"t,2\"","locale":"ko-KR","timezone":"Asia/Seoul","#
                + #""app_version":"1.2 (3)","tags":["a b","여행, 맛집","\"q\";|"],"created_at":"2024-02-29T01:02:03.000001Z","#
                + #""updated_at":"2026-02-03T04:05:06.700000Z","expires_at":"2099-01-01T00:00:00.123456Z"}"#,
            #"{"user_id":"2","device_id":" 전화 = \"+\" ","push_type":"fcm","push_token":"t3","tags":["x"],"expires_at":"never"}"#,
            #"{"user_id":"9223372036854775807","device_id":"z","push_type":"fcm","push_token":"t4","#
                + #""created_at":"1999-12-31T23:59:59.999999Z","updated_at":"2020-01-01T00:00:00.000000Z","#
                + #""expires_at":"2020-02-01T00:00:00.000000Z"}"#,
        ]
        var first = ""
        var csv = ""
        try await withService { service in
            service.kakao.fail("*", .down)
            #expect(try await Self.importing(service.api, lines.reversed()) == "4 0 0 0")
            first = try await Self.exported(service.api)
            // Times that a line does not have are set to the time of the import.
            let shown = first.split(separator: "\n").map(String.init)
            #expect(shown.count == 4)
            #expect(shown[1] == lines[1])
            #expect(shown[3] == lines[3])
            #expect(shown[0].hasPrefix(lines[0].dropLast() + #","created_at":"20"#))
            #expect(shown[2].hasSuffix(#","expires_at":"never"}"#))
            let answer = try await service.api.get("/v1/devices/export", ["format": "csv", "reason": "Test"])
            #expect(answer.headerFields[.contentType] == "text/csv;charset=UTF-8")
            csv = answer.text
        }
        try await withService { service in
            service.kakao.fail("*", .down)
            let answer = try await service.api.post(
                "/v1/devices/import",
                Array(csv.utf8),
                type: "text/csv; charset=utf-8"
            )
            #expect(answer.json?["created"] == 4)
            #expect(try await Self.exported(service.api) == first)
            #expect(try await Self.exported(service.api, "csv") == csv)
        }
    }

    @Test("An export is in the requested format, and omits withdrawn devices")
    func formats() async throws {
        try await withService { service in
            #expect(try await Self.exported(service.api).isEmpty)
            let header =
                "user_id,device_id,push_type,push_token,locale,timezone,app_version,tags,created_at,updated_at,expires_at\r\n"
            #expect(try await Self.exported(service.api, "csv") == header)
            try await service.database.addPhones(1...1200)
            try await service.database.pool.write(
                "UPDATE devices SET withdrawn = true, next_attempt_at = 'infinity', revision = 2 WHERE user_id % 2 = 0"
            )
            for (accept, type) in [
                ("*/*", Self.ndjson), ("text/html, text/csv;q=0.9", "text/csv"), ("application/x-ndjson", Self.ndjson),
            ] {
                var api = service.api
                api.headerFields[.accept] = accept
                let answer = try await api.get("/v1/devices/export", ["reason": "Test"])
                #expect(answer.headerFields[.contentType] == "\(type);charset=UTF-8")
                #expect(answer.text.split(whereSeparator: \.isNewline).count == (type == "text/csv" ? 601 : 600))
            }
            #expect(
                try await service.api.get("/v1/devices/export", ["format": "xml", "reason": "Test"]).field == "format"
            )
        }
    }

    @Test("An import requires the scope devices; an export, which contains whole tokens, the scope export")
    func scopes() async throws {
        try await withService { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            func caller(_ scopes: Set<Scope>) async throws -> TestClient {
                service.api.with("Bearer \(try await store.create(name: "key", scopes: scopes, expiresAt: nil))")
            }
            for (scopes, imports, exports) in [
                ([.read], 403, 403), ([.devices], 200, 403), ([.export], 403, 200), ([.read, .devices], 200, 403),
                ([.admin], 200, 200),
            ] as [(Set<Scope>, Int, Int)] {
                let api = try await caller(scopes)
                #expect(try await Self.send(api, []).status == imports)
                #expect(try await api.get("/v1/devices/export", ["reason": "Test"]).status == exports)
            }
            #expect(try await Self.send(service.api.with(nil), []).status == 401)
            #expect(try await service.api.with(nil).get("/v1/devices/export", ["reason": "Test"]).status == 401)
        }
    }

    // MARK: Calls to Kakao

    @Test("Only devices without expires_at are registered at Kakao, because it has the others already")
    func kakao() async throws {
        try await withService { service in
            let lines = [
                Self.line(1, "told"), Self.line(2, "never", Self.never),
                Self.line(3, "until", #""expires_at":"\#((Date() + 20 * 86_400).rfc3339)""#),
                Self.line(4, "expired", #""expires_at":"\#((Date() - 86_400).rfc3339)""#),
            ]
            #expect(try await Self.importing(service.api, lines) == "4 0 0 0")
            try await Self.settled(service.database)
            // The first renewals may be scheduled meanwhile. They include the expired device.
            try await eventually("the expired device is due or renewed") {
                let isDue = try await service.database.count("devices WHERE user_id = 4 AND renew_at <= now()") == 1
                return service.kakao.calls == (isDue ? ["register 200"] : ["register 200", "register 200"])
            }
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm told"])
            #expect(try await service.database.count("devices WHERE renew_at IS NULL AND expires_at IS NULL") == 1)
            let inTime = "renew_at BETWEEN now() + interval '11.9 days' AND now() + interval '13 days'"
            #expect(try await service.database.count("devices WHERE user_id = 3 AND \(inTime)") == 1)
            let shown = try await service.api.get("/v1/users/3/devices").json?["items"]?[0]
            #expect(shown?["state"] == "registered")
        }
    }

    @Test("An imported device that Kakao rejects is removed, like one that its app registered")
    func refused() async throws {
        try await withService { service in
            service.kakao.fail("register", status: 400, code: -2, times: 1)
            #expect(try await Self.importing(service.api, [Self.line(1, "token")]) == "1 0 0 0")
            try await eventually("the device is removed") { try await service.database.count("devices") == 0 }
        }
    }

    @Test(
        "Imported devices are released after those that are due anyway, and a token's withdrawal before its registration"
    )
    func turns() async throws {
        // Without a server, which would release devices itself.
        try await TestDatabase.with { database in
            let renewal = RenewalTime(daysBeforeExpiry: 7)
            let store = DeviceImportStore(pool: database.pool, renewal: renewal, channelTag: nil)
            #expect(try await store.release() == (0, false))
            try await database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, withdrawn, next_attempt_at)
                SELECT id, 'phone', 'fcm', 'token-' || CASE WHEN id > 2000 THEN id - 1700 ELSE id END, id > 2000,
                    CASE WHEN id <= 300 THEN now() ELSE 'infinity' END
                FROM generate_series(1, 2300) AS id
                """
            )
            let count = try await store.release().count
            // The released devices include the withdrawals of their tokens.
            #expect((201...400).contains(count))
            let released = "devices WHERE next_attempt_at < 'infinity'"
            #expect(try await database.count("\(released) AND withdrawn") == count - 200)
            #expect(try await database.count(released) == 300 + count)
            #expect(
                try await database.count("\(released) AND next_attempt_at > now() + interval '6 seconds'") == 0
            )
            let blocked = """
                devices AS device
                WHERE device.next_attempt_at < 'infinity'
                    AND EXISTS (
                        SELECT FROM devices AS other
                        WHERE other.push_token = device.push_token AND other.withdrawn AND other.next_attempt_at = 'infinity'
                    )
                """
            #expect(try await database.count(blocked) == 0)
            let second = try await store.release()
            #expect(second == (0, true))
            // Devices that are not released yet do not delay renewals.
            try await database.pool.write("DELETE FROM devices WHERE next_attempt_at < 'infinity'")
            #expect(try await database.count("devices") > 1200)
            try await database.addPhones(1...5)
            try await database.pool.write("UPDATE devices SET renew_at = now() WHERE user_id <= 5")
            #expect(try await database.pool.write(RenewDevices(activeWithinDays: 90)) == [5])
        }
    }

    @Test("An app's request is sent to Kakao at once, even for a device that is not released yet")
    func overtaken() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            // With this many pending devices, all leased by other servers, no imported device is released.
            try await database.pool.write(
                """
                INSERT INTO devices (
                    user_id, device_id, push_type, push_token, withdrawn, next_attempt_at, lease, lease_ends_at
                )
                SELECT id, 'phone', 'fcm', 'other-' || id, true, now(), gen_random_uuid(), now() + interval '1 hour'
                FROM generate_series(1001, 1500) AS id
                """
            )
            #expect(try await Self.importing(api, (1...3).map { Self.line($0, "old-\($0)") }) == "3 0 0 0")
            let waiting = "devices WHERE user_id <= 3 AND next_attempt_at = 'infinity'"
            #expect(try await database.count(waiting) == 3)
            #expect(try await api.register(1, "new-1").text == "30")
            #expect(try await api.register(7, "old-2").text == "30")
            #expect(try await api.deregister(3).status == 200)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm new-1"])
            #expect(try await service.kakao.tokens(of: 7) == ["phone gcm old-2"])
            #expect(try await Self.live(database) == ["1 phone new-1", "7 phone old-2"])
        }
    }

    // MARK: Precedence

    @Test("A repeated import changes nothing, whether its lines have a time or not")
    func again() async throws {
        try await withService { service in
            let lines = [
                Self.line(1, "a", Self.never), Self.line(2, "b"), Self.line(3, "c", Self.updated(minutesAgo: 5)),
                Self.line(4, "d", #"\#(Self.updated(minutesAgo: 6)),"expires_at":"2099-01-01T00:00:00Z","tags":["x"]"#),
                Self.line(5, "a"), Self.line(6, "c", Self.updated(minutesAgo: 4)),
            ]
            // If two lines have one token, the one with the later time counts, or else the first.
            #expect(try await Self.importing(service.api, lines) == "4 0 2 0")
            let expected = ["1 phone a", "2 phone b", "4 phone d", "6 phone c"]
            #expect(try await Self.live(service.database) == expected)
            // Pending calls to Kakao would change rows.
            try await eventually("the calls to Kakao are done") {
                try await service.database.count("devices WHERE kakao_revision < revision OR lease IS NOT NULL") == 0
            }
            let digest = try await Self.digest(service.database)
            for _ in 0..<2 {
                #expect(try await Self.importing(service.api, lines) == "0 0 6 0")
                #expect(try await Self.digest(service.database) == digest)
            }
            #expect(try await Self.importing(service.api, lines.reversed()) == "0 0 6 0")
            #expect(try await Self.digest(service.database) == digest)
        }
    }

    @Test("A line changes a device only if it is newer than the device's last change here")
    func newer() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            for user in Int64(1)...4 { _ = try await api.register(user, "own-\(user)") }
            try await database.pool.write(
                "UPDATE devices SET updated_at = now() - interval '1 hour', created_at = now() - interval '1 day', failures = 2"
            )
            let lines = [
                // Lines that are older, or have no time.
                Self.line(1, "other-1", Self.updated(minutesAgo: 61)), Self.line(2, "other-2"),
                Self.line(5, "own-1", Self.updated(minutesAgo: 61)), Self.line(5, "own-2", device: "b"),
                // Newer lines, one with another token and one with other tags only.
                Self.line(3, "other-3", Self.updated(minutesAgo: 59)),
                Self.line(4, "own-4", #""tags":["new"],\#(Self.updated(minutesAgo: 59))"#),
            ]
            #expect(try await Self.importing(api, lines) == "0 2 4 0")
            #expect(
                try await Self.live(database) == [
                    "1 phone own-1", "2 phone own-2", "3 phone other-3", "4 phone own-4",
                ]
            )
            try await Self.settled(database)
            // Kakao has the token of user 4 already, so only user 3 causes another call.
            #expect(service.kakao.requests("register") == 5)
            #expect(try await service.kakao.tokens(of: 3) == ["phone gcm other-3"])
            let changed = """
                devices
                WHERE user_id IN (3, 4)
                    AND failures = 0
                    AND updated_at BETWEEN now() - interval '60 minutes' AND now() - interval '58 minutes'
                    AND created_at < now() - interval '23 hours'
                """
            #expect(try await database.count(changed) == 2)
            #expect(try await database.count("devices WHERE tags = '{new}'") == 1)
            // A line with `expires_at` means that Kakao has this token already.
            let known = Self.line(1, "known", #"\#(Self.updated(minutesAgo: 1)),"expires_at":"2099-01-01T00:00:00Z""#)
            #expect(try await Self.importing(api, [known]) == "0 1 0 0")
            let state = "devices WHERE push_token = 'known' AND revision = kakao_revision AND expires_at > '2098-01-01'"
            #expect(try await database.count(state) == 1)
            #expect(service.kakao.requests("register") == 5)
        }
    }

    @Test(
        "A token that a newer line moves to another device is first withdrawn from its old device, also at Kakao"
    )
    func displaced() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            for user in Int64(1)...4 { _ = try await api.register(user, "token-\(user)") }
            try await database.pool.write("UPDATE devices SET updated_at = now() - interval '1 hour'")
            let lines = [
                Self.line(11, "token-1", Self.updated(minutesAgo: 10)),
                Self.line(12, "token-2", #"\#(Self.updated(minutesAgo: 10)),\#(Self.never)"#),
                // Two devices that have swapped tokens.
                Self.line(3, "token-4", Self.updated(minutesAgo: 10)),
                Self.line(4, "token-3", Self.updated(minutesAgo: 10)),
                // A device that has a new token after losing its old one.
                Self.line(1, "token-5", Self.updated(minutesAgo: 9)),
            ]
            #expect(try await Self.importing(api, lines) == "2 3 0 1")
            let expected = [
                "1 phone token-5", "3 phone token-4", "4 phone token-3", "11 phone token-1", "12 phone token-2",
            ]
            #expect(try await Self.live(database) == expected)
            try await Self.settled(database)
            #expect(try await database.count("devices") == 5)
            #expect(try await service.kakao.tokens(of: 11) == ["phone gcm token-1"])
            #expect(try await service.kakao.tokens(of: 2).isEmpty)
            #expect(try await service.kakao.tokens(of: 12).isEmpty)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm token-5"])
            let digest = try await Self.digest(database)
            #expect(try await Self.importing(api, lines) == "0 0 5 0")
            #expect(try await Self.digest(database) == digest)
        }
    }

    @Test("Of several lines for one device or token, near or far apart in a file, the newest counts")
    func sameInFile() async throws {
        try await withService { service in
            let filler = (1...2500).map { Self.line($0 + 100, "filler-\($0)", Self.never) }
            let (older, newer) = (Self.updated(minutesAgo: 20), Self.updated(minutesAgo: 10))
            func lines(_ user: Int) -> [String] {
                [
                    Self.line(user, "a-\(user)", "\(older),\(Self.never)"),
                    Self.line(user, "b-\(user)", "\(newer),\(Self.never)"),
                    // One token for two users.
                    Self.line(user + 10, "c-\(user)", "\(older),\(Self.never)"),
                    Self.line(user + 20, "c-\(user)", "\(newer),\(Self.never)"),
                ]
            }
            let file =
                lines(1) + lines(2).reversed() + [lines(3)[0], lines(3)[2], lines(4)[1], lines(4)[3]] + filler + [
                    lines(3)[1], lines(3)[3], lines(4)[0], lines(4)[2],
                ]
            let answer = try await Self.send(service.api, file)
            #expect(answer.json?["lines"]?.integer == Int64(file.count))
            let live = try await Self.live(service.database).filter { !$0.contains("filler") }
            #expect(
                live == (1...4).map { "\($0) phone b-\($0)" } + (21...24).map { "\($0) phone c-\($0 - 20)" }
            )
        }
    }

    @Test("A withdrawn device is restored only by a line that is newer than its withdrawal")
    func withdrawn() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            for user in Int64(1)...4 { _ = try await api.register(user, "token-\(user)") }
            service.kakao.fail("*", .down)
            for user in Int64(1)...4 { #expect(try await api.deregister(user).isPending) }
            try await database.pool.write("UPDATE devices SET updated_at = now() - interval '1 hour'")
            let lines = [
                Self.line(1, "token-1", Self.updated(minutesAgo: 61)), Self.line(2, "token-2", Self.never),
                Self.line(3, "token-3", Self.updated(minutesAgo: 59)),
                // The phone was deregistered after this line was written.
                Self.line(5, "token-4", Self.updated(minutesAgo: 61)),
            ]
            #expect(try await Self.importing(api, lines) == "0 1 3 0")
            #expect(try await Self.live(database) == ["3 phone token-3"])
            service.kakao.sandbox.removeFaults()
            try await Self.settled(database)
            #expect(try await database.count("devices") == 1)
            #expect(try await service.kakao.tokens(of: 3) == ["phone gcm token-3"])
            #expect(try await service.kakao.tokens(of: 1).isEmpty)
        }
    }

    @Test("A line does not restore a token that has failed since, but it does add another token")
    func failed() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            for user in Int64(1)...2 { _ = try await api.register(user, "token-\(user)") }
            service.kakao.fail("*", .down)
            try await database.pool.write(
                """
                UPDATE devices
                SET updated_at = now() - interval '1 hour',
                    failures = 3,
                    last_failure_at = now() - interval '10 minutes',
                    withdrawn = true,
                    revision = 2
                """
            )
            let lines = [
                Self.line(1, "token-1", Self.updated(minutesAgo: 30)),
                Self.line(2, "new-2", Self.updated(minutesAgo: 30)),
            ]
            #expect(try await Self.importing(api, lines) == "0 1 1 0")
            #expect(try await Self.live(database) == ["2 phone new-2"])
        }
    }

    @Test("An import that changes a device during a call to Kakao causes a second call")
    func leased() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            let hold = service.kakao.hold("register", times: 2)
            async let first = api.register(1, "first").text
            async let second = api.register(2, "second").text
            try await eventually("the calls to Kakao are in flight") { service.kakao.requests("register") == 2 }
            try await database.pool.write("UPDATE devices SET updated_at = now() - interval '1 hour'")
            let lines = [
                Self.line(1, "newer", "\(Self.updated(minutesAgo: 1)),\(Self.never)"),
                Self.line(3, "second", "\(Self.updated(minutesAgo: 1)),\(Self.never)"),
            ]
            #expect(try await Self.importing(api, lines) == "1 1 0 1")
            #expect(try await database.count("devices WHERE lease IS NOT NULL") == 2)
            service.kakao.release(hold)
            #expect(try await [first, second] == ["30", "30"])
            try await Self.settled(database)
            #expect(try await service.kakao.tokens(of: 1) == ["phone gcm newer"])
            #expect(try await service.kakao.tokens(of: 2).isEmpty)
            #expect(try await Self.live(database) == ["1 phone newer", "3 phone second"])
        }
    }

    @Test("A registration in a transaction that overlaps an import keeps its token")
    func overlapping() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            _ = try await api.register(2, "own")
            var registration: Task<String, any Error>?
            try await database.pool.withTransaction { transaction in
                // Blocks the registration after its search for other devices with the token, and before its commit.
                try await transaction.query("SELECT FROM devices WHERE user_id = 2 FOR UPDATE")
                registration = Task { try await api.register(2, "shared").text }
                try await transaction.execute(script: DeviceTests.waitUntilAwaited)
                let line = Self.line(1, "shared", "\(Self.updated(minutesAgo: 1)),\(Self.never)")
                #expect(try await Self.importing(api, [line]) == "1 0 0 0")
            }
            let response = try await registration?.value
            #expect(response == "30")
            try await eventually("one device has the token") { try await Self.live(database) == ["2 phone shared"] }
            try await Self.settled(database)
            #expect(try await service.kakao.tokens(of: 2) == ["phone gcm shared"])
        }
    }

    @Test("A device that an app registers for the first time during its step stays as the app registered it")
    func registeredMeanwhile() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            var imported: Task<String, any Error>?
            try await database.pool.withTransaction { transaction in
                try await transaction.query(
                    """
                    INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
                    VALUES (2, 'phone', 'fcm', 'own', 1)
                    """
                )
                let lines = (1...3).map {
                    Self.line($0, "token-\($0)", "\(Self.updated(minutesAgo: 1)),\(Self.never)")
                }
                imported = Task { try await Self.importing(api, lines) }
                try await transaction.execute(script: DeviceTests.waitUntilAwaited)
            }
            #expect(try await imported?.value == "2 0 1 0")
            #expect(try await Self.live(database) == ["1 phone token-1", "2 phone own", "3 phone token-3"])
        }
    }

    @Test("If a race left one token on several devices, an import of the token leaves it on one")
    func contested() async throws {
        try await withService { service in
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, updated_at)
                SELECT id, 'phone', 'fcm', 'shared', 1, now() - make_interval(mins => id)
                FROM generate_series(1, 3) AS id
                """
            )
            #expect(try await Self.importing(service.api, [Self.line(3, "shared", Self.never)]) == "0 0 1 2")
            #expect(try await Self.live(service.database) == ["1 phone shared"])
        }
    }

    @Test("An import yields to a transaction that locks a row for long, and continues afterwards")
    func givesWay() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            for user in Int64(1)...2 { _ = try await api.register(user, "token-\(user)") }
            try await database.pool.write("UPDATE devices SET updated_at = now() - interval '1 hour'")
            let lines = (1...2).map { Self.line($0, "new-\($0)", "\(Self.updated(minutesAgo: 1)),\(Self.never)") }
            var imported: Task<String, any Error>?
            try await database.pool.withTransaction { transaction in
                try await transaction.query("SELECT FROM devices WHERE user_id = 2 FOR UPDATE")
                imported = Task { try await Self.importing(api, lines) }
                try await transaction.execute(script: DeviceTests.waitUntilAwaited)
                // The import has locked this row, because it proceeds by key. One transaction must yield, and it is not
                // this one.
                try await transaction.query("UPDATE devices SET locale = 'ko' WHERE user_id = 1")
            }
            #expect(try await imported?.value == "0 2 0 0")
            #expect(try await Self.live(database) == ["1 phone new-1", "2 phone new-2"])
        }
    }

    // MARK: Uploads

    @Test("The problem of invalid lines names each reason once, with its lines")
    func reasons() throws {
        let lines = [(1, "no JSON"), (3, "no user"), (4, "no JSON"), (9, "no JSON")].map { number, reason in
            DeviceLines.BadLine(number: Int64(number), reason: reason)
        }
        let problem = DeviceTransferRoutes.badLines(lines)
        #expect(
            problem.detail
                == "Nothing was changed. The first invalid lines: lines 1, 4, 9: no JSON; line 3: no user."
        )
        #expect(problem.members["lines"] == [1, 3, 4, 9])
        #expect(
            problem.members["reasons"]
                == [["reason": "no JSON", "lines": [1, 4, 9]], ["reason": "no user", "lines": [3]]]
        )
    }

    @Test("Invalid lines are reported by number and reason, and no line is imported")
    func badLines() async throws {
        try await withService { service in
            let api = service.api
            let lines = [Self.line(1, "a"), "", "{", Self.line(2, "b"), Self.line(0, "secret-token")]
            let answer = try await Self.send(api, lines)
            #expect(answer.status == 400)
            #expect(answer.json?["type"]?.string?.hasSuffix(":invalid-lines") == true)
            #expect(answer.json?["lines"] == [3, 5])
            #expect(
                answer.json?["reasons"]?[1]
                    == ["reason": "user_id must be an integer from 1 to 9223372036854775807", "lines": [5]]
            )
            #expect(answer.json?["detail"]?.string?.contains("line 5: user_id must be") == true)
            #expect(!answer.text.contains("secret-token"))
            // An invalid line after many valid ones, some of which PostgreSQL has received already.
            let many = (1...5000).map { Self.line($0, "token-\($0)") } + ["x"]
            #expect(try await Self.send(api, many).json?["lines"] == [5001])
            let csv = try await api.post("/v1/devices/import", Array("1,phone,fcm,token\n".utf8), type: "text/csv")
            #expect(csv.json?["lines"] == [1])
            #expect(try await service.database.count("devices") == 0)
            for type in [nil, "application/json", "text/plain", "application/x-www-form-urlencoded"] {
                let body = Array(Self.line(1, "a").utf8)
                #expect(try await api.post("/v1/devices/import", body, type: type).status == 415)
            }
            #expect(try await Self.importing(api, []) == "0 0 0 0")
            #expect(try await Self.importing(api, [Self.line(1, "a", Self.never)]) == "1 0 0 0")
        }
    }

    /// Begins an import whose body the test sends itself.
    private static func upload(_ api: TestClient, length: Int) throws -> RawUpload {
        try RawUpload(api, "/v1/devices/import", length: length, method: "POST", type: ndjson)
    }

    /// Waits until `count` imports are in their `COPY`.
    private static func isUnderWay(_ service: TestService, _ count: Int64) async throws {
        try await eventually("\(count) imports are in progress") {
            try await service.database.integer(
                """
                SELECT count(*)
                FROM pg_stat_activity
                WHERE datname = current_database()
                    AND state = 'active'
                    AND query LIKE 'COPY device_import%'
                """
            ) == count
        }
    }

    @Test("A client that disconnects during an import imports nothing, and its slot becomes free")
    func interrupted() async throws {
        try await withService { service in
            let body = Array((1...5000).map { Self.line($0, "token-\($0)") + "\n" }.joined().utf8)
            for _ in 0..<3 {
                let upload = try Self.upload(service.api, length: 1 << 30)
                try upload.send(body)
                try await Self.isUnderWay(service, 1)
                upload.abandon()
                // Until the slot is free, the response is 503 whatever the lines are.
                try await eventually("a slot is free") { try await Self.send(service.api, ["x"]).status == 400 }
            }
            #expect(try await service.database.count("devices") == 0)
        }
    }

    @Test("A server accepts one import at a time, and rejects one with too many invalid lines before its end")
    func places() async throws {
        try await withService { service in
            let body = Array(Self.line(1, "a", Self.never).utf8)
            let upload = try Self.upload(service.api, length: body.count)
            try upload.send([body[0]])
            try await Self.isUnderWay(service, 1)
            let second = try await Self.send(service.api, [Self.line(2, "b")])
            #expect(second.status == 503)
            #expect(second.json?["type"]?.string?.hasSuffix(":too-many-uploads") == true)
            #expect(second.headerFields[.retryAfter] != nil)
            try upload.send(Array(body.dropFirst()))
            #expect(try await upload.answer().contains(#"{"lines":1,"created":1,"#))

            let hopeless = try Self.upload(service.api, length: 1 << 40)
            try hopeless.send(Array(String(repeating: "x\n", count: 20).utf8))
            let answer = try await hopeless.answer()
            #expect(answer.hasPrefix("HTTP/1.1 400 "))
            #expect(answer.contains(#""lines":[1,2,3,4,5,6,7,8,9,10]"#))
        }
    }

    @Test("If the database fails during an import, the response is 503 and nothing is imported")
    func databaseLost() async throws {
        try await withService { service in
            let body = Array(Self.line(1, "a", Self.never).utf8)
            let upload = try Self.upload(service.api, length: body.count)
            try upload.send(Array(body.dropLast()))
            try await Self.isUnderWay(service, 1)
            try await service.database.pool.write(
                """
                SELECT pg_terminate_backend(pid)
                FROM pg_stat_activity
                WHERE datname = current_database()
                    AND query LIKE 'COPY device_import%'
                """
            )
            try upload.send(body.suffix(1))
            let answer = try await upload.answer()
            #expect(answer.hasPrefix("HTTP/1.1 503 "))
            #expect(try await service.database.count("devices") == 0)
            try await eventually("the database works again") {
                try await Self.importing(service.api, [Self.line(1, "a", Self.never)]) == "1 0 0 0"
            }
        }
    }

    // MARK: Large

    @Test("An import of many lines loses no concurrent registration of the same devices and tokens")
    func large() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            let count = 10_000
            let time = Self.updated(minutesAgo: 5)
            let file = "\(try TemporaryFolder.make())/devices.ndjson"
            let body = (1...count).map { Self.line($0, "token-\($0)", "\(time),\(Self.never)") + "\n" }.joined()
            try writeFile(Array(body.utf8), to: file)
            // Half of the users exist already, with another token.
            try await database.addPhones((1...Int64(count)).filter { $0 % 2 == 0 })
            try await database.pool.write(
                "UPDATE devices SET push_token = 'old-' || user_id, updated_at = now() - interval '1 hour'"
            )
            let imported = Task {
                try await curl([
                    "--data-binary", "@\(file)", "-H", "Content-Type: \(Self.ndjson)", "-H", "Expect:",
                    "\(api.url)/v1/devices/import",
                ])
            }
            // Registers users' devices with new tokens, and next users' tokens for other devices, all over the file.
            var registered = 0
            var isOver = false
            let ending = Task { _ = try await imported.value }
            while !isOver, registered < 300 {
                let user = Int64(1 + registered * 331 % count)
                async let own = api.register(user, "app-\(user)").status
                async let others = api.register(user + 1_000_000, "token-\(user + 1)").status
                let statuses = try await [own, others]
                #expect(statuses == [200, 200])
                registered += 1
                isOver = try await database.count("devices WHERE user_id = \(count)") > 0 && registered >= 50
            }
            try await ending.value
            let answer = try await imported.value
            #expect(answer.status == "200", "\(answer.body)")
            let json = try JSONValue(parsing: answer.body)
            #expect(json["lines"]?.integer == Int64(count))
            try await eventually("no call to Kakao is pending", within: .seconds(60)) {
                try await database.count("devices WHERE kakao_revision < revision") == 0
            }
            // A registered device has its registered token.
            let users = (0..<registered).map { 1 + $0 * 331 % count }
            var expected: [Int64: String] = [:]
            for user in 1...count { expected[Int64(user)] = "token-\(user)" }
            for user in users {
                expected[Int64(user)] = "app-\(user)"
                // The next user has lost the token, unless that user has registered a new one.
                if !users.contains(user + 1) { expected[Int64(user + 1)] = nil }
                expected[Int64(user) + 1_000_000] = "token-\(user + 1)"
            }
            let rows = try await database.pool.read("SELECT user_id, push_token FROM devices WHERE NOT withdrawn")
            var live: [Int64: String] = [:]
            for row in rows {
                let (user, token) = try row.decode(Int64.self, String.self)
                live[user] = token
            }
            #expect(live.count == rows.count)
            // A device whose new token was taken before its line was imported keeps its old token.
            #expect(live.filter { expected[$0.key] != $0.value && $0.value != "old-\($0.key)" }.isEmpty)
            #expect(expected.filter { live[$0.key] != $0.value }.isEmpty)
            let shared = "(SELECT push_token FROM devices GROUP BY push_token HAVING count(*) > 1) AS shared"
            #expect(try await database.count(shared) == 0)
        }
    }

    /// Returns the first 40 bytes of each line. `memchr` finds them, since `split` takes seconds for 30 MB without
    /// optimization.
    private static func lines(of text: [UInt8]) -> [String] {
        text.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return [] }
            var lines: [String] = []
            var position = 0
            while let end = memchr(start + position, 0x0A, bytes.count - position) {
                let next = UnsafeRawPointer(end) - start + 1
                lines.append(String(decoding: bytes[position..<min(next, position + 40)], as: UTF8.self))
                position = next
            }
            return lines
        }
    }

    @Test("An export to a slow client waits, and is complete")
    func slowReader() async throws {
        try await withService { service in
            let count = 8000
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
                SELECT id, 'phone', 'fcm', repeat('x', 4000) || id, 1
                FROM generate_series(1, \(count)) AS id
                """
            )
            let reader = try RawUpload(
                service.api,
                "/v1/devices/export?format=csv&reason=Test",
                length: 0,
                method: "GET"
            )
            var text = await reader.receive(1000) ?? []
            // More than 30 MB are missing, far more than fits into the sockets, so the server cannot have read the
            // whole table.
            #expect(try await service.api.register(.max, "last").status == 200)
            while let piece = await reader.receive(1 << 16) { text += piece }
            let lines = Self.lines(of: text).filter { $0.contains(",phone,fcm,") }
            #expect(lines.count == count + 1)
            #expect(lines.last?.hasPrefix("9223372036854775807,phone,fcm,last,") == true)
            let users = lines.compactMap { $0.split(separator: ",").first.flatMap { Int64($0) } }
            #expect(users == (1...Int64(count)) + [.max])
        }
    }
}
