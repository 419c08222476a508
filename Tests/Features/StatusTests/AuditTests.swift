import Crypto
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import KakaoRelay
import KakaoSandbox
import Postgres
import Pushes
import Server
import ServiceTesting
import Status
import TestSupport
import Testing

@testable import Endpoints
@testable import ServiceKit
@testable import Settings
@testable import Sharing

/// The audit log: which calls of operators are recorded, and how it is read.
@Suite(.timeLimit(.minutes(5))) struct AuditTests {
    /// A changing operation of operators, by examples.
    private struct Example: Sendable {
        /// Makes a call that changes something.
        let accepted: @Sendable (TestService) async throws -> HTTPClientResponse
        /// Makes a call that is rejected; `nil` for an operation that rejects nothing.
        let rejected: (@Sendable (TestService) async throws -> HTTPClientResponse)?
    }

    /// The operations that leave no record, although their method is not GET.
    private static let exempt: Set = [
        // Their rows name the key.
        "registerDevice", "registerDeviceV2", "deregisterDevice", "deregisterDeviceV2", "putDevice",
        "createPush", "copyPush", "sendPush", "sendPushV2", "createMessage",
        // They change nothing.
        "lintTemplate", "previewTemplate", "previewPush", "linkTemplateDefault", "linkTemplateValidate",
        "linkTemplateScrap",
        // They end sessions, which only a browser has: SessionRoutesTests.
        "deleteSession", "deleteOneSession",
    ]

    private static func withEverything(_ body: (TestService) async throws -> Void) async throws {
        try await withWebhooks { settings in
            settings.keepAccounts()
            settings.sharing.signingKey = Secret("signing-key-of-the-tests-0123456789")
            settings.kakao.makesAppKeyCalls = true
            settings.kakao.kaHeader = "sdk/2.27.3 os/ios-17.0"
            settings.relay.relaysStory = true
            settings.pushes.approvalAboveUsers = 1
        } _: { service in
            try await body(service)
        }
    }

    private static func records(_ service: TestService, of operation: String) async throws -> Int {
        try await service.database.count("audit_records WHERE operation = '\(operation)'")
    }

    private static func unknownPush() -> String { "/v1/pushes/\(UUID.v7().lowercased)" }

    // MARK: Changes

    @Test(
        "Each change by an operator key leaves one record, and each rejected one none, for all operations of the document"
    )
    func changes() async throws {
        try await Self.withEverything { service in
            try await service.database.addPhones([1, 2])
            var examples = try await Self.examples(service)
            let relayed = try await Self.relayedExamples(service)
            examples.merge(relayed) { own, _ in own }
            let document = try #require(try await service.api.get("/openapi.json").json)
            var operations: [String] = []
            for (_, methods) in document["paths"]?.object?.members ?? [] {
                for (method, operation) in methods.object?.members ?? [] where method != "get" {
                    // Calls of the app's users and of Kakao have other credentials only.
                    let schemes = operation["security"]?.array?.flatMap { $0.object?.members.map(\.name) ?? [] } ?? []
                    guard schemes.contains("operatorKey"), let id = operation["operationId"]?.string,
                        // The same operation by another method.
                        !id.contains("ByPost")
                    else { continue }
                    operations.append(id)
                }
            }
            #expect(Set(examples.keys).union(Self.exempt) == Set(operations))
            for (operation, example) in examples.sorted(by: { $0.key < $1.key }) {
                let answer = try await example.accepted(service)
                #expect((200...299).contains(answer.status), "\(operation): \(answer.status) \(answer.text)")
                try await eventually("\(operation) is recorded") {
                    try await Self.records(service, of: operation) >= 1
                }
                if let rejected = example.rejected {
                    let answer = try await rejected(service)
                    #expect((400...499).contains(answer.status), "\(operation): \(answer.status) \(answer.text)")
                }
                #expect(try await Self.records(service, of: operation) == 1, "\(operation)")
            }
        }
    }

    private static func examples(_ service: TestService) async throws -> [String: Example] {
        let api = service.api
        func push(_ marker: String) async throws -> String {
            let later = (Date() + 3600).ISO8601Format()
            return try await api.create(["uuids": [1]], gcm(marker), ["send_at": .string(later)])
        }
        func control(_ name: String, _ prepare: [String] = []) async throws -> Example {
            let path = try await push(name)
            for step in prepare { #expect(try await api.control(path, step) == 200) }
            return Example(
                accepted: { try await $0.api.post("\(path)/\(name)") },
                rejected: { try await $0.api.post("\(unknownPush())/\(name)") }
            )
        }
        service.kakao.fail("send", status: 400, code: -8, times: 1)
        let done = try await api.push([1], marker: "retry")
        try await api.waitUntilDone(done)
        let canceled = try await push("canceled")
        #expect(try await api.control(canceled, "pause") == 200)
        try await service.database.pool.write("DELETE FROM audit_records")
        let resumed = try await push("resumed")
        #expect(try await api.control(resumed, "pause") == 200)
        try await service.database.pool.write("DELETE FROM audit_records")
        let creator = api.with("Bearer \(try await service.operatorKey(.send))")
        let (approved, rejected) = (try await creator.create(), try await creator.create())
        try await service.database.pool.write("DELETE FROM audit_records")
        var examples: [String: Example] = [
            "replayWebhooks": Example(
                accepted: { try await $0.api.post("/v1/webhooks/replay", json: ["since": "2026-01-01T00:00:00Z"]) },
                rejected: { try await $0.api.post("/v1/webhooks/replay", json: ["id": "unknown"]) }
            ),
            "cancelWebhookReplays": Example(
                accepted: { try await $0.api.delete("/v1/webhooks/replay") },
                rejected: nil
            ),
            "testWebhooks": Example(accepted: { try await $0.api.post("/v1/webhooks/test") }, rejected: nil),
            "approvePush": Example(
                accepted: { try await $0.api.post("\(approved)/approve") },
                rejected: { try await $0.api.post("\(unknownPush())/approve") }
            ),
            "rejectPush": Example(
                accepted: { try await $0.api.post("\(rejected)/reject", json: ["reason": "Test"]) },
                rejected: { try await $0.api.post("\(rejected)/approve") }
            ),
            "pausePush": try await control("pause"),
            "resumePush": Example(
                accepted: { try await $0.api.post("\(resumed)/resume") },
                rejected: { try await $0.api.post("\(unknownPush())/resume") }
            ),
            "cancelPush": try await control("cancel"),
            "retryPush": Example(
                accepted: { try await $0.api.post("\(done)/retry") },
                rejected: { try await $0.api.post("\(unknownPush())/retry") }
            ),
            "putAudience": Example(
                accepted: { try await $0.api.put("/v1/audiences/a", Array("1\n2\n".utf8)) },
                rejected: { try await $0.api.put("/v1/audiences/a", Array("x\n".utf8)) }
            ),
            "deleteAudience": Example(
                accepted: {
                    _ = try await $0.api.put("/v1/audiences/b", Array("1\n".utf8))
                    try await $0.database.pool.write("DELETE FROM audit_records WHERE operation = 'putAudience'")
                    return try await $0.api.delete("/v1/audiences/b")
                },
                rejected: { try await $0.api.delete("/v1/audiences/b") }
            ),
            "stopSender": Example(
                accepted: { try await $0.api.post("/v1/sender/stop", json: ["reason": "Test"]) },
                rejected: { try await $0.api.post("/v1/sender/stop") }
            ),
            "startSender": Example(
                accepted: {
                    try await $0.database.pool.write(
                        "UPDATE sender SET stopped_at = now(), reason = 'Test', stopped_by = 'test'"
                    )
                    return try await $0.api.post("/v1/sender/start")
                },
                rejected: nil
            ),
            "importDevices": Example(
                accepted: {
                    let line = #"{"user_id":3,"device_id":"d","push_type":"fcm","push_token":"t"}"#
                    return try await $0.api.post("/v1/devices/import", Array(line.utf8), type: "application/x-ndjson")
                },
                rejected: {
                    try await $0.api.post("/v1/devices/import", Array("x".utf8), type: "application/x-ndjson")
                }
            ),
            "reconcileUser": Example(
                accepted: { try await $0.api.post("/v1/users/1/sync") },
                rejected: { try await $0.api.post("/v1/users/0/sync") }
            ),
            "createKey": Example(
                accepted: { try await $0.api.post("/v1/keys", json: ["name": "a", "role": "on-call"]) },
                rejected: { try await $0.api.post("/v1/keys", json: ["name": "a"]) }
            ),
            "deleteKey": Example(
                accepted: { service in
                    let key = try await service.api.post("/v1/keys", json: ["name": "a", "role": "on-call"])
                    try await service.database.pool.write("DELETE FROM audit_records WHERE operation = 'createKey'")
                    return try await service.api.delete("/v1/keys/\(key.json?["id"]?.string ?? "")")
                },
                rejected: { try await $0.api.delete("/v1/keys/x") }
            ),
            "deleteDevice": Example(
                accepted: { try await $0.api.delete("/v1/devices/phone?user_id=2") },
                rejected: { try await $0.api.delete("/v1/devices/phone") }
            ),
            "deleteUser": Example(
                accepted: { try await $0.api.delete("/v1/users/2") },
                rejected: { try await $0.api.delete("/v1/users/0") }
            ),
        ]
        examples.merge(try await sharingExamples(service)) { own, _ in own }
        examples.merge(try await accountExamples(service)) { own, _ in own }
        return examples
    }

    private static func sharingExamples(_ service: TestService) async throws -> [String: Example] {
        let share = try await service.api.post("/v1/link/shares", json: ["template_id": 7])
        let id = try #require(share.json?["id"]?.string, "\(share.text)")
        let image = try await service.api.post("/v1/images", TestImage.png(2), type: "image/png")
        let imageID = try #require(image.json?["id"]?.string, "\(image.text)")
        try await service.database.pool.write("DELETE FROM audit_records")
        return [
            "createShare": Example(
                accepted: { try await $0.api.post("/v1/link/shares", json: ["template_id": 8]) },
                rejected: { try await $0.api.post("/v1/link/shares", json: ["nonsense": 1]) }
            ),
            "reportConversion": Example(
                accepted: {
                    let body: JSONValue = ["event": "purchase", "user_id": 1]
                    return try await $0.api.post("/v1/link/shares/\(id)/conversions", json: body)
                },
                rejected: {
                    let body: JSONValue = ["event": "purchase", "user_id": 1]
                    let unknown = "AZ-oAAAAcACAAAAAAAAAAA"
                    return try await $0.api.post("/v1/link/shares/\(unknown)/conversions", json: body)
                }
            ),
            "createImage": Example(
                accepted: { try await $0.api.post("/v1/images", TestImage.png(1), type: "image/png") },
                rejected: { try await $0.api.post("/v1/images", Array("text".utf8), type: "image/png") }
            ),
            "deleteImage": Example(
                accepted: { try await $0.api.delete("/v1/images/\(imageID)") },
                rejected: { try await $0.api.delete("/v1/images/\(imageID)") }
            ),
        ]
    }

    private static func accountExamples(_ service: TestService) async throws -> [String: Example] {
        for user in [11, 12, 17] as [Int64] { #expect(try await service.logIn(user).status == 200) }
        let later = (Date() + 3600).ISO8601Format()
        let sent = try await service.api.post(
            "/v1/messages",
            json: ["sender": 11, "to": "me", "template_id": 7, "send_at": .string(later)]
        )
        let message = try #require(sent.json?["id"]?.string, "\(sent.text)")
        let file: JSONValue = ["channel_public_id": "_xmXjjG", "file_name": "vip", "schema": ["구매금액": "number"]]
        let uploads = "/v1/channels/customer-uploads"
        let query = "channel_public_id=_xmXjjG&file_id=1&user_type=app"
        let upload = UUID.v7().lowercased
        try await service.database.pool.write(
            """
            INSERT INTO customer_uploads (id, channel_public_id, file_id, user_type, action, state, users)
            VALUES ($1::text::uuid, '_ZeUTxl', 1, 'app', 'update', 'sending', 1)
            """,
            [.text(upload)]
        )
        var browser = Browser(service.api)
        let ticket = try await browser.logIn(at: service.kakao, ["login_hint": "13"]).location?["ticket"]
        try await service.database.pool.write("DELETE FROM audit_records")
        return [
            "redeemTicket": Example(
                accepted: { try await $0.api.post("/v1/login/tickets", json: ["ticket": .string(ticket ?? "")]) },
                rejected: { try await $0.api.post("/v1/login/tickets", json: ["ticket": .string(ticket ?? "")]) }
            ),
            "exchangeCode": Example(
                accepted: { try await $0.logIn(14) },
                rejected: {
                    let body: JSONValue = ["code": "used", "redirect_uri": .string(TestService.redirectURI)]
                    return try await $0.api.post("/v1/login/code", json: body)
                }
            ),
            "importTokens": Example(
                accepted: { try await importTokens(to: 15, $0) },
                rejected: { try await importTokens(to: 16, $0) }
            ),
            "getAccessToken": Example(
                accepted: { try await $0.accessToken(of: 17) },
                rejected: { try await $0.accessToken(of: 999) }
            ),
            "deleteAccount": Example(
                accepted: { try await $0.api.delete("/v1/accounts/12") },
                rejected: { try await $0.api.delete("/v1/accounts/0") }
            ),
            "channelFileCreate": Example(
                accepted: { try await $0.api.post("/v1/talkchannel/create/target_user_file", json: file) },
                rejected: { try await $0.api.post("/v1/talkchannel/create/target_user_file", json: file) }
            ),
            "createCustomerUpload": Example(
                accepted: { try await $0.api.post("\(uploads)?\(query)", Array("1".utf8), type: "text/plain") },
                rejected: { try await $0.api.post("\(uploads)?\(query)", Array("one".utf8), type: "text/plain") }
            ),
            "cancelCustomerUpload": Example(
                accepted: { try await $0.api.post("\(uploads)/\(upload)/cancel") },
                rejected: { try await $0.api.post("\(uploads)/\(UUID.v7().lowercased)/cancel") }
            ),
            "cancelMessage": Example(
                accepted: { try await $0.api.post("/v1/messages/\(message)/cancel") },
                rejected: { try await $0.api.post("/v1/messages/\(UUID.v7().lowercased)/cancel") }
            ),
            "logOutUser": ended("logout"),
            "unlinkUser": ended("unlink"),
        ]
    }

    private static func ended(_ name: String) -> Example {
        Example(
            accepted: {
                try await $0.api.post("/v1/user/\(name)", form: ["target_id_type": "user_id", "target_id": "11"])
            },
            rejected: { try await $0.api.post("/v1/user/\(name)", form: [:]) }
        )
    }

    /// Imports the access token of user 15.
    private static func importTokens(to userID: Int64, _ service: TestService) async throws -> HTTPClientResponse {
        let token = try #require(service.kakao.sandbox.accessToken(of: 15))
        let body: JSONValue = ["access_token": .string(token), "app_key": "native", "refreshed_by": "app"]
        return try await service.api.put("/v1/accounts/\(userID)/tokens", body.bytes(), type: "application/json")
    }

    /// Returns the relayed calls that change something at Kakao. The operator names user 20, who is logged in.
    private static func relayedExamples(_ service: TestService) async throws -> [String: Example] {
        let user: Int64 = 20
        #expect(try await service.logIn(user).status == 200)
        try await service.database.pool.write("DELETE FROM audit_records")
        try service.kakao.sandbox.befriend(user, [8, 9])
        let friends = [8, 9].map { service.kakao.sandbox.friendUUID(of: $0) }
        let calls = Dictionary(uniqueKeysWithValues: KakaoCalls.all.map { ($0.name, $0) })
        var examples: [String: Example] = [:]
        for fixture in try KakaoFixture.relayed() {
            guard let call = calls[fixture.name], !call.hasMethodGet, call.name != "logout", call.name != "unlink"
            else {
                continue
            }
            examples[call.operationID] = Example(
                accepted: {
                    try await $0.allowAllCalls(of: user)
                    return try await fixture.send(
                        by: $0.api,
                        friends: friends,
                        target: fixture.isOfUser ? user : nil
                    )
                },
                rejected: { service in
                    // Kakao rejects it.
                    var fault = Fault(.status)
                    fault.path = fixture.path
                    fault.status = 400
                    fault.code = -2
                    service.kakao.sandbox.add(fault)
                    defer { service.kakao.sandbox.removeFaults() }
                    return try await fixture.send(
                        by: service.api,
                        friends: friends,
                        target: fixture.isOfUser ? user : nil
                    )
                }
            )
        }
        return examples
    }

    @Test("A change whose record cannot be stored fails, and changes nothing; a lookup does not fail")
    func unrecorded() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(["uuids": [1]], gcm(), ["send_at": "2100-01-01T00:00:00Z"])
            _ = try await service.api.put("/v1/audiences/a", Array("1\n".utf8))
            try await service.database.pool.write("ALTER TABLE audit_records RENAME TO hidden")
            #expect(try await service.api.control(push, "cancel") == 500)
            #expect(try await service.api.state(push) == "scheduled")
            #expect(try await service.api.put("/v1/audiences/a", Array("1\n2\n".utf8)).status == 500)
            #expect(try await service.api.get("/v1/audiences/a").json?["users"] == 1)
            #expect(try await service.api.delete("/v1/users/1").status == 500)
            #expect(try await service.api.get("/v1/devices/export", ["reason": "Test"]).status == 500)
            let devices = try await service.api.get("/v1/users/1/devices")
            #expect(devices.status == 200 && devices.json?["items"]?.array?.count == 1)
            try await eventually("the log has the lookup") {
                service.log.lines.contains {
                    $0.text.contains("Lookup not recorded") && $0.text.contains("listDevicesOfUser")
                }
            }
        }
    }

    @Test("A change at Kakao whose record cannot be stored fails before it has reached Kakao")
    func unrecordedAtKakao() async throws {
        try await withKakaoLogin { service in
            try await service.database.pool.write("ALTER TABLE audit_records RENAME TO hidden")
            let form: KeyValuePairs = [
                "target_id_type": "user_id", "target_id": "7", "properties": #"{"nickname":"A"}"#,
            ]
            #expect(try await service.api.post("/v1/user/update_profile", form: form).status == 500)
            #expect(service.kakao.sandbox.stats.requests["/v1/user/update_profile"] == nil)
        }
    }

    // MARK: Reading

    @Test("A record says who did what, from where, to whom and why; the list is filtered and paged")
    func listing() async throws {
        try await withService {
            $0.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
        } _: { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            let secret = try await store.create(
                name: "night shift",
                scopes: [.operate, .read, .export],
                expiresAt: nil
            )
            let key = try #require(try await store.list().first)
            let operatorAPI = service.api.with("Bearer \(secret)").from("203.0.113.7")
            let stopped = try await operatorAPI.post("/v1/sender/stop", json: ["reason": "Wrong text"])
            #expect(stopped.status == 200)
            #expect(try await operatorAPI.get("/v1/devices/export", ["reason": "Move to 새 시스템"]).status == 200)
            try await service.database.addPhones([5])
            #expect(try await operatorAPI.get("/v1/users/5/devices").status == 200)
            try await eventually("the lookup is recorded") {
                try await Self.records(service, of: "listDevicesOfUser") == 1
            }
            let items = try await service.api.get("/v1/audit").json?["items"]?.array ?? []
            #expect(
                items.map { $0["operation"]?.string }
                    == ["listDevicesOfUser", "exportDevices", "stopSender", "createKey"]
            )
            let stop = try #require(items.first { $0["operation"] == "stopSender" })
            #expect(stop["actor"]?["name"] == "night shift")
            #expect(stop["actor"]?["key_id"]?.string == key.id.lowercased)
            #expect(stop["address"] == "203.0.113.7")
            #expect(stop["reason"] == "Wrong text")
            #expect(stop["user_id"] == .null && stop["object"] == .null)
            let requestID = try #require(HTTPField.Name("X-Request-Id"))
            #expect(stop["request_id"]?.string == stopped.headerFields[requestID])
            #expect(items[1]["reason"] == "Move to 새 시스템")
            #expect(items[0]["user_id"] == "5")
            #expect(items[3]["actor"]?["key_id"] == .null)
            #expect(items[3]["object"]?.string == key.id.lowercased)

            for (query, count) in [
                (["user_id": "5"], 1), (["user_id": "6"], 0), (["operation": "stopSender"], 1),
                (["object": key.id.lowercased], 1), (["object": "other"], 0), (["key_id": key.id.lowercased], 3),
                (["key_id": UUID.zero.lowercased], 0),
                (["since": "2100-01-01T00:00:00Z"], 0), (["until": "2100-01-01T00:00:00Z"], 4),
                (["until": "2001-01-01T00:00:00Z"], 0),
            ] as [(KeyValuePairs<String, String>, Int)] {
                let found = try await service.api.get("/v1/audit", query).json?["items"]?.array?.count
                #expect(found == count, "\(query)")
            }
            let page = try await service.api.get("/v1/audit", ["limit": "3"]).json
            let next = try #require(page?["next"]?.string)
            let rest = try await service.api.get("/v1/audit", ["limit": "3", "cursor": next]).json
            #expect(rest?["items"]?.array?.map { $0["operation"] } == ["createKey"])
            #expect(try await operatorAPI.get("/v1/audit").status == 403)
        }
    }

    @Test("A filter by an operation that leaves no records is rejected, with the names of those that do")
    func unknownOperation() async throws {
        try await withSharedService { service in
            for name in ["stopSendr", "keys create", "createPush", "getOpenAPIDocument"] {
                let answer = try await service.api.get("/v1/audit", ["operation": name])
                #expect(answer.status == 400 && answer.field == "operation", "\(name)")
                let allowed = answer.json?["allowed"]?.string ?? ""
                #expect(allowed.hasPrefix("one of ") && allowed.contains(" createKey, "), "\(allowed)")
                #expect(!allowed.contains(name))
                let hint = answer.json?["detail"]?.string?.contains("Did you mean `stopSender`?")
                #expect(hint == (name == "stopSendr"))
            }
        }
    }

    @Test("Commands on the server's machine leave records of the operations that do the same over HTTP")
    func commands() async throws {
        try await TestDatabase.with { database in
            let store = OperatorKeyStore(pool: database.pool)
            for _ in 0..<2 { _ = try await store.create(name: "a", scopes: [.read], expiresAt: nil) }
            let key = try #require(try await store.list().first)
            #expect(try await store.revoke(id: key.id))
            #expect(try await store.revoke(name: "a") == 1)
            let operations = try await database.text(
                "SELECT string_agg(operation, ' ' ORDER BY id) FROM audit_records WHERE key_id IS NULL"
            )
            #expect(operations == "createKey createKey deleteKey deleteKey")
            // Each says which of the keys of that name.
            let named = try await database.text(
                """
                SELECT count(*)::text
                FROM operator_keys AS key
                WHERE 2 = (SELECT count(*) FROM audit_records WHERE object = key.id::text)
                """
            )
            #expect(named == "2")
        }
    }

    @Test(
        "The export has all records, the earliest first, and is itself recorded; a download without a reason is rejected"
    )
    func export() async throws {
        try await withService { service in
            try await service.database.pool.write(
                """
                INSERT INTO audit_records (id, key_name, operation)
                SELECT uuid_v7_floor(now() - interval '1 hour' + make_interval(secs => n)), 'k', 'op' || n
                FROM generate_series(1, 2500) AS n
                """
            )
            let missing = try await service.api.get("/v1/audit/export")
            #expect(missing.status == 400 && missing.field == "reason")
            let blank = try await service.api.get("/v1/audit/export", ["reason": " "])
            #expect(blank.status == 400 && blank.field == "reason")
            let export = try await service.api.get("/v1/audit/export", ["reason": "Monthly review"])
            let lines = export.text.split(separator: "\n").map { try? JSONValue(parsing: Array($0.utf8)) }
            #expect(lines.count == 2501)
            #expect(lines.first??["operation"] == "op1")
            #expect(lines.last??["operation"] == "exportAuditRecords")
            #expect(lines.last??["reason"] == "Monthly review")
            #expect(lines.last??["actor"]?["key_id"]?.string == UUID.zero.lowercased)
        }
    }

    @Test(
        "A change here that Kakao rejects afterwards is recorded",
        arguments: ["/v1/user/logout", "/v1/user/unlink", "account"]
    )
    func rejectedByKakao(call: String) async throws {
        try await Self.withEverything { service in
            #expect(try await service.logIn(11).status == 200)
            try await service.database.pool.write("DELETE FROM audit_records")
            var fault = Fault(.status)
            fault.path = call == "account" ? "/v1/user/unlink" : call
            (fault.status, fault.code) = (400, -2)
            service.kakao.sandbox.add(fault)
            let rejected =
                if call == "account" {
                    try await service.api.delete("/v1/accounts/11")
                } else {
                    try await service.api.post(call, form: ["target_id_type": "user_id", "target_id": "11"])
                }
            #expect(rejected.status == 400)
            #expect(try await service.accessToken(of: 11).status != 200)
            #expect(
                try await service.database.count("audit_records WHERE user_id = 11 AND operation <> 'getAccessToken'")
                    == 1
            )
        }
    }

    @Test("Records of servers whose clocks are wrong are found by the time of the database's clock")
    func clocks() async throws {
        try await withService { service in
            try await service.database.pool.write(
                """
                INSERT INTO audit_records (id, at, key_name, operation)
                SELECT uuid_v7_floor('2026-11-01T12:00:00Z'::timestamptz + minutes * interval '1 minute'), '2026-11-01T12:00:00Z', 'k', 'op'
                FROM unnest('{-50,0,50}'::int[]) AS minutes
                """
            )
            let time: KeyValuePairs = ["since": "2026-11-01T12:00:00Z", "until": "2026-11-01T12:00:01Z"]
            #expect(try await service.api.get("/v1/audit", time).json?["items"]?.array?.count == 3)
            let export = try await service.api.get(
                "/v1/audit/export",
                ["since": "2026-11-01T12:00:00Z", "until": "2026-11-01T12:00:01Z", "reason": "Test"]
            )
            #expect(export.text.split(separator: "\n").count == 3)
        }
    }

    @Test("Each response that is no page of JSON but a file of many objects is a download, with a reason and a record")
    func downloads() async throws {
        try await Self.withEverything { service in
            let push = try await service.api.push([1], marker: "download")
            try await service.api.waitUntilDone(push)
            let document = try #require(try await service.api.get("/openapi.json").json)
            var downloads: [String] = []
            for (path, methods) in document["paths"]?.object?.members ?? [] {
                guard let operation = methods["get"], let id = operation["operationId"]?.string,
                    let schemes = operation["security"]?.array?.flatMap({ $0.object?.members.map(\.name) ?? [] }),
                    schemes.contains("operatorKey"), !Self.texts.contains(id)
                else { continue }
                let types = operation["responses"]?["200"]?["content"]?.object?.members.map(\.name) ?? []
                guard !Set(types).isSubset(of: ["application/json"]) else { continue }
                downloads.append(id)
                let path = path.replacing("/v1/pushes/{id}", with: push)
                let state: KeyValuePairs = id == "exportPushUsers" ? ["state": "failed"] : [:]
                let missing = try await service.api.get(path, state)
                #expect(missing.status == 400 && missing.field == "reason", "\(id)")
                let reason = KeyValuePairs(dictionaryLiteral: ("reason", "Test"))
                let query = state.isEmpty ? reason : ["state": "failed", "reason": "Test"]
                #expect(try await service.api.get(path, query).status == 200, "\(id)")
                #expect(try await Self.records(service, of: id) == 1, "\(id)")
            }
            #expect(
                Set(downloads) == ["exportDevices", "exportLinkCallbacks", "exportPushUsers", "exportAuditRecords"]
            )
        }
    }

    /// The operations whose responses are neither JSON nor data of persons.
    private static let texts: Set = ["getMetrics", "watchPush"]

    @Test("A list of events is recorded if it names a user")
    func events() async throws {
        try await withService { service in
            #expect(try await service.api.get("/v1/events").status == 200)
            #expect(try await service.api.get("/v1/events", ["user_id": "11"]).status == 200)
            try await eventually("the lookup is recorded") {
                try await Self.records(service, of: "listEvents") == 1
            }
            #expect(try await service.database.count("audit_records WHERE user_id = 11") == 1)
        }
    }

    @Test("A list of messages is recorded if it names a sender")
    func senders() async throws {
        try await Self.withEverything { service in
            #expect(try await service.api.get("/v1/messages").status == 200)
            #expect(try await service.api.get("/v1/messages", ["sender": "11"]).status == 200)
            try await eventually("the lookup is recorded") {
                try await Self.records(service, of: "listMessages") == 1
            }
            #expect(try await service.database.count("audit_records WHERE user_id = 11") == 1)
        }
    }

    @Test("Records are deleted after audit.retention_days")
    func retention() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.audit.retentionDays = 2
            try await database.pool.write(
                """
                INSERT INTO audit_records (id, key_name, operation)
                SELECT uuid_v7_floor(now() - make_interval(days => 3, secs => n)), 'k', 'old'
                FROM generate_series(1, 1500) AS n
                """
            )
            try await database.pool.write(
                "INSERT INTO audit_records (id, key_name, operation) VALUES (uuid_v7_floor(now() - interval '1 day'), 'k', 'new')"
            )
            try await RunningServer.with(settings) { _ in
                try await eventually("the old records are deleted", within: .seconds(60)) {
                    try await database.count("audit_records") == 1
                }
            }
        }
    }

    @Test("Registrations by operators name the key; those by users' apps do not")
    func rows() async throws {
        try await withKakaoLogin { service in
            _ = try await service.api.register(1, "token-1")
            let token = try #require(service.kakao.sandbox.accessToken(of: 7))
            #expect(try await service.api.with("Bearer \(token)").register(7, "token-7").status == 200)
            func changedBy(_ user: Int) async throws -> JSONValue? {
                try await service.api.get("/v1/users/\(user)/devices").json?["items"]?[0]?["changed_by"]
            }
            #expect(try await changedBy(1) == "operator.key")
            #expect(try await changedBy(7) == .null)
            // Repeated by the app, and then by the operator.
            #expect(try await service.api.register(7, "token-7").status == 200)
            #expect(try await changedBy(7) == "operator.key")
            #expect(try await Self.records(service, of: "registerDevice") == 0)
        }
    }
}

extension KakaoCall {
    fileprivate static var hasMethodGet: Bool { operation.methods.contains(.get) }

    /// The name of the operation: `talkProfile` for `talk_profile`.
    fileprivate static var operationID: String {
        let words = name.split(separator: "_")
        return words.dropFirst().reduce(String(words.first ?? "")) { $0 + $1.capitalized }
    }
}
