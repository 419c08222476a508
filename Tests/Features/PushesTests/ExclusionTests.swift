import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes

/// Tests of `except`: the users whom a push leaves out.
@Suite(.timeLimit(.minutes(5))) struct ExclusionTests {
    private static func id(_ push: String) -> JSONValue {
        .string(push.split(separator: "/").last.map(String.init) ?? "")
    }

    private static func store(_ users: some Sequence<Int64>, as name: String, _ service: TestService) async throws {
        let lines = users.map { "\($0)\n" }.joined()
        let status = try await service.api.put("/v1/audiences/\(name)", Array(lines.utf8)).status
        #expect([200, 201].contains(status))
    }

    private static func tag(_ users: String, _ tag: String, _ service: TestService) async throws {
        try await service.database.pool.write("UPDATE devices SET tags = '{\(tag)}' WHERE \(users)")
    }

    /// Returns the users whom the pushes with a marker have reached. Fails if one was reached twice.
    private static func reached(_ users: some Sequence<Int64>, _ marker: String, _ service: TestService) -> Set<Int64> {
        let times = users.map { ($0, service.kakao.sandbox.timesReached($0, marker: marker)) }
        #expect(times.allSatisfy { $0.1 <= 1 })
        return Set(times.filter { $0.1 > 0 }.map(\.0))
    }

    /// Makes the servers look for pushes to prepare, as any new push does.
    private static func nudge(_ service: TestService) async throws {
        try await service.api.waitUntilDone(try await service.api.create(uuids([1]), gcm("nudge")))
    }

    /// Lets the time pass in which a push that has ended may still have claims that are not committed.
    private static func letTimePass(_ service: TestService) async throws {
        try await service.database.pool.write(
            """
            UPDATE pushes
            SET finished_at = finished_at - interval '11 s',
                expires_at = CASE WHEN expires_at < now() THEN expires_at - interval '11 s' ELSE expires_at END
            """
        )
        try await nudge(service)
    }

    // MARK: Who is left out

    @Test(
        "Users with a tag, of a stored audience and of an earlier push are left out of an audience of any kind",
        arguments: ["everyone", "tags_any", "tags_all", "audience", "uuids", "uuids of one batch"]
    )
    func leftOut(kind: String) async throws {
        try await withService { service in
            // The preparation reads a thousand users first, and then many more: three pages of different sizes.
            let users = (1...(kind == "uuids of one batch" ? 60 : 2600)).map { Int64($0 * 3) } + [Int64.max - 1]
            try await service.database.addPhones(users)
            try await Self.tag("true", "all", service)
            try await Self.tag("user_id % 5 = 0", "all,vip", service)
            try await Self.store(users, as: "all", service)
            // Most users of this audience do not belong to the push.
            let stored = (1...9000).filter { $0.isMultiple(of: 7) }.map { Int64($0) }
            try await Self.store(stored, as: "sevens", service)
            let earlier = users.filter { $0.isMultiple(of: 11) || $0 == .max - 1 }
            let first = try await service.api.create(uuids(earlier), gcm("first"))
            try await service.api.waitUntilDone(first)

            let audience: JSONValue =
                switch kind {
                case "everyone": ["everyone": true]
                case "tags_any": ["tags_any": ["all", "other"]]
                case "tags_all": ["tags_all": ["all"]]
                case "audience": ["audience": "all"]
                default: uuids(users)
                }
            let except: JSONValue = ["pushes": [Self.id(first)], "audience": "sevens", "tags_any": ["vip"]]
            let expected = users.filter { id in
                !id.isMultiple(of: 5) && !(id.isMultiple(of: 7) && id <= 9000) && !earlier.contains(id)
            }
            let dry = try await service.api.post(
                "/v1/pushes",
                json: pushBody(audience, gcm(), ["except": except, "dry_run": true])
            )
            #expect(
                dry.json?["users"] == [
                    "total": .integer(expected.count), "skipped": 0, "excluded": .integer(users.count - expected.count),
                    "without_consent": 0,
                ]
            )
            let push = try await service.api.create(audience, gcm("second"), ["except": except])
            try await service.api.waitUntilDone(push)
            #expect(Self.reached(users, "second", service) == Set(expected))
            let shown = try await service.api.shown(push)
            #expect(shown["users"] == counts(expected.count, sent: expected.count))
            #expect(shown["except"] == except)
            // Without an exclusion nobody is left out.
            #expect(try await service.api.shown(first)["except"] == .null)
        }
    }

    @Test("Many parts of a large audience and of a large push are read for a page whose users lie far apart")
    func farApart() async throws {
        try await withService { service in
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
                SELECT id, 'phone', 'fcm', 'token-' || id, 1 FROM generate_series(1, 120000) AS id
                """
            )
            // Each has more parts than are read at a time.
            let even = (1...60_000).map { Int64($0 * 2) }
            try await Self.store(even, as: "even", service)
            let first = try await service.api.create(["audience": "even"], gcm("first"))
            try await service.api.waitUntilDone(first)
            try await service.database.pool.write(
                """
                WITH old AS (DELETE FROM push_parts RETURNING *)
                INSERT INTO push_parts
                SELECT push_id, number + place, batch_users, 1, 1,
                    substring(ids FROM id_bytes * batch_users * place + 1 FOR id_bytes * batch_users), id_bytes, created_at
                FROM old CROSS JOIN LATERAL generate_series(0, batches - 1) AS place
                """
            )
            let few = (1...1200).map { Int64($0 * 99) }
            for (marker, except) in [("audience", ["audience": "even"]), ("push", ["pushes": [Self.id(first)]])]
                as [(String, JSONValue)]
            {
                let push = try await service.api.create(uuids(few), gcm(marker), ["except": except])
                try await service.api.waitUntilDone(push)
                #expect(Self.reached(few, marker, service) == Set(few.filter { !$0.isMultiple(of: 2) }), "\(marker)")
            }
        }
    }

    @Test(
        "After a push was canceled half-way, a push except this one reaches exactly the others",
        arguments: [3000, 90]
    )
    func canceled(count: Int64) async throws {
        try await withService { service in
            try await service.database.addPhones(1...count)
            let rate: JSONObject = ["users_per_second": count == 90 ? 30 : 1000]
            let first = try await service.api.create(uuids(1...count), gcm("m"), rate)
            try await eventually("some are sent") {
                (try await service.api.users(first)?["sent"]?.integer ?? 0) >= count / 10
            }
            #expect(try await service.api.control(first, "cancel") == 200)
            try await eventually("no batch is in flight") {
                let claims = try await service.database.count("push_claims WHERE lease IS NOT NULL")
                let batches = try await service.database.count("push_batches WHERE state = 'sending'")
                return claims + batches == 0
            }
            let sent = try #require(try await service.api.users(first)?["sent"]?.integer)
            #expect(sent < count)
            let second = try await service.api.create(
                ["everyone": true],
                gcm("m"),
                ["except": ["pushes": [Self.id(first)]]]
            )
            #expect(try await service.api.shown(second)["waits_for"] == [Self.id(first)])
            try await Self.letTimePass(service)
            try await service.api.waitUntilDone(second)
            #expect(try await service.api.shown(second)["waits_for"] == [])
            #expect(try await service.api.users(second) == counts(Int(count - sent), sent: Int(count - sent)))
            #expect(service.kakao.reachedOnce(1...count))
        }
    }

    @Test("Users whom Kakao rejected are not left out; users who may have been reached are", arguments: [300, 80])
    func outcomes(count: Int64) async throws {
        try await withService { service in
            try await service.database.addPhones(1...count)
            // Of a rejected batch, all but the rejected users are sent.
            service.kakao.fail("send", status: 400, code: -2) { $0.userIDs = [10, 70] }
            let first = try await service.api.create(count == 80 ? uuids(1...80) : ["everyone": true], gcm("first"))
            try await service.api.waitUntilDone(first)
            #expect(try await service.api.users(first)?["failed"] == 2)
            service.kakao.sandbox.removeFaults()
            let second = try await service.api.create(
                ["everyone": true],
                gcm("m"),
                ["except": ["pushes": [Self.id(first)]]]
            )
            try await service.api.waitUntilDone(second)
            #expect(Self.reached(1...count, "m", service) == [10, 70])

            let failed = "state = 'failed'"
            try await service.database.pool.write(
                "UPDATE push_batches SET may_repeat = true WHERE \(failed) AND 10 = ANY (user_ids)"
            )
            let third = try await service.api.create(
                ["everyone": true],
                gcm("t"),
                ["except": ["pushes": [Self.id(first)]]]
            )
            try await service.api.waitUntilDone(third)
            #expect(Self.reached(1...count, "t", service) == [70])
        }
    }

    // MARK: What a push needs of others

    @Test("A push waits until the pushes that it leaves out are prepared, or have ended")
    func waits() async throws {
        try await withService { service in
            try await service.database.addPhones(1...10)
            let later: JSONObject = ["send_at": "2099-01-01T00:00:00Z"]
            /// Creates a push except another one, both scheduled, and makes it due.
            func create(_ marker: String, except push: String) async throws -> String {
                var more = later
                more["except"] = ["pushes": [Self.id(push)]]
                let created = try await service.api.create(["everyone": true], gcm(marker), more)
                try await service.database.pool.write(
                    "UPDATE pushes SET send_at = now() WHERE state = 'scheduled' AND exclusion IS NOT NULL"
                )
                try await Self.nudge(service)
                #expect(try await service.api.shown(created)["waits_for"] == [Self.id(push)])
                #expect(try await service.api.state(created) == "scheduled")
                return created
            }
            let first = try await service.api.create(uuids(1...4), gcm("first"), later)
            let second = try await create("second", except: first)
            try await service.database.pool.write("UPDATE pushes SET send_at = now() WHERE state = 'scheduled'")
            try await Self.nudge(service)
            for push in [first, second] { try await service.api.waitUntilDone(push) }
            #expect(Self.reached(1...10, "second", service) == Set(5...10))

            let never = try await service.api.create(uuids(1...4), gcm("never"), later)
            let third = try await create("third", except: never)
            #expect(try await service.api.control(never, "cancel") == 200)
            try await Self.letTimePass(service)
            try await service.api.waitUntilDone(third)
            #expect(Self.reached(1...10, "third", service) == Set(1...10))

            // This one would wait until 2099.
            let last = try await service.api.create(uuids(1...4), gcm("last"), later)
            let body = pushBody(["everyone": true], gcm(), ["except": ["pushes": [Self.id(last)]]])
            #expect(try await service.api.post("/v1/pushes", json: body).field == "except.pushes")
        }
    }

    @Test(
        "The users to leave out are kept while a push is scheduled: of an audience, as they were; of a push, beyond retention"
    )
    func kept() async throws {
        try await withService { service in
            try await service.database.addPhones(1...10)
            try await Self.store(1...3, as: "some", service)
            let first = try await service.api.create(uuids(4...5), gcm("first"))
            try await service.api.waitUntilDone(first)
            try await service.database.pool.write("UPDATE pushes SET finished_at = now() - interval '99 days'")
            let except: JSONValue = ["audience": "some", "pushes": [Self.id(first)]]
            let more: JSONObject = ["except": except, "send_at": "2099-01-01T00:00:00Z"]
            let second = try await service.api.create(["everyone": true], gcm(), more)
            try await Self.store([9], as: "some", service)
            let pool = service.database.pool
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 0)
            #expect(try await HousekeepingStore(pool: pool).expiredPush(retentionDays: 30) == nil)
            try await pool.write("UPDATE pushes SET send_at = now() WHERE state = 'scheduled'")
            try await Self.nudge(service)
            try await service.api.waitUntilDone(second)
            #expect(Self.reached(1...10, "m", service) == Set(6...10))
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 1)
            #expect(
                try await HousekeepingStore(pool: pool).expiredPush(retentionDays: 30)?.lowercased.description
                    == Self.id(first).string
            )

            // From now on the push is being deleted.
            let answer = try await service.api.post(
                "/v1/pushes",
                json: pushBody(["everyone": true], gcm(), ["except": ["pushes": [Self.id(first)]]])
            )
            #expect(answer.field == "except.pushes")
        }
    }

    @Test("A push whose exclusion names a push that is deleted meanwhile is not sent, and says why")
    func deleted() async throws {
        try await withService { service in
            try await service.database.addPhones(1...10)
            let first = try await service.api.create(uuids(4...5), gcm("first"))
            try await service.api.waitUntilDone(first)
            let more: JSONObject = ["except": ["pushes": [Self.id(first)]], "send_at": "2099-01-01T00:00:00Z"]
            let second = try await service.api.create(["everyone": true], gcm(), more)
            try await service.database.pool.write("UPDATE pushes SET removed_at = now() WHERE state = 'done'")
            try await service.database.pool.write("UPDATE pushes SET send_at = now() WHERE state = 'scheduled'")
            try await Self.nudge(service)
            try await service.api.waitFor("halted", second)
            #expect(try await service.api.shown(second)["reason"]?.string?.contains("has been deleted") == true)
            #expect(Self.reached(1...10, "m", service) == [])
        }
    }

    @Test(
        "Requests in flight at the end of an excluded push count only once their outcome is known",
        arguments: [300, 80]
    )
    func inFlight(count: Int64) async throws {
        try await withService { service in
            try await service.database.addPhones(1...count)
            // Kakao answers late, and rejects each request for now.
            let hold = service.kakao.hold("send")
            service.kakao.fail("send", status: 503, code: -9798)
            let audience: JSONValue = count == 80 ? uuids(1...80) : ["everyone": true]
            let first = try await service.api.create(audience, gcm("m"))
            try await eventually("a request is in flight") { service.kakao.requests("send") > 0 }
            #expect(try await service.api.control(first, "cancel") == 200)
            let second = try await service.api.create(
                ["everyone": true],
                gcm("m"),
                ["except": ["pushes": [Self.id(first)]]]
            )
            try await service.database.pool.write("UPDATE pushes SET finished_at = finished_at - interval '11 s'")
            service.kakao.release(hold)
            try await eventually("no request is in flight") {
                let claims = try await service.database.count("push_claims WHERE lease IS NOT NULL")
                let batches = try await service.database.count("push_batches WHERE state = 'sending'")
                return claims + batches == 0
            }
            service.kakao.sandbox.removeFaults()
            try await Self.nudge(service)
            try await service.api.waitUntilDone(second)
            #expect(try await service.api.users(second) == counts(Int(count), sent: Int(count)))
            #expect(service.kakao.reachedOnce(1...count))
        }
    }

    @Test(
        "What an excluded push has not sent before its expires_at is not left out, although it is not marked as expired"
    )
    func expired() async throws {
        try await withService { service in
            try await service.database.addPhones(1...300)
            let first = try await service.api.create(["everyone": true], gcm("m"), ["send_at": time(in: 3600)])
            let small = try await service.api.create(uuids(1...50), gcm("m"), ["send_at": time(in: 3600)])
            for push in [first, small] { #expect(try await service.api.control(push, "pause") == 200) }
            try await service.database.pool.write("UPDATE pushes SET expires_at = now() - interval '11 s'")
            let second = try await service.api.create(
                ["everyone": true],
                gcm("m"),
                ["except": ["pushes": [Self.id(first), Self.id(small)]]]
            )
            try await service.api.waitUntilDone(second)
            #expect(service.kakao.reachedOnce(1...300))
        }
    }

    @Test("Failed users of an excluded push whom a retry is about to reach are left out", arguments: [300, 80])
    func retried(count: Int64) async throws {
        try await withService { service in
            try await service.database.addPhones(1...count)
            service.kakao.fail("send", status: 403, code: -4)
            let first = try await service.api.create(count == 80 ? uuids(1...80) : ["everyone": true], gcm("first"))
            try await service.api.waitUntilDone(first)
            #expect(try await service.api.users(first)?["failed"] == .integer(Int(count)))
            service.kakao.sandbox.removeFaults()
            // The state between the steps of a retry.
            try await service.database.pool.write(
                "UPDATE pushes SET state = 'paused', finished_at = NULL, retry_position = 0, retry_end = next_number"
            )
            let second = try await service.api.create(
                ["everyone": true],
                gcm("m"),
                ["except": ["pushes": [Self.id(first)]]]
            )
            try await service.api.waitUntilDone(second)
            #expect(try await service.api.users(second) == counts(0))
            #expect(try await service.api.control(first, "resume") == 200)
            try await service.api.waitUntilDone(first)
            #expect(Self.reached(1...count, "first", service) == Set(1...count))
        }
    }

    @Test("A push that waits for another one expires")
    func expiresWaiting() async throws {
        try await withService { service in
            try await service.database.addPhones(1...10)
            let first = try await service.api.create(uuids(1...4), gcm("first"), ["send_at": time(in: 3600)])
            let second = try await service.api.create(
                ["everyone": true],
                gcm("m"),
                ["except": ["pushes": [Self.id(first)]], "send_at": time(in: 3600), "expires_at": time(in: 7200)]
            )
            let dry = pushBody(
                ["everyone": true],
                gcm(),
                ["except": ["pushes": [Self.id(first)]], "send_at": time(in: 3600), "dry_run": true]
            )
            #expect(try await service.api.post("/v1/pushes", json: dry).json?["waits_for"] == [Self.id(first)])
            try await service.database.pool.write(
                "UPDATE pushes SET send_at = now(), expires_at = now() + interval '1 s' WHERE exclusion IS NOT NULL"
            )
            try await Self.nudge(service)
            try await service.api.waitFor("expired", second)
            #expect(Self.reached(1...10, "m", service) == [])
        }
    }

    // MARK: Requests

    @Test("Invalid exclusions name the field, in a dry run as well")
    func invalid() async throws {
        try await withSharedService { service in
            let unknown = UUID.v7().lowercased
            let many = JSONValue.array((0...10).map { _ in .string(unknown) })
            let exclusions: [(String, JSONValue)] = [
                ("except", [:]), ("except", "vip"), ("except", []), ("except", ["everyone": true]),
                ("except", ["tags_any": []]), ("except", ["tags_any": "vip"]), ("except", ["tags_all": ["a"]]),
                ("except", ["audience": "a b"]), ("except", ["pushes": ["1"]]), ("except", ["pushes": []]),
                ("except", ["pushes": many]), ("except", ["tags_any": ["a"], "pushes": .null]),
                ("except.audience", ["audience": "unknown"]), ("except.pushes", ["pushes": [.string(unknown)]]),
            ]
            for (field, exclusion) in exclusions {
                for isDry in [true, false] {
                    let more: JSONObject = [
                        "name": "invalid exclusion", "except": exclusion, "dry_run": .bool(isDry),
                    ]
                    let body = pushBody(["everyone": true], gcm(), more)
                    let answer = try await service.api.post("/v1/pushes", json: body)
                    #expect(answer.status == 400 && answer.field == field, "\(exclusion): \(answer.text)")
                }
            }
            #expect(try await service.database.count("pushes WHERE name = 'invalid exclusion'") == 0)
        }
    }

    @Test("A repeated request gets the first response, even if what it excludes has been deleted since")
    func repeated() async throws {
        try await withService { service in
            try await Self.store([1], as: "some", service)
            let api = service.api.with(idempotencyKey: "a")
            let body = pushBody(["everyone": true], gcm(), ["except": ["audience": "some"]])
            let first = try await api.post("/v1/pushes", json: body)
            #expect(first.status == 202)
            #expect(try await api.delete("/v1/audiences/some").status == 204)
            let second = try await api.post("/v1/pushes", json: body)
            #expect(second.status == 202 && second.text == first.text)
        }
    }
}
