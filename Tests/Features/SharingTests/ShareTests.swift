import Crypto
import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Net
import Server
import ServiceKit
import ServiceTesting
import Sharing
import TestSupport
import Testing

@testable import Callbacks
@testable import Settings

/// Shares, their landing addresses and conversions, and the callbacks that belong to them.
@Suite(.timeLimit(.minutes(5))) struct ShareTests {
    static let template: JSONValue = [
        "object_type": "feed",
        "content": [
            "title": "Cake",
            "link": [
                "web_url": "https://shop.example.com/cakes/1", "mobile_web_url": "https://shop.example.com/cakes/1",
                "ios_execution_params": "cake=1",
            ],
        ],
        "buttons": [["title": "Order", "link": ["web_url": "https://shop.example.com/order?cake=1&x=é"]]],
    ]

    /// The settings of a server that creates shares.
    static func adjust(_ settings: inout Settings) {
        settings.sharing.signingKey = Secret("signing-key-of-the-tests-0123456789")
        settings.sharing.domains = ["shop.example.com", "127.0.0.1"]
        settings.kakao.nativeAppKey = "sandbox-native-app-key"
        settings.kakao.kaHeader = "sdk/2.27.3 sdk_type/swift os/ios-17.0 origin/com.example.app app_ver/3.1"
    }

    static func create(_ api: TestClient, _ body: JSONObject) async throws -> JSONValue {
        let answer = try await api.post("/v1/link/shares", json: .object(body))
        #expect(answer.status == 201, "\(answer.text)")
        return try #require(answer.json)
    }

    /// Calls the server as Kakao does, with a share's arguments.
    static func callback(
        _ api: TestClient,
        _ args: JSONObject,
        room: String,
        type: String = "DirectChat",
        resourceID: String? = nil
    ) async throws -> Int {
        var caller = api.with("KakaoAK \(Keys.admin)")
        if let name = HTTPField.Name("X-Kakao-Resource-ID") { caller.headerFields[name] = resourceID }
        var body = args
        body["CHAT_TYPE"] = .string(type)
        body["HASH_CHAT_ID"] = .string(room)
        return try await caller.post("/kakao/link/callback", json: .object(body)).status
    }

    @Test("A share is created, opened through its sharer address, reported by Kakao, and shown with its numbers")
    func fromTemplateToNumbers() async throws {
        try await withService(Self.adjust) { service in
            let created = try await Self.create(
                service.api,
                [
                    "template": Self.template, "args": ["product_id": "1234", "이름": "값 & =+"],
                    "campaign": "spring",
                ]
            )
            let id = try #require(created["id"]?.string)
            #expect(created["execution_params"]?.string == "share=\(id)&cake=1")
            #expect(created["landing_url"]?.string == "\(service.api.url)/s/\(id)")
            #expect(created["template"] == Self.template)
            #expect(created["findings"]?.array?.isEmpty == true)
            let size = try #require(created["size_bytes"]?.integer)
            #expect((400..<2000).contains(size))

            let outcome = try await service.kakao.share(at: created["sharer_url"]?.string) { share in
                share.chatType = "MultiChat"
                share.times = 2
            }
            #expect(outcome.status == 200)
            let callback = try await service.api.get("/v1/link/callbacks", ["share": id]).json?["items"]?[0]
            #expect(callback?["signature"] == "valid")
            #expect(callback?["share_id"]?.string == id)
            // The signature is not an argument.
            #expect(callback?["args"] == ["이름": "값 & =+", "product_id": "1234"])

            let shown = try await service.api.get("/v1/link/shares/\(id)")
            #expect(shown.json?["campaign"] == "spring")
            #expect(shown.json?["args"] == ["이름": "값 & =+", "product_id": "1234"])
            #expect(
                shown.json?["links"]
                    == ["https://shop.example.com/cakes/1", "https://shop.example.com/order?cake=1&x=é"]
            )
            // The callback came twice.
            #expect(shown.json?["arrivals"] == ["MultiChat": 1])
            #expect(shown.json?["landings"] == 0)
            #expect(
                try await service.api.get("/v1/link/shares", ["campaign": "spring"]).json?["items"]?[0] == shown.json
            )
            #expect(
                try await service.api.get("/v1/link/shares", ["campaign": "x"]).json?["items"]?.array?.isEmpty == true
            )
        }
    }

    @Test("The sharer address is the one that Kakao's SDK makes, for each kind of content")
    func sharerAddress() async throws {
        try await withService(Self.adjust) { service in
            let contents: [(JSONObject, String, JSONValue)] = [
                (["template": Self.template], "default", ["link_ver": "4.0", "template_object": Self.template]),
                (
                    ["template_id": 12, "template_args": ["title": "값"]], "custom",
                    ["link_ver": "4.0", "template_id": 12, "template_args": ["title": "값"]]
                ),
                (
                    ["request_url": "https://shop.example.com/a"], "scrap",
                    ["link_ver": "4.0", "request_url": "https://shop.example.com/a"]
                ),
                (
                    ["request_url": "https://shop.example.com/a", "template_id": 5], "scrap",
                    ["link_ver": "4.0", "request_url": "https://shop.example.com/a", "template_id": 5]
                ),
            ]
            for (body, action, params) in contents {
                let created = try await Self.create(service.api, body)
                let url = try #require(created["sharer_url"]?.string)
                let parts = url.split(separator: "?", maxSplits: 1).map(String.init)
                #expect(parts.first == "https://sharer.kakao.com/talk/friends/picker/easylink")
                #expect(!url.contains("+") && !url.contains(" "))
                let items = try FormURLEncoded.parse(Array(parts[1].utf8)[...])
                let query = Dictionary(items.map { ($0.name, $0.value) }) { first, _ in first }
                #expect(Set(query.keys) == ["app_key", "ka", "validation_action", "validation_params", "lcba"])
                #expect(query["app_key"] == "sandbox-native-app-key")
                #expect(query["ka"]?.hasPrefix("sdk/2.27.3 ") == true)
                #expect(query["validation_action"] == action)
                #expect(try JSONValue(parsing: Array((query["validation_params"] ?? "").utf8)) == params)
                #expect(try JSONValue(parsing: Array((query["lcba"] ?? "").utf8)) == created["callback_args"])
            }
        }
    }

    @Test("With app key calls, the share has KakaoTalk's address, Kakao's warnings, and the exact size")
    func talkAddress() async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.domains = ["other.example.com"]
        sandbox.templateArguments = [12: ["title", "price"]]
        func adjust(_ settings: inout Settings) {
            Self.adjust(&settings)
            settings.kakao.makesAppKeyCalls = true
        }
        try await withService(adjust, sandbox: sandbox) { service in
            let created = try await Self.create(service.api, ["template": Self.template, "args": ["a": "b"]])
            #expect(created["warning_msg"]?["P.L.LPC"]?.string?.contains("DOMAIN_CHECK_PASS") == true)
            #expect(created["argument_msg"] == [:])
            let outcome = try await service.kakao.share(at: created["kakaolink_url"]?.string)
            #expect(outcome.status == 200)
            let callback = try await service.api.get("/v1/link/callbacks").json?["items"]?[0]
            #expect(callback?["share_id"] == created["id"])
            #expect(callback?["template_id"] == .null)

            let custom = try await Self.create(service.api, ["template_id": 12, "template_args": ["title": "a"]])
            #expect(custom["argument_msg"] == ["${price}": "there's no given value."])

            // What Kakao cannot check now is not stored either.
            var fault = Fault(.status)
            fault.path = "/v2/api/kakaolink/talk/template/default"
            fault.status = 503
            service.kakao.sandbox.add(fault)
            let failed = try await service.api.post("/v1/link/shares", json: ["template": Self.template])
            #expect(failed.status == 503)
            #expect(failed.problem == "kakao-unavailable")
            #expect(try await service.database.count("shares") == 2)
        }
    }

    @Test("A reference to a kept image becomes its address at Kakao; an unknown one is named")
    func images() async throws {
        try await withService {
            Self.adjust(&$0)
            $0.kakao.makesAppKeyCalls = true
        } _: { service in
            let image = try await service.api.post("/v1/images", TestImage.png(), type: "image/png")
            #expect(image.status == 201)
            let id = try #require(image.json?["id"]?.string)
            func template(_ id: String) -> JSONValue {
                [
                    "object_type": "feed",
                    "content": [
                        "title": "Cake", "image_url": .string("image:\(id)"),
                        "link": ["web_url": "https://shop.example.com/"],
                    ],
                ]
            }
            let created = try await Self.create(service.api, ["template": template(id)])
            #expect(created["template"]?["content"]?["image_url"] == image.json?["url"])
            #expect(created["findings"]?.array?.isEmpty == true)

            let unknown = try await service.api.post(
                "/v1/link/shares",
                json: ["template": template("01900000-0000-7000-8000-000000000000")]
            )
            #expect(unknown.status == 400)
            #expect(unknown.problem == "unknown-image")
            #expect(unknown.json?["path"] == "$.content.image_url")
        }
    }

    @Test("A template that Kakao would reject, and a message that is too large, are not shared")
    func rejected() async throws {
        try await withService(Self.adjust) { service in
            func post(_ body: JSONObject) async throws -> HTTPClientResponse {
                try await service.api.post("/v1/link/shares", json: .object(body))
            }
            let list = try await post(["template": ["object_type": "list", "header_title": "x"]])
            #expect(list.status == 400)
            #expect(list.problem == "invalid-template")
            #expect(list.json?["findings"]?[0]?["rule"] == "missing-member")

            var args = JSONObject()
            for number in 0..<11 { args["a\(number)"] = .string(String(repeating: "x", count: 1000)) }
            let large = try await post(["template": Self.template, "args": .object(args)])
            #expect(large.problem == "invalid-template")
            #expect(large.json?["detail"]?.string?.contains("10240") == true)
            args["a9"] = nil
            args["a10"] = nil
            let close = try await Self.create(service.api, ["template": Self.template, "args": .object(args)])
            #expect(close["findings"]?.array?.map { $0["rule"] } == ["message-size", "callback-size"])

            let fields: [(JSONObject, String)] = [
                ([:], "template"), (["template": Self.template, "template_id": 1], "template"),
                (["template": Self.template, "request_url": "https://a.example"], "template"),
                (["template": Self.template, "template_args": ["a": "b"]], "template_args"),
                (["template_id": 0], "template_id"), (["template_id": 1, "args": ["share": "x"]], "args"),
                (["template_id": 1, "args": ["CHAT_TYPE": "x"]], "args"),
                (["template_id": 1, "args": ["a": 1]], "args"), (["template_id": 1, "args": ["a\u{0}": ""]], "args"),
                (["template_id": 1, "expires_at": "2020-01-01T00:00:00Z"], "expires_at"),
                (["template_id": 1, "track": true], "track"), (["template_id": 1, "campaign": ""], "campaign"),
            ]
            for (body, field) in fields {
                let answer = try await post(body)
                #expect(answer.status == 400)
                #expect(answer.field == field, "\(body.members.map(\.name)): \(answer.text)")
            }
            #expect(try await service.database.count("shares") == 1)
        }
        try await withSharedService { service in
            let answer = try await service.api.post("/v1/link/shares", json: ["template": Self.template])
            #expect(answer.status == 409)
            #expect(answer.problem == "not-configured")
            #expect(answer.json?["detail"]?.string?.contains("sharing.signing_key") == true)
        }
    }

    @Test("Of a thousand forged, altered and expired callbacks none is valid, and all are accounted for")
    func forged() async throws {
        try await withService(Self.adjust) { service in
            let kept = try await Self.create(service.api, ["template": Self.template, "args": ["product_id": "1"]])
            let args = try #require(kept["callback_args"]?.object)
            // As a share would have them that was created long ago.
            let signer = try #require(service.settings.sharing.signer)
            var expired: JSONObject = ["product_id": "1"]
            expired["share"] = .string(
                signer.signature(
                    of: try #require(ShareID(kept["id"]?.string ?? "")),
                    expiresAt: Date().addingTimeInterval(-1),
                    [("product_id", "1")]
                )
            )
            let signature = try #require(args["share"]?.string)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<1000 {
                    var forged = number % 5 == 0 ? expired : args
                    switch number % 5 {
                    case 1: forged["product_id"] = .string("\(number + 2)")
                    case 2: forged["bonus"] = "1"
                    case 3:
                        var scalars = Array(signature.unicodeScalars)
                        let place = number % scalars.count
                        scalars[place] = scalars[place] == "A" ? "B" : "A"
                        forged["share"] = .string(String(String.UnicodeScalarView(scalars)))
                    case 4: forged["share"] = .string("\(number)")
                    default: break
                    }
                    group.addTask { [forged] in try await Self.callback(service.api, forged, room: "\(number)") }
                }
                for try await status in group { #expect(status == 200) }
            }
            #expect(try await service.database.count("link_callbacks WHERE signature = 'expired'") == 200)
            #expect(try await service.database.count("link_callbacks WHERE signature = 'invalid'") == 800)
            #expect(try await service.database.count("link_callbacks WHERE share_id IS NOT NULL") == 0)
            #expect(try await service.database.count("share_events") == 0)
            #expect(try await service.database.count("share_counts") == 0)
            #expect(try await service.database.count("share_statistics") == 0)
            let metrics = try await service.api.get("/metrics").text
            #expect(metrics.contains(#"kakao_push_link_callbacks_total{signature="invalid"} 800"#))
            #expect(metrics.contains(#"kakao_push_link_callbacks_total{signature="expired"} 200"#))

            // What a phone adds in Kakao's spelling is neither an argument nor a reason to doubt the others.
            var added = args
            added["PRODUCT_ID"] = "9"
            added["IS_SINGLE_CHATROOM"] = "true"
            #expect(try await Self.callback(service.api, added, room: "c") == 200)
            let latest = try await service.api.get("/v1/link/callbacks", ["limit": "1"]).json?["items"]?[0]
            #expect(latest?["signature"] == "valid")
            #expect(latest?["args"]?["PRODUCT_ID"] == nil as JSONValue?)
            #expect(latest?["args"]?["IS_SINGLE_CHATROOM"] == "true")

            // The same arguments from two rooms are two arrivals; a repeated resource id is one.
            for (room, resource) in [("a", "r1"), ("b", "r2"), ("b", "r2")] {
                #expect(try await Self.callback(service.api, args, room: room, resourceID: resource) == 200)
            }
            let id = try #require(kept["id"]?.string)
            #expect(try await service.api.get("/v1/link/shares/\(id)").json?["arrivals"] == ["DirectChat": 3])
        }
    }

    @Test("With callbacks.require_signature, only callbacks with a valid signature are stored; all get 200")
    func requiredSignature() async throws {
        try await withService {
            Self.adjust(&$0)
            $0.callbacks.requiresSignature = true
        } _: { service in
            let args = try #require(
                try await Self.create(service.api, ["template": Self.template])["callback_args"]?.object
            )
            #expect(try await Self.callback(service.api, args, room: "1") == 200)
            #expect(try await Self.callback(service.api, ["a": "b"], room: "2") == 200)
            var forged = args
            forged["a"] = "b"
            #expect(try await Self.callback(service.api, forged, room: "3") == 200)
            #expect(try await service.database.count("link_callbacks") == 1)
            #expect(
                try await service.api.get("/metrics").text
                    .contains(#"kakao_push_link_callbacks_total{signature="none"} 1"#)
            )
        }
    }

    @Test("A signing key is changed on two servers, one after the other, without an invalid callback")
    func rotation() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let (old, new) = (
                Secret("old-signing-key-of-the-tests-012345"), Secret("new-signing-key-of-the-tests-012345")
            )
            func with(_ signing: Secret, _ others: [Secret], _ body: (TestClient) async throws -> Void) async throws {
                var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
                Self.adjust(&settings)
                settings.sharing.signingKey = signing
                settings.sharing.verificationKeys = others
                try await RunningServer.with(settings) { try await body($0) }
            }
            func check(_ first: TestClient, _ second: TestClient) async throws {
                for (creator, receiver) in [(first, second), (second, first)] {
                    let created = try await Self.create(creator, ["template_id": 1])
                    let args = try #require(created["callback_args"]?.object)
                    #expect(try await Self.callback(receiver, args, room: "1") == 200)
                }
            }
            // Each step changes one server.
            let steps: [((Secret, [Secret]), (Secret, [Secret]))] = [
                ((old, []), (old, [new])), ((old, [new]), (old, [new])), ((new, [old]), (old, [new])),
                ((new, [old]), (new, [old])),
            ]
            for (first, second) in steps {
                try await with(first.0, first.1) { a in try await with(second.0, second.1) { try await check(a, $0) } }
            }
            #expect(try await database.count("link_callbacks WHERE signature = 'valid'") == 8)
            #expect(try await database.count("link_callbacks") == 8)
        }
    }

    // MARK: Landings and conversions

    private static func visit(
        _ api: TestClient,
        _ path: String,
        agent: String? = "Mozilla/5.0"
    ) async throws -> HTTPClientResponse {
        var caller = api.with(nil)
        caller.headerFields[.userAgent] = agent
        return try await caller.get(path)
    }

    @Test("A landing address redirects to a link of the share, and counts people once a minute")
    func landing() async throws {
        try await withService(Self.adjust) { service in
            let created = try await Self.create(service.api, ["template": Self.template, "track": true])
            let id = try #require(created["id"]?.string)
            let path = "/s/\(id)"
            // The links of the template lead here.
            let template = created["template"]
            #expect(template?["content"]?["link"]?["web_url"]?.string == service.api.url + path)
            #expect(template?["content"]?["link"]?["ios_execution_params"]?.string == "share=\(id)&cake=1")
            #expect(template?["buttons"]?[0]?["link"]?["web_url"]?.string == "\(service.api.url)\(path)?l=1")

            let first = try await Self.visit(service.api, path)
            #expect(first.status == 302)
            #expect(first.headerFields[.location] == "https://shop.example.com/cakes/1")
            #expect(first.headerFields[.cacheControl] == "no-store")
            // Not a robot, but a phone.
            #expect(try await Self.visit(service.api, path, agent: "Mozilla/5.0 (Android 9; CUBOT_X19)").status == 302)
            let second = try await Self.visit(
                service.api,
                "\(path)?l=1&utm_source=talk",
                agent: "KAKAOTALK 10.4.5 (INAPP)"
            )
            #expect(second.headerFields[.location] == "https://shop.example.com/order?cake=1&x=%C3%A9")
            // A repetition, robots, Kakao's reader of pages, and a program without a name.
            for agent in [
                "Mozilla/5.0", "TelegramBot (like TwitterBot)", "Mozilla/5.0 (compatible; Googlebot/2.1)",
                "facebookexternalhit/1.1; kakaotalk-scrap/1.0; +https://devtalk.kakao.com/t/scrap/33984", "",
            ] {
                #expect(try await Self.visit(service.api, path, agent: agent).status == 302)
            }
            func landings() async throws -> Int64? {
                try await service.api.get("/v1/link/shares/\(id)").json?["landings"]?.integer
            }
            // The redirect does not wait long for the count.
            try await eventually("the visits are counted") { try await landings() == 3 }
            // After a minute the same visitor counts again.
            try await service.database.pool.write(
                "UPDATE share_visits SET counted_at = counted_at - interval '61 seconds'"
            )
            _ = try await Self.visit(service.api, path)
            try await eventually("the visit is counted") { try await landings() == 4 }

            for path in ["\(path)?l=2", "\(path)x", "/s/AAAAAAAAAAAAAAAAAAAAAA", "/s/"] {
                #expect(try await Self.visit(service.api, path).status == 404)
            }
            #expect(try await Self.visit(service.api, "\(path)?l=-1").status == 400)
        }
    }

    @Test("Only addresses on registered domains are links, and a domain that is removed is no longer redirected to")
    func domains() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            Self.adjust(&settings)
            var path = ""
            try await RunningServer.with(settings) { api in
                for (url, rule) in [
                    ("https://evil.example/", "unregistered-domain"),
                    ("https://shop.example.com:9999/", "unregistered-domain"),
                    ("https://shop.example.com\\@evil.example/", "invalid-url"),
                    ("https://shop.example.com@evil.example/", "invalid-url"),
                ] {
                    let created = try await Self.create(
                        api,
                        ["template": ["object_type": "text", "text": "x", "link": ["web_url": .string(url)]]]
                    )
                    #expect(created["landing_url"] == .null)
                    #expect(created["findings"]?[0]?["rule"]?.string == rule)
                    let id = try #require(created["id"]?.string)
                    #expect(try await Self.visit(api, "/s/\(id)").status == 404)
                }
                let kept = try await Self.create(api, ["request_url": "https://shop.example.com/"])
                path = "/s/\(try #require(kept["id"]?.string))"
                #expect(try await Self.visit(api, path).status == 302)
            }
            settings.sharing.domains = ["other.example.com"]
            try await RunningServer.with(settings) { api in
                let status = try await Self.visit(api, path).status
                #expect(status == 404)
            }
        }
    }

    @Test("A conversion counts once for each user and event, also when it is reported concurrently")
    func conversions() async throws {
        try await withService(Self.adjust) { service in
            let id = try #require(try await Self.create(service.api, ["template_id": 3])["id"]?.string)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<60 {
                    group.addTask {
                        try await service.api.post(
                            "/v1/link/shares/\(id)/conversions",
                            json: [
                                "event": .string(number % 2 == 0 ? "purchase" : "signup"),
                                "user_id": .integer(number % 3 + 1),
                            ]
                        ).status
                    }
                }
                for try await status in group { #expect(status == 204) }
            }
            let share = try await service.api.get("/v1/link/shares/\(id)").json
            #expect(share?["conversions"] == ["signup": 3, "purchase": 3])
            let unknown = try await service.api.post(
                "/v1/link/shares/AAAAAAAAAAAAAAAAAAAAAA/conversions",
                json: ["event": "purchase", "user_id": 1]
            )
            #expect(unknown.status == 404)
        }
    }

    @Test("The erasure of a user deletes the user's conversions and arguments, and keeps the numbers")
    func erasure() async throws {
        try await withService {
            Self.adjust(&$0)
            $0.callbacks.userIDArgument = "member"
        } _: { service in
            let created = try await Self.create(
                service.api,
                ["template_id": 3, "args": ["member": "7", "product_id": "1"]]
            )
            let id = try #require(created["id"]?.string)
            let args = try #require(created["callback_args"]?.object)
            #expect(try await Self.callback(service.api, args, room: "1") == 200)
            for user in [7, 8] {
                let report: JSONValue = ["event": "purchase", "user_id": .integer(user)]
                #expect(try await service.api.post("/v1/link/shares/\(id)/conversions", json: report).status == 204)
            }
            #expect(try await service.api.delete("/v1/users/7").status == 204)
            #expect(try await service.database.count("share_conversions") == 1)
            let share = try await service.api.get("/v1/link/shares/\(id)").json
            #expect(share?["args"] == ["product_id": "1"])
            #expect(share?["conversions"] == ["purchase": 2])
            #expect(try await service.api.get("/v1/link/callbacks").json?["items"]?[0]?["args"] == ["product_id": "1"])
        }
    }
}
