import Crypto
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import PrivatePostgres
import Server
import ServiceTesting
import Settings
import Sharing
import TestSupport
import Testing

@testable import Callbacks

/// Kakao's calls that are not understood, or not entirely: phones can cause them, Kakao does not repeat them, and it turns
/// off a webhook that fails often. So each is answered 200.
@Suite(.timeLimit(.minutes(5))) struct MalformedCallTests {
    private static let link = "/kakao/link/callback"
    private static let unlink = "/kakao/unlink"
    private static let form = "application/x-www-form-urlencoded"

    private static func kakao(_ api: TestClient, resourceID: String? = nil) -> TestClient {
        var caller = api.with("KakaoAK \(Keys.admin)")
        if let name = HTTPField.Name("X-Kakao-Resource-ID") { caller.headerFields[name] = resourceID }
        return caller
    }

    /// Sends a query or a form, as it is.
    private static func send(
        _ text: String,
        _ path: String = link,
        byGet: Bool,
        _ caller: TestClient
    ) async throws -> Int {
        byGet
            ? try await caller.get("\(path)?\(text)").status
            : try await caller.post(path, Array(text.utf8), type: form).status
    }

    private static func items(_ service: TestService, _ path: String) async throws -> [JSONValue] {
        try await service.api.get(path).json?["items"]?.array ?? []
    }

    /// A call, and what is understood of it.
    struct Case: Sendable, CustomTestStringConvertible {
        let text: String
        var chatType: JSONValue = "MemoChat"
        var room: JSONValue = "r"
        var template: JSONValue = nil
        var args: JSONValue = ["a": "b"]

        var testDescription: String { text }
    }

    static let cases = [
        // An argument of the phone with a name of Kakao's.
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&TEMPLATE_ID=spring&a=b"),
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&TEMPLATE_ID=7&TEMPLATE_ID=8&a=b"),
        Case(
            text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&TEMPLATE_ID=7&CHAT_TYPE=DirectChat&a=b",
            chatType: nil,
            template: 7
        ),
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b&HASH_CHAT_ID=r", room: nil),
        // An argument that is given twice, or that is no text.
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b&c=1&c=2"),
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b&c=1&c=2&c=3"),
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b&c=%FF"),
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b&c=100%"),
        Case(text: "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b&c%=1"),
        // Parameters of Kakao's that are missing or invalid.
        Case(text: "CHAT_TYPE=MemoChat&a=b", room: nil),
        Case(text: "HASH_CHAT_ID=r&a=b", chatType: nil),
        Case(text: "CHAT_TYPE=&HASH_CHAT_ID=r&a=b", chatType: nil),
        Case(text: "CHAT_TYPE=a%00&HASH_CHAT_ID=r&a=b", chatType: nil),
        Case(text: "CHAT_TYPE=%FF&HASH_CHAT_ID=r&a=b", chatType: nil),
        Case(text: "a=b", chatType: nil, room: nil),
    ]

    @Test(
        "What is understood of a callback is stored, what is not is kept as it was sent",
        arguments: MalformedCallTests.cases
    )
    func callback(item: Case) async throws {
        try await withService { service in
            for byGet in [true, false] {
                let caller = Self.kakao(service.api, resourceID: "id-\(byGet)")
                #expect(try await Self.send(item.text, byGet: byGet, caller) == 200)
            }
            let items = try await Self.items(service, "/v1/link/callbacks")
            #expect(items.map { $0["resource_id"] } == ["id-false", "id-true"])
            for stored in items {
                #expect(stored["malformed"] == true)
                #expect(stored["raw"]?.string == item.text.replacing("\0", with: "\u{FFFD}"))
                #expect(stored["chat_type"] == item.chatType)
                #expect(stored["hash_chat_id"] == item.room)
                #expect(stored["template_id"] == item.template)
                #expect(stored["args"] == item.args)
            }
            // They are in the export, and do not count.
            let export = try await service.api.get("/v1/link/callbacks/export", ["format": "csv", "reason": "a test"])
            #expect(export.text.contains(",true,"))
            #expect(try await service.database.count("share_events") == 0)
        }
    }

    @Test("A body that is no form and no JSON is kept, with as many bytes as are allowed")
    func bodies() async throws {
        try await withService { service in
            let long = String(repeating: "x", count: 60_000)
            let bodies: [(String, String?)] = [
                ("[1]", "application/json"), (#"{"CHAT_TYPE":"a","CHAT_TYPE":"b"}"#, "application/json"),
                ("{", "application/json"), (long, Self.form), ("<xml/>", "text/xml"), ("\u{0}\u{1}", nil), ("", nil),
            ]
            for (body, type) in bodies {
                #expect(try await Self.kakao(service.api).post(Self.link, Array(body.utf8), type: type).status == 200)
            }
            let items = try await Self.items(service, "/v1/link/callbacks")
            #expect(items.allSatisfy { $0["malformed"] == true })
            #expect(
                items.reversed().map { $0["raw"]?.string ?? "" }
                    == bodies.map { String($0.0.prefix(8192)).replacing("\0", with: "\u{FFFD}") }
            )
        }
    }

    @Test("A POST may have its parameters in the query, and a body another type or none")
    func wellFormed() async throws {
        try await withService { service in
            let text = "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&TEMPLATE_ID=7&a=b"
            let caller = Self.kakao(service.api)
            #expect(try await caller.post("\(Self.link)?\(text)").status == 200)
            #expect(try await caller.post("\(Self.link)?own=1", Array(text.utf8)).status == 200)
            #expect(try await caller.post(Self.link, Array(text.utf8), type: "text/plain").status == 200)
            let json = Array(#"{"CHAT_TYPE":"MemoChat","HASH_CHAT_ID":"r","TEMPLATE_ID":7,"a":"b"}"#.utf8)
            #expect(try await caller.post(Self.link, json, type: "text/plain").status == 200)
            var share = LinkShare()
            share.method = .postQuery
            (share.chatType, share.hashChatID, share.templateID) = ("MemoChat", "r", 7)
            share.arguments = ["a": "b"]
            #expect(await service.kakao.share(share).status == 200)
            let items = try await Self.items(service, "/v1/link/callbacks")
            #expect(items.count == 5)
            for item in items {
                #expect(item["malformed"] == false)
                #expect(item["template_id"] == 7)
                #expect(item["args"] == ["a": "b"])
            }
        }
    }

    @Test("A resource id of any length is the key of a callback; a malformed one without an id is stored once")
    func keys() async throws {
        try await withService { service in
            let text = "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b"
            let long = String(repeating: "i", count: 299)
            for id in ["\(long)1", "\(long)2", "\(long)1", "with space"] {
                #expect(try await Self.send(text, byGet: true, Self.kakao(service.api, resourceID: id)) == 200)
            }
            let ids = try await Self.items(service, "/v1/link/callbacks").map { $0["resource_id"]?.string ?? "" }
            #expect(ids.count == 3)
            #expect(Set(ids).count == 3)
            #expect(ids.allSatisfy { $0.hasPrefix("sha256-") && $0.count == 71 })
            for malformed in ["a=1&a=2", "a=1&a=2", "a=1&a=3"] {
                #expect(try await Self.send(malformed, byGet: true, Self.kakao(service.api)) == 200)
            }
            #expect(try await service.database.count("link_callbacks WHERE raw IS NULL") == 3)
            #expect(try await service.database.count("link_callbacks WHERE raw IS NOT NULL") == 2)
        }
    }

    @Test("A malformed callback is never valid, whatever its signature")
    func signature() async throws {
        func adjust(_ settings: inout Settings) {
            settings.sharing.signingKey = Secret("0123456789abcdef0123456789abcdef")
        }
        try await withService(adjust) { service in
            let signer = try #require(
                ShareSigner(signingKey: Secret("0123456789abcdef0123456789abcdef"), verificationKeys: [])
            )
            let signature = signer.signature(of: ShareID(.v7()), expiresAt: Date() + 3600, [("a", "b")])
            let text = "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b&share=\(signature)"
            for (call, verdict) in [
                (text, "valid"), ("\(text)&TEMPLATE_ID=x", "invalid"), ("\(text)&a=b", "invalid"),
                ("\(text)&share=\(signature)", "invalid"), ("\(text)&%FF=1", "invalid"),
            ] {
                #expect(try await Self.send(call, byGet: true, Self.kakao(service.api, resourceID: "id")) == 200)
                let item = try await Self.items(service, "/v1/link/callbacks").first
                #expect(item?["signature"]?.string == verdict, "\(call)")
                #expect((item?["share_id"] == .null) == (verdict == "invalid"))
                try await service.database.pool.write("DELETE FROM link_callbacks")
            }
            #expect(
                try await service.api.metrics().value("kakao_push_link_callbacks_total", ["signature": "valid"]) == 1
            )
        }
    }

    @Test("Beyond the limit of an hour malformed callbacks are answered and counted, and others are stored")
    func limit() async throws {
        func adjust(_ settings: inout Settings) {
            settings.callbacks.maximumMalformedPerHour = 3
            settings.kakao.appID = 123_456
        }
        try await withService(adjust) { (service: TestService) async throws in
            for number in 0..<8 {
                #expect(try await Self.send("a=\(number)&x=%", byGet: true, Self.kakao(service.api)) == 200)
            }
            #expect(try await service.database.count("link_callbacks") == 3)
            #expect(try await service.api.metrics().notices("link") == ["malformed": 8])
            let text = "CHAT_TYPE=MemoChat&HASH_CHAT_ID=r&a=b"
            #expect(try await Self.send(text, byGet: true, Self.kakao(service.api)) == 200)
            #expect(try await service.database.count("link_callbacks") == 4)
            // A notice that has an effect is stored.
            let notice = "app_id=123456&user_id=1&a=1&a=2"
            #expect(try await Self.send(notice, Self.unlink, byGet: false, Self.kakao(service.api)) == 200)
            #expect(try await service.database.count("events") == 1)
        }
    }

    @Test("The limit begins again after an hour")
    func hourlyLimit() {
        let limit = HourlyLimit(2)
        let begin = ContinuousClock.now
        #expect((0..<3).map { limit.allows(at: begin + .seconds($0)) } == [true, true, false])
        #expect(!limit.allows(at: begin + .seconds(3599)))
        #expect(limit.allows(at: begin + .seconds(3600)))
    }

    @Test("An unlink notice has its effect if it names a user of this app; otherwise it is stored without one")
    func unlinks() async throws {
        func adjust(_ settings: inout Settings) { settings.kakao.appID = 123_456 }
        try await withService(adjust) { service in
            _ = try await service.api.register(1, "one")
            _ = try await service.api.register(2, "two")
            let ineffective = [
                "user_id=1", "app_id=123456", "app_id=654321&user_id=1", "app_id=x&user_id=1",
                "app_id=123456&user_id=0", "app_id=123456&user_id=-1", "app_id=123456&user_id=x",
                "app_id=123456&user_id=1&user_id=1", "app_id=123456&app_id=123456&user_id=1",
                "app_id=123456&user_id=%FF", "",
            ]
            for notice in ineffective {
                #expect(try await Self.send(notice, Self.unlink, byGet: true, Self.kakao(service.api)) == 200)
            }
            let items = try await Self.items(service, "/v1/events?limit=100")
            #expect(items.reversed().map { $0["raw"]?.string ?? "-" } == ineffective)
            #expect(items.allSatisfy { $0["malformed"] == true && $0["user_id"] == .null })
            #expect(try await service.database.count("devices WHERE NOT withdrawn") == 2)

            var notice = UnlinkNotice(userID: 1)
            notice.raw = "app_id=123456&user_id=1&referrer_type=A&referrer_type=B&c=100%"
            notice.method = .post
            #expect(await service.kakao.unlink(notice).status == 200)
            let effective = try #require(try await Self.items(service, "/v1/events").first)
            #expect(effective["malformed"] == true)
            #expect(effective["user_id"] == "1")
            #expect(effective["referrer_type"] == .null)
            try await eventually("the device is removed") { try await service.database.count("devices") == 1 }
            let query = "app_id=123456&user_id=2&referrer_type=A"
            #expect(try await Self.kakao(service.api).post("\(Self.unlink)?\(query)").status == 200)
            #expect(try await Self.items(service, "/v1/events").first?["malformed"] == false)
            try await eventually("the device is removed") { try await service.database.count("devices") == 0 }
        }
    }

    @Test("A report of a failed token counts if it names a user and a token")
    func feedback() async throws {
        try await withService { service in
            _ = try await service.api.register(1, "token")
            let path = "/kakao/push/feedback/\(Keys.feedback)"
            let caller = service.api.with(nil)
            let ineffective = [
                "", "userId=0&pushToken=token", "userId=x&pushToken=token", "userId=1", "userId=1&pushToken=",
                "userId=1&pushToken=token&pushToken=token", "userId=1&userId=1&pushToken=token",
                "userId=1&pushToken=%FF",
            ]
            for report in ineffective {
                #expect(try await Self.send(report, path, byGet: false, caller) == 200)
            }
            func failures() async throws -> JSONValue? {
                try await Self.items(service, "/v1/users/1/devices").first?["failures"]
            }
            #expect(try await failures() == 0)
            #expect(try await service.api.metrics().notices("feedback") == ["malformed": Double(ineffective.count)])
            // Without a date that can be read, the report is about now.
            for (index, date) in ["-1", "x"].enumerated() {
                let report = "userId=1&pushToken=token&date=\(date)"
                #expect(try await Self.send(report, path, byGet: false, caller) == 200)
                #expect(try await failures() == .integer(Int64(index) + 1))
            }
        }
    }

    @Test("The erasure of a user removes what malformed calls have of it")
    func erasure() async throws {
        func adjust(_ settings: inout Settings) {
            settings.kakao.appID = 123_456
            settings.callbacks.userIDArgument = "member"
        }
        try await withService(adjust) { service in
            for user in ["9876", "5678"] {
                let notice = "app_id=123456&user_id=\(user)&user_id=\(user)"
                #expect(try await Self.send(notice, Self.unlink, byGet: true, Self.kakao(service.api)) == 200)
                let call = "HASH_CHAT_ID=r&member=\(user)"
                #expect(try await Self.send(call, byGet: true, Self.kakao(service.api)) == 200)
            }
            #expect(try await service.api.delete("/v1/users/9876").status == 204)
            let events = try await Self.items(service, "/v1/events")
            #expect(events.map { $0["raw"] } == ["app_id=123456&user_id=5678&user_id=5678"])
            let callbacks = try await Self.items(service, "/v1/link/callbacks")
            #expect(callbacks.map { $0["raw"] } == ["HASH_CHAT_ID=r&member=5678", ""])
            #expect(callbacks.map { $0["args"] } == [["member": "5678"], [:]])
            #expect(callbacks.map { $0["malformed"] } == [true, true])
        }
    }

    @Test("A malformed call waits in the journal while PostgreSQL is down, and is stored after it")
    func outage() async throws {
        try await withClusterAndKakao { cluster, url, kakao in
            var settings = Settings.test(url, kakao: kakao.sandbox.url)
            settings.journal.directory = "\(try TemporaryFolder.make())/journal"
            try await RunningServer.with(settings) { api in
                await cluster.stop(.fast)
                #expect(try await Self.send("a=1&c=100%", byGet: true, Self.kakao(api, resourceID: "late")) == 200)
                try await cluster.start()
                var item: JSONValue?
                try await eventually("it is stored") {
                    item = try await api.get("/v1/link/callbacks").json?["items"]?[0]
                    return item != nil
                }
                #expect(item?["resource_id"] == "late")
                #expect(item?["raw"] == "a=1&c=100%")
                #expect(item?["args"] == ["a": "1"])
                #expect(item?["chat_type"] == .null)
            }
        }
    }

    @Test("A call that PostgreSQL rejects is answered 200 and set aside by the journal")
    func rejected() async throws {
        let folder = "\(try TemporaryFolder.make())/journal"
        let adjust = { (settings: inout Settings) in settings.journal.directory = folder }
        try await withService(adjust) { service in
            try await service.database.pool.write(
                "ALTER TABLE link_callbacks ADD CONSTRAINT short CHECK (length(hash_chat_id) < 5)"
            )
            let text = "CHAT_TYPE=MemoChat&a=b&HASH_CHAT_ID="
            #expect(try await Self.send("\(text)room-1", byGet: true, Self.kakao(service.api)) == 200)
            #expect(try await Self.send("\(text)room", byGet: true, Self.kakao(service.api)) == 200)
            try await eventually("the call is set aside") {
                try await service.api.metrics().value("kakao_push_journal_rejected_records") == 1
            }
            #expect(try await service.database.count("link_callbacks") == 1)
        }
    }
}

extension Exposition {
    /// The calls of a kind by their outcome.
    fileprivate func notices(_ kind: String) -> [String: Double] {
        let samples = families["kakao_push_notices_total"]?.samples.filter { $0.labels["kind"] == kind } ?? []
        return Dictionary(samples.map { ($0.labels["outcome"] ?? "", $0.value) }) { $0 + $1 }.filter { $0.value > 0 }
    }
}
