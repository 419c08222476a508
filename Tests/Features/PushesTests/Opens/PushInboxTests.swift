import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity
@testable import Postgres
@testable import Pushes
@testable import Settings

/// Tests of the inbox of a user, `GET /v1/me/pushes`.
@Suite(.timeLimit(.minutes(5))) struct PushInboxTests {
    private static func withInbox(
        _ adjust: (inout Settings) -> Void = { _ in },
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withKakaoLogin {
            $0.pushes.inboxDays = 7
            $0.pushes.inboxPerMinutePerUser = nil
            $0.identity.requestsPerMinutePerUser = nil
            adjust(&$0)
        } _: { service in
            try await body(service)
        }
    }

    private static func app(_ user: Int64, _ service: TestService) throws -> TestClient {
        service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: user)))")
    }

    private static func id(_ push: String) -> String { push.split(separator: "/").last.map(String.init) ?? "" }

    private static func items(
        _ user: Int64,
        _ service: TestService,
        _ query: KeyValuePairs<String, String> = [:]
    ) async throws -> [JSONValue] {
        let answer = try await app(user, service).get("/v1/me/pushes", query)
        #expect(answer.status == 200, "\(answer.text)")
        return answer.json?["items"]?.array ?? []
    }

    private static func ids(_ user: Int64, _ service: TestService) async throws -> [String] {
        try await items(user, service).compactMap { $0["id"]?.string }
    }

    // MARK: What is listed

    @Test("A user finds exactly the pushes that were sent to this user, the latest first, whatever their audience is")
    func own() async throws {
        try await Self.withInbox { service in
            try await service.database.addPhones(1...1500)
            var pushes: [String: [Int64]] = [:]
            var order: [String] = []
            for (audience, users) in [
                (["everyone": true], [7, 8]), (uuids([7]), [7]), (uuids([8]), [8]), (uuids(8...1400), [8]),
                (uuids([7, 9]), [7]), (uuids([9]), []),
            ] as [(JSONValue, [Int64])] {
                let push = try await service.api.create(audience)
                try await service.api.waitUntilDone(push)
                pushes[push] = users
                order.insert(push, at: 0)
            }
            for user in [7, 8] as [Int64] {
                let own = order.filter { pushes[$0]?.contains(user) == true }.map(Self.id)
                #expect(try await Self.ids(user, service) == own)
            }
            #expect(try await Self.ids(3000, service) == [])
        }
    }

    @Test(
        "An item has what an app shows, of each platform, and nothing of operators, other users, tokens or the server"
    )
    func members() async throws {
        try await Self.withInbox {
            $0.pushes.idField = PushIDField("push_id")
        } _: { service in
            try await service.database.addPhones([7, 8])
            let message: JSONValue = [
                "for_apns": [
                    "message": ["title": "Shop", "body": "Half price"], "push_token": "secret-token",
                    "custom_field": ["url": "https://example.com/a", "push_token": "secret-token"],
                ],
                "for_gcm": ["custom_field": ["title": "Shop", "text": "Half price"]],
            ]
            let push = try await service.api.create(uuids([7, 8]), message, ["name": "secret name"])
            try await service.api.waitUntilDone(push)
            let answer = try await Self.app(7, service).get("/v1/me/pushes")
            let item = try #require(answer.json?["items"]?[0])
            #expect(item.object?.members.map(\.name) == ["id", "sent_at", "opened_at", "uncertain", "notifications"])
            #expect(item["id"]?.string == Self.id(push))
            #expect(item["sent_at"] == (try await service.api.shown(push)["started_at"]))
            #expect(item["opened_at"] == .null)
            #expect(item["uncertain"] == false)
            #expect(
                item["notifications"] == [
                    [
                        "platform": "apns", "title": "Shop", "text": "Half price", "link": "https://example.com/a",
                        "custom_field": ["url": "https://example.com/a", "push_token": "***"],
                    ],
                    [
                        "platform": "fcm", "title": "Shop", "text": "Half price", "link": .null,
                        "custom_field": ["title": "Shop", "text": "Half price"],
                    ],
                ]
            )
            #expect(!answer.text.contains("secret"))
            // Another loop, and the cached content.
            for _ in 0..<4 { #expect(try await Self.items(8, service) == [item]) }
        }
    }

    @Test("What a user has opened says when, for this user only")
    func opened() async throws {
        try await Self.withInbox { service in
            let push = try await service.push([7, 8])
            try await service.api.waitUntilDone(push)
            #expect(try await Self.app(7, service).post("\(push)/opened").status == 204)
            let rows = try await service.database.pool.read("SELECT opened_at FROM push_opens")
            let openedAt = try #require(rows.first).decode(Date.self)
            #expect(try await Self.items(7, service).map { $0["opened_at"] } == [.string(openedAt.rfc3339)])
            #expect(try await Self.items(8, service).map { $0["opened_at"] } == [.null])
        }
    }

    @Test("Nothing is listed that waits, is in flight, was rejected, canceled or removed; a test only for its testers")
    func excluded() async throws {
        try await Self.withInbox {
            $0.pushes.testers = [8]
        } _: { service in
            try await service.database.addPhones(1...250)
            let test = try await service.api.post("/v1/pushes", json: ["to_testers": true, "message": gcm()])
            let tested = try #require(test.headerFields[.location])
            try await service.api.waitUntilDone(tested)
            _ = try await service.api.create(["everyone": true], gcm(), ["send_at": time(in: 3600)])
            service.kakao.fail("send", status: 404, code: -404, times: 1)
            try await service.api.waitUntilDone(try await service.api.create(uuids([7, 8])))
            let canceled = try await service.api.create(["everyone": true], gcm(), ["users_per_second": 1])
            try await eventually("the first user is sent to") {
                try await service.api.get("\(canceled)/users/1").json?["state"] == "sent"
            }
            #expect(try await service.api.control(canceled, "pause") == 200)
            #expect(try await Self.ids(1, service) == [Self.id(canceled)])
            #expect(try await Self.ids(250, service) == [])
            #expect(try await service.api.control(canceled, "cancel") == 200)
            #expect(try await Self.ids(1, service) == [])
            let hold = service.kakao.hold("send")
            let flying = try await service.api.create(uuids([7]))
            try await eventually("the request is in flight") {
                try await service.api.get("\(flying)/users/7").json?["state"] == "sending"
            }
            #expect(try await Self.ids(7, service) == [])
            service.kakao.release(hold)
            try await service.api.waitUntilDone(flying)
            #expect(try await Self.ids(7, service) == [Self.id(flying)])
            #expect(try await Self.ids(8, service) == [Self.id(tested)])
            try await service.database.pool.write("UPDATE pushes SET removed_at = now()")
            #expect(try await Self.ids(7, service) == [])
        }
    }

    @Test("A push of which it is unknown whether Kakao accepted it is listed with a mark")
    func uncertain() async throws {
        try await Self.withInbox { service in
            try await service.database.addPhones([7])
            service.kakao.fail("send", .dropAfterBody) { $0.isCarriedOut = true }
            let push = try await service.api.create(uuids([7]), gcm(), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            #expect(try await Self.items(7, service).map { $0["uncertain"] } == [true])
        }
    }

    @Test("A push is in the inbox for the days of the setting since its sending began, however early it was created")
    func days() async throws {
        try await Self.withInbox { service in
            var pushes: [String] = []
            for _ in 0..<3 {
                pushes.append(try await service.push([7]))
                try await service.api.waitUntilDone(pushes[pushes.count - 1])
            }
            for (push, hours) in [(pushes[0], 7 * 24 + 1), (pushes[1], 7 * 24 - 1)] {
                try await service.database.pool.write(
                    """
                    UPDATE pushes SET created_at = now() - interval '90 days', started_at = now() - interval '\(hours) hours'
                    WHERE id = '\(Self.id(push))'
                    """
                )
            }
            #expect(try await Self.ids(7, service) == [pushes[2], pushes[1]].map(Self.id))
            let since = (Date() - 3600).rfc3339
            #expect(try await Self.items(7, service, ["since": since]).count == 1)
            #expect(try await Self.items(7, service, ["since": "2020-01-01T00:00:00Z"]).count == 2)
        }
    }

    @Test(
        "A push that reaches the user after a later one has an earlier sent_at: since needs a day before the latest known one"
    )
    func overlapping() async throws {
        try await Self.withInbox { service in
            try await service.database.addPhones(1...250)
            let hold = service.kakao.hold("send", times: 1, of: [250])
            let first = try await service.api.create()
            try await eventually("the request to user 250 is in flight") {
                service.kakao.sandbox.timesReached(250, marker: "m") == 1
            }
            let second = try await service.api.create(uuids([250]))
            try await service.api.waitUntilDone(second)
            let known = try await Self.items(250, service)
            #expect(known.map { $0["id"]?.string } == [Self.id(second)])
            let latest = try #require(known.first?["sent_at"]?.string)
            service.kakao.release(hold)
            try await service.api.waitUntilDone(first)
            func ids(since: String) async throws -> [String] {
                try await Self.items(250, service, ["since": since]).compactMap { $0["id"]?.string }
            }
            #expect(try await ids(since: latest) == [Self.id(second)])
            let dayBefore = try await service.database.text(
                "SELECT to_char(('\(latest)'::timestamptz - interval '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
            )
            #expect(try await ids(since: dayBefore) == [Self.id(second), Self.id(first)])
        }
    }

    // MARK: Pages

    @Test("Pages together have each push once, in their order, among many pushes to others and to several")
    func pages() async throws {
        try await Self.withInbox { service in
            // 300 pushes to user 7 alone, 300 to users 7 and 8, and 300 to others, in random order and partly at the same time.
            try await service.database.pool.write(
                """
                WITH push AS (
                    INSERT INTO pushes (id, state, audience, message, message_version, prepared_at, users, next_number, user_ids, started_at)
                    SELECT gen_random_uuid(), 'done', '{}', '{"for_gcm":{"custom_field":{"text":"a"}}}', 'v1', now(), cardinality(user_ids), 2,
                        user_ids, date_trunc(CASE place % 2 WHEN 0 THEN 'second' ELSE 'microseconds' END, now() - random() * interval '10 minutes')
                    FROM generate_series(1, 300) AS place
                    CROSS JOIN (VALUES ('{7}'::bigint[]), ('{7,8}'), ('{8,9}')) AS given (user_ids)
                    RETURNING id, user_ids
                )
                INSERT INTO push_batches (push_id, number, user_ids, users, state)
                SELECT id, 1, user_ids, cardinality(user_ids), 'sent'
                FROM push
                """
            )
            let expected = try await service.database.pool.read(
                "SELECT id::text FROM pushes WHERE 7 = ANY (user_ids) ORDER BY started_at DESC, id DESC"
            ).map { try $0.decode(String.self) }
            #expect(expected.count == 600)
            for limit in ["7", "1000"] {
                var found: [String] = []
                var next: String?
                repeat {
                    let query: KeyValuePairs<String, String> =
                        next.map { ["limit": limit, "cursor": $0] } ?? ["limit": limit]
                    let json = try #require(try await Self.app(7, service).get("/v1/me/pushes", query).json)
                    let items = json["items"]?.array ?? []
                    #expect(items.count <= 100)
                    found += items.compactMap { $0["id"]?.string }
                    next = json["next"]?.string
                } while next != nil && found.count <= 600
                #expect(found == expected, "limit \(limit)")
            }
            #expect(try await Self.app(7, service).get("/v1/me/pushes", ["cursor": "7"]).field == "cursor")
        }
    }

    @Test("A page ends where the earlier of the two searches has ended, and the next one begins there")
    func cut() {
        func pushes(_ seconds: ClosedRange<Int>, isToOne: Bool, _ state: BatchState? = .sent) -> [SearchedInboxPush] {
            seconds.reversed().map { second in
                SearchedInboxPush(
                    id: UUID.v7(),
                    startedAt: Date(timeIntervalSince1970: Double(second)),
                    isToOne: isToOne,
                    state: state,
                    openedAt: nil
                )
            }
        }
        let one = pushes(1...5, isToOne: true)
        let several = pushes(3...4, isToOne: false, nil) + pushes(1...1, isToOne: false)
        func cut(_ limit: Int, _ maxSearched: Int) -> (found: [Int], next: Int?) {
            let searched = (one + several).sorted { $0.cursor > $1.cursor }
            let (found, next) = PushInbox.cut(searched, limit: limit, maxSearched: maxSearched)
            return (
                found.map { Int($0.startedAt.timeIntervalSince1970) }, next.map { Int($0.microseconds / 1_000_000) }
            )
        }
        for limit in [10, 6] {
            #expect(cut(limit, 10).found == [5, 4, 3, 2, 1, 1])
            #expect(cut(limit, 10).next == nil)
        }
        #expect(cut(3, 10).found == [5, 4, 3])
        #expect(cut(3, 10).next == 3)
        // The search for pushes to one user ended at 1.
        #expect(cut(10, 5).next == 1)
        // The search for pushes to several ended at 1, and found only one.
        #expect(cut(10, 3).next == 1)
        #expect(PushInbox.cut([], limit: 1, maxSearched: 1).next == nil)
    }

    @Test("A cursor is read as it was written, and nothing else is one")
    func cursor() {
        let cursor = InboxCursor(Date(timeIntervalSince1970: 1_764_000_000.123_457), UUID.v7())
        let read = InboxCursor(cursor: cursor.cursor)
        #expect(read == cursor)
        #expect(read.map { InboxCursor($0.startedAt, $0.id) } == cursor)
        for text in [
            "", "1", "1-", "-\(UUID.v7().lowercased)", "+1-\(UUID.v7().lowercased)",
            "9999999999999999999-\(UUID.v7().lowercased)",
        ] {
            #expect(InboxCursor(cursor: text) == nil, "\(text)")
        }
    }

    @Test("The search for a user reads no pushes to other single users")
    func plan() async throws {
        try await TestDatabase.with { database in
            try await database.pool.write(
                """
                INSERT INTO pushes (id, state, audience, message, message_version, user_ids, started_at)
                SELECT gen_random_uuid(), 'done', '{}', '{}', 'v1', ARRAY[place], now() - place * interval '1 second'
                FROM generate_series(1::bigint, 20000) AS place
                """
            )
            try await database.pool.write("ANALYZE pushes")
            let rows = try await database.rowsRead(
                by: SearchInbox.sql.text,
                types: "bigint[], timestamptz[], timestamptz[], uuid[], int, bigint",
                values: "'{7,8}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', 7, 100"
            )
            #expect(rows < 200, "rows read: \(rows)")
        }
    }

    // MARK: Access and limits

    @Test("Without the setting there is no inbox, and no operator has one")
    func off() async throws {
        try await withKakaoLogin { service in
            let answer = try await Self.app(7, service).get("/v1/me/pushes")
            #expect(answer.status == 409)
            #expect(answer.problem == "not-configured")
            #expect(try await service.api.get("/v1/me/pushes").status == 403)
            #expect(try await service.api.with(nil).get("/v1/me/pushes").status == 401)
        }
    }

    @Test("A user's apps may read so many pages in a minute, then get 429; a reload changes the limit")
    func limit() async throws {
        try await Self.withInbox {
            $0.pushes.inboxPerMinutePerUser = 2
        } _: { service in
            let app = try Self.app(7, service)
            for status in [200, 200, 429] { #expect(try await app.get("/v1/me/pushes").status == status) }
            #expect(try await Self.app(8, service).get("/v1/me/pushes").status == 200)
            var settings = service.settings
            settings.pushes.inboxPerMinutePerUser = nil
            await service.server.reload(settings)
            #expect(try await app.get("/v1/me/pushes").status == 200)
        }
    }

    @Test("Requests of many users at the same time each get the own inbox")
    func concurrent() async throws {
        try await Self.withInbox { service in
            try await service.database.addPhones(1...300)
            var pushes: [String] = [try await service.api.create()]
            for user in Int64(1)...20 { pushes.append(try await service.api.create(uuids([user, 250]))) }
            for push in pushes { try await service.api.waitUntilDone(push) }
            let sent = pushes
            try await withThrowingTaskGroup(of: Void.self) { group in
                for user in 1...40 {
                    group.addTask {
                        let own = user <= 20 ? [sent[user], sent[0]] : [sent[0]]
                        let found = try await Self.ids(Int64(user), service)
                        #expect(Set(found) == Set(own.map(Self.id)))
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}
