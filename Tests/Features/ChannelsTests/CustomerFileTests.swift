import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Postgres
import Runtime
import Server
import ServiceTesting
import Settings
import TestSupport
import Testing

@testable import Channels

/// Customer files of KakaoTalk channels: their creation, and uploads of any length.
@Suite(.timeLimit(.minutes(5))) struct CustomerFileTests {
    private static let creation = "/v1/talkchannel/create/target_user_file"
    private static let update = "/v1/talkchannel/update/target_users"
    private static let uploads = "/v1/channels/customer-uploads"

    private static func withChannels(_ body: (TestService) async throws -> Void) async throws {
        func adjust(_ settings: inout Settings) { settings.channels.intervals = WorkIntervals(lease: .seconds(2)) }
        try await withService(adjust, body)
    }

    private static func file(_ name: String, schema: JSONValue = ["구매금액": "number"]) -> JSONValue {
        ["channel_public_id": "_ZeUTxl", "file_name": .string(name), "schema": schema]
    }

    private static func createFile(_ service: TestService, _ name: String = "vip") async throws -> Int64 {
        let answer = try await service.api.post(creation, json: file(name))
        #expect(answer.status == 200)
        return try #require(answer.json?["file_id"]?.integer)
    }

    /// The files as Kakao has them.
    private static func files(_ service: TestService) async throws -> [JSONValue] {
        try await service.kakao.browser.get("/sandbox/customer-files").json?["items"]?.array ?? []
    }

    private static func upload(
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

    private static func ended(_ service: TestService, _ id: String) async throws -> JSONValue {
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
            #expect(upload.json?["detail"]?.string?.contains("field_data") == true)
            #expect(try await Self.files(service).map { $0["calls"] } == [0])
            #expect(try await service.database.count("customer_uploads") == 0)
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

    @Test("While Kakao fails, refuses the key or something else responds, an upload waits; it goes on by itself")
    func outage() async throws {
        try await Self.withChannels { service in
            let id = try await Self.createFile(service)
            var fault = Fault(.status)
            (fault.path, fault.status, fault.code) = (Self.update, 500, -1)
            service.kakao.sandbox.add(fault)
            let created = try await Self.upload(service, id, #"{"id":1}"#)
            let path = "\(Self.uploads)/\(try #require(created.json?["id"]?.string))"
            try await eventually("the first attempt fails") {
                try await service.api.get(path).json?["reason"] != .null
            }
            #expect(try await service.api.get(path).json?["state"] == "sending")
            service.kakao.sandbox.removeFaults()
            try await eventually("the upload is done") { try await service.api.get(path).json?["state"] == "done" }
            #expect(try await service.api.get(path).json?["reason"] == .null)
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
            _ = try await store.create(upload, recording: nil) { add in
                try await add([Customer(id: "1", field: ["구매금액": 1])])
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
}
