import Endpoints
import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoRelay
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import ServiceKit
@testable import Sharing

/// The relayed calls of KakaoStory, which Kakao has ended.
@Suite(.timeLimit(.minutes(5))) struct StoryRelayTests {
    private static let upload = "/v1/api/story/upload/multi"
    private static let control = "/sandbox/users/7/story"

    /// Runs `body` with a server that relays KakaoStory's calls, and with the app of user 7, who has agreed to them.
    private static func withStory(
        _ adjust: (inout Settings) -> Void = { _ in },
        _ body: (TestService, TestClient) async throws -> Void
    ) async throws {
        try await withKakaoLogin { settings in
            settings.relay.relaysStory = true
            adjust(&settings)
        } _: { service in
            try await body(service, try app(service))
        }
    }

    private static func app(_ service: TestService) throws -> TestClient {
        let token = try #require(service.kakao.sandbox.accessToken(of: 7))
        try service.kakao.sandbox.setUser(7, ["scopes": ["story_publish", "story_read"]])
        return service.api.with("Bearer \(token)")
    }

    // MARK: Off

    @Test("Kakao has ended KakaoStory: without story.enabled, each call is answered 410, and Kakao is not called")
    func ended() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            let calls = KakaoCalls.all.compactMap { $0.storyRequest }
            #expect(calls.count == 10)
            // It is no image, which is not even looked at.
            let files = MultipartBody(files: [("file", Array("text".utf8))])
            for caller in [app, service.api] {
                for (method, path) in calls {
                    let answer =
                        switch method {
                        case .get: try await caller.get(path)
                        case .delete: try await caller.delete(path)
                        default:
                            path == Self.upload
                                ? try await caller.post(path, files.bytes, type: files.type)
                                : try await caller.post(path, form: [:])
                        }
                    #expect(answer.status == 410)
                    #expect(answer.problem == "story-ended")
                    #expect(answer.json?["code"] == -9)
                    let detail = answer.json?["detail"]?.string ?? ""
                    #expect(detail.contains("ended") && detail.contains("`story.enabled`"))
                }
            }
            #expect(try await service.api.with("Bearer unknown").get("/v1/api/story/isstoryuser").status == 401)
            // Other calls of users' apps are relayed as before.
            #expect(try await app.get("/v1/api/talk/profile").status == 200)
            let paths = service.kakao.sandbox.stats.requests.keys.filter { $0.contains("story") }
            #expect(paths.isEmpty)
        }
    }

    // MARK: On

    @Test("An app uploads images, posts them with a text, reads the story, and deletes it")
    func photo() async throws {
        try await Self.withStory { service, app in
            #expect(try await app.get("/v1/api/story/isstoryuser").json == ["isStoryUser": true])
            // The names of the parts as Kakao's SDKs for iOS, for Flutter, and for Android in its first version.
            for names in [["file", "file"], ["file_1", "file_2"], ["file_0", "file_1"]] {
                let form = MultipartBody(files: zip(names, [TestImage.png(), TestImage.png(1)]).map { ($0, $1) })
                let uploaded = try await app.post(Self.upload, form.bytes, type: form.type)
                #expect(uploaded.status == 200, "\(uploaded.text)")
                let paths = uploaded.json?.array?.compactMap(\.string) ?? []
                try #require(paths.count == 2 && paths[0] != paths[1])
                #expect(paths.allSatisfy { $0.hasPrefix("/") && $0.hasSuffix("/img.png?width=3&height=2") })
                let list = JSONValue.array(paths.reversed().map { .string($0) })
                let posted = try await app.post(
                    "/v1/api/story/post/photo",
                    form: ["image_url_list": list.description, "content": "Cake\nand tea", "permission": "M"]
                )
                let id = try #require(posted.json?["id"]?.string)
                let story = try await app.get("/v1/api/story/mystory", ["id": id])
                #expect(story.json?["content"] == "Cake\nand tea")
                #expect(story.json?["permission"] == "ONLY_ME")
                #expect(story.json?["media"]?[0]?["original"]?.string?.hasSuffix(paths[1]) == true)
                #expect(story.json?["media"]?[1]?["small"]?.string?.contains("width=160") == true)
                let listed = try await app.get("/v1/api/story/mystories")
                #expect(listed.json?.array?.map { $0["id"]?.string } == [id])
                let deleted = try await app.delete("/v1/api/story/delete/mystory?id=\(id)")
                #expect(deleted.status == 200)
                #expect(deleted.body.isEmpty)
                let gone = try await app.get("/v1/api/story/mystory", ["id": id])
                #expect(gone.status == 400)
                #expect(gone.json?["code"] == -605)
                #expect(gone.problem == "refused-by-kakao")
            }
        }
    }

    @Test("A note and a link reach Kakao with all their parameters, as a form and as JSON")
    func parameters() async throws {
        try await Self.withStory { service, app in
            let options: KeyValuePairs = [
                "content": "Hi", "permission": "F", "enable_share": "true", "android_exec_param": "a=1&b=2",
                "ios_exec_param": "a=%20", "android_market_param": "c=3", "ios_market_param": "d=4",
            ]
            let expected: JSONValue = [
                "permission": "F", "enable_share": true, "android_exec_param": "a=1&b=2", "ios_exec_param": "a=%20",
                "android_market_param": "c=3", "ios_market_param": "d=4",
            ]
            var json = JSONObject()
            for (name, value) in options { json[name] = .string(value) }
            json["enable_share"] = true
            let note = "/v1/api/story/post/note"
            for answer in [
                try await app.post(note, form: options), try await app.post(note, json: .object(json)),
            ] {
                let id = try #require(answer.json?["id"]?.string)
                let posted = try await service.kakao.browser.get("\(Self.control)/\(id)")
                #expect(posted.json?["options"] == expected)
                #expect(posted.json?["story"]?["content"] == "Hi")
            }
            let url = "https://www.example.com/cakes"
            let described = try await app.get("/v1/api/story/linkinfo", ["url": url])
            let info = try #require(described.json)
            #expect(info["host"] == "www.example.com")
            let link = try await app.post("/v1/api/story/post/link", json: ["link_info": info, "content": "Look"])
            let id = try #require(link.json?["id"]?.string)
            let posted = try await service.kakao.browser.get("\(Self.control)/\(id)")
            #expect(posted.json?["link_info"] == info)
            let bad = try await app.get("/v1/api/story/linkinfo", ["url": "https://a.invalid"])
            #expect(bad.json?["code"] == -604)
        }
    }

    @Test("An invalid parameter is rejected here, with the field")
    func invalid() async throws {
        try await Self.withStory { service, app in
            let long = String(repeating: "가", count: 2049)
            for (path, form, field) in [
                ("note", ["content": ""], "content"), ("note", ["content": long], "content"),
                ("note", ["content": "a", "permission": "all"], "permission"),
                ("photo", ["image_url_list": "[]"], "image_url_list"),
                ("photo", ["image_url_list": #"["a","b","c","d","e","f"]"#], "image_url_list"),
                ("link", ["link_info": "[]"], "link_info"), ("link", ["content": "a"], "link_info"),
            ] as [(String, KeyValuePairs<String, String>, String)] {
                let answer = try await app.post("/v1/api/story/post/\(path)", form: form)
                #expect(answer.status == 400)
                #expect(answer.field == field)
            }
            let paths = service.kakao.sandbox.stats.requests.keys.filter { $0.contains("story") }
            #expect(paths.isEmpty)
        }
    }

    @Test("An upload has one to five images of at most story.max_image_bytes")
    func uploads() async throws {
        try await Self.withStory {
            $0.relay.maximumStoryImageBytes = 100_000
            $0.sharing.images.maximumBytes = 1024
        } _: { service, app in
            let image = TestImage.png(size: 100_000)
            let cases: [([[UInt8]], Int, String?)] = [
                (Array(repeating: image, count: 5), 200, nil),
                (Array(repeating: TestImage.png(), count: 6), 400, "invalid-field"),
                ([TestImage.png(size: 100_001)], 413, "content-too-large"),
                ([image, Array("BM".utf8)], 400, "invalid-image"), ([], 400, "invalid-field"),
            ]
            for (files, status, problem) in cases {
                let form = MultipartBody(files: files.map { ("file", $0) })
                let answer = try await app.post(Self.upload, form.bytes, type: form.type)
                #expect(answer.status == status)
                #expect(answer.problem == problem)
                if status == 200 { #expect(answer.json?.array?.count == 5) }
                if status == 413 {
                    #expect(answer.json?["detail"]?.string?.contains("`story.max_image_bytes`") == true)
                }
            }
            #expect(service.kakao.sandbox.stats.requests[Self.upload] == 1)
        }
    }

    @Test("A missing scope and a user without KakaoStory come back with Kakao's codes")
    func refused() async throws {
        try await Self.withStory { service, app in
            try service.kakao.sandbox.setUser(7, ["scopes": ["story_read"]])
            let consent = try await app.post("/v1/api/story/post/note", form: ["content": "a"])
            #expect(consent.status == 403)
            #expect(consent.problem == "consent-required")
            #expect(consent.json?["required_scopes"] == ["story_publish"])
            _ = try await service.kakao.browser.post(Self.control, json: ["story_user": false])
            let list = try await app.get("/v1/api/story/mystories")
            #expect(list.status == 400)
            #expect(list.json?["code"] == -601)
            #expect(try await app.get("/v1/api/story/isstoryuser").json == ["isStoryUser": false])
        }
    }

    @Test("An operator calls with the token that the server keeps of the user")
    func storedToken() async throws {
        try await withAccounts {
            $0.relay.relaysStory = true
        } _: { service in
            let user = ["target_id_type": "user_id", "target_id": "7"]
            let list = "/v1/api/story/mystories?target_id_type=user_id&target_id=7"
            #expect(try await service.api.get(list).problem == "login-required")
            #expect(try await service.logIn(7).status == 200)
            try service.kakao.sandbox.setUser(7, ["scopes": ["story_publish", "story_read"]])
            let form = MultipartBody(fields: user.map { ($0, $1) }, files: [("file", TestImage.png())])
            let uploaded = try await service.api.post(Self.upload, form.bytes, type: form.type)
            let path = try #require(uploaded.json?[0]?.string)
            let posted = try await service.api.post(
                "/v1/api/story/post/photo",
                json: ["image_url_list": [.string(path)], "target_id_type": "user_id", "target_id": 7]
            )
            let id = try #require(posted.json?["id"]?.string)
            #expect(try await service.api.get(list).json?.array?.map { $0["id"]?.string } == [id])
        }
    }
}

extension KakaoCall {
    /// The method and the path of a call of KakaoStory.
    fileprivate static var storyRequest: (HTTPRequest.Method, String)? {
        operation.family == .story ? (operation.methods[0], operation.path) : nil
    }
}
