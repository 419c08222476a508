import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Runtime
import Server
import ServiceTesting
import Settings
import TestSupport
import Testing

@testable import Channels
@testable import Postgres

/// Customer files of KakaoTalk channels: their creation, and uploads of any length.
@Suite(.timeLimit(.minutes(5))) struct CustomerFileTests {
    static let creation = "/v1/talkchannel/create/target_user_file"
    static let update = "/v1/talkchannel/update/target_users"
    static let uploads = "/v1/channels/customer-uploads"

    static func withChannels(
        _ adjust: (inout Settings) -> Void = { _ in },
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withService(
            { settings in
                settings.channels.intervals = WorkIntervals(lease: .seconds(2))
                adjust(&settings)
            },
            body
        )
    }

    static func file(_ name: String, schema: JSONValue = ["구매금액": "number"]) -> JSONValue {
        ["channel_public_id": "_ZeUTxl", "file_name": .string(name), "schema": schema]
    }

    static func createFile(_ service: TestService, _ name: String = "vip") async throws -> Int64 {
        let answer = try await service.api.post(creation, json: file(name))
        #expect(answer.status == 200)
        return try #require(answer.json?["file_id"]?.integer)
    }

    /// The files as Kakao has them.
    static func files(_ service: TestService) async throws -> [JSONValue] {
        try await service.kakao.browser.get("/sandbox/customer-files").json?["items"]?.array ?? []
    }

    static func upload(
        _ service: TestService,
        _ file: Int64,
        _ lines: String,
        type: String = "app",
        action: String = "update",
        reader: TestClient? = nil
    ) async throws -> HTTPClientResponse {
        let query = "channel_public_id=_ZeUTxl&file_id=\(file)&user_type=\(type)&action=\(action)"
        return try await (reader ?? service.api).post(
            "\(uploads)?\(query)",
            Array(lines.utf8),
            type: "application/x-ndjson"
        )
    }

    static func ended(_ service: TestService, _ id: String) async throws -> JSONValue {
        var upload: JSONValue?
        try await eventually("the upload ends") {
            upload = try await service.api.get("\(uploads)/\(id)").json
            return upload?["finished_at"] != .null
        }
        return try #require(upload)
    }

    // MARK: Files

    @Test("A file is created once: Kakao refuses a name that is in use")
    func create() async throws {
        try await Self.withChannels { service in
            _ = try await Self.createFile(service)
            let again = try await service.api.post(Self.creation, json: Self.file("vip"))
            #expect(again.status == 400)
            #expect(again.json?["msg"] == "INVALID_FILE_NAME")
            let list = try await service.api.get("/v1/talkchannel/target_user_file", ["channel_public_id": "_ZeUTxl"])
            #expect(list.json?["results"]?.array?.map { $0["file_name"] } == ["vip"])
        }
    }

    @Test("A file whose creation has no response is found by its name, and not created twice")
    func lostResponse() async throws {
        try await Self.withChannels { service in
            var fault = Fault(.dropAfterBody)
            fault.path = Self.creation
            fault.isCarriedOut = true
            service.kakao.sandbox.add(fault)
            let id = try await Self.createFile(service)
            service.kakao.sandbox.removeFaults()
            let files = try await Self.files(service)
            #expect(files.map { $0["file_id"]?.integer } == [id])
        }
    }

    @Test(
        "A file of before is not taken for one whose creation has no response, nor is any while Kakao does not list them"
    )
    func unknownFile() async throws {
        try await Self.withChannels { service in
            _ = try await Self.createFile(service, "vip")
            var lost = Fault(.dropAfterBody)
            (lost.path, lost.isCarriedOut) = (Self.creation, true)
            service.kakao.sandbox.add(lost)
            let again = try await service.api.post(Self.creation, json: Self.file("vip"))
            #expect(again.status == 504)
            #expect(again.problem == "outcome-unknown")
            for kind in [Fault.Kind.status, .anotherHost] {
                var unlisted = Fault(kind)
                // Only the list before the creation: another one could be of any time.
                (unlisted.path, unlisted.times) = ("/v1/talkchannel/target_user_file", 1)
                service.kakao.sandbox.add(unlisted)
                let created = try await service.api.post(Self.creation, json: Self.file(kind.rawValue))
                #expect(created.status == 504)
                #expect(created.problem == "outcome-unknown")
            }
            service.kakao.endFaults()
            #expect(try await Self.files(service).count == 3)
        }
    }

    @Test("If something else responds in Kakao's place, nothing is known of the file")
    func anotherHost() async throws {
        try await Self.withChannels { service in
            var fault = Fault(.anotherHost)
            fault.path = Self.creation
            fault.status = 504
            service.kakao.sandbox.add(fault)
            defer { service.kakao.sandbox.removeFaults() }
            let answer = try await service.api.post(Self.creation, json: Self.file("vip"))
            #expect(answer.status == 504)
            #expect(answer.problem == "outcome-unknown")
        }
    }

    @Test("Kakao ignores misspelt members and stores nothing: they are refused here")
    func misspelt() async throws {
        try await Self.withChannels { service in
            let id = try await Self.createFile(service)
            let users: [JSONValue] = [
                [["id": "1", "field_data": ["구매금액": 5]]], [["id": "1", "field": ["구매금액": true]]],
                [["field": [:]]], ["1"],
            ]
            for users in users {
                let answer = try await service.api.post(
                    Self.update,
                    json: [
                        "file_id": .integer(id), "channel_public_id": "_ZeUTxl", "user_type": "app", "users": users,
                    ]
                )
                #expect(answer.status == 400)
                #expect(answer.field == "users")
            }
            let member = try await service.api.post(
                Self.update,
                json: [
                    "file_id": .integer(id), "channel_public_id": "_ZeUTxl", "user_type": "app", "user": [["id": "1"]],
                ]
            )
            #expect(member.status == 400)
            let lines = #"{"id":"1","field":{"구매금액":5}}"# + "\n" + #"{"id":"2","field_data":{}}"#
            let upload = try await Self.upload(service, id, lines)
            #expect(upload.status == 400)
            #expect(upload.json?["lines"] == [2])
            let detail = upload.json?["detail"]?.string ?? ""
            #expect(detail.contains("2: A user has an unknown member. Allowed: id, field") && !detail.contains("data"))
            #expect(try await Self.files(service).map { $0["calls"] } == [0])
            #expect(try await service.database.count("customer_uploads") == 0)
        }
    }

    @Test("kakao.customer_files_key chooses the key of all calls about customer files", arguments: [true, false])
    func key(isAdminKey: Bool) async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.restAPIKey = "not-the-key-of-the-app"
            settings.kakao.customerFilesKey = isAdminKey ? .admin : .restAPI
        }
        try await Self.withChannels(adjust) { service in
            let created = try await service.api.post(Self.creation, json: Self.file("vip"))
            #expect((created.status == 200) == isAdminKey)
            let list = try await service.api.get("/v1/talkchannel/target_user_file", ["channel_public_id": "_ZeUTxl"])
            #expect((list.status == 200) == isAdminKey)
            let upload = try await Self.upload(service, created.json?["file_id"]?.integer ?? 1, "1")
            let path = "\(Self.uploads)/\(try #require(upload.json?["id"]?.string))"
            try await eventually("Kakao has answered") {
                let upload = try await service.api.get(path).json
                return isAdminKey ? upload?["state"] == "done" : upload?["reason"] != .null
            }
        }
    }

    @Test("The users to delete are texts or objects, as the caller or kakao.customer_references says")
    func references() async throws {
        func adjust(_ settings: inout Settings) { settings.kakao.customerReferences = .objects }
        try await Self.withChannels(adjust) { service in
            let id = try await Self.createFile(service)
            let upload = try await Self.upload(service, id, "1\n2\n3")
            _ = try await Self.ended(service, try #require(upload.json?["id"]?.string))
            for users: JSONValue in [["1"], [["id": "2"]]] {
                let answer = try await service.api.post(
                    "/v1/talkchannel/delete/target_users",
                    json: [
                        "file_id": .integer(id), "channel_public_id": "_ZeUTxl", "user_type": "app",
                        "user_ids": users,
                    ]
                )
                #expect(answer.status == 200)
                #expect(answer.json?["success_count"] == 1)
            }
            let deletion = try await Self.upload(service, id, "3", action: "delete")
            _ = try await Self.ended(service, try #require(deletion.json?["id"]?.string))
            #expect(try await Self.files(service)[0]["users"] == [:])
        }
    }

    // MARK: Uploads

    @Test("An upload of any length reaches Kakao in calls of at most 2,000 users, and counts those who are no friends")
    func parts() async throws {
        try await Self.withChannels { service in
            let id = try await Self.createFile(service)
            try service.kakao.sandbox.setUser(4500, ["channels": ["_ZeUTxl": "BLOCKED"]])
            let lines = (1...4500).map { #"{"id":"\#($0)","field":{"구매금액":\#($0)}}"# }.joined(separator: "\n")
            let created = try await Self.upload(service, id, lines)
            #expect(created.status == 202)
            #expect(created.json?["users"]?["total"] == 4500)
            let ended = try await Self.ended(service, try #require(created.json?["id"]?.string))
            #expect(ended["state"] == "done")
            #expect(ended["users"] == ["total": 4500, "sent": 4500, "accepted": 4499, "not_accepted": 1])
            let file = try await Self.files(service)[0]
            #expect(file["calls"] == 3)
            #expect(file["users"]?.object?.count == 4499)
            #expect(file["users"]?["app 77"] == ["구매금액": 77])
            // Nothing of the users stays here.
            #expect(try await service.database.count("customer_upload_parts") == 0)

            let deletion = try await Self.upload(service, id, "77\r\n78\n\n99999", action: "delete")
            #expect(deletion.status == 202)
            let deleted = try await Self.ended(service, try #require(deletion.json?["id"]?.string))
            #expect(deleted["users"] == ["total": 3, "sent": 3, "accepted": 2, "not_accepted": 1])
            #expect(try await Self.files(service)[0]["users"]?["app 77"] == nil)
        }
    }

    @Test("Parts have up to 2,000 users and half a megabyte, so that Kakao accepts them and they can be read again")
    func partSizes() async throws {
        try await Self.withChannels { service in
            var fields = JSONObject()
            for number in 0..<30 {
                fields["field-\(number)"] = .string(String(repeating: "가", count: 200))
            }
            // Kakao drops the fields that the file does not have.
            let file = Self.file("long", schema: ["field-0": "string"])
            let created = try await service.api.post(Self.creation, json: file)
            let lines = (1...60).map { #"{"id":\#($0),"field":\#(JSONValue.object(fields))}"# }
            let upload = try await Self.upload(
                service,
                try #require(created.json?["file_id"]?.integer),
                lines.joined(separator: "\n")
            )
            #expect(upload.status == 202)
            let ended = try await Self.ended(service, try #require(upload.json?["id"]?.string))
            #expect(ended["users"]?["accepted"] == 60)
            let stored = try await Self.files(service)[0]
            #expect(stored["calls"] == 3)
            #expect(stored["users"]?["app 60"]?["field-0"] == fields["field-0"])
        }
    }

    @Test("A number with an exponent, or with more than 40 characters, is no value of a field")
    func numbers() async throws {
        try await Self.withChannels { service in
            let numbers = ["1e100000", "1E5", String(repeating: "1", count: 41)]
            let lines = numbers.map { #"{"id":"1","field":{"a":\#($0)}}"# } + [#"{"id":"1","field":{"a":-1.5}}"#]
            let answer = try await Self.upload(service, 1, lines.joined(separator: "\n"))
            #expect(answer.status == 400)
            #expect(answer.json?["lines"] == [1, 2, 3])
        }
    }

    @Test("A part that cannot be read ends its upload")
    func unreadable() async throws {
        try await Self.withChannels { service in
            let id = try await Self.createFile(service)
            let hold = service.kakao.fail("*", .status, status: 500, code: -1) { $0.path = Self.update }
            let created = try await Self.upload(service, id, "1")
            try await service.database.pool.write(
                "UPDATE customer_upload_users SET users = jsonb_build_array(jsonb_build_object('id', repeat('1', 27)))"
            )
            service.kakao.sandbox.removeFault(hold)
            let ended = try await Self.ended(service, try #require(created.json?["id"]?.string))
            #expect(ended["state"] == "failed")
            #expect(ended["reason"] == "Part 1 cannot be read.")
        }
    }

    @Test("An upload that Kakao has not accepted within 14 days has failed, and its users are deleted here")
    func expired() async throws {
        try await Self.withChannels { service in
            service.kakao.fail("*", .status, status: 500, code: -1) { $0.path = Self.update }
            let old = try await Self.upload(service, 1, "1")
            let new = try await Self.upload(service, 1, "2")
            try await service.database.pool.write(
                "UPDATE customer_uploads SET created_at = now() - interval '14 days' WHERE id = $1::text::uuid",
                [.text(old.json?["id"]?.string)]
            )
            let expiry = ExpireCustomerUploads(days: 14, limit: 10)
            #expect(try await service.database.pool.write(expiry) == 1)
            let ended = try await Self.ended(service, try #require(old.json?["id"]?.string))
            #expect(ended["state"] == "failed")
            #expect(ended["reason"] == "Not accepted by Kakao within 14 days.")
            let left = try await service.database.text(
                "SELECT string_agg(upload_id::text, ' ') FROM customer_upload_users"
            )
            #expect(left == new.json?["id"]?.string)
        }
    }

    @Test("The erasure of a user reads only the parts with that user")
    func erasureIsIndexed() async throws {
        try await TestDatabase.with { database in
            try await database.pool.write(
                """
                INSERT INTO customer_upload_parts (upload_id, number)
                SELECT '01926f3e-0000-7000-8000-000000000000', number
                FROM generate_series(1, 2000) AS number
                """
            )
            try await database.pool.write(
                """
                INSERT INTO customer_upload_users (upload_id, number, users, user_count, user_ids)
                SELECT upload_id, number, jsonb_agg(jsonb_build_object('id', (number * 100 + user_id)::text)), 100,
                    array_agg(number * 100 + user_id)
                FROM customer_upload_parts
                CROSS JOIN generate_series(1, 100) AS user_id
                GROUP BY upload_id, number
                """
            )
            try await database.pool.write("ANALYZE customer_upload_users")
            let rows = try await database.rowsRead(
                by: EraseUserFromUploads.sql.text,
                types: "bigint",
                values: "77777"
            )
            // One part, and its 100 users.
            #expect(rows < 300)
            #expect(try await database.pool.write(EraseUserFromUploads(userID: 77777)) == 1)
            #expect(try await database.count("customer_upload_users WHERE 77777 = ANY (user_ids)") == 0)
            let users = "customer_upload_users CROSS JOIN jsonb_array_elements(users) AS customer"
            #expect(try await database.count(users) == 199_999)
            #expect(try await database.count("\(users) WHERE customer ->> 'id' = '77777'") == 0)
        }
    }

    @Test("An upload that Kakao refuses has failed, with Kakao's reason, and its users are deleted here")
    func refused() async throws {
        try await Self.withChannels { service in
            let created = try await Self.upload(service, 1, #"{"id":1}"#)
            let ended = try await Self.ended(service, try #require(created.json?["id"]?.string))
            #expect(ended["state"] == "failed")
            #expect(ended["reason"]?.string?.contains("INVALID_FILE_ID") == true)
            #expect(try await service.database.count("customer_upload_parts") == 0)
        }
    }

    @Test("A canceled upload sends no more, and its users are deleted here")
    func canceled() async throws {
        try await Self.withChannels { service in
            let id = try await Self.createFile(service)
            var fault = Fault(.status)
            (fault.path, fault.status, fault.code) = (Self.update, 500, -1)
            service.kakao.sandbox.add(fault)
            let created = try await Self.upload(service, id, #"{"id":1}"#)
            let path = "\(Self.uploads)/\(try #require(created.json?["id"]?.string))"
            let canceled = try await service.api.post("\(path)/cancel")
            #expect(canceled.json?["state"] == "canceled")
            #expect(try await service.api.post("\(path)/cancel").status == 200)
            #expect(try await service.database.count("customer_upload_parts") == 0)
            service.kakao.sandbox.removeFaults()
        }
    }

    @Test("A user who is erased is not sent; phone numbers and fields are in no log and no audit record")
    func personalData() async throws {
        try await Self.withChannels { service in
            let id = try await Self.createFile(service)
            var fault = Fault(.status)
            (fault.path, fault.status, fault.code) = (Self.update, 500, -1)
            service.kakao.sandbox.add(fault)
            let users = try await Self.upload(service, id, #"{"id":1,"field":{"구매금액":987654}}"# + "\n2")
            let phones = try await Self.upload(service, id, "010-8765-4321", type: "phone")
            #expect(try await service.api.delete("/v1/users/1").status == 204)
            service.kakao.sandbox.removeFaults()
            for upload in [users, phones] {
                let ended = try await Self.ended(service, try #require(upload.json?["id"]?.string))
                #expect(ended["state"] == "done")
            }
            let file = try await Self.files(service)[0]
            #expect(file["users"]?.object?.members.map(\.name).sorted() == ["app 2", "phone 010-8765-4321"])
            let log = service.log.lines.map { "\($0)" }.joined()
            let audit = try await service.database.text(
                "SELECT string_agg(record::text, ' ') FROM audit_records AS record"
            )
            for secret in ["8765-4321", "987654"] {
                #expect(!log.contains(secret))
                #expect(!(audit ?? "").contains(secret))
            }
            #expect(try await service.database.count("audit_records WHERE operation = 'createCustomerUpload'") == 2)
        }
    }

    @Test("A server that stops leaves its part to another one; a part that is sent twice changes nothing")
    func reclaimed() async throws {
        try await Self.withChannels { service in
            let id = try await Self.createFile(service)
            // The server has begun to send uploads.
            let first = try await Self.upload(service, id, "2")
            _ = try await Self.ended(service, try #require(first.json?["id"]?.string))
            // As a server leaves it that was killed after its request.
            let upload = CustomerUpload(
                id: .v7(),
                channelPublicID: "_ZeUTxl",
                fileID: id,
                type: .app,
                action: .update,
                createdBy: nil,
                createdAt: .now
            )
            let store = CustomerUploadStore(pool: service.database.pool)
            _ = try await store.create(upload, recording: nil) { writer in
                var rows = CustomerRows(of: upload)
                try rows.append([Customer(id: "1", field: ["구매금액": 1])])
                try rows.end()
                try await writer.write(rows.drain())
            }
            try await service.database.pool.write(
                "UPDATE customer_upload_parts SET lease = gen_random_uuid(), due_at = NULL, claims = 1"
            )
            let ended = try await Self.ended(service, upload.id.lowercased)
            #expect(ended["state"] == "done")
            #expect(try await Self.files(service)[0]["users"]?["app 1"] == ["구매금액": 1])
        }
    }

    @Test("Lines may be cut anywhere, and a fault is named without its content")
    func lines() throws {
        let text = "\u{FEFF}{\"id\":\"1\",\"field\":{\"a\":1}}\r\n\n2\nname\n{\"id\":3,\"field\":[]}"
        for size in 1...8 {
            var lines = CustomerLines(.app)
            var customers: [Customer] = []
            let octets = Array(text.utf8)
            for start in stride(from: 0, to: octets.count, by: size) {
                lines.read(Array(octets[start..<min(start + size, octets.count)]), &customers)
            }
            lines.end(&customers)
            #expect(customers.map(\.id) == ["1", "2"])
            #expect(lines.badLines.map(\.number) == [4, 5])
            #expect(!lines.badLines.contains { $0.reason.contains("name") })
        }
    }
    @Test("The search for bad lines ends a megabyte after the first one, or with the tenth")
    func hopeless() throws {
        var customers: [Customer] = []
        var lines = CustomerLines(.app)
        lines.read(Array("name\n".utf8), &customers)
        let good = Array(String(repeating: "1\n", count: 1 << 19).utf8)
        lines.read(good, &customers)
        #expect(!lines.isHopeless)
        lines.read(Array("1\n".utf8), &customers)
        #expect(lines.isHopeless)

        lines = CustomerLines(.app)
        lines.read(Array(String(repeating: "name\n", count: 9).utf8), &customers)
        #expect(!lines.isHopeless)
        lines.read(Array("name\n".utf8), &customers)
        #expect(lines.isHopeless)
    }
}
