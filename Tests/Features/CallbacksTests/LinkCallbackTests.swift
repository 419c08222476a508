import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import ServiceTesting
import Testing

/// Kakao's callbacks for shared messages, and the operators' list: `/kakao/link/callback`, `/v1/link/callbacks`.
@Suite(.timeLimit(.minutes(5))) struct LinkCallbackTests {
    private static let path = "/kakao/link/callback"

    /// Calls a server as Kakao does.
    private static func kakao(_ service: TestService, resourceID: String? = nil) -> TestClient {
        var caller = service.api.with("KakaoAK \(Keys.admin)")
        caller.headerFields[.userAgent] = "KakaoOpenAPI/1.0"
        if let name = HTTPField.Name("X-Kakao-Resource-ID") { caller.headerFields[name] = resourceID }
        return caller
    }

    private static func list(
        _ service: TestService,
        _ query: KeyValuePairs<String, String> = [:]
    ) async throws -> [JSONValue] {
        try await service.api.get("/v1/link/callbacks", query).json?["items"]?.array ?? []
    }

    @Test("A shared message is listed with all of Kakao's parameters", arguments: LinkShare.Method.allCases)
    func shared(method: LinkShare.Method) async throws {
        try await withService { service in
            var share = LinkShare()
            share.method = method
            share.chatType = "DirectChat"
            share.hashChatID = "hash+/="
            share.templateID = .max
            share.arguments = ["product_id": "1234", "이름": "값 & =+", "n": 5, "deep": ["a": [1, nil]]]
            share.resourceID = "Rvy1c2dkzBAZ5hGD3rqYbxvr"
            let outcome = await service.kakao.share(share)
            #expect(outcome.status == 200)

            let answer = try await service.api.get("/v1/link/callbacks")
            #expect(answer.status == 200)
            #expect(answer.json?["next"] == .null)
            let items = try #require(answer.json?["items"]?.array)
            #expect(items.count == 1)
            let item = try #require(items.first?.object)
            #expect(
                item.members.map(\.name) == [
                    "id", "resource_id", "chat_type", "hash_chat_id", "template_id", "args", "share_id",
                    "signature", "malformed", "raw", "received_at", "stored_at",
                ]
            )
            #expect(item["resource_id"] == "Rvy1c2dkzBAZ5hGD3rqYbxvr")
            #expect(item["malformed"] == false)
            #expect(item["raw"] == .null)
            #expect(item["chat_type"] == "DirectChat")
            #expect(item["hash_chat_id"] == "hash+/=")
            #expect(item["template_id"] == 9_223_372_036_854_775_807)
            let args = try #require(item["args"]?.object)
            #expect(args.count == 4)
            #expect(args["product_id"] == "1234")
            #expect(args["이름"] == "값 & =+")
            #expect(args["n"] == "5")
            #expect(args["deep"] == #"{"a":[1,null]}"#)
            #expect(item["received_at"]?.string?.hasSuffix("Z") == true)
        }
    }

    @Test("A callback is accepted as query, form or JSON, with a template id as number or string, or without one")
    func forms() async throws {
        try await withService { service in
            let caller = Self.kakao(service)
            let answers = [
                try await caller.get(Self.path, ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1", "a": "b"]),
                try await caller.post(
                    Self.path,
                    form: ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "2", "TEMPLATE_ID": "3", "a": "b"]
                ),
                try await caller.post(
                    Self.path,
                    json: ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "3", "TEMPLATE_ID": 3, "a": "b"]
                ),
                try await caller.post(
                    Self.path,
                    json: ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "4", "TEMPLATE_ID": "3", "a": "b"]
                ),
                try await caller.get(
                    Self.path,
                    ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "5", "TEMPLATE_ID": "", "a": "b"]
                ),
            ]
            #expect(answers.map(\.status) == [200, 200, 200, 200, 200])
            // The list begins with the latest.
            let items = try await Self.list(service)
            #expect(items.map { $0["hash_chat_id"] } == ["5", "4", "3", "2", "1"])
            #expect(items.map { $0["template_id"] } == [.null, 3, 3, 3, .null])
            #expect(items.allSatisfy { $0["args"] == ["a": "b"] })
        }
    }

    @Test("A callback without the Admin key is rejected and not stored")
    func wrongKey() async throws {
        try await withSharedService { service in
            for key in [nil, "KakaoAK wrong", "Bearer \(Keys.admin)", "KakaoAK \(Keys.operator)", "KakaoAK "] {
                let caller = service.api.with(key)
                let query: KeyValuePairs = ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "wrong-key"]
                for answer in [try await caller.get(Self.path, query), try await caller.post(Self.path, form: query)] {
                    #expect(answer.status == 401)
                    #expect(answer.headerFields[.wwwAuthenticate] != nil)
                }
            }
            #expect(try await service.database.count("link_callbacks WHERE hash_chat_id = 'wrong-key'") == 0)
        }
    }

    @Test("A resource id is stored once, even if many callbacks with it arrive concurrently")
    func repeated() async throws {
        try await withService { service in
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 1...30 {
                    let caller = Self.kakao(service, resourceID: "id-\(number % 3)")
                    group.addTask {
                        try await caller.get(Self.path, ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "\(number)"]).status
                    }
                }
                for try await status in group { #expect(status == 200) }
            }
            #expect(try await service.database.count("link_callbacks") == 3)
            let ids = try await Self.list(service).map { $0["resource_id"]?.string ?? "" }
            #expect(ids.sorted() == ["id-0", "id-1", "id-2"])
        }
    }

    @Test("A callback without a resource id is stored each time")
    func withoutResourceID() async throws {
        try await withService { service in
            for _ in 1...3 {
                let answer = try await Self.kakao(service).get(
                    Self.path,
                    ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1"]
                )
                #expect(answer.status == 200)
            }
            #expect(try await Self.list(service).map { $0["resource_id"] } == [.null, .null, .null])
        }
    }

    @Test("The list can be filtered by chat type, template, custom argument and time")
    func filters() async throws {
        try await withService { service in
            let caller = Self.kakao(service)
            for number in 1...4 {
                _ = try await caller.get(
                    Self.path,
                    [
                        "CHAT_TYPE": number.isMultiple(of: 2) ? "MemoChat" : "DirectChat",
                        "HASH_CHAT_ID": "\(number)", "TEMPLATE_ID": "\(number / 2)", "product_id": "\(number)",
                        "상품": "같은",
                    ]
                )
            }
            func found(_ query: KeyValuePairs<String, String>) async throws -> [String] {
                try await Self.list(service, query).map { $0["hash_chat_id"]?.string ?? "" }
            }
            #expect(try await found([:]) == ["4", "3", "2", "1"])
            #expect(try await found(["chat_type": "MemoChat"]) == ["4", "2"])
            #expect(try await found(["template_id": "1"]) == ["3", "2"])
            #expect(try await found(["arg.product_id": "3"]) == ["3"])
            #expect(try await found(["arg.상품": "같은", "chat_type": "DirectChat"]) == ["3", "1"])
            #expect(try await found(["arg.상품": "같은", "arg.product_id": "5"]).isEmpty)

            let times = try await Self.list(service).map { $0["received_at"]?.string ?? "" }
            #expect(try await found(["until": "2020-01-01T00:00:00Z"]).isEmpty)
            #expect(try await found(["since": "2020-01-01T00:00:00Z"]).count == 4)
            // The listed time is truncated to milliseconds, so it is never after the time of receipt.
            #expect(try await found(["since": times[0]]).contains("4"))
            #expect(try await !found(["until": times[3]]).contains("4"))
        }
    }

    @Test("Pages by cursor list every callback exactly once")
    func pages() async throws {
        try await withService { service in
            for number in 1...5 {
                _ = try await Self.kakao(service).get(
                    Self.path,
                    ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "\(number)"]
                )
            }
            var pages: [[String]] = []
            var cursor: String?
            repeat {
                let query: KeyValuePairs = cursor.map { ["limit": "2", "cursor": $0] } ?? ["limit": "2"]
                let answer = try await service.api.get("/v1/link/callbacks", query).json
                pages.append(answer?["items"]?.array?.map { $0["hash_chat_id"]?.string ?? "" } ?? [])
                cursor = answer?["next"]?.string
            } while cursor != nil && pages.count < 5
            #expect(pages == [["5", "4"], ["3", "2"], ["1"]])
        }
    }

    @Test("An invalid request for the list is rejected with the name of the field")
    func wrongQuery() async throws {
        let cases = [
            ("limit", "0"), ("limit", "1001"), ("limit", "x"), ("cursor", "x"), ("cursor", ""), ("since", "yesterday"),
            ("until", "2026-13-01T00:00:00Z"), ("chat_type", ""), ("template_id", "-1"), ("template_id", "1.0"),
        ]
        try await withSharedService { service in
            for (name, value) in cases {
                let answer = try await service.api.get("/v1/link/callbacks", [name: value])
                #expect(answer.status == 400, "\(name) \(value)")
                #expect(answer.field == name)
            }
        }
    }

    @Test(
        "Characters of an argument that PostgreSQL cannot store are replaced, and the callback is stored",
        arguments: [true, false]
    )
    func nul(isJSON: Bool) async throws {
        try await withService { service in
            let caller = Self.kakao(service)
            let answer =
                isJSON
                ? try await caller.post(
                    Self.path,
                    json: ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1", "a\0b": "c\0d", "deep": ["e\0": "\0"]]
                )
                : try await caller.get(
                    Self.path,
                    ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "1", "a\0b": "c\0d", "deep": #"{"e\u0000":"\u0000"}"#]
                )
            #expect(answer.status == 200)
            let args = try await Self.list(service).first?["args"]
            #expect(args?["a\u{FFFD}b"] == "c\u{FFFD}d")
            #expect(args?["deep"] == #"{"e\u0000":"\u0000"}"#)
            // A filter with the original argument finds the callback.
            #expect(try await Self.list(service, ["arg.a\0b": "c\0d"]).count == 1)
        }
    }
}
