import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Locking
import Postgres
import Runtime
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity
@testable import Pushes
@testable import Settings

/// Tests of the users whom pushes did not reach: which are stored and exported, with which cause.
@Suite(.timeLimit(.minutes(5))) struct UnreachedUserTests {
    private static func id(_ push: String) -> String { push.split(separator: "/").last.map(String.init) ?? "" }

    /// Exports users of a push and returns the lines below the head, without what is false or empty for all users of a state.
    private static func lines(
        _ push: String,
        _ state: String,
        cause: String? = nil,
        _ api: TestClient
    ) async throws -> [String] {
        var query = "state=\(state)&reason=Test"
        if let cause { query += "&cause=\(cause)" }
        let answer = try await api.get("\(push)/users?\(query)")
        try #require(answer.status == 200, "\(answer.text)")
        #expect(answer.headerFields[.contentType] == "text/csv;charset=UTF-8")
        let lines = answer.text.split(separator: "\r\n", omittingEmptySubsequences: false)
        #expect(lines.first == "user_id,cause,code,message,may_repeat" && lines.last == "")
        return lines.dropFirst().dropLast().map { $0.hasSuffix(",,,false") ? String($0.dropLast(8)) : String($0) }
    }

    private static func lines(_ users: some Sequence<Int64>, _ cause: String) -> [String] {
        users.map { "\($0),\(cause)" }
    }

    private static func unreached(_ push: String, _ api: TestClient) async throws -> JSONValue {
        try #require(try await api.shown(push)["unreached"])
    }

    /// Returns the member `unreached` of a push.
    private static func counts(
        _ push: String,
        noDevice: Int = 0,
        excluded: Int = 0,
        withoutConsent: Int = 0,
        failed: Int = 0,
        canceled: Int = 0,
        rejected: Int = 0,
        expired: Int = 0,
        night: Int = 0,
        uncertain: Int = 0,
        isComplete: Bool = true
    ) -> JSONValue {
        [
            "skipped": [
                "no_device": .integer(noDevice), "excluded": .integer(excluded),
                "without_consent": .integer(withoutConsent),
            ],
            "failed": .integer(failed),
            "unsent": [
                "canceled": .integer(canceled), "rejected": .integer(rejected), "expired": .integer(expired),
                "night": .integer(night),
            ],
            "uncertain": .integer(uncertain),
            "complete": .bool(isComplete), "path": .string("\(push)/users"),
        ]
    }

    /// Waits until no request of a push that was canceled or has expired is in flight, and lets the time pass in which a claim may still be
    /// stored.
    private static func settle(_ push: String, _ database: TestDatabase) async throws {
        try await eventually("nothing is in flight") {
            try await database.count("\(claimedBatches) WHERE state = 'sending'") == 0
        }
        try await database.pool.write(
            """
            UPDATE pushes
            SET finished_at = finished_at - interval '10 s', expires_at = expires_at - interval '10 s'
            WHERE id = '\(id(push))'
            """
        )
    }

    private static func store(_ users: some Sequence<Int64>, as name: String, _ api: TestClient) async throws {
        let lines = users.map { "\($0)\n" }.joined()
        #expect(try await api.put("/v1/audiences/\(name)", Array(lines.utf8)).status == 201)
    }

    // MARK: Skipped users

    @Test(
        "Each user of an audience of any kind is sent to or stored as skipped, with the first of the causes, over several steps",
        arguments: ["everyone", "tags_any", "tags_all", "audience", "audience of few", "uuids", "uuids of one batch"]
    )
    func skipped(kind: String) async throws {
        try await withService { service in
            let api = service.api
            // Ids of one to eight bytes, which a step of 1,000 users and larger ones read.
            let users = (1...(kind == "uuids of one batch" ? 60 : 2600)).map { Int64($0 * 3) } + [Int64.max - 1, .max]
            let isListed = !["everyone", "tags_any", "tags_all"].contains(kind)
            // Every fourth has an iPhone only, which the message does not address, and every seventh has none.
            let unknown = isListed ? users.filter { $0 % 7 == 0 } : []
            let phones = users.filter { !unknown.contains($0) && $0 % 4 != 0 }
            try await service.database.addPhones(phones)
            try await service.database.addPhones(users.filter { !unknown.contains($0) && $0 % 4 == 0 }, type: "apns")
            if kind == "audience of few" {
                // So many others lie between the users that their phones are looked up one by one.
                try await service.database.addPhones((1...30_000).map { Int64($0) }.filter { $0 > 7800 || $0 % 3 != 0 })
                try await Self.store((1...10).map { Int64($0) * 3000 + 1 }, as: "few", api)
            }
            try await service.database.pool.write("UPDATE devices SET tags = '{all}'")
            try await service.database.pool.write("UPDATE devices SET tags = '{all,staff}' WHERE user_id % 5 = 0")
            let audience: JSONValue
            switch kind {
            case "everyone": audience = ["everyone": true]
            case "tags_any": audience = ["tags_any": ["all", "other"]]
            case "tags_all": audience = ["tags_all": ["all"]]
            case "audience":
                try await Self.store(users, as: "a", api)
                audience = ["audience": "a"]
            case "audience of few":
                try await Self.store(users + [30_001], as: "a", api)
                audience = ["audience": "a"]
            default: audience = uuids(users)
            }
            let plain = try await api.create(audience, gcm("plain"))
            try await api.waitUntilDone(plain)
            var noDevice = users.filter { !phones.contains($0) }
            if kind == "audience of few" { noDevice = (noDevice + [30_001]).sorted() }
            #expect(try await Self.lines(plain, "skipped", api) == Self.lines(noDevice, "no_device"))
            #expect(try await Self.unreached(plain, api) == Self.counts(plain, noDevice: noDevice.count))
            #expect(try await api.users(plain)?["skipped"] == .integer(noDevice.count))

            // Of those who are left out, an iPhone is no other cause.
            let staff = users.filter { $0 % 5 == 0 && !unknown.contains($0) }
            let push = try await api.create(audience, gcm("left out"), ["except": ["tags_any": ["staff"]]])
            try await api.waitUntilDone(push)
            let rest = noDevice.filter { !staff.contains($0) }
            #expect(try await Self.lines(push, "skipped", api) == Self.lines(rest, "no_device"))
            #expect(try await Self.lines(push, "skipped", cause: "excluded", api) == Self.lines(staff, "excluded"))
            let all = Self.lines(staff, "excluded") + Self.lines(rest, "no_device")
            #expect(try await Self.lines(push, "skipped", cause: "no_device,excluded", api) == all)
            #expect(
                try await Self.unreached(push, api)
                    == Self.counts(push, noDevice: rest.count, excluded: staff.count)
            )
            // Nobody is both.
            let sent = Set(users.filter { service.kakao.sandbox.timesReached($0, marker: "left out") == 1 })
            #expect(sent.isDisjoint(with: staff + rest) && sent.union(staff + rest).isSuperset(of: users))
        }
    }

    @Test(
        "The users of earlier pushes and of an audience are left out for that cause, whether or not they have a device"
    )
    func excluded() async throws {
        try await withService { service in
            let api = service.api
            try await service.database.addPhones(1...2000)
            try await Self.store((1500...2600).map { Int64($0) }, as: "buyers", api)
            try await Self.store((1...3000).map { Int64($0) }, as: "all", api)
            let first = try await api.create(uuids(1...100), gcm("first"))
            try await api.waitUntilDone(first)
            let except: JSONValue = ["pushes": [.string(Self.id(first))], "audience": "buyers"]
            let push = try await api.create(["audience": "all"], gcm("second"), ["except": except])
            try await api.waitUntilDone(push)
            #expect(try await api.users(push)?["sent"] == 1399)
            let excluded = (1...100).map { Int64($0) } + (1500...2600).map { Int64($0) }
            #expect(try await Self.lines(push, "skipped", cause: "excluded", api) == Self.lines(excluded, "excluded"))
            #expect(try await Self.lines(push, "skipped", api) == Self.lines(2601...3000, "no_device"))
        }
    }

    @Test(
        "Of advertising, users without consent are exported only by name: also those without a device, unless their others have it"
    )
    func consent() async throws {
        try await withService {
            $0.pushes.advertisingTag = "ads"
            $0.pushes.advertisingHours = AdvertisingTests.open
        } _: { service in
            let api = service.api
            try await service.database.addPhones([1, 2, 7])
            try await service.database.addPhones([3, 4, 5], type: "apns")
            try await service.database.pool.write("UPDATE devices SET tags = '{ads}' WHERE user_id IN (1, 3, 5, 7)")
            try await service.database.pool.write("UPDATE devices SET tags = '{ads,staff}' WHERE user_id IN (5, 7)")
            let message: JSONValue = ["for_gcm": ["notification": ["body": "(광고) Sale"]]]
            let more: JSONObject = ["kind": "advertising", "except": ["tags_any": ["staff"]]]
            let push = try await api.create(uuids(1...7), message, more)
            try await api.waitUntilDone(push)
            #expect(try await api.users(push) == ServiceTesting.counts(5, sent: 1, skipped: 4))
            // 2 has no consent, 4 and 6 are not known to have it; 3 has it on the iPhone, which the message does not address.
            #expect(try await Self.lines(push, "skipped", api) == ["3,no_device"])
            #expect(
                try await Self.lines(push, "skipped", cause: "without_consent", api)
                    == Self.lines([2, 4, 6], "without_consent")
            )
            #expect(try await Self.lines(push, "skipped", cause: "excluded", api) == Self.lines([5, 7], "excluded"))
            #expect(
                try await Self.unreached(push, api) == Self.counts(push, noDevice: 1, excluded: 2, withoutConsent: 3)
            )
            // A dry run counts those who would be sent to otherwise.
            let dry = try await api.post(
                "/v1/pushes",
                json: pushBody(
                    uuids(1...7),
                    message,
                    ["kind": "advertising", "except": ["tags_any": ["staff"]], "dry_run": true]
                )
            )
            #expect(dry.json?["users"] == ["total": 5, "skipped": 4, "excluded": 1, "without_consent": 1])
        }
    }

    @Test("Lists of skipped users are read in pages, and the ids alone are an audience")
    func pages() async throws {
        try await withService { service in
            let api = service.api
            let users = (Int64(1)...13_000).map { $0 }
            try await service.database.addPhones(users.filter { $0 % 100 == 0 })
            try await Self.store(users, as: "a", api)
            let push = try await api.create(["audience": "a"])
            try await api.waitUntilDone(push)
            let skipped = users.filter { $0 % 100 != 0 }
            #expect(try await Self.lines(push, "skipped", api) == Self.lines(skipped, "no_device"))
            // The first step has one part of the audience, the next one the others: a list is longer than a page.
            #expect(try await service.database.count("push_skipped") == 2)
            let text = try await api.get("\(push)/users?state=skipped&format=text&reason=Test")
            #expect(text.headerFields[.contentType] == "text/plain;charset=UTF-8")
            #expect(text.text == skipped.map { "\($0)\n" }.joined())
            #expect(try await api.put("/v1/audiences/b", text.body).json?["users"] == .integer(skipped.count))
            var accepting = api
            accepting.headerFields[.accept] = "application/json, text/plain;q=0.5"
            #expect(try await accepting.get("\(push)/users?state=skipped&reason=Test").text == text.text)
            #expect(try await Self.lines(push, "skipped", cause: "excluded", api) == [])
            for state in ["failed", "uncertain", "unsent"] { #expect(try await Self.lines(push, state, api) == []) }
        }
    }

    @Test("A push whose message addresses all devices, or that goes to unknown users too, skips nobody")
    func nobody() async throws {
        try await withService { service in
            try await service.database.addPhones(1...3)
            for push in [
                try await service.api.create(uuids(1...3)),
                try await service.api.create(uuids(1...300), gcm(), ["skip_unknown": false]),
                try await service.api.push([8, 9]),
            ] {
                try await service.api.waitUntilDone(push)
                #expect(try await Self.lines(push, "skipped", service.api) == [])
                #expect(try await Self.unreached(push, service.api) == Self.counts(push))
            }
            #expect(try await service.database.count("push_skipped") == 0)
        }
    }

    // MARK: Failed users

    @Test(
        "Failed users have Kakao's code and words, or none if Kakao has not answered, and say if they may have been reached"
    )
    func failed() async throws {
        try await withService { service in
            let api = service.api
            try await service.database.addPhones(1...10)
            service.kakao.fail("send", .dropAfterBody, times: 1) { $0.isCarriedOut = true }
            service.kakao.fail("send", status: 404, code: -404) { $0.message = "words, \"quoted\"" }
            let push = try await api.create(uuids([1, 2]))
            try await api.waitUntilDone(push)
            let words = #""words, ""quoted""""#
            #expect(
                try await Self.lines(push, "failed", api)
                    == ["1,kakao_error,-404,\(words),true", "2,kakao_error,-404,\(words),true"]
            )
            let other = try await api.create(uuids([3, 11]))
            try await api.waitUntilDone(other)
            #expect(try await Self.lines(other, "failed", api) == ["3,kakao_error,-404,\(words),false"])
            #expect(try await Self.lines(other, "skipped", api) == ["11,no_device"])
            #expect(try await Self.unreached(other, api) == Self.counts(other, noDevice: 1, failed: 1))
            service.kakao.sandbox.removeFaults()
            service.kakao.fail("send", .dropAfterBody)
            let lost = try await api.create(uuids([4]), gcm(), ["delivery": "at_most_once"])
            try await api.waitUntilDone(lost)
            let uncertain = try await Self.lines(lost, "uncertain", api)
            #expect(uncertain.count == 1 && uncertain[0].hasPrefix("4,no_answer,,"), "\(uncertain)")
        }
    }

    @Test("The users of a split batch of a single-batch push are failed or sent, and others are skipped")
    func split() async throws {
        try await withService { service in
            try await service.database.addPhones(1...5)
            service.kakao.fail("send", status: 400, code: -2) {
                $0.userIDs = [3]
                $0.message = ""
            }
            let push = try await service.api.create(uuids([1, 2, 3, 4, 5, 6, 9]))
            try await service.api.waitUntilDone(push)
            #expect(try await Self.lines(push, "skipped", service.api) == Self.lines([6, 9], "no_device"))
            let failed = try await Self.lines(push, "failed", service.api)
            #expect(failed.count == 1 && failed[0].hasPrefix("3,kakao_error,-2,"), "\(failed)")
            #expect(try await service.database.count("push_skipped") == 0)
        }
    }

    // MARK: Users who were not sent to

    /// Creates a push to 12,500 users, of whom the first 100 are sent to at once and the next 100 wait for Kakao.
    private static func createHeld(_ service: TestService, _ more: JSONObject = [:]) async throws -> (String, hold: Int)
    {
        try await service.database.addPhones(1...12_500)
        let hold = service.kakao.hold("send", of: Set(101...12_500))
        let push = try await service.api.create(["everyone": true], gcm(), more)
        try await eventually("one batch is sent, and the push is prepared") {
            try await service.api.users(push) == ServiceTesting.counts(12_500, sent: 100, pending: 12_400)
        }
        return (push, hold)
    }

    @Test(
        "The users of a canceled push who were not sent to are exported once nothing is in flight: not those in flight at its end"
    )
    func canceled() async throws {
        try await withService {
            $0.kakao.maximumConcurrentRequests = 1
        } _: { service in
            let api = service.api
            let (push, hold) = try await Self.createHeld(service)
            let early = try await api.get("\(push)/users?state=unsent&reason=Test")
            #expect(early.status == 409 && early.problem == "wrong-state")
            #expect(try await api.control(push, "cancel") == 200)
            #expect(try await Self.unreached(push, api) == Self.counts(push, canceled: 12_400))
            for state in ["unsent", "failed", "uncertain"] {
                let answer = try await api.get("\(push)/users?state=\(state)&reason=Test")
                #expect(answer.status == 409 && answer.problem == "wrong-state", "\(state)")
                #expect(answer.headerFields[.retryAfter] == "10")
            }
            #expect(try await Self.lines(push, "skipped", api) == [])
            service.kakao.release(hold)
            try await Self.settle(push, service.database)
            let reached = (1...12_500).map { Int64($0) }.filter {
                service.kakao.sandbox.timesReached($0, marker: "m") == 1
            }
            #expect(reached.count == 200)
            let unsent = Set((1...12_500).map { Int64($0) }).subtracting(reached)
            let lines = try await Self.lines(push, "unsent", api)
            #expect(lines.sorted() == Self.lines(unsent, "canceled").sorted())
            #expect(try await Self.lines(push, "unsent", cause: "canceled", api) == lines)
            #expect(try await Self.lines(push, "unsent", cause: "expired,night", api) == [])
            #expect(try await Self.unreached(push, api) == Self.counts(push, canceled: 12_300))
        }
    }

    @Test(
        "Of a canceled push, batches that wait are unsent if they were certainly not carried out, as those of no claim; otherwise uncertain"
    )
    func unsentBatches() async throws {
        try await TestDatabase.with { database in
            let id = UUID.v7()
            // Batches of two users. The first ones of the parts are claimed, the second one of them is split.
            try await database.pool.write(
                """
                WITH push AS (
                    INSERT INTO pushes (id, state, audience, message, message_version, started_at, prepared_at, users, next_number,
                        finished_at)
                    VALUES ($1, 'canceled', '{}', '{}', 'v1', now(), now(), 17, 12, now() + interval '1 hour')
                ),
                part AS (
                    INSERT INTO push_parts (push_id, number, batch_users, batches, claimed, ids, id_bytes)
                    VALUES ($1, 1, 2, 6, 5, '\\x0102030405060708090a0b0c', 1), ($1, 9, 2, 3, 0, '\\x0100010101020103ffff', 2)
                )
                INSERT INTO push_batches (push_id, number, user_ids, users, state, origin, may_repeat)
                VALUES ($1, 1, NULL, 2, 'waiting', NULL, false), ($1, 2, '{3}', 1, 'waiting', 2, true), ($1, 7, '{4}', 1, 'waiting', 2, false),
                    ($1, 3, NULL, 2, 'waiting', NULL, true), ($1, 4, NULL, 2, 'uncertain', NULL, false), ($1, 5, NULL, 2, 'waiting', NULL, false)
                """,
                [.uuid(id)]
            )
            let store = ExportedUserStore(pool: database.pool, hasKakaoUserIDs: true)
            let push = try #require(try await store.find(id))
            #expect(push.unsentCause == .canceled && !push.isRemoved)
            // A claim that began before the end may still be stored.
            #expect(!push.isSettled)
            try await database.pool.write("UPDATE pushes SET finished_at = now() - interval '11 s'")
            #expect(try await store.find(id)?.isSettled == true)
            func users(_ exported: ExportedUsers) async throws -> [Int64] {
                var (users, last): ([Int64], ExportedUserStore.Users?) = ([], nil)
                while true {
                    let page = try await store.users(exported, of: push, [.canceled], after: last)
                    guard let end = page.last else { return users }
                    users += page.flatMap(\.ids)
                    last = end
                }
            }
            #expect(try await users(.unsent) == [1, 2, 4, 9, 10, 11, 12, 256, 257, 258, 259, 65_535])
            #expect(try await users(.uncertain) == [7, 8, 3, 5, 6])
            // Those of the batch that waits again are no users who were not sent to.
            #expect(try await database.text("SELECT users_unanswered::text FROM push_summaries") == "3")
            #expect(try await database.text("SELECT users_unsent::text FROM push_summaries") == "14")
            // A push that goes on sends them again.
            try await database.pool.write("UPDATE pushes SET state = 'sending', finished_at = NULL")
            let sending = try #require(try await store.find(id))
            #expect(sending.unsentCause == nil)
            #expect(try await store.users(.uncertain, of: sending, [], after: nil).flatMap(\.ids) == [7, 8])
        }
    }

    @Test(
        "The users of an expired push who were not sent to are exported; of advertising that expires at night, only by name",
        arguments: [
            nil, "informational", "advertising by day", "advertising at the end of its hours", "advertising by night",
        ]
    )
    func expired(kind: String?) async throws {
        try await withService {
            $0.pushes.advertisingHours = AdvertisingTests.open
        } _: { service in
            let api = service.api
            try await service.database.addPhones(1...300)
            var more: JSONObject = ["users_per_second": 1, "expires_at": time(in: 3600)]
            if let kind { more["kind"] = .string(String(kind.split(separator: " ")[0])) }
            let message = AdvertisingTests.message("(광고) Sale")
            let push = try await api.create(["everyone": true], message, more)
            try await eventually("some users are sent to, and the push is prepared") {
                let users = try await api.users(push)
                return users?["total"] == 300 && users?["sent"]?.integer ?? 0 > 0
            }
            if kind == "advertising by night" {
                // The server ends such a push when the hours begin, a few seconds later.
                let (hours, before) = try await Self.laterHours(service.database)
                var settings = service.settings
                settings.pushes.advertisingHours = hours
                await service.server.reload(settings)
                try await service.database.pool.write("UPDATE pushes SET expires_at = '\(before)'")
            } else if kind == "advertising at the end of its hours" {
                var settings = service.settings
                let hours = try await AdvertisingTests.hours(-7200, 0, service.database)
                settings.pushes.advertisingHours = hours
                await service.server.reload(settings)
                let day = "date_trunc('day', now() AT TIME ZONE 'Asia/Seoul')"
                try await service.database.pool.write(
                    "UPDATE pushes SET expires_at = (\(day) + \(hours.ends) * interval '1 second') AT TIME ZONE 'Asia/Seoul'"
                )
            } else {
                try await service.database.pool.write("UPDATE pushes SET expires_at = now()")
            }
            try await api.waitFor("expired", push)
            try await Self.settle(push, service.database)
            let sent = Int(try await api.users(push)?["sent"]?.integer ?? 0)
            let users = Int64(sent + 1)...300
            let isNight = kind == "advertising by night"
            let lines = Self.lines(users, isNight ? "night" : "expired")
            #expect(try await Self.lines(push, "unsent", api) == (isNight ? [] : lines))
            #expect(try await Self.lines(push, "unsent", cause: "canceled,expired,night", api) == lines)
            #expect(
                try await Self.unreached(push, api)
                    == Self.counts(push, expired: isNight ? 0 : users.count, night: isNight ? users.count : 0)
            )
        }
    }

    @Test("Of advertising that is canceled by night, the users who were not sent to are exported only by name")
    func canceledByNight() async throws {
        try await withService {
            $0.pushes.advertisingHours = AdvertisingTests.open
        } _: { service in
            let api = service.api
            try await service.database.addPhones(1...300)
            let message = AdvertisingTests.message("(광고) Sale")
            let push = try await api.create(
                ["everyone": true],
                message,
                ["users_per_second": 1, "kind": "advertising"]
            )
            try await eventually("some users are sent to, and the push is prepared") {
                let users = try await api.users(push)
                return users?["total"] == 300 && users?["sent"]?.integer ?? 0 > 0
            }
            var settings = service.settings
            settings.pushes.advertisingHours = try await AdvertisingTests.hours(7200, 21_600, service.database)
            await service.server.reload(settings)
            #expect(try await api.control(push, "cancel") == 200)
            try await Self.settle(push, service.database)
            let sent = Int(try await api.users(push)?["sent"]?.integer ?? 0)
            #expect(try await Self.lines(push, "unsent", api) == [])
            #expect(try await Self.lines(push, "unsent", cause: "canceled,expired", api) == [])
            let users = Int64(sent + 1)...300
            #expect(try await Self.lines(push, "unsent", cause: "night", api) == Self.lines(users, "night"))
            #expect(try await Self.unreached(push, api) == Self.counts(push, night: users.count))
        }
    }

    @Test("The users of a rejected push are exported only by name")
    func rejected() async throws {
        try await withService { service in
            let push = try await Self.createTwoPages(service.database)
            try await service.database.pool.write("UPDATE pushes SET reason = 'Rejected: Wrong price'")
            #expect(try await Self.lines(push, "unsent", service.api) == [])
            #expect(try await Self.lines(push, "unsent", cause: "canceled,expired,night", service.api) == [])
            #expect(
                try await Self.lines(push, "unsent", cause: "rejected", service.api) == Self.lines(1...2, "rejected")
            )
            #expect(try await Self.unreached(push, service.api) == Self.counts(push, rejected: 2))
        }
    }

    @Test("Only advertising ends by night, whether it is canceled or rejected, and not that to testers")
    func endsByNight() async throws {
        try await TestDatabase.with { database in
            let hours = [
                (AdvertisingHours(), try await AdvertisingTests.hours(7200, 21_600, database), true),
                (try await AdvertisingTests.hours(-7200, 7200, database), AdvertisingHours(), false),
            ].map { first, second, isNight in ((isNight ? second : first).parameter(in: "Asia/Seoul"), isNight) }
            for (hours, isNight) in hours {
                for (kind, toTesters) in [
                    (nil, false), ("informational", false), ("advertising", true), ("advertising", false),
                ] {
                    let ids = [UUID.v7(), UUID.v7()]
                    for id in ids {
                        try await database.pool.write(
                            """
                            INSERT INTO pushes (id, state, kind, to_testers, audience, message, message_version, prepared_at, users, allowed_users,
                                created_by_key)
                            VALUES ($1, 'halted', $2, $3, '{}', '{}', 'v1', now(), 2, 1, gen_random_uuid())
                            """,
                            [.uuid(id), .text(kind), .bool(toTesters)]
                        )
                    }
                    #expect(try await database.pool.write(CancelPush(id: ids[0], operator: nil, hours: hours)) == 1)
                    let key = KeyIdentity.setting
                    #expect(
                        try await database.pool.write(RejectPush(id: ids[1], key: key, reason: nil, hours: hours)) == 1
                    )
                    let store = ExportedUserStore(pool: database.pool, hasKakaoUserIDs: true)
                    #expect(try await store.find(ids[1])?.unsentCause == .rejected)
                    for id in ids {
                        let row = try await database.pool.read(
                            "SELECT ended_at_night FROM pushes WHERE id = $1",
                            [.uuid(id)]
                        )
                        let ended = try #require(row.first).decode(Bool.self)
                        #expect(ended == (isNight && kind == "advertising" && !toTesters), "\(kind ?? "none")")
                    }
                }
            }
        }
    }

    /// Hours that begin in three seconds and last half a day, by the database's clock, and a moment before them.
    private static func laterHours(_ database: TestDatabase) async throws -> (AdvertisingHours, before: String) {
        let before = try await database.text("SELECT clock_timestamp()::text")
        return (try await AdvertisingTests.hours(3, 43_200, database), before)
    }

    @Test("A push that ends before its audience is prepared says so, and its users are in no export")
    func unprepared() async throws {
        try await withService { service in
            try await service.database.addPhones(1...3)
            let push = try await service.api.create(["everyone": true], gcm(), ["send_at": time(in: 3600)])
            #expect(try await Self.lines(push, "skipped", service.api) == [])
            #expect(try await service.api.control(push, "cancel") == 200)
            // Nothing of it can be in flight.
            #expect(try await Self.lines(push, "unsent", service.api) == [])
            #expect(try await Self.unreached(push, service.api) == Self.counts(push, isComplete: false))
        }
    }

    @Test(
        "If a server is killed while requests of a canceled push are in flight, their users are uncertain after the takeover, the others unsent"
    )
    func takeover() async throws {
        // This test takes no slot for servers, because it mostly waits.
        try await TestDatabase.with { database in
            try await TestKakao.with { kakao in
                try await database.addPhones(1...1500)
                let hold = kakao.hold("send")
                var environment = RunningProgram.environment(database, kakao)
                environment["KAKAO_MAX_CONCURRENT_REQUESTS"] = "2"
                let process = try await RunningProgram.start(environment: environment)
                let first = TestClient(url: try await process.url())
                let push = try await first.create()
                try await eventually("two requests are in flight, and the push is prepared") {
                    try await database.count("pushes WHERE prepared_at IS NOT NULL") == 1
                        && kakao.sandbox.reached(marker: "m").users == 200
                }
                #expect(try await first.control(push, "cancel") == 200)
                let early = try await first.get("\(push)/users?state=unsent&reason=Test")
                #expect(early.status == 409 && early.problem == "wrong-state")
                process.send(SIGKILL)
                #expect(await process.ended() == .signaled(SIGKILL))
                kakao.release(hold)
                try await database.endLeases()
                try await RunningServer.with(Settings.test(database.url, kakao: kakao.sandbox.url)) { api in
                    try await Self.settle(push, database)
                    // The killed server may have claimed more batches than it had sent.
                    let uncertain = try await Self.lines(push, "uncertain", api)
                    let unsent = try await Self.lines(push, "unsent", api)
                    #expect(uncertain.allSatisfy { $0.contains(",no_answer,") && $0.hasSuffix(",true") })
                    func users(_ lines: [String]) -> Set<Int64> {
                        Set(lines.compactMap { Int64($0.split(separator: ",")[0]) })
                    }
                    let reached = (Int64(1)...1500).filter { kakao.sandbox.timesReached($0, marker: "m") > 0 }
                    #expect(reached.count == 200)
                    #expect(users(uncertain).isSuperset(of: reached))
                    #expect(users(uncertain).isDisjoint(with: users(unsent)))
                    #expect(users(uncertain).union(users(unsent)).count == 1500)
                    #expect(
                        try await Self.unreached(push, api)
                            == Self.counts(push, canceled: unsent.count, uncertain: uncertain.count)
                    )
                }
            }
        }
    }

    // MARK: Users who have left

    @Test("Users who have unlinked the app since the push was created, or were erased, are in no export of it")
    func departed() async throws {
        try await withKakaoLogin { service in
            let push = try await service.api.create(uuids(1...1500))
            try await service.api.waitUntilDone(push)
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            for user in ["7", "1200", "2000"] {
                #expect(try await kakao.get("/kakao/unlink", ["app_id": "123456", "user_id": user]).status == 200)
            }
            #expect([202, 204].contains(try await service.api.delete("/v1/users/8").status))
            let users = (Int64(1)...1500).filter { ![7, 8, 1200].contains($0) }
            #expect(try await Self.lines(push, "skipped", service.api) == Self.lines(users, "no_device"))
            // Another company's users have the same ids.
            let store = ExportedUserStore(pool: service.database.pool, hasKakaoUserIDs: false)
            let id = try #require(UUID(uuidString: Self.id(push)))
            let found = try #require(try await store.find(id))
            let exported = try await store.users(.skipped, of: found, [.noDevice], after: nil).flatMap(\.ids)
            #expect(exported.contains(7) && !exported.contains(8))
            let later = try await service.api.create(uuids(1...1500))
            try await service.api.waitUntilDone(later)
            #expect(try await Self.lines(later, "skipped", service.api).count == 1500)
        }
    }

    // MARK: Failures of an export

    /// Creates a canceled push with a user whose batch waits, on the first page of an export, and one whose batch was not claimed, on the
    /// next one.
    private static func createTwoPages(_ database: TestDatabase) async throws -> String {
        let id = UUID.v7()
        try await database.pool.write(
            """
            WITH push AS (
                INSERT INTO pushes (id, state, audience, message, message_version, prepared_at, users, next_number, finished_at)
                VALUES ($1, 'canceled', '{}', '{}', 'v1', now(), 2, 3, now() - interval '1 minute')
            ),
            part AS (
                INSERT INTO push_parts (push_id, number, batch_users, batches, claimed, ids, id_bytes)
                VALUES ($1, 1, 1, 2, 1, '\\x0102', 1)
            )
            INSERT INTO push_batches (push_id, number, user_ids, users, state)
            VALUES ($1, 1, '{1}', 1, 'waiting')
            """,
            [.uuid(id)]
        )
        return "/v1/pushes/\(id.lowercased)"
    }

    /// Condition of the locks for which the second page of an export waits.
    private static let secondPage = """
        pg_locks
        WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND relation = 'push_parts'::regclass
            AND NOT granted
        """

    /// Exports users while `body` runs, in whose transaction the second page cannot be read, and returns whether the export was cut off.
    private static func isCutOff(
        _ push: String,
        _ service: TestService,
        while body: (PostgresTransaction, _ hasEnded: () -> Bool) async throws -> Void
    ) async throws -> Bool {
        let path = "\(push)/users?state=unsent&reason=Test"
        let outcome = Locked<Bool?>(nil)
        let api = service.api
        let export = try await service.database.pool.withTransaction { transaction in
            _ = try await transaction.query("LOCK TABLE push_parts IN ACCESS EXCLUSIVE MODE", [])
            let export = Task {
                do {
                    _ = try await api.get(path)
                    outcome.withLock { $0 = false }
                } catch is HTTPClientError {
                    outcome.withLock { $0 = true }
                }
            }
            try await eventually("the second page waits") { try await service.database.count(secondPage) > 0 }
            try await body(transaction) { outcome.withLock { $0 != nil } }
            return export
        }
        try await export.value
        return outcome.withLock { $0 == true }
    }

    @Test("An export whose database connection fails after the first page is cut off")
    func lostConnection() async throws {
        try await withService { service in
            let push = try await Self.createTwoPages(service.database)
            #expect(try await Self.lines(push, "unsent", service.api) == Self.lines(1...2, "canceled"))
            let isCutOff = try await Self.isCutOff(push, service) { _, hasEnded in
                // A read may be repeated on another connection.
                try await eventually("the export has ended") {
                    _ = try await service.database.pool.read("SELECT pg_terminate_backend(pid) FROM \(Self.secondPage)")
                    return hasEnded()
                }
            }
            #expect(isCutOff)
        }
    }

    @Test("An export that retention overtakes is cut off, and the next one is answered that the push is removed")
    func retentionDuringExport() async throws {
        try await withService { service in
            let push = try await Self.createTwoPages(service.database)
            let isCutOff = try await Self.isCutOff(push, service) { transaction, _ in
                _ = try await transaction.query("UPDATE pushes SET removed_at = now()", [])
                _ = try await transaction.query("DELETE FROM push_parts", [])
            }
            #expect(isCutOff)
            let answer = try await service.api.get("\(push)/users?state=unsent&reason=Test")
            #expect(answer.status == 410 && answer.problem == "push-removed")
        }
    }

    // MARK: Requests

    @Test("An export needs the scope export and a reason, which the audit log keeps; a cause must belong to the state")
    func requests() async throws {
        try await withService { service in
            let push = try await service.api.create(uuids([1]))
            try await service.api.waitUntilDone(push)
            let path = "\(push)/users?state=skipped"
            let reader = service.api.with("Bearer \(try await service.operatorKey(.read, .send, .operate))")
            #expect(try await reader.get("\(path)&reason=Test").status == 403)
            let exporter = service.api.with("Bearer \(try await service.operatorKey(.export))")
            #expect(try await exporter.get(path).field == "reason")
            #expect(try await exporter.get("\(path)&reason=%20").field == "reason")
            let answer = try await exporter.get("\(path)&reason=SMS%20by%20our%20dealer")
            #expect(answer.status == 200 && answer.text.hasSuffix("\r\n1,no_device,,,false\r\n"))
            let records =
                try await service.api.get("/v1/audit", ["operation": "exportPushUsers"]).json?["items"]?.array ?? []
            #expect(records.count == 1 && records[0]["reason"] == "SMS by our dealer (state=skipped)")
            #expect(records.first?["object"]?.string == Self.id(push))
            for (query, field) in [
                ("state=skipped&cause=night", "cause"), ("state=unsent&cause=no_device", "cause"),
                ("state=failed&cause=no_device", "cause"), ("state=skipped&cause=", "cause"),
                ("state=skipped&cause=none", "cause"), ("state=skipped&cause=excluded,", "cause"),
                ("state=skipped&format=ndjson", "format"), ("state=sent", "state"), ("cause=excluded", "state"),
            ] {
                let answer = try await service.api.get("\(push)/users?\(query)&reason=Test")
                #expect(answer.status == 400 && answer.field == field, "\(query): \(answer.text)")
            }
        }
    }

    // MARK: Storing

    /// Expects that each of the users 1 to `users` is in one batch or one list of skipped users of the only push.
    private static func expectEachOnce(_ users: Int, _ database: TestDatabase) async throws {
        let all = """
            (
                SELECT ('x' || lpad(encode(substring(ids FROM id_bytes * place + 1 FOR id_bytes), 'hex'), 16, '0'))::bit(64)::bigint AS id
                FROM (SELECT ids, id_bytes FROM push_parts UNION ALL SELECT ids, id_bytes FROM push_skipped) AS list
                CROSS JOIN LATERAL generate_series(0, octet_length(ids) / id_bytes - 1) AS place
            ) AS listed
            """
        #expect(try await database.count(all) == users)
        #expect(try await database.integer("SELECT count(DISTINCT id) FROM \(all)") == users)
    }

    @Test("A step that two servers prepare is stored once, with its skipped users")
    func onceForAllServers() async throws {
        try await TestDatabase.with { database in
            try await database.addPhones([1, 3])
            try await database.addPhones([2, 300], type: "apns")
            let id = UUID.v7()
            try await database.pool.write(
                "INSERT INTO pushes (id, state, audience, message, message_version) VALUES ($1, 'preparing', '{}', '{}', 'v1')",
                [.uuid(id)]
            )
            let store = PreparationStore(pool: database.pool)
            let preparation = PreparationStore.Preparation(
                pushID: id,
                audience: .everyone,
                exclusion: ExcludedUsers(),
                needsConsent: false,
                platforms: ["fcm"],
                isRetry: false,
                position: 0
            )
            let page = try #require(try await store.page(preparation))
            #expect(try await store.store(page, of: preparation) != nil)
            // The response to the statement was lost, or another server has read the same page.
            #expect(try await store.store(page, of: preparation) == nil)
            #expect(
                try await database.text("SELECT cause || encode(ids, 'hex') || id_bytes FROM push_skipped")
                    == "no_device0002012c2"
            )
            #expect(try await database.integer("SELECT users_no_device FROM pushes") == 2)
        }
    }

    @Test("After a server is killed while it prepares, each user is in one batch or skipped once")
    func killed() async throws {
        // This test takes no slot for servers, because it mostly waits.
        try await TestDatabase.with { database in
            try await TestKakao.with { kakao in try await Self.killAndGoOn(database, kakao) }
        }
    }

    private static func killAndGoOn(_ database: TestDatabase, _ kakao: TestKakao) async throws {
        let users = 15_000
        try await database.addPhones((Int64(1)...Int64(users)).filter { $0 % 2 == 0 })
        try await database.addPhones((Int64(1)...Int64(users)).filter { $0 % 2 == 1 }, type: "apns")
        let process = try await RunningProgram.start(environment: RunningProgram.environment(database, kakao))
        let api = TestClient(url: try await process.url())
        var push = ""
        // The last step waits for this lock, so that the server is killed before it.
        try await database.pool.write(
            """
            CREATE FUNCTION wait_for_test() RETURNS trigger AS $$
            BEGIN
                PERFORM pg_advisory_xact_lock_shared(4711);
                RETURN NEW;
            END
            $$ LANGUAGE plpgsql
            """
        )
        try await database.pool.write(
            """
            CREATE TRIGGER wait_for_test BEFORE UPDATE ON pushes
            FOR EACH ROW WHEN (OLD.prepared_up_to > 0) EXECUTE FUNCTION wait_for_test()
            """
        )
        try await database.pool.withTransaction { transaction in
            _ = try await transaction.query("SELECT pg_advisory_xact_lock(4711)::text", [])
            push = try await api.create()
            try await eventually("the first step is stored") {
                try await database.count("pushes WHERE prepared_up_to > 0 AND prepared_at IS NULL") == 1
            }
            process.send(SIGKILL)
            #expect(await process.ended() == .signaled(SIGKILL))
        }
        try await database.endLeases()
        try await RunningServer.with(Settings.test(database.url, kakao: kakao.sandbox.url)) { api in
            try await api.waitUntilDone(push, within: .seconds(90))
            try await Self.expectEachOnce(users, database)
            let odd = (Int64(1)...Int64(users)).filter { $0 % 2 == 1 }
            #expect(try await Self.lines(push, "skipped", api) == Self.lines(odd, "no_device"))
        }
    }

    // MARK: Webhooks

    @Test(
        "The end of a push that did not reach all users is a webhook of its own, and each end after a retry another one"
    )
    func webhooks() async throws {
        try await withWebhooks { service in
            let (api, kakao) = (service.api, service.kakao)
            try await service.database.addPhones([1, 2])
            // All users are reached.
            try await api.waitUntilDone(try await api.create(uuids([1]), gcm("all")))
            kakao.fail("send", status: 404, code: -404)
            let push = try await api.create(uuids([1, 2, 3]))
            let first = try await kakao.webhooks(.pushUnreached, count: 1)[0]
            #expect(first == (try await api.summary(push)))
            #expect(first["unreached"] == Self.counts(push, noDevice: 1, failed: 2))
            kakao.sandbox.removeFaults()
            #expect(try await api.control(push, "retry") == 200)
            let second = try await kakao.webhooks(.pushUnreached, count: 2)[1]
            #expect(second["unreached"] == Self.counts(push, noDevice: 1))
            let received = kakao.webhooks(.pushUnreached)
            #expect(received.allSatisfy { $0.subject == "pushes/\(Self.id(push))/users" })
            #expect(received[0].revision < received[1].revision)
            // The others have a subject of their own, so that none hides another one.
            let done = try await kakao.webhooks(.pushDone, count: 3)
            #expect(Set(kakao.webhooks(.pushDone).map(\.subject)).count == 2 && done.count == 3)
            #expect(kakao.webhooks(.pushUnreached).count == 2)
        }
    }

    @Test("A push whose users may or may not have been reached has the webhook")
    func webhookOfUncertain() async throws {
        try await withWebhooks { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", .dropAfterBody)
            let push = try await service.api.create(uuids([1]), gcm(), ["delivery": "at_most_once"])
            let data = try await service.kakao.webhooks(.pushUnreached, count: 1)[0]
            #expect(data["unreached"] == Self.counts(push, uncertain: 1))
        }
    }

    @Test(
        "A push that is canceled or expires has the webhook if users were not sent to or are not known, and no other one for the cancellation"
    )
    func webhooksOfUnsent() async throws {
        try await withWebhooks { service in
            let (api, kakao) = (service.api, service.kakao)
            try await service.database.addPhones(1...300)
            var pushes: [String] = []
            for cause in ["canceled", "expired"] {
                let more: JSONObject = ["users_per_second": 1, "expires_at": time(in: 3600)]
                let push = try await api.create(["everyone": true], gcm(), more)
                pushes.append(push)
                try await eventually("the push is prepared") { try await api.users(push)?["total"] == 300 }
                if cause == "canceled" {
                    #expect(try await api.control(push, "cancel") == 200)
                } else {
                    try await service.database.pool.write(
                        "UPDATE pushes SET expires_at = now() WHERE state = 'sending'"
                    )
                }
                let data = try await kakao.webhooks(.pushUnreached, count: pushes.count)[pushes.count - 1]
                #expect(data["id"]?.string == Self.id(push) && data["state"] == .string(cause))
                let unsent = try #require(data["unreached"]?["unsent"]?[cause]?.integer)
                #expect(unsent > 0 && data["users"]?["pending"] == .integer(unsent))
            }
            _ = try await kakao.webhooks(.pushExpired, count: 1)
            // Its users are not known.
            let empty = try await api.create(["everyone": true], gcm(), ["send_at": time(in: 3600)])
            #expect(try await api.control(empty, "cancel") == 200)
            let data = try await kakao.webhooks(.pushUnreached, count: 3)[2]
            #expect(data["id"]?.string == Self.id(empty))
            #expect(data["unreached"] == Self.counts(empty, isComplete: false))
            let types = try await service.database.pool.read("SELECT type FROM webhook_events ORDER BY type")
                .map { try $0.decode(String.self) }
            #expect(types == ["push.expired", "push.unreached", "push.unreached", "push.unreached"])
        }
    }
}
