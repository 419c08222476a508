import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes

/// `/v1/audiences`: named sets of users that operators upload.
@Suite(.timeLimit(.minutes(5))) struct AudienceTests {
    private static func upload(_ api: TestClient, _ name: String, _ ids: some Sequence<Int>) async throws -> Int {
        try await api.put("/v1/audiences/\(name)", lines(ids)).status
    }

    private static func lines(_ ids: some Sequence<Int>) -> [UInt8] {
        ids.flatMap { "\($0)\n".utf8 }
    }

    /// Returns the users of an audience in the order of its parts.
    private static func users(_ database: TestDatabase, _ name: String) async throws -> [Int64] {
        let rows = try await database.pool.read(
            """
            SELECT part.user_ids
            FROM audiences
            JOIN audience_parts AS part USING (parts_id)
            WHERE name = $1
            ORDER BY part.number
            """,
            [.text(name)]
        )
        return try rows.flatMap { try $0.decode([Int64].self) }
    }

    /// 100,000 unordered user ids, 60,000 of them distinct.
    private static var hundredThousand: [Int] {
        // 100,003 is prime, so the multiples of a smaller number are distinct modulo it.
        (0..<100_000).map { ($0 % 60_000 * 99_991) % 100_003 * 1_000_003 + 1 }
    }

    @Test("100,000 lines uploaded by curl become sorted parts of 1,000 users, each user once")
    func stored() async throws {
        try await withService { service in
            let ids = Self.hundredThousand
            let file = "\(try TemporaryFolder.make())/users.txt"
            try Data(Self.lines(ids)).write(to: URL(filePath: file))
            let url = "\(service.api.url)/v1/audiences/all"
            let type = ["-H", "Content-Type: text/plain; charset=utf-8"]
            let made = try await curl(["-T", file, "-H", "Expect:", url] + type)
            #expect(made.status == "201")
            let json = try JSONValue(parsing: made.body)
            #expect(json.object?.members.map(\.name) == ["name", "users", "updated_at"])
            #expect(json["name"] == "all")
            #expect(json["users"] == 60_000)
            let expected = Set(ids.map(Int64.init)).sorted()
            #expect(try await Self.users(service.database, "all") == expected)
            let parts = try await service.database.text(
                "SELECT string_agg(number || ':' || cardinality(user_ids), ' ' ORDER BY number) FROM audience_parts"
            )
            #expect(parts == (1...60).map { "\($0):1000" }.joined(separator: " "))
            // A chunked upload with `Expect: 100-continue` that replaces the audience.
            let again = try await curl(["-T", file, "-H", "Transfer-Encoding: chunked", "-o", "/dev/null", url] + type)
            #expect(again.status == "200")
            #expect(try await Self.users(service.database, "all") == expected)
        }
    }

    @Test("An audience is created, shown, replaced, listed and deleted")
    func life() async throws {
        try await withService { service in
            let api = service.api
            #expect(try await Self.upload(api, "b.2-x_Y", [3, 1, 2, 3]) == 201)
            let first = try await api.get("/v1/audiences/b.2-x_Y")
            #expect(first.status == 200)
            #expect(first.json?["users"] == 3)
            #expect(try await Self.upload(api, "b.2-x_Y", 5...2006) == 200)
            let second = try await api.get("/v1/audiences/b.2-x_Y")
            #expect(second.json?["users"] == 2002)
            #expect(second.json?["updated_at"]?.string ?? "" > first.json?["updated_at"]?.string ?? "")
            #expect(try await Self.users(service.database, "b.2-x_Y") == Array(5...2006))

            for name in ["a", "c", "B", "b"] { #expect(try await Self.upload(api, name, [1]) == 201) }
            var names: [String] = []
            var cursor: String? = ""
            while let at = cursor {
                let page = try await api.get(
                    "/v1/audiences",
                    at.isEmpty ? ["limit": "2"] : ["limit": "2", "cursor": at]
                )
                #expect(page.status == 200)
                names += page.json?["items"]?.array?.compactMap { $0["name"]?.string } ?? []
                cursor = page.json?["next"]?.string
            }
            #expect(names == ["B", "a", "b", "b.2-x_Y", "c"])
            #expect(try await api.get("/v1/audiences", ["cursor": "a b"]).field == "cursor")

            #expect(try await api.delete("/v1/audiences/a").status == 204)
            for answer in [try await api.delete("/v1/audiences/a"), try await api.get("/v1/audiences/a")] {
                #expect(answer.status == 404)
                #expect(answer.json?["code"] == -1404)
            }
        }
    }

    @Test("An invalid upload is rejected with its reason or the numbers of invalid lines, and changes nothing")
    func refused() async throws {
        try await withService { service in
            let api = service.api
            #expect(try await Self.upload(api, "a", [1, 2]) == 201)
            let bad = try await api.put("/v1/audiences/a", Array("1\r\n\r\nx\n5\n0\n-7".utf8))
            #expect(bad.status == 400)
            #expect(bad.json?["type"]?.string?.hasSuffix(":invalid-lines") == true)
            #expect(bad.json?["lines"] == [3, 5, 6])
            #expect(bad.json?["detail"]?.string?.contains("3, 5, 6") == true)
            #expect(bad.json?["allowed"]?.string?.contains("9223372036854775807") == true)
            for empty in ["", "\n", "\r\n\n"] {
                let answer = try await api.put("/v1/audiences/a", Array(empty.utf8))
                #expect(answer.status == 400)
                #expect(answer.json?["type"]?.string?.hasSuffix(":empty-audience") == true)
            }
            for type in [nil, "application/json", "text/csv", "application/x-www-form-urlencoded"] {
                #expect(try await api.put("/v1/audiences/a", Array("3\n".utf8), type: type).status == 415)
            }
            for name in ["a%20b", "%ED%95%9C", "a%2Fb", String(repeating: "a", count: 101)] {
                let answer = try await api.put("/v1/audiences/\(name)", Array("3\n".utf8))
                #expect(answer.status == 400)
                #expect(answer.field == "name")
                #expect(try await api.get("/v1/audiences/\(name)").status == 404)
            }
            #expect(try await Self.users(service.database, "a") == [1, 2])
            #expect(try await service.database.count("audiences") == 1)
            #expect(try await service.database.count("audience_parts") == 1)
        }
    }

    @Test("An upload with too many invalid lines is rejected before its end")
    func hopeless() async throws {
        try await withSharedService { service in
            let upload = try RawUpload(service.api, "/v1/audiences/a", length: 1 << 40)
            try upload.send(Array(String(repeating: "x\n", count: 20).utf8))
            let answer = try await upload.answer()
            #expect(answer.hasPrefix("HTTP/1.1 400 "))
            #expect(answer.contains(#""lines":[1,2,3,4,5,6,7,8,9,10]"#))
        }
    }

    @Test("Uploads and deletions require the scope send")
    func scopes() async throws {
        try await withService { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            let reader = service.api.with(
                "Bearer \(try await store.create(name: "reader", scopes: [.read, .devices], expiresAt: nil))"
            )
            let sender = service.api.with(
                "Bearer \(try await store.create(name: "sender", scopes: [.send], expiresAt: nil))"
            )
            #expect(try await Self.upload(service.api.with(nil), "a", [1]) == 401)
            #expect(try await Self.upload(reader, "a", [1]) == 403)
            #expect(try await Self.upload(sender, "a", [1]) == 201)
            #expect(try await reader.delete("/v1/audiences/a").status == 403)
            #expect(try await sender.delete("/v1/audiences/a").status == 204)
        }
    }

    @Test("A body may arrive octet by octet; until its end the audience keeps its previous users")
    func octets() async throws {
        try await withService { service in
            let api = service.api
            #expect(try await Self.upload(api, "a", [1, 2]) == 201)
            let body = Array("30\r\n9223372036854775807\r\n\r\n7\r\n30\r\n1".utf8)
            let upload = try RawUpload(api, "/v1/audiences/a", length: body.count)
            for octet in body.dropLast() {
                try upload.send([octet])
                // A pause, because octets that arrive together are read together.
                try await Task.sleep(for: .milliseconds(1))
            }
            try await Self.isUnderWay(service, 1)
            #expect(try await Self.users(service.database, "a") == [1, 2])
            #expect(try await api.get("/v1/audiences/a").json?["users"] == 2)
            try upload.send(body.suffix(1))
            let answer = try await upload.answer()
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
            #expect(answer.contains(#""users":4"#))
            #expect(try await Self.users(service.database, "a") == [1, 7, 30, .max])
        }
    }

    /// Waits until `count` uploads are in their `COPY`.
    private static func isUnderWay(_ service: TestService, _ count: Int64) async throws {
        try await eventually("\(count) uploads are in progress") {
            try await service.database.integer(
                """
                SELECT count(*)
                FROM pg_stat_activity
                WHERE datname = current_database()
                    AND state = 'active'
                    AND query LIKE 'COPY audience_upload%'
                """
            ) == count
        }
    }

    @Test("A client that disconnects during an upload changes nothing, and its slot becomes free")
    func interrupted() async throws {
        try await withService { service in
            let api = service.api
            #expect(try await Self.upload(api, "a", [1, 2]) == 201)
            for _ in 0..<4 {
                let upload = try RawUpload(api, "/v1/audiences/a", length: 1 << 20)
                try upload.send(Self.lines(1...10_000))
                try await Self.isUnderWay(service, 1)
                upload.abandon()
                try await Self.isUnderWay(service, 0)
            }
            #expect(try await Self.users(service.database, "a") == [1, 2])
            #expect(try await service.database.count("audience_parts") == 1)
            try await eventually("a slot is free") { try await Self.upload(api, "a", [3]) == 200 }
        }
    }

    @Test("A client that disconnects while its users are sorted and stored changes nothing")
    func interruptedAtTheEnd() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            #expect(try await Self.upload(api, "a", [1, 2]) == 201)
            // While this lock is held, no audience can be stored.
            let lock: SQL = "LOCK TABLE audience_parts IN EXCLUSIVE MODE"
            try await database.pool.withTransaction { transaction in
                try await transaction.execute(script: lock)
                let body = Self.lines(1...1000)
                let upload = try RawUpload(api, "/v1/audiences/a", length: body.count)
                try upload.send(body)
                let waits = "SELECT count(*) FROM pg_locks WHERE relation = 'audience_parts'::regclass AND NOT granted"
                try await eventually("it waits for the lock") { try await database.integer(waits) == 1 }
                upload.abandon()
                try await eventually("the upload is aborted") { try await database.integer(waits) == 0 }
            }
            #expect(try await Self.users(database, "a") == [1, 2])
            #expect(try await Self.upload(api, "a", [3]) == 200)
        }
    }

    @Test("If the database fails during an upload, the response is 503 and nothing changes")
    func databaseLost() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            #expect(try await Self.upload(api, "a", [1, 2]) == 201)
            let body = Self.lines(1...1000)
            let upload = try RawUpload(api, "/v1/audiences/a", length: body.count)
            try upload.send(Array(body.dropLast()))
            try await Self.isUnderWay(service, 1)
            try await database.pool.write(
                """
                SELECT pg_terminate_backend(pid)
                FROM pg_stat_activity
                WHERE datname = current_database()
                    AND query LIKE 'COPY audience_upload%'
                """
            )
            try upload.send(body.suffix(1))
            let answer = try await upload.answer()
            #expect(answer.hasPrefix("HTTP/1.1 503 "))
            #expect(answer.contains(":database-unavailable"))
            #expect(try await Self.users(database, "a") == [1, 2])
            try await eventually("the database works again") { try await Self.upload(api, "a", [3]) == 200 }
        }
    }

    @Test("A server accepts two concurrent uploads; a third must retry later")
    func places() async throws {
        try await withService { service in
            let api = service.api
            let body = Self.lines([5, 6])
            let uploads = try (1...2).map { try RawUpload(api, "/v1/audiences/\($0)", length: body.count) }
            for upload in uploads { try upload.send([body[0]]) }
            try await Self.isUnderWay(service, 2)
            let third = try await api.put("/v1/audiences/3", body)
            #expect(third.status == 503)
            #expect(third.json?["type"]?.string?.hasSuffix(":too-many-uploads") == true)
            #expect(third.headerFields[.retryAfter] != nil)
            for upload in uploads { try upload.send(Array(body.dropFirst())) }
            for upload in uploads { #expect(try await upload.answer().hasPrefix("HTTP/1.1 201 ")) }
            #expect(try await api.put("/v1/audiences/3", body).status == 201)
        }
    }

    @Test("Of two concurrent uploads to one audience, the one that ends last determines its users")
    func together() async throws {
        try await withService { service in
            let bodies = [Self.lines(1...5), Self.lines(6...9)]
            let uploads = try bodies.map { try RawUpload(service.api, "/v1/audiences/a", length: $0.count) }
            for (upload, body) in zip(uploads, bodies) { try upload.send(Array(body.dropLast())) }
            try await Self.isUnderWay(service, 2)
            var answers: [String] = []
            for upload in uploads.reversed() {
                try upload.send([UInt8(ascii: "\n")])
                answers.append(try await upload.answer())
            }
            #expect(answers.map { $0.prefix(12) } == ["HTTP/1.1 201", "HTTP/1.1 200"])
            #expect(try await Self.users(service.database, "a") == [1, 2, 3, 4, 5])
        }
    }

    @Test(
        "All members of an audience with a phone for the message are reached, in dense and in sparse audiences",
        arguments: [1, 3, 50] as [Int64]
    )
    func phones(distance: Int64) async throws {
        try await withService { service in
            try await service.database.addPhones((1...12_000).filter { !$0.isMultiple(of: 7) })
            try await service.database.pool.write("UPDATE devices SET push_type = 'apns' WHERE user_id % 5 = 0")
            try await service.database.pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
                SELECT id, 'tablet', 'apns', 'tablet-' || id, 1
                FROM generate_series(11, 12000, 11) AS id
                """
            )
            let members = stride(from: distance, through: 12_000, by: Int(distance)).map { Int($0) }
            #expect(try await Self.upload(service.api, "a", members) == 201)
            let push = try await service.api.create(["audience": "a"])
            try await service.api.waitUntilDone(push)
            let addressed = members.filter { !$0.isMultiple(of: 7) && !$0.isMultiple(of: 5) }
            let expected = counts(members.count, sent: addressed.count, skipped: members.count - addressed.count)
            #expect(try await service.api.users(push) == expected)
            #expect(service.kakao.reachedOnce(addressed.map { Int64($0) }))
            #expect(service.kakao.sandbox.reached(marker: "m").times == addressed.count)
        }
    }

    @Test("Only parts without an audience or an unfinished push are removed, in steps")
    func unusedParts() async throws {
        try await withService { service in
            let (api, database) = (service.api, service.database)
            let pool = database.pool
            #expect(try await Self.upload(api, "kept", 1...1500) == 201)
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 0)
            #expect(try await Self.upload(api, "pinned", 1...2500) == 201)
            let push = try await api.push([1])
            let id = try #require(UUID(uuidString: String(push.split(separator: "/").last ?? "")))
            try await api.waitUntilDone(push)
            func set(_ state: String) async throws {
                try await database.pool.write(
                    """
                    UPDATE pushes
                    SET state = $2,
                        audience_parts_id = COALESCE(audience_parts_id, (SELECT parts_id FROM audiences WHERE name = 'pinned'))
                    WHERE id = $1
                    """,
                    [.uuid(id), .text(state)]
                )
            }
            try await set("paused")
            #expect(try await Self.upload(api, "pinned", [1]) == 200)
            #expect(try await Self.upload(api, "gone", 1...4500) == 201)
            #expect(try await api.delete("/v1/audiences/gone").status == 204)
            for state in ["scheduled", "preparing", "paused", "halted", "sending"] {
                try await set(state)
                // Each step removes one unused part. Those of the push are kept.
                #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 1)) as Int == 1, "\(state)")
            }
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 100)) as Int == 0)
            #expect(try await database.count("audience_parts") == 2 + 3 + 1)
            // An upload in progress is not affected, and leaves no parts behind.
            let body = Self.lines([8, 9])
            let upload = try RawUpload(api, "/v1/audiences/new", length: body.count)
            try upload.send(Array(body.dropLast()))
            try await Self.isUnderWay(service, 1)
            try await set("canceled")
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 2)) as Int == 2)
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 2)) as Int == 1)
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 2)) as Int == 0)
            try upload.send(body.suffix(1))
            #expect(try await upload.answer().hasPrefix("HTTP/1.1 201 "))
            #expect(try await pool.write(DeleteUnusedAudienceParts(limit: 2)) as Int == 0)
            #expect(try await Self.users(database, "kept") == Array(1...1500))
            #expect(try await Self.users(database, "new") == [8, 9])
        }
    }
}
